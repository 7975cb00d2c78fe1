package s3_test

import (
	"os"
	"testing"

	"github.com/flinksink/flinksink/sink/sinktest"
)

// The laws on real servers: the default mode, and with FLINKSINK_LONG=1 all of them.
func TestLaws_Server(t *testing.T) { lawsOn(t, newReal) }

func TestLaws_Moto(t *testing.T) { lawsOn(t, newMoto) }

func lawsOn(t *testing.T, server func(testing.TB) *env) {
	for name, o := range modes() {
		if name != "Multipart" && os.Getenv(longVariable) == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, harness(server(t), o))
		})
	}
}

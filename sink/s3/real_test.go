package s3_test

import (
	"os"
	"testing"

	"github.com/flinksink/flinksink/sink/sinktest"
)

// The laws on a real server: the default mode, and with FLINKSINK_LONG=1 all of them.
func TestLaws_Server(t *testing.T) {
	for name, o := range modes() {
		if name != "Multipart" && os.Getenv(longVariable) == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, harness(newReal(t), o))
		})
	}
}

package s3_test

import (
	"context"
	"testing"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/sinktest"
)

func storeHarness(e *env) sinktest.StoreHarness {
	return sinktest.StoreHarness{
		Reset: func(context.Context) error { e.empty(); return nil },
		Connect: func(ctx context.Context) (sink.Store, error) {
			return s3.NewStore(e.client(nil), e.bucket, "lake", s3.Settings{})
		},
	}
}

func TestStoreLaws(t *testing.T) {
	t.Parallel()
	sinktest.RunStore(t, storeHarness(newFake(t)))
}

func TestStoreLaws_Server(t *testing.T) { sinktest.RunStore(t, storeHarness(newReal(t))) }

func TestStoreLaws_Moto(t *testing.T) { sinktest.RunStore(t, storeHarness(newMoto(t))) }

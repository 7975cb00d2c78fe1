package sinktest

import (
	"context"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// StoreHarness describes a store alone to [RunStore].
type StoreHarness struct {
	// Connect opens a NEW client on the same data at each call, as [Harness.Connect] does.
	Connect func(ctx context.Context) (sink.Store, error)
	// Reset makes the store know nothing of [Bridge] and [OtherBridge].
	Reset func(ctx context.Context) error
	// Skip and Timeout are those of [Harness].
	Skip    map[string]string
	Timeout time.Duration
}

// RunStore runs every law that a store has a part in, with the suite's own memory sink beside it.
func RunStore(t *testing.T, h StoreHarness) {
	t.Helper()
	full := Harness{Skip: h.Skip, Timeout: h.Timeout}
	if h.Connect != nil {
		full.Connect = func(ctx context.Context, _ *changelog.Table) (Client, error) {
			s, err := h.Connect(ctx)
			return Client{Store: s}, err
		}
	}
	if h.Reset != nil {
		full.Reset = func(ctx context.Context, _ *changelog.Table) error { return h.Reset(ctx) }
	}
	Run(t, full)
}

package sinktest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// memory describes the memory sink to the suite.
func memory(o *sinktest.SinkOptions) sinktest.Harness {
	var server *sinktest.Server
	return sinktest.Harness{
		Timeout: 5 * time.Minute,
		Reset: func(ctx context.Context, t *changelog.Table) error {
			server = sinktest.NewServer()
			return nil
		},
		Connect: func(ctx context.Context, t *changelog.Table) (sinktest.Client, error) {
			c := sinktest.Client{Sink: sinktest.NewSink(server, o)}
			if o == nil || !o.InTransaction {
				c.Store = sinktest.NewStore(server)
			}
			return c, nil
		},
		Rows: func(ctx context.Context, t *changelog.Table) ([]sinktest.Row, error) {
			return sinktest.FixtureRows(server.Table(t.Name)), nil
		},
		Values: func(ctx context.Context, t *changelog.Table) ([]changelog.Row, error) {
			return server.Table(t.Name), nil
		},
		Letters: func(ctx context.Context) ([]sink.DeadLetter, error) { return server.DeadLetters(), nil },
		Leftovers: func(ctx context.Context) ([]string, error) {
			if n := server.Staged(); n > 0 {
				return []string{fmt.Sprintf("%d pieces of prepared work", n)}, nil
			}
			return nil, nil
		},
		InTransaction: o != nil && o.InTransaction,
	}
}

func TestLaws_TwoPhase(t *testing.T) { sinktest.Run(t, memory(nil)) }

func TestLaws_InTransaction(t *testing.T) {
	sinktest.Run(t, memory(&sinktest.SinkOptions{InTransaction: true}))
}

// A sink alone is tested with the suite's own store; see TestRunStore for a store alone.
func TestLaws_SinkAlone(t *testing.T) {
	h := memory(nil)
	connect := h.Connect
	h.Connect = func(ctx context.Context, table *changelog.Table) (sinktest.Client, error) {
		c, err := connect(ctx, table)
		c.Store = nil
		return c, err
	}
	sinktest.Run(t, h)
}

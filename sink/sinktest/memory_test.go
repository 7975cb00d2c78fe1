package sinktest_test

import (
	"context"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// memory describes the memory sink to the suite.
func memory(o *sinktest.SinkOptions) sinktest.Harness {
	var server *sinktest.Server
	return sinktest.Harness{
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
		InTransaction: o != nil && o.InTransaction,
	}
}

func TestLaws_TwoPhase(t *testing.T) { sinktest.Run(t, memory(nil)) }

func TestLaws_InTransaction(t *testing.T) {
	sinktest.Run(t, memory(&sinktest.SinkOptions{InTransaction: true}))
}

// A store alone is tested with the suite's own sink, a sink alone with the suite's own store.
func TestLaws_Alone(t *testing.T) {
	for name, only := range map[string]func(*sinktest.Client){
		"store": func(c *sinktest.Client) { c.Sink = nil },
		"sink":  func(c *sinktest.Client) { c.Store = nil },
	} {
		t.Run(name, func(t *testing.T) {
			h := memory(nil)
			connect := h.Connect
			h.Connect = func(ctx context.Context, table *changelog.Table) (sinktest.Client, error) {
				c, err := connect(ctx, table)
				only(&c)
				return c, err
			}
			if name == "store" {
				h.Rows = nil
			}
			sinktest.Run(t, h)
		})
	}
}

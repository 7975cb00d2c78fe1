package sinktest

import (
	"context"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// keyless says once that the sink refuses tables without a key, where each law on AppendTable would say it again, and returns the Harness to
// go on with.
func (h Harness) keyless(ctx context.Context) (Harness, error) {
	if h.KeyedOnly || h.Convergent {
		return h, nil // nothing is run on AppendTable, but for NoDeletes, which is looked at below
	}
	why := h.refusal(ctx, Appended())
	if why == nil {
		return h, nil
	}
	if h.NoDeletes {
		return h, fmt.Errorf("sinktest: the sink refuses %s, a table without a key, and a Harness that is NoDeletes is run on no other: %w", AppendTable, why)
	}
	if h.refusal(ctx, Keyed()) != nil {
		return h, nil // it refuses more than that: the laws tell
	}
	h.KeyedOnly = true
	return h, fmt.Errorf("sinktest: the sink refuses %s, a table without a key, which every job writes that only inserts. Take such tables (name a row by its "+
		"change: topic, partition, offset and index), or declare Harness.KeyedOnly. The laws of that table were run on %s. The refusal: %w", AppendTable, KeyedTable, why)
}

// refusal returns the ErrConfig with which the sink refuses a table, in Lane, Acquire or Open, and nil for all else.
func (h Harness) refusal(ctx context.Context, t *changelog.Table) error {
	ctx, cancel := context.WithTimeout(ctx, h.timeout())
	defer cancel()
	if h.Reset(ctx, t) != nil {
		return nil
	}
	client, err := h.Connect(ctx, t)
	if client.Release != nil {
		defer client.Release()
	}
	if err != nil || client.Sink == nil {
		return nil
	}
	c, err := client.Sink.Lane(ctx, sink.Lane{Bridge: Bridge, Sink: SinkName, Tables: []*changelog.Table{t}})
	if err == nil {
		store := client.Store
		if own, ok := c.(sink.Store); ok && store == nil {
			store = own
		}
		if store == nil {
			store = NewStore(NewServer())
		}
		d := NewDriver(c, store, NewTopic(t))
		defer d.Close(ctx)
		if err = d.Acquire(ctx, 0); err == nil {
			err = d.Open(ctx)
		}
	}
	if err == nil || !errors.Is(sink.ClassOf(err), sink.ErrConfig) {
		return nil
	}
	return err
}

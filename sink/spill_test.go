package sink_test

import (
	"context"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// A checkpoint larger than the budget passes through sinks that can let go of what they have written, and what is alive stays within a
// quarter of it and one batch. Beside one that cannot, everything stays alive until Prepare.
func TestCoordinator_Spills(t *testing.T) {
	for _, other := range []bool{false, true} {
		srv := sinktest.NewServer()
		table := sinktest.Appended()
		released, most := 0, 0
		b, p := batchOf(table, 0, 100)
		budget := 8 * b.Bytes()
		sinks := []sink.Declared{{Name: "s", Sink: sinktest.NewSink(srv, nil)}}
		if other {
			sinks = append(sinks, sink.Declared{Name: "keeps", Sink: keeping{sinktest.NewSink(sinktest.NewServer(), nil)}})
		}
		c, err := sink.NewCoordinator(t.Context(), sink.Options{Bridge: "b", Source: &seekable{}, Tables: []*changelog.Table{table}, Store: sinktest.NewStore(srv),
			Sinks: sinks, ByteBudget: budget, Release: func(b *changelog.Batch) { sinktest.Spoil(b); released++ }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Assign(t.Context(), []changelog.Partition{zero}); err != nil {
			t.Fatal(err)
		}
		for o := int64(0); o < 3000; o += 100 {
			b, p = batchOf(table, o, o+100)
			if err := c.Write(t.Context(), b, p); err != nil {
				t.Fatal(err)
			}
			most = max(most, c.Held())
		}
		changes, bytes := c.Pending()
		if changes != 3000 || bytes < 3*budget {
			t.Errorf("%d changes and %d bytes are pending", changes, bytes)
		}
		if held := most > budget/2; held != other || (released == 0) != other {
			t.Errorf("beside another: %v; %d of a budget of %d were alive, %d batches released", other, most, budget, released)
		}
		if r, err := c.Checkpoint(t.Context()); err != nil || r.Counters.Applied != 3000 {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, bytes := c.Pending(); bytes != 0 || released != 30 || len(srv.Table(table.Name)) != 3000 {
			t.Errorf("after the checkpoint: %d bytes pending, %d batches released, %d rows", bytes, released, len(srv.Table(table.Name)))
		}
	}
}

// keeping hides that its committers can spill.
type keeping struct{ sink.Sink }

func (k keeping) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := k.Sink.Lane(ctx, l)
	return struct{ sink.Committer }{c}, err
}

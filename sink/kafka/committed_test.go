package kafka_test

import (
	"testing"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// P83: a receipt is proven to be committed by the end of its transaction in the log, and by nothing else.
func TestCommitted(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		w := newWorld(t, e, twoPhase, sinktest.Appended())
		d := w.opened(t)
		ctx := t.Context()
		says := func(r sink.Committable, want bool, when string) {
			t.Helper()
			if done, err := kafka.Committed(ctx, e.admin, r); err != nil || done != want {
				t.Errorf("%s: %t, %v", when, done, err)
			}
		}
		must(t, d.Write(ctx, 2))
		must(t, d.Prepare(ctx))
		first := d.Receipt
		says(first, false, "prepared")
		must(t, d.Save(ctx))
		says(first, false, "decided")
		must(t, d.Commit(ctx))
		says(first, true, "committed")
		must(t, d.Write(ctx, 2))
		must(t, d.Prepare(ctx))
		says(d.Receipt, false, "the next one is prepared")
		says(first, true, "beside the next one")
		must(t, d.Committer.Abort(ctx, d.Receipt))
		says(d.Receipt, false, "the next one is aborted")
		if _, err := kafka.Committed(ctx, e.admin, sink.Committable{Version: 1, Data: []byte(`{"bucket":"b"}`)}); sink.ClassOf(err) != sink.ErrLost {
			t.Errorf("a receipt of another sink: %v", err)
		}
	})
}

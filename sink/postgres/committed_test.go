package postgres_test

import (
	"errors"
	"testing"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// A receipt is proven to be committed by the mark of its generation, and by nothing else.
func TestCommitted(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		st := e.settler()
		says := func(r sink.Committable, want bool, when string) {
			t.Helper()
			if done, err := st.Committed(t.Context(), r); err != nil || done != want {
				t.Errorf("%s: %t, %v", when, done, err)
			}
		}
		a := e.writer(e.pool(nil), e.mode(m), e.keyed())
		prepare := func(end int64) {
			t.Helper()
			if err := errors.Join(a.writeTo(end), a.prepare()); err != nil {
				t.Fatal(err)
			}
		}
		prepare(10)
		first := a.receipt
		says(first, false, "prepared")
		if err := a.save(); err != nil {
			t.Fatal(err)
		}
		says(first, false, "decided")
		if err := a.c.Commit(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		says(first, true, "committed")
		prepare(20)
		says(a.receipt, false, "the next one is prepared")
		if err := a.c.Abort(t.Context(), a.receipt); err != nil {
			t.Fatal(err)
		}
		says(a.receipt, false, "the next one is aborted")
		says(first, true, "after it")
		if _, err := st.Committed(t.Context(), sink.Committable{Version: 1, Generation: 1, Checkpoint: 1, Data: []byte(`{"bucket":"b"}`)}); sink.ClassOf(err) != sink.ErrConfig {
			t.Errorf("a receipt of another sink: %v", err)
		}
	})
	t.Run("without tables", func(t *testing.T) {
		e := newEnv(t)
		other := sink.Committable{Version: 1, Sink: "target", Generation: 1, Checkpoint: 1, Data: []byte(`{"mode":"staged","bridge":"bridge"}`)}
		if done, err := e.settler().Committed(t.Context(), other); err != nil || done {
			t.Errorf("%t, %v", done, err)
		}
	})
}

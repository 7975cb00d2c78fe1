package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// The receipt of a sink of another kind, whose positions are in Postgres, is never called lost: these tables cannot know. It is listed also where
// nothing was ever prepared or staged in them.
func TestPending_ReceiptOfAnotherSink(t *testing.T) {
	e := newEnv(t)
	st := e.settler()
	gen := func(bridge string) sink.Generation {
		claim, err := st.Acquire(t.Context(), sink.AcquireRequest{Bridge: bridge, Fingerprint: bridge, Owner: "me", Partitions: []changelog.Partition{part0}})
		if err != nil {
			t.Fatal(err)
		}
		return claim.Generation
	}
	g := gen("several")
	to := []changelog.Position{{Partition: part0, Offset: 7}}
	from := []changelog.Position{{Partition: part0}}
	err := st.Save(t.Context(), g, sink.Checkpoint{ID: 1, From: from, To: to, Committables: []sink.Committable{
		{Sink: "lake", Generation: g.ID, Checkpoint: 1, Version: 1, Data: []byte(`{"uploads":["x"]}`), From: from, To: to}}})
	if err != nil {
		t.Fatal(err)
	}
	look := func(when string) {
		t.Helper()
		all, err := st.Pending(t.Context(), "several")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := plans(t, all), []string{"1.1 receipt: leave"}; !slices.Equal(got, want) {
			t.Fatalf("%s: %q, expected %q", when, got, want)
		}
		if d := all[0]; d.Bridge != "several" || d.Sink != "lake" || len(d.To) != 1 || d.To[0].Offset != 7 || !strings.Contains(d.Why, "the bridge does it") {
			t.Errorf("%s: %+v", when, d)
		}
	}
	look("without a table of prepared work")
	tb := e.keyed()
	e.writer(e.pool(nil), e.mode(postgres.Staged), tb)
	look("beside a bridge that stages")
	if _, err := st.Settle(t.Context(), postgres.SettleOptions{Bridge: "several", AcceptLost: true}); err != nil {
		t.Fatal(err)
	}
	look("after Settle")
	if all, err := st.Pending(t.Context(), ""); err != nil || len(all) != 2 {
		t.Errorf("of all bridges: %+v, %v", all, err)
	}
}

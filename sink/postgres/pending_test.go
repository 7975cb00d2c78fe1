package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

func (e *env) settler() *postgres.Store {
	e.t.Helper()
	st, err := postgres.NewStore(e.pool(nil), &postgres.StoreOptions{Schema: e.own, Who: "operator"})
	if err != nil {
		e.t.Fatal(err)
	}
	return st
}

// plans shows what is in doubt in a few words each.
func plans(t *testing.T, all []postgres.InDoubt) (out []string) {
	for _, d := range all {
		if d.Why == "" || d.What != "receipt" && d.Since.IsZero() {
			t.Errorf("%+v does not say why, or since when", d)
		}
		out = append(out, fmt.Sprintf("%d.%d %s: %s", d.Generation, d.Checkpoint, d.What, d.Plan))
	}
	return out
}

func TestPending_PlansAndSettle(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		st := e.settler()
		expect := func(when string, want ...string) {
			t.Helper()
			all, err := st.Pending(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			if got := plans(t, all); !slices.Equal(got, want) {
				t.Errorf("%s:\n%q\nexpected\n%q", when, got, want)
			}
		}
		settle := func(o postgres.SettleOptions) (out []string) {
			t.Helper()
			o.Bridge = "bridge"
			done, err := st.Settle(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range done {
				if d.Err != nil {
					out = append(out, fmt.Sprintf("%d.%d %v", d.Generation, d.Checkpoint, sink.ClassOf(d.Err)))
				}
			}
			return out
		}
		what := map[postgres.Mode]string{postgres.Prepared: "prepared transaction", postgres.Staged: "staged rows"}[m]
		if all, err := st.Pending(t.Context(), ""); err != nil || len(all) > 0 {
			t.Fatalf("without any tables: %v, %v", all, err)
		}
		tb := e.keyed()
		a := e.writer(e.pool(nil), e.mode(m), tb)
		expect("an open generation", "1.0 generation: leave")
		if err := errors.Join(a.writeTo(10), a.prepare()); err != nil {
			t.Fatal(err)
		}
		expect("undecided, its owner lives", "1.0 generation: leave", "1.1 "+what+": leave")
		if bad := settle(postgres.SettleOptions{}); len(bad) > 0 || len(e.leftovers()) == 0 {
			t.Errorf("settled what the owner decides: %v", bad)
		}
		if err := a.save(); err != nil {
			t.Fatal(err)
		}
		expect("decided", "1.0 generation: leave", "1.1 "+what+": commit")
		if bad := settle(postgres.SettleOptions{Reason: "its host is gone"}); len(bad) > 0 {
			t.Errorf("settle: %v", bad)
		}
		e.agrees("after Settle committed")
		if err := a.c.Commit(t.Context(), a.receipt); err != nil {
			t.Errorf("the owner's own Commit, late: %v", err)
		}
		e.agrees("after the owner's own Commit")
		// Undecided, and the store has ended the generation: as by a process that acquired and died before Open.
		if err := errors.Join(a.writeTo(20), a.prepare()); err != nil {
			t.Fatal(err)
		}
		if _, err := a.store().End(t.Context(), a.claim.Generation); err != nil {
			t.Fatal(err)
		}
		expect("undecided and ended", "1.0 generation: leave", "1.1 receipt: forget", "1.2 "+what+": roll back")
		if bad := settle(postgres.SettleOptions{}); len(bad) > 0 {
			t.Errorf("settle: %v", bad)
		}
		e.agrees("after Settle rolled back")
		if left := e.leftovers(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		expect("settled", "1.0 generation: leave")
		if got := e.all("SELECT who, what, topic, partition, before_offset, after_offset FROM " + e.own + ".audit"); !slices.Equal(got, []string{`(operator,"roll back",topic,0,,)`, "(operator,commit,topic,0,0,10)"}) {
			t.Errorf("audit: %q", got)
		}
		if got := e.one("SELECT string_agg(reason, '; ') FROM " + e.own + ".audit WHERE what = 'commit'"); !strings.Contains(got, "its host is gone (") {
			t.Errorf("audit: %s", got)
		}

		// Lost: the receipt is let go only when asked for, and the bridge then goes on from where its position is.
		b := e.decide(m, tb, 20)
		if m == postgres.Prepared {
			e.exec("ROLLBACK PREPARED '" + e.ofBridge()[0] + "'")
		} else {
			e.exec("DELETE FROM " + e.own + ".staging")
		}
		if bad := settle(postgres.SettleOptions{}); !slices.Equal(bad, []string{"2.1 lost"}) {
			t.Errorf("settle of what is lost: %v", bad)
		}
		if bad := settle(postgres.SettleOptions{AcceptLost: true}); len(bad) > 0 {
			t.Errorf("settle of what is lost, accepted: %v", bad)
		}
		if _, err := st.SetPositions(t.Context(), "bridge", []postgres.Move{{From: 20, To: changelog.Position{Partition: part0, Offset: 10, LeaderEpoch: -1}}}, ""); err != nil {
			t.Fatal(err)
		}
		c := e.writer(e.pool(nil), e.mode(m), tb)
		if err := c.writeTo(30); err != nil {
			t.Fatal(err)
		}
		c.finish()
		e.agrees("after what was lost was read again")
		if err := b.save(); sink.ClassOf(err) != sink.ErrFenced {
			t.Errorf("the owner of what was let go: %v", err)
		}
	})
}

// A bridge that stops in good order leaves the receipt of its last checkpoint, which is committed: nothing is in doubt, and nothing to be done.
func TestPending_OrderlyStop(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		st := e.settler()
		w := e.writer(e.pool(nil), e.mode(m), e.keyed())
		if err := w.writeTo(10); err != nil {
			t.Fatal(err)
		}
		w.finish()
		w.c.Close(t.Context())
		for _, when := range []string{"after the stop", "after Settle"} {
			all, err := st.Pending(t.Context(), "bridge")
			if err != nil {
				t.Fatal(err)
			}
			if got, want := plans(t, all), []string{"1.0 generation: leave", "1.1 receipt: settled"}; !slices.Equal(got, want) {
				t.Errorf("%s: %q, expected %q", when, got, want)
			}
			done, err := st.Settle(t.Context(), postgres.SettleOptions{Bridge: "bridge", AcceptLost: true})
			if err != nil || len(done) != 2 || errors.Join(done[0].Err, done[1].Err) != nil {
				t.Errorf("%s: %+v, %v", when, done, err)
			}
		}
		e.agrees("after Settle")
	})
}

// A bridge whose positions are in another store: only what a successor has fenced can be known to be undecided.
func TestPending_StoreElsewhere(t *testing.T) {
	e := newEnv(t)
	e.undo()
	tb := e.keyed()
	o := e.mode(postgres.Prepared)
	c, err := e.lane(e.pool(nil), "", o, tb)
	if err != nil {
		t.Fatal(err)
	}
	gen := sink.Generation{Bridge: "bridge", ID: 5, Partitions: []changelog.Partition{part0}}
	a := &writer{t: t, ctx: t.Context(), c: c, table: tb, claim: sink.Claim{Generation: gen}}
	if err := errors.Join(c.Open(t.Context(), a.claim), a.writeTo(10), a.prepare()); err != nil {
		t.Fatal(err)
	}
	st := e.settler()
	all, err := st.Pending(t.Context(), "bridge")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plans(t, all), []string{"5.0 generation: leave", "5.1 prepared transaction: leave"}; !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	for _, d := range all {
		if !strings.Contains(d.Why, "store") {
			t.Errorf("it does not say that its store is elsewhere: %q", d.Why)
		}
	}
	if _, err := st.Settle(t.Context(), postgres.SettleOptions{Bridge: "bridge"}); err != nil {
		t.Fatal(err)
	}
	if len(e.ofBridge()) != 1 {
		t.Error("it was settled without a decision")
	}
	if _, err := st.Settle(t.Context(), postgres.SettleOptions{}); sink.ClassOf(err) != sink.ErrConfig {
		t.Errorf("without a bridge: %v", err)
	}
}

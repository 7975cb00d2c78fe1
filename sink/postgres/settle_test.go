package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// beforeQuery is a tracer that does something before the first statement goes out that holds a text, once.
type beforeQuery struct {
	text string
	do   func()
	done bool
}

func (b *beforeQuery) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if !b.done && strings.Contains(q.SQL, b.text) {
		b.done = true
		b.do()
	}
	return ctx
}

func (b *beforeQuery) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// The owner decides a checkpoint, and its generation ends, while Settle is between two of its looks, whichever they are. What is decided is never rolled back.
func TestSettle_DecidedBetweenTwoLooks(t *testing.T) {
	for _, between := range []string{"SELECT generation, checkpoint, sink", "pg_prepared_xacts", "number = 0 ORDER BY", "SELECT g.ended", "f.ended", "audit", "ROLLBACK PREPARED", "BEGIN"} {
		t.Run(between, func(t *testing.T) {
			eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
				tb := e.keyed()
				a := e.writer(e.pool(nil), e.mode(m), tb)
				if err := errors.Join(a.writeTo(10), a.prepare()); err != nil {
					t.Fatal(err)
				}
				look := &beforeQuery{text: between, do: func() {
					if err := a.save(); err != nil {
						t.Error(err)
					}
					if _, err := a.store().End(t.Context(), a.claim.Generation); err != nil {
						t.Error(err)
					}
				}}
				st, err := postgres.NewStore(e.pool(func(c *pgxpool.Config) { c.ConnConfig.Tracer = look }), &postgres.StoreOptions{Schema: e.own})
				if err != nil {
					t.Fatal(err)
				}
				done, err := st.Settle(t.Context(), postgres.SettleOptions{Bridge: "bridge"})
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range done {
					if d.Plan == postgres.RollBack || d.Plan == postgres.Lost || d.Err != nil {
						t.Errorf("%+v", d)
					}
				}
				if !look.done {
					look.do() // no such look comes before the owner's decision
				}
				b := e.writer(e.pool(nil), e.mode(m), tb)
				if b.at != 10 {
					t.Errorf("the successor begins at %d", b.at)
				}
				e.agrees("after the successor's Open")
				if left := e.leftovers(); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}

// saveBoth decides the current checkpoint while another of the same generation still waits.
func (w *writer) saveBoth(before sink.Committable) error {
	cp := w.checkpoint()
	w.receipt.Sink, w.receipt.From, w.receipt.To = "target", cp.From, cp.To
	cp.Committables = []sink.Committable{before, w.receipt}
	return w.store().Save(w.ctx, w.claim.Generation, cp)
}

// settled tells of each checkpoint what Settle made of it.
func (e *env) settled(st *postgres.Store, o postgres.SettleOptions) (out []string) {
	e.t.Helper()
	o.Bridge = "bridge"
	done, err := st.Settle(e.t.Context(), o)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, d := range done {
		switch {
		case d.Checkpoint == 0:
		case d.Err != nil:
			what := sink.ClassOf(d.Err).Error()
			if strings.Contains(d.Err.Error(), "which comes before it, could not be settled") {
				what = "left as it is"
			}
			out = append(out, fmt.Sprintf("%d.%d %s", d.Generation, d.Checkpoint, what))
		default:
			out = append(out, fmt.Sprintf("%d.%d %s", d.Generation, d.Checkpoint, d.Plan))
		}
	}
	return out
}

// What comes after a checkpoint that cannot be settled waits with it: the mark of a later one would say of the first that it is committed. Other
// generations are settled.
func TestSettle_StopsAtTheFirstFailureOfAGeneration(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		tb := e.keyed()
		a := e.writer(e.pool(nil), e.mode(m), tb)
		if err := errors.Join(a.writeTo(10), a.prepare(), a.save()); err != nil {
			t.Fatal(err)
		}
		first := a.receipt
		if m == postgres.Prepared { // somebody takes the work away
			e.exec("ROLLBACK PREPARED '" + e.ofBridge()[0] + "'")
		} else {
			e.exec("DELETE FROM " + e.own + ".staging")
		}
		if err := errors.Join(a.writeTo(20), a.prepare(), a.saveBoth(first)); err != nil {
			t.Fatal(err)
		}
		st := e.settler()
		for range 2 {
			if got, want := e.settled(st, postgres.SettleOptions{}), []string{"1.1 lost", "1.2 left as it is"}; !slices.Equal(got, want) {
				t.Errorf("%q, expected %q", got, want)
			}
			if got := e.one("SELECT committed FROM " + e.own + ".fence"); got != "0" {
				t.Errorf("checkpoint %s counts as committed", got)
			}
		}
		if m == postgres.Prepared { // the second one holds the row in which it is noted that the first was let go
			return
		}
		if got, want := e.settled(st, postgres.SettleOptions{AcceptLost: true}), []string{"1.1 lost", "1.2 commit"}; !slices.Equal(got, want) {
			t.Errorf("accepted: %q, expected %q", got, want)
		}
		if got := e.one("SELECT committed::text || aborted::text FROM " + e.own + ".fence"); got != "2{1}" {
			t.Errorf("the mark is %s", got)
		}
	})
}

// The table refuses the first of two, and takes it when what was in its way is gone: then both are there, in their order, and another generation did not wait.
func TestSettle_RefusedAndWhatComesAfter(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	o := e.mode(postgres.Staged)
	a := e.writer(e.pool(nil), o, tb)
	if err := errors.Join(a.write(a.change(changelog.Insert, num(1), str("bad")), a.change(changelog.Insert, num(2), str("old"))), a.prepare(), a.save()); err != nil {
		t.Fatal(err)
	}
	first := a.receipt
	e.exec("ALTER TABLE kv ADD CHECK (v <> 'bad')")
	if err := errors.Join(a.write(a.change(changelog.UpdateAfter, num(2), str("new"))), a.prepare(), a.saveBoth(first)); err != nil {
		t.Fatal(err)
	}
	other := &writer{t: t, ctx: t.Context(), table: tb}
	var err error
	if other.c, err = e.lane(e.pool(nil), "", o, tb); err != nil {
		t.Fatal(err)
	}
	part := changelog.Partition{Topic: "topic", Partition: 1}
	claim, err := other.store().Acquire(t.Context(), sink.AcquireRequest{Bridge: "bridge", Fingerprint: "f", Owner: "other", Partitions: []changelog.Partition{part}, GroupGeneration: -1})
	if err != nil {
		t.Fatal(err)
	}
	other.claim = claim
	row := changelog.Change{Partition: part, Kind: changelog.Insert, Row: changelog.Row{num(3), str("other")}}
	if err := errors.Join(other.c.Open(t.Context(), claim), other.write(row)); err != nil {
		t.Fatal(err)
	}
	from, to := []changelog.Position{{Partition: part, LeaderEpoch: -1}}, []changelog.Position{{Partition: part, Offset: 1, LeaderEpoch: -1}}
	receipt, err := other.c.Prepare(t.Context(), sink.Cut{Generation: claim.Generation, Checkpoint: 1, From: from, To: to})
	if err != nil {
		t.Fatal(err)
	}
	receipt.Sink, receipt.From, receipt.To = "target", from, to
	if err := other.store().Save(t.Context(), claim.Generation, sink.Checkpoint{ID: 1, From: from, To: to, Committables: []sink.Committable{receipt}}); err != nil {
		t.Fatal(err)
	}

	st := e.settler()
	if got, want := e.settled(st, postgres.SettleOptions{}), []string{"1.1 transient", "1.2 left as it is", "2.1 commit"}; !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(3,other)"}) {
		t.Errorf("the table is %s", got)
	}
	e.exec("ALTER TABLE kv DROP CONSTRAINT kv_v_check")
	if got, want := e.settled(st, postgres.SettleOptions{}), []string{"1.1 commit", "1.2 commit", "2.1 settled"}; !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(1,bad)", "(2,new)", "(3,other)"}) {
		t.Errorf("the table is %s", got)
	}
}

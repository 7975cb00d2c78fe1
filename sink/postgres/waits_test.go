package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// drive starts a lane over several tables.
func (e *env) drive(o *postgres.Options, tables ...*changelog.Table) *writer {
	e.t.Helper()
	c, err := e.lane(e.pool(nil), "", o, tables...)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { c.Close(context.Background()) })
	w := &writer{t: e.t, ctx: e.t.Context(), c: c, table: tables[0]}
	w.acquire()
	return w
}

// finishPrepared saves and commits what is prepared.
func (w *writer) finishPrepared() {
	w.t.Helper()
	if err := w.save(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.c.Commit(w.ctx, w.receipt); err != nil {
		w.t.Fatal(err)
	}
}

// Among rows that wait for one another, and are good, exactly those are named that are not, and the checkpoint passes without them.
func TestWaits_Blamed(t *testing.T) {
	upd := func(k, u int64) changelog.Change {
		return changelog.Change{Kind: changelog.UpdateAfter, Row: changelog.Row{num(k), num(u), null}}
	}
	under := func(k, u, parent int64) changelog.Change {
		return changelog.Change{Kind: changelog.UpdateAfter, Row: changelog.Row{num(k), num(u), num(parent)}}
	}
	del := func(k int64) changelog.Change {
		return changelog.Change{Kind: changelog.Delete, KeyOnly: true, Row: changelog.Row{num(k), null, null}}
	}
	for n, tc := range []struct {
		name, more string
		changes    []changelog.Change // after (1, 1), (2, 2), (3, 3), (4, 4)
		want       string
		rows       string
	}{
		{"a swap and a taken value", "", []changelog.Change{upd(1, 2), upd(5, 4), upd(2, 1), upd(6, 6)}, "1", "(1,2,)(2,1,)(3,3,)(4,4,)(6,6,)"},
		{"a value given up, and a taken one", "", []changelog.Change{upd(5, 1), upd(6, 4), del(1), upd(7, 7)}, "1", "(2,2,)(3,3,)(4,4,)(5,1,)(7,7,)"},
		{"two for one value", "", []changelog.Change{upd(5, 1), upd(6, 1), del(1)}, "1", "(2,2,)(3,3,)(4,4,)(5,1,)"},
		{"a swap and a row that is refused for itself", "ALTER TABLE kv ADD CHECK (u <> 13)", []changelog.Change{upd(1, 2), upd(5, 13), upd(2, 1)}, "1", "(1,2,)(2,1,)(3,3,)(4,4,)"},
		{"one that must stay, and one that may go and gives up its value", "CREATE TABLE child (k bigint REFERENCES kv); INSERT INTO child VALUES (4)",
			[]changelog.Change{upd(5, 1), del(4), del(1)}, "1", "(2,2,)(3,3,)(4,4,)(5,1,)"},
		{"a child before its parent, and an orphan", "", []changelog.Change{under(5, 5, 6), under(7, 7, 99), upd(6, 6)}, "1", "(1,1,)(2,2,)(3,3,)(4,4,)(5,5,6)(6,6,)"},
		{"the one before it is refused as well", "", []changelog.Change{upd(5, 4), upd(5, 3), upd(6, 6)}, "0, 1", "(1,1,)(2,2,)(3,3,)(4,4,)(6,6,)"},
		{"a deferrable key", "ALTER TABLE kv DROP CONSTRAINT kv_u_key, ADD UNIQUE (u) DEFERRABLE", []changelog.Change{upd(1, 2), upd(5, 4), upd(2, 1)}, "1", "(1,2,)(2,1,)(3,3,)(4,4,)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
				if n > 0 && n%3 != int(o.Mode) {
					return // they look for names in the same way
				}
				e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE, parent bigint REFERENCES kv); INSERT INTO kv VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
				e.exec(tc.more)
				w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT", "parent BIGINT"))
				changes := w.place(tc.changes...)
				err := w.refusal(slices.Collect(slices.Chunk(changes, 1))...)
				wantBlamed(t, err, tc.want)
				if err := w.redo(err, slices.Collect(slices.Chunk(changes, 1))...); err != nil {
					t.Fatal(err)
				}
				w.finish()
				if got := strings.Join(e.all("SELECT * FROM kv"), ""); got != tc.rows {
					t.Errorf("%s, expected %s", got, tc.rows)
				}
			})
		})
	}
}

// What waits for a row of another table is written in the topic's order where its net effect is refused, and rows cannot be taken out.
func TestWaits_TopicOrder(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		e.exec(`CREATE TABLE parents (k bigint PRIMARY KEY, u bigint); CREATE TABLE children (k bigint PRIMARY KEY, u bigint UNIQUE, parent bigint REFERENCES parents);
			CREATE TABLE others (k bigint REFERENCES children ON DELETE CASCADE); INSERT INTO children VALUES (1, 1), (2, 2); INSERT INTO others VALUES (1), (2)`)
		parents, children := table(t, "parents", upsert, "k", "k BIGINT NOT NULL", "u BIGINT"), table(t, "children", upsert, "k", "k BIGINT NOT NULL", "u BIGINT", "parent BIGINT")
		w := e.drive(o, children, parents)
		to := func(tb *changelog.Table, changes ...changelog.Change) {
			t.Helper()
			w.table = tb
			if err := w.write(changes...); err != nil {
				t.Fatal(err)
			}
		}
		to(children, w.change(changelog.Insert, num(3), num(3), num(7)))
		to(children, w.change(changelog.UpdateAfter, num(1), num(9), null), w.change(changelog.UpdateAfter, num(2), num(1), null), w.change(changelog.UpdateAfter, num(1), num(2), null))
		to(parents, w.change(changelog.Insert, num(7), null))
		w.finish()
		if got := strings.Join(e.all("SELECT * FROM children"), "") + e.one("SELECT count(*) FROM others"); got != "(1,2,)(2,1,)(3,3,7)2" {
			t.Error(got)
		}
	})
}

// Rows that cannot be taken out swap their values, whether the constraint can be deferred or not.
func TestWaits_SwapDeferred(t *testing.T) {
	for _, deferrable := range []string{"", "DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED"} {
		t.Run(deferrable, func(t *testing.T) {
			everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
				e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE " + deferrable + ", note text DEFAULT 'mine'); INSERT INTO kv VALUES (1, 1), (2, 2)")
				w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT"))
				swap := [][]changelog.Change{{w.change(changelog.UpdateAfter, num(1), num(2))}, {w.change(changelog.UpdateAfter, num(2), num(1))}}
				if err := w.refusal(swap...); err != nil {
					t.Fatal(err)
				}
				w.finishPrepared()
				wantRows(t, e.all("SELECT * FROM kv"), "(1,2,mine)", "(2,1,mine)")
			})
		})
	}
}

// The checkpoint ends between the halves of a swap: it is done again, and passes with the other half.
func TestWaits_OtherHalfInTheNextCheckpoint(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE); INSERT INTO kv VALUES (1, 1), (2, 2)")
		w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT"))
		half, other := w.change(changelog.UpdateAfter, num(1), num(2)), w.change(changelog.UpdateAfter, num(2), num(1))
		for range 2 {
			w.at = 1
			if err := w.write(half); err != nil {
				t.Fatal(err)
			}
			if err := w.prepare(); sink.ClassOf(err) != sink.ErrTransient {
				t.Fatal(err)
			}
			w.c.Discard(t.Context())
			w.acquire()
		}
		w.at = 2
		if err := w.write(half); err != nil {
			t.Fatal(err)
		}
		w.put(other)
		wantRows(t, e.all("SELECT * FROM kv"), "(1,2)", "(2,1)")
	})
}

// Foreign keys that can be deferred, in a circle, are looked at at the end in every mode; who breaks one even then is named.
func TestWaits_CircleOfDeferrableKeys(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		e.exec("CREATE TABLE a (k bigint PRIMARY KEY, other bigint); CREATE TABLE b (k bigint PRIMARY KEY, other bigint REFERENCES a DEFERRABLE); ALTER TABLE a ADD FOREIGN KEY (other) REFERENCES b DEFERRABLE")
		a, b := table(t, "a", upsert, "k", "k BIGINT NOT NULL", "other BIGINT"), table(t, "b", upsert, "k", "k BIGINT NOT NULL", "other BIGINT")
		w := e.drive(o, a, b)
		write := func(more ...changelog.Change) {
			t.Helper()
			w.at = 0
			w.table = b
			if err := w.write(append([]changelog.Change{w.change(changelog.Insert, num(1), num(10))}, more...)...); err != nil {
				t.Fatal(err)
			}
			w.table = a
			if err := w.write(w.change(changelog.Insert, num(10), num(1))); err != nil {
				t.Fatal(err)
			}
		}
		orphan := changelog.Change{Partition: part0, Offset: 5, Kind: changelog.Insert, Row: changelog.Row{num(2), num(99)}}
		var err error
		for range 7 {
			write(orphan)
			if err = w.prepare(); sink.ClassOf(err) != sink.ErrTransient {
				break
			}
			w.c.Discard(t.Context())
			w.acquire()
		}
		wantBlamed(t, err, "5")
		w.c.Discard(t.Context())
		w.acquire()
		write()
		w.finish()
		if got := fmt.Sprint(e.all("SELECT * FROM a"), e.all("SELECT * FROM b")); got != "[(10,1)] [(1,10)]" {
			t.Error(got)
		}
	})
}

// More waits for a unique value than the lane's memory holds: said, with the ways out.
func TestWaits_Spilt(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE); INSERT INTO kv VALUES (1, 1)")
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT"))
	if err := w.write(w.change(changelog.Insert, num(2), num(1))); err != nil {
		t.Fatal(err)
	}
	w.c.(sink.Spiller).Spill()
	if err := w.prepare(); sink.ClassOf(err) != sink.ErrRejected || !strings.Contains(err.Error(), "byte budget") {
		t.Error(err)
	}
}

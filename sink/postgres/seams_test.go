package postgres_test

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

// everyMode runs f for each mode that the server can do.
func everyMode(t *testing.T, f func(t *testing.T, e *env, o *postgres.Options)) {
	for _, mode := range []postgres.Mode{postgres.InTransaction, postgres.Prepared, postgres.Staged} {
		t.Run(mode.String(), func(t *testing.T) {
			e := newEnv(t)
			if mode == postgres.Prepared && e.one("SELECT current_setting('max_prepared_transactions')") == "0" {
				t.Skip("the server has max_prepared_transactions = 0")
			}
			o := e.options()
			o.Mode = mode
			f(t, e, o)
		})
	}
}

// Rows that wait for the end of the checkpoint are counted as the others are: what a guarded statement leaves as it is was not applied.
func TestSeams_SupersededAmongWhatWaits(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		e.exec("CREATE TABLE parents (id bigint PRIMARY KEY, name text UNIQUE); CREATE TABLE children (id bigint PRIMARY KEY, parent bigint REFERENCES parents)")
		f := &family{
			parents:  table(t, "parents", upsert, "id", "id BIGINT NOT NULL", "name STRING"),
			children: table(t, "children", upsert, "id", "id BIGINT NOT NULL", "parent BIGINT"),
		}
		o.SkipUnchanged = true
		c, err := e.lane(e.pool(nil), "", o, f.children, f.parents)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		f.writer = &writer{t: t, ctx: t.Context(), c: c}
		f.acquire()
		f.to(f.parents, f.parent(changelog.Insert, 1))
		f.to(f.children, f.child(changelog.Insert, 1, 1))
		f.finish()

		f.to(f.children, f.child(changelog.Insert, 2, 2)) // waits, and so does what follows
		f.to(f.children, f.child(changelog.UpdateAfter, 1, 1), f.child(changelog.UpdateAfter, 3, 1))
		f.to(f.parents, f.parent(changelog.UpdateAfter, 1), f.parent(changelog.Insert, 2))
		f.finish()
		if n := c.(sink.Superseder).Superseded(); n != 2 {
			t.Errorf("%d superseded, expected the child and the parent that were there already", n)
		}
		if got := strings.Join(e.all("SELECT * FROM children"), ""); got != "(1,1)(2,2)(3,1)" {
			t.Error(got)
		}
	})
}

// A constraint that comes while the lane runs is a refusal in the checkpoint, which names the change, in every mode: once it is decided
// there would be no way back.
func TestSeams_ConstraintWhileRunning(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		tb := e.keyed()
		w := e.writer(e.pool(nil), o, tb)
		w.put(w.change(changelog.Insert, num(1), str("good")))
		e.exec("ALTER TABLE kv ADD CHECK (v <> 'bad')")
		err := w.write(w.change(changelog.Insert, num(2), str("good")), w.change(changelog.Insert, num(3), str("bad")))
		if err == nil {
			err = w.prepare()
		}
		wantBlamed(t, err, "2")
	})
}

// What is left alone on purpose gives a plain table no reason to be tried out.
func TestSeams_IgnoredDeletesAreNotRehearsed(t *testing.T) {
	e := newEnv(t)
	var rehearsals atomic.Int64
	link := &wire{fault: func(_ int, message []byte) fault {
		rehearsals.Add(int64(bytes.Count(message, []byte("SAVEPOINT rehearsal"))))
		return none
	}}
	o := e.options()
	o.Mode, o.IgnoreDeletes = postgres.Staged, true
	w := e.writer(e.pool(func(c *pgxpool.Config) { link.through(c) }), o, e.keyed())
	w.put(w.change(changelog.Insert, num(1), str("a")), w.change(changelog.Insert, num(2), str("b")), w.change(changelog.Delete, num(1), null))
	w.put(w.change(changelog.Delete, num(2), null))
	if n := w.c.(sink.Superseder).Superseded(); n != 1 || rehearsals.Load() != 0 {
		t.Errorf("%d superseded, %d rehearsals", n, rehearsals.Load())
	}
	if got := e.one("SELECT count(*) FROM kv"); got != "2" {
		t.Errorf("%s rows", got)
	}
}

// A row that waits, and is refused for a reason of its own, is named as one that does not wait would be. Without its name the checkpoint would be done
// again in smaller pieces, which end between a row and the one that it refers to, and blame the innocent.
func TestSeams_RefusedAmongWhatWaits(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		e.exec("CREATE TABLE parents (id bigint PRIMARY KEY, name text UNIQUE); CREATE TABLE children (id bigint PRIMARY KEY CHECK (id <> 7), parent bigint REFERENCES parents)")
		f := &family{
			parents:  table(t, "parents", upsert, "id", "id BIGINT NOT NULL", "name STRING"),
			children: table(t, "children", upsert, "id", "id BIGINT NOT NULL", "parent BIGINT"),
		}
		c, err := e.lane(e.pool(nil), "", o, f.children, f.parents)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		f.writer = &writer{t: t, ctx: t.Context(), c: c}
		f.acquire()
		f.to(f.children, f.child(changelog.Insert, 1, 1))
		f.to(f.children, f.child(changelog.Insert, 2, 1), f.child(changelog.Insert, 7, 1))
		f.to(f.parents, f.parent(changelog.Insert, 1))
		wantBlamed(t, f.prepare(), "2")
	})
}

package postgres_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// without drops a table, and has the bridge begin again.
func (e *env) without(table string) {
	e.t.Helper()
	e.exec("DROP TABLE IF EXISTS " + table)
	if e.one("SELECT to_regclass('"+e.own+".position')") != "NULL" {
		e.exec("UPDATE " + e.own + ".position SET next_offset = NULL")
	}
}

// A table that was dropped is not made anew under stored positions, at the first start after it or at any other, until somebody says what is to become of
// the rows that are gone.
func TestCreateTable_Dropped(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		o.CreateTable = true
		tb := table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING")
		e.undo()
		start := func() *writer {
			t.Helper()
			w := e.writer(e.pool(nil), o, tb)
			t.Cleanup(func() { w.c.Close(context.Background()) })
			return w
		}
		w := start()
		w.put(w.change(changelog.Insert, num(1), str("a")), w.change(changelog.Insert, num(2), str("a")))
		w.c.Close(t.Context())
		start().c.Close(t.Context()) // the table is there, so all is well
		e.exec("DROP TABLE kv")
		for range 2 {
			_, err := e.lane(e.pool(nil), "", o, tb)
			wantConfig(t, err, `table "`+e.schema+`"."kv"`, `topic "topic"`, "topic/0@2", "nothing was made", "Restore", "positions reset", "a name of its own", "CREATE TABLE")
			if got := e.one("SELECT to_regclass('" + e.schema + ".kv')"); got != "NULL" {
				t.Fatal("it made the table")
			}
		}
		s, err := postgres.New(e.pool(nil), "", o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Lane(t.Context(), sink.Lane{Bridge: "another", Sink: "target", Tables: []*changelog.Table{tb}})
		if err != nil {
			t.Fatalf("a bridge of another name: %v", err)
		}
		c.Close(t.Context())
		e.exec("DROP TABLE kv")
		if _, err := e.settler().Reset(t.Context(), "bridge", nil, "read it again"); err != nil && o.Mode == postgres.InTransaction {
			t.Fatal(err)
		} else if err != nil { // its last receipt is in the store until the next checkpoint
			e.exec("DELETE FROM " + e.own + ".committable")
			if _, err := e.settler().Reset(t.Context(), "bridge", nil, "read it again"); err != nil {
				t.Fatal(err)
			}
		}
		if w = start(); w.at != 0 {
			t.Errorf("after the reset it begins at %d", w.at)
		}
		w.put(w.change(changelog.Insert, num(1), str("a")))
		if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(1,a)"}) {
			t.Errorf("the table is %s", got)
		}
		w.c.Close(t.Context())
		e.exec("DROP TABLE kv")
		e.exec(s.SQL(tb)) // which somebody says by this
		if w = start(); w.at != 1 {
			t.Errorf("with a table made by hand it begins at %d", w.at)
		}
	})
}

// Only the positions of topics that feed the table count.
func TestCreateTable_DroppedOfOtherTopics(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.CreateTable, o.Topics = true, map[string]string{"topic": "a", "other": "b"}
	tb := table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING")
	for _, into := range []string{"", "c"} {
		c, err := e.lane(e.pool(nil), into, o, tb)
		if err != nil {
			t.Fatal(err)
		}
		w := &writer{t: t, ctx: t.Context(), c: c, table: tb}
		w.acquire()
		w.put(w.change(changelog.Insert, num(1), str("a")))
		w.c.Close(t.Context())
		e.exec("DROP TABLE IF EXISTS b, c")
		if c, err = e.lane(e.pool(nil), into, o, tb); err != nil {
			t.Fatalf("tables of topics without positions: %v", err)
		}
		c.Close(t.Context())
		e.exec("DROP TABLE a")
		_, err = e.lane(e.pool(nil), into, o, tb)
		wantConfig(t, err, `"a" does not exist`, `topic "topic"`)
		e.exec("DROP TABLE IF EXISTS b, c; DROP SCHEMA " + e.own + " CASCADE")
	}
}

// otherStore is a committer whose store is another one.
type otherStore struct {
	sink.Committer
	st sink.Store
}

func (e otherStore) OfferStore() sink.Store { return e.st }

// Where another store has the positions, each lane finds it with its claim, and the table is taken away again, so that the next start finds it too.
func TestCreateTable_DroppedAndAnotherStore(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		o := e.mode(m)
		o.CreateTable = true
		tb := table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING")
		st, err := postgres.NewStore(e.pool(nil), &postgres.StoreOptions{Schema: e.schema})
		if err != nil {
			t.Fatal(err)
		}
		process := func() (lanes []*writer) {
			t.Helper()
			s, err := postgres.New(e.pool(nil), "", o)
			if err != nil {
				t.Fatal(err)
			}
			for n := range 2 {
				c, err := s.Lane(t.Context(), sink.Lane{Bridge: "bridge", Number: n, Sink: "target", Tables: []*changelog.Table{tb}, OtherStore: true})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close(context.Background()) })
				lanes = append(lanes, &writer{t: t, ctx: t.Context(), c: otherStore{c, st}, table: tb})
			}
			return lanes
		}
		fresh := changelog.Partition{Topic: "topic", Partition: 1}
		open := func(w *writer, p changelog.Partition) error {
			claim, err := st.Acquire(t.Context(), sink.AcquireRequest{Bridge: "bridge", Fingerprint: "f", Owner: "test", Partitions: []changelog.Partition{p}, GroupGeneration: -1})
			if err != nil {
				t.Fatal(err)
			}
			return w.c.Open(t.Context(), claim)
		}
		a, b := process(), process() // both at the first start: a has made the table
		b[0].acquire()
		b[0].put(b[0].change(changelog.Insert, num(1), str("a")), b[0].change(changelog.Delete, num(1), null))
		a[0].acquire() // from b, whose positions are of the table that a made
		a[0].put(a[0].change(changelog.Insert, num(2), str("a")))
		a[1].acquire() // within the process
		if a[1].at != 3 {
			t.Errorf("it begins at %d", a[1].at)
		}
		e.exec("DROP TABLE kv")
		for range 2 {
			c := process()
			if err := open(c[1], fresh); err != nil {
				t.Errorf("a partition without a position: %v", err)
			}
			wantConfig(t, c[0].tryAcquire(), `table "`+e.schema+`"."kv"`, `topic "topic"`, "topic/0@3", "taken away again", "positions reset")
			if got := e.one("SELECT to_regclass('" + e.schema + ".kv')"); got != "NULL" {
				t.Error("the table is there")
			}
		}
		// One that is in use, or not empty, is not taken away.
		c := process()
		e.exec("INSERT INTO kv VALUES (7)")
		wantConfig(t, c[0].tryAcquire(), "which is there now: drop it first")
		e.exec("DROP TABLE kv; DELETE FROM " + e.schema + ".committable")
		if _, err := st.Reset(t.Context(), "bridge", nil, ""); err != nil {
			t.Fatal(err)
		}
		d := process()
		if err := errors.Join(d[0].tryAcquire(), open(d[1], fresh)); err != nil {
			t.Fatal(err)
		}
		d[0].put(d[0].change(changelog.Insert, num(1), str("a")))
		d[1].acquire()
		if d[1].at != 1 {
			t.Errorf("it goes on at %d", d[1].at)
		}
	})
}

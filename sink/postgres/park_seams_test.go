package postgres_test

import (
	"fmt"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// Rows of two tables have given up their values when the first of the tables is complete, one of the tables in partitions. Somebody makes a trigger between Prepare and Commit that keeps
// rows of one of them from being written: whichever it is, the merge is refused, undone, and goes through once the trigger is gone.
func TestPark_MergeOfTwoTables(t *testing.T) {
	for _, kept := range []string{"a", "b"} {
		t.Run("a trigger on "+kept, func(t *testing.T) {
			e := newEnv(t)
			e.exec(`CREATE TABLE a (k bigint PRIMARY KEY, u bigint UNIQUE, note text DEFAULT 'mine'); INSERT INTO a VALUES (1, 1), (2, 2);
				CREATE TABLE b (k bigint PRIMARY KEY, u bigint, note text DEFAULT 'mine') PARTITION BY RANGE (k); CREATE TABLE b1 PARTITION OF b (UNIQUE (u)) FOR VALUES FROM (0) TO (10);
				INSERT INTO b VALUES (1, 1), (2, 2)`)
			o := e.options()
			o.Mode = postgres.Staged
			a, b := table(t, "a", upsert, "k", "k BIGINT NOT NULL", "u BIGINT"), table(t, "b", upsert, "k", "k BIGINT NOT NULL", "u BIGINT")
			w := e.drive(o, a, b)
			for _, one := range []struct {
				of   *changelog.Table
				k, u int64
			}{{a, 1, 2}, {b, 1, 2}, {b, 2, 1}, {a, 2, 1}} {
				w.table = one.of
				if err := w.write(w.change(changelog.UpdateAfter, num(one.k), num(one.u))); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.prepare(); err != nil {
				t.Fatal(err)
			}
			e.exec(`CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.u = 2 THEN RETURN NULL; END IF; RETURN NEW; END $$;
				CREATE TRIGGER keep BEFORE UPDATE ON ` + kept + ` FOR EACH ROW EXECUTE FUNCTION keep()`)
			if err := w.save(); err != nil {
				t.Fatal(err)
			}
			if err := w.c.Commit(w.ctx, w.receipt); sink.ClassOf(err) != sink.ErrTransient {
				t.Errorf("expected a refusal that waits: %v", err)
			}
			for _, name := range []string{"a", "b"} {
				wantRows(t, e.all("SELECT * FROM "+name), "(1,1,mine)", "(2,2,mine)")
			}
			e.exec("DROP TRIGGER keep ON " + kept)
			if err := w.c.Commit(w.ctx, w.receipt); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a", "b"} {
				wantRows(t, e.all("SELECT * FROM "+name), "(1,2,mine)", "(2,1,mine)")
			}
		})
	}
}

// Rows hold one another's values of a column that cannot be moved, beside one that can: nobody is to blame. A row that is refused for the column that can be moved still is.
func TestPark_NobodyToBlame(t *testing.T) {
	for _, tc := range []struct{ name, w1, w2, w5, blamed string }{
		{"the column beside stays", "a", "b", "e", ""},
		{"the column beside is swapped too", "b", "a", "e", ""},
		{"one more has a value of a row that stays", "b", "a", "c", "2"},
		{"a swap that falls apart without the one to blame", "b", "c", "e", "0, 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
				// w comes first among the indexes, so it is what the server finds first.
				e.exec(`CREATE TABLE kv (k bigint PRIMARY KEY, u float NOT NULL, w text UNIQUE, note text DEFAULT 'mine'); ALTER TABLE kv ADD UNIQUE (u); INSERT INTO kv VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c');
					CREATE TABLE child (k bigint REFERENCES kv); INSERT INTO child VALUES (1), (2)`)
				o.Cast = []string{"u"}
				w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u STRING", "w STRING"))
				err := w.refusal([]changelog.Change{w.change(changelog.UpdateAfter, num(1), str("2"), str(tc.w1)), w.change(changelog.UpdateAfter, num(2), str("1"), str(tc.w2)),
					w.change(changelog.UpdateAfter, num(5), str("5"), str(tc.w5))})
				wantBlamed(t, err, tc.blamed)
			})
		})
	}
}

// Under Options.SkipUnchanged a row that gave its value up and is to have none would be passed over, as one that is already what it becomes. It is written, counted, and names the change that did it.
func TestPark_SkipNull(t *testing.T) {
	for _, skip := range []bool{false, true} {
		for _, whole := range []bool{true, false} {
			t.Run(fmt.Sprintf("skip %t, in one Write %t", skip, whole), func(t *testing.T) {
				everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
					e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE, v text, at bigint, note text DEFAULT 'mine'); INSERT INTO kv VALUES (1, 1, 'a', -1), (2, 2, 'b', -1), (3, NULL, 'c', -1), (4, 4, 'd', -1)")
					o.SkipUnchanged, o.Audit.Offset = skip, "at"
					w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT", "v STRING"))
					set := func(k int64, u changelog.Value, v string) changelog.Change {
						return w.change(changelog.UpdateAfter, num(k), u, str(v))
					}
					changes := []changelog.Change{set(1, num(2), "a"), set(2, num(4), "b"), set(4, null, "d"), set(3, null, "c")}
					batches := [][]changelog.Change{changes}
					if !whole {
						batches = [][]changelog.Change{changes[:1], changes[1:2], changes[2:]}
					}
					for _, b := range batches {
						if err := w.write(b...); err != nil {
							t.Fatal(err)
						}
					}
					w.finish()
					three := "(3,,c,3,mine)"
					if skip {
						three = "(3,,c,-1,mine)"
					}
					wantRows(t, e.all("SELECT * FROM kv"), "(1,2,a,0,mine)", "(2,4,b,1,mine)", three, "(4,,d,2,mine)")
				})
			})
		}
	}
}

// Of a type that has no value to spare such a row is refused, and nothing is changed by the try; one that changes in another column too is written.
func TestPark_SkipNullWithoutSpareValue(t *testing.T) {
	for _, v := range []string{"b", "c"} {
		t.Run(fmt.Sprintf("v from b to %s", v), func(t *testing.T) {
			everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
				e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u float UNIQUE, v text, note text DEFAULT 'mine'); INSERT INTO kv VALUES (1, 1, 'a'), (2, 2, 'b')")
				o.SkipUnchanged, o.Cast = true, []string{"u"}
				w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u STRING", "v STRING"))
				err := w.refusal([]changelog.Change{w.change(changelog.UpdateAfter, num(1), str("2"), str("a")), w.change(changelog.UpdateAfter, num(2), null, str(v))})
				if v == "b" {
					wantBlamed(t, err, "")
					w.c.Discard(t.Context())
					wantRows(t, e.all("SELECT * FROM kv"), "(1,1,a,mine)", "(2,2,b,mine)")
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				w.finishPrepared()
				wantRows(t, e.all("SELECT * FROM kv"), "(1,2,a,mine)", "(2,,c,mine)")
			})
		})
	}
}

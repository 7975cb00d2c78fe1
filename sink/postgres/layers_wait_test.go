package postgres_test

import (
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// How often in a row a checkpoint ended between two changes that belong together is counted anew once one was saved, also where Save looked at its end.
func TestLook_AwaitedAnew(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE); INSERT INTO kv VALUES (1, 1), (2, 2)")
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT"))
	u := int64(1)
	for n := range int64(5) {
		err := w.write(w.change(changelog.UpdateAfter, num(2), num(u)))
		if err == nil {
			err = w.prepare()
		}
		if sink.ClassOf(err) != sink.ErrTransient {
			t.Errorf("event %d is not tried again: %v", n, err)
		}
		w.c.Discard(w.ctx)
		w.acquire()
		w.put(w.change(changelog.UpdateAfter, num(2), num(u)), w.change(changelog.UpdateAfter, num(1), num(100+n)))
		u = 100 + n
	}
}

func TestLook_AwaitedAnewByForeignKey(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE parents (k bigint PRIMARY KEY); CREATE TABLE children (k bigint PRIMARY KEY, p bigint REFERENCES parents)")
	ps, cs := table(t, "parents", upsert, "k", "k BIGINT NOT NULL"), table(t, "children", upsert, "k", "k BIGINT NOT NULL", "p BIGINT")
	w := e.drive(e.options(), ps, cs)
	for n := range int64(8) {
		w.table = cs
		err := w.write(w.change(changelog.Insert, num(n), num(n)))
		if err == nil {
			err = w.prepare()
		}
		if sink.ClassOf(err) != sink.ErrTransient {
			t.Errorf("event %d is not tried again: %v", n, err)
		}
		w.c.Discard(w.ctx)
		w.acquire()
		w.table = ps
		if err := w.write(w.change(changelog.Insert, num(n))); err != nil {
			t.Fatal(err)
		}
		w.table = cs
		w.put(w.change(changelog.Insert, num(n), num(n)))
	}
}

// Changes that lack columns, under Options.Version, wait for others of their checkpoint beside a row that refers to one of its table.
func TestVersion_PartsRefer(t *testing.T) {
	for _, parts := range []bool{false, true} {
		for _, mode := range []postgres.Mode{postgres.InTransaction, postgres.Staged} {
			e := newEnv(t)
			e.exec(`CREATE TABLE kv (k bigint PRIMARY KEY, v text, p bigint REFERENCES kv, ver bigint); INSERT INTO kv VALUES (1, 'x', NULL, 5)`)
			o := e.options()
			o.Mode, o.Version, o.IgnoreDeletes = mode, "ver", true
			w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING", "p BIGINT", "ver BIGINT"))
			old := changelog.UnchangedValue()
			a, b := old, str("y")
			if !parts {
				a, b = str("z"), str("y")
			}
			one := []changelog.Change{w.change(changelog.Insert, num(5), str("child"), num(6), num(1))}
			two := []changelog.Change{w.change(changelog.Insert, num(6), str("parent"), null, num(1)),
				w.change(changelog.UpdateAfter, num(1), a, null, num(6))}
			if parts {
				two = append(two, w.change(changelog.UpdateAfter, num(1), b, old, num(7)))
			} else {
				two = append(two, w.change(changelog.UpdateAfter, num(1), b, null, num(7)))
			}
			err := w.refusal(one, two)
			if err != nil {
				t.Errorf("parts %v %v: named %q: %v", parts, mode, blamed(err), err)
				continue
			}
			w.finishPrepared()
			want := "(1,y,,7)(5,child,6,1)(6,parent,,1)"
			if got := strings.Join(e.all("SELECT * FROM kv"), ""); got != want {
				t.Errorf("parts %v %v: %s, expected %s", parts, mode, got, want)
			}
		}
	}
}

// No way that they are written in lets an older value win.
func TestVersion_PartsThatWait(t *testing.T) {
	for _, mode := range []postgres.Mode{postgres.InTransaction, postgres.Prepared, postgres.Staged} {
		e := newEnv(t)
		if mode == postgres.Prepared && e.one("SELECT current_setting('max_prepared_transactions')") == "0" {
			continue
		}
		e.exec(`CREATE TABLE kv (k bigint PRIMARY KEY, v text, w text, p bigint REFERENCES kv, ver bigint); CREATE TABLE children (k bigint PRIMARY KEY, p bigint REFERENCES kv, ver bigint);
		INSERT INTO kv VALUES (1, 'new', 'w0', NULL, 5)`)
		o := e.options()
		o.Mode, o.Version, o.IgnoreDeletes = mode, "ver", true
		kv := table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING", "w STRING", "p BIGINT", "ver BIGINT")
		ch := table(t, "children", upsert, "k", "k BIGINT NOT NULL", "p BIGINT", "ver BIGINT")
		w := e.drive(o, kv, ch)
		old := changelog.UnchangedValue()
		w.table = ch
		if err := w.write(w.change(changelog.Insert, num(1), num(6), num(1))); err != nil {
			t.Fatal(err)
		}
		w.table = kv
		err := w.write(w.change(changelog.UpdateAfter, num(5), str("x"), str("w"), num(6), num(2)),
			w.change(changelog.UpdateAfter, num(6), str("six"), str("w"), null, num(2)),
			w.change(changelog.UpdateAfter, num(1), str("old"), old, null, num(3)),
			w.change(changelog.UpdateAfter, num(1), old, str("w7"), null, num(7)))
		if err == nil {
			err = w.prepare()
		}
		if err != nil {
			t.Logf("%v: refused: %v", mode, err)
			continue
		}
		w.finishPrepared()
		got := strings.Join(e.all("SELECT * FROM kv WHERE k = 1"), "")
		if got != "(1,new,w7,,7)" {
			t.Errorf("%v: %s: an older value won", mode, got)
		}
	}
}

func TestVersion_PartsThatWaitForATrigger(t *testing.T) {
	for _, mode := range []postgres.Mode{postgres.InTransaction, postgres.Staged} {
		e := newEnv(t)
		e.exec(`CREATE TABLE kv (k bigint PRIMARY KEY, v text, w text, ver bigint); CREATE TABLE children (k bigint PRIMARY KEY, p bigint REFERENCES kv);
		INSERT INTO kv VALUES (1, 'new', 'w0', 5), (4, 'busy', 'w', 1), (5, 'free', 'w', 1);
		CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.k = 5 AND EXISTS (SELECT FROM kv WHERE k = 4 AND v = 'busy') THEN RAISE 'busy'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER f BEFORE UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION f()`)
		o := e.options()
		o.Mode, o.Version, o.IgnoreDeletes = mode, "ver", true
		kv := table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING", "w STRING", "ver BIGINT")
		ch := table(t, "children", upsert, "k", "k BIGINT NOT NULL", "p BIGINT", "ver BIGINT")
		e.exec("ALTER TABLE children ADD ver bigint")
		w := e.drive(o, kv, ch)
		old := changelog.UnchangedValue()
		w.table = ch
		if err := w.write(w.change(changelog.Insert, num(1), num(6), num(1))); err != nil {
			t.Fatal(err)
		}
		w.table = kv
		err := w.write(w.change(changelog.UpdateAfter, num(5), str("x"), str("w"), num(2)),
			w.change(changelog.UpdateAfter, num(4), str("free"), str("w"), num(2)),
			w.change(changelog.UpdateAfter, num(6), str("six"), str("w"), num(2)),
			w.change(changelog.UpdateAfter, num(1), str("old"), old, num(3)),
			w.change(changelog.UpdateAfter, num(1), old, str("w7"), num(7)))
		if err == nil {
			err = w.prepare()
		}
		if err != nil {
			t.Logf("%v: refused: %v", mode, err)
			continue
		}
		w.finishPrepared()
		got := strings.Join(e.all("SELECT * FROM kv WHERE k = 1"), "")
		if got != "(1,new,w7,7)" {
			t.Errorf("%v: %s: an older value won", mode, got)
		}
	}
}

// A row that the table is ahead of, and a delete of it that the table is not ahead of, in one batch: the row is marked, and holds what it held, as it does when they come one by one.
func TestVersion_MarkBehindOlder(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		for n, parts := range []bool{false, true} {
			for _, after := range []bool{false, true} {
				var got []string
				for _, single := range []bool{true, false} {
					e.exec("DROP TABLE IF EXISTS kv; CREATE TABLE kv (k bigint PRIMARY KEY, a text, b text, ver bigint, dead boolean NOT NULL DEFAULT false); INSERT INTO kv VALUES (1, 'x', 'x', 10)")
					o.Version, o.SoftDelete.Column, o.Schema = "ver", "dead", e.own+strings.Repeat("_", 1+2*n)
					if single {
						o.Schema += "s"
					}
					if after {
						o.Schema += "a"
					}
					w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "a STRING", "b STRING", "ver BIGINT"))
					b := str("old")
					if parts {
						b = changelog.UnchangedValue()
					}
					cs := []changelog.Change{w.change(changelog.UpdateAfter, num(1), str("old"), b, num(8)), w.change(changelog.Delete, num(1), str("old"), str("old"), num(12))}
					if after {
						cs = append(cs, w.change(changelog.Insert, num(1), str("n"), str("n"), num(13)))
					}
					if single {
						for _, c := range cs {
							if err := w.write(c); err != nil {
								t.Fatal(err)
							}
						}
					} else if err := w.write(cs...); err != nil {
						t.Fatal(err)
					}
					w.finish()
					got = append(got, strings.Join(e.all("SELECT * FROM kv"), ""))
				}
				if got[0] != got[1] {
					t.Errorf("parts %v, a row after the delete %v: %s, one by one %s", parts, after, got[1], got[0])
				}
			}
		}
	})
}

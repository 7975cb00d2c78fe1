package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// family is a lane over a table of parents and one of children that refer to them.
type family struct {
	*writer
	parents, children *changelog.Table
}

func (e *env) family(deferrable string) *family {
	e.t.Helper()
	e.exec("CREATE TABLE parents (id bigint PRIMARY KEY, name text UNIQUE); CREATE TABLE children (id bigint PRIMARY KEY, parent bigint REFERENCES parents " + deferrable + ")")
	f := &family{
		parents:  table(e.t, "parents", upsert, "id", "id BIGINT NOT NULL", "name STRING"),
		children: table(e.t, "children", upsert, "id", "id BIGINT NOT NULL", "parent BIGINT"),
	}
	c, err := e.lane(e.pool(nil), "", e.options(), f.children, f.parents)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { c.Close(context.Background()) })
	f.writer = &writer{t: e.t, ctx: e.t.Context(), c: c}
	f.acquire()
	return f
}

func (f *family) to(t *changelog.Table, changes ...changelog.Change) {
	f.t.Helper()
	f.table = t
	if err := f.write(changes...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *family) parent(kind changelog.Kind, id int64) changelog.Change {
	return f.change(kind, num(id), str("p"+string(rune('0'+id))))
}

func (f *family) child(kind changelog.Kind, id, parent int64) changelog.Change {
	return f.change(kind, num(id), num(parent))
}

// Tables of one lane that refer to one another, in whatever order their topics are read: parents are there before their children, children gone
// before their parents, and it is one transaction. Also with keys that the server checks at the end.
func TestWrite_ForeignKeysBetweenTables(t *testing.T) {
	const ins, upd, del = changelog.Insert, changelog.UpdateAfter, changelog.Delete
	for _, deferrable := range []string{"", "DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED", "ON DELETE RESTRICT"} {
		t.Run(deferrable, func(t *testing.T) {
			e := newEnv(t)
			f := e.family(deferrable)
			f.to(f.children, f.child(ins, 1, 1), f.child(ins, 2, 2))
			f.to(f.children, f.child(upd, 2, 1), f.child(ins, 3, 2))
			f.to(f.parents, f.parent(ins, 1), f.parent(ins, 2), f.parent(ins, 3))
			f.to(f.children, f.child(ins, 4, 3))
			if got := e.one("SELECT count(*) FROM parents"); got != "0" {
				t.Errorf("%s rows are visible before Save", got)
			}
			f.finish()
			if got := strings.Join(e.all("SELECT * FROM children"), ""); got != "(1,1)(2,1)(3,2)(4,3)" {
				t.Errorf("after the first checkpoint: %s", got)
			}
			// Parent 1 goes before the children move, a child goes after its parent, and a parent that goes leaves its name to a new one, which
			// the old one's children move to: the last asks for two orders at once, so for a key that can wait.
			heir := f.change(ins, num(4), str("p1"))
			if !strings.HasPrefix(deferrable, "DEFERRABLE") {
				heir.Row[1] = str("p4")
			}
			f.to(f.parents, f.parent(del, 1), f.parent(del, 3), heir)
			f.to(f.children, f.child(upd, 1, 4), f.child(upd, 2, 4), f.child(del, 4, 3))
			f.finish()
			if got := strings.Join(e.all("SELECT * FROM children"), "") + strings.Join(e.all("SELECT * FROM parents"), ""); got != "(1,4)(2,4)(3,2)(2,p2)(4,"+heir.Row[1].Str()+")" {
				t.Errorf("after the second checkpoint: %s", got)
			}
			if got := e.one("SELECT next_offset FROM " + e.own + ".position"); got != "14" {
				t.Errorf("position %s", got)
			}
		})
	}
}

// A child whose parent comes in the next checkpoint: the checkpoint is done again a few times, in which its end may move, and passes then.
// One whose parent never comes is named, alone, and never the child beside it. Keys that the server checks at once wait in the same way.
func TestPrepare_ParentInTheNextCheckpoint(t *testing.T) {
	for _, deferrable := range []string{"", "DEFERRABLE INITIALLY DEFERRED"} {
		t.Run(deferrable, func(t *testing.T) {
			e := newEnv(t)
			f := e.family(deferrable)
			children := []changelog.Change{f.child(changelog.Insert, 1, 1), f.child(changelog.Insert, 2, 2)}
			again := func() {
				t.Helper()
				f.c.Discard(t.Context())
				f.acquire()
				f.to(f.children, children...)
				f.at = max(f.at, 2)
			}
			f.to(f.children, children...)
			for range 3 {
				if err := f.prepare(); sink.ClassOf(err) != sink.ErrTransient {
					t.Fatalf("%v", err)
				}
				again()
			}
			f.to(f.parents, f.parent(changelog.Insert, 1), f.parent(changelog.Insert, 2))
			f.finish()

			f.to(f.children, f.child(changelog.Insert, 3, 1), f.child(changelog.Insert, 4, 99), f.child(changelog.Insert, 5, 2))
			f.to(f.parents, f.parent(changelog.Insert, 6))
			var err error
			for range 6 {
				if err = f.prepare(); sink.ClassOf(err) != sink.ErrTransient {
					break
				}
				f.c.Discard(t.Context())
				f.acquire()
				f.to(f.children, f.child(changelog.Insert, 3, 1), f.child(changelog.Insert, 4, 99), f.child(changelog.Insert, 5, 2))
				f.to(f.parents, f.parent(changelog.Insert, 6))
			}
			wantBlamed(t, err, "5")
			f.c.Discard(t.Context())
			f.acquire()
			f.to(f.children, f.child(changelog.Insert, 3, 1), f.child(changelog.Insert, 5, 2))
			f.finish()
			// The other way round: a parent goes, and nobody moves its children.
			f.at += 10
			start := f.at
			for range 7 {
				f.at = start
				f.to(f.parents, f.parent(changelog.Delete, 2), f.parent(changelog.Insert, 7))
				if err = f.prepare(); sink.ClassOf(err) != sink.ErrTransient {
					break
				}
				f.c.Discard(t.Context())
				f.acquire()
			}
			wantBlamed(t, err, fmt.Sprint(start))
		})
	}
}

// More waits than the lane's memory holds: said, with the ways out, and nothing is written.
func TestSpill_WhileRowsWait(t *testing.T) {
	e := newEnv(t)
	f := e.family("")
	f.to(f.children, f.child(changelog.Insert, 1, 1))
	f.c.(sink.Spiller).Spill()
	f.table = f.parents
	err := f.write(f.parent(changelog.Insert, 1))
	if sink.ClassOf(err) != sink.ErrRejected || !strings.Contains(err.Error(), "INITIALLY DEFERRED") {
		t.Errorf("Write: %v", err)
	}
	if err := f.prepare(); err == nil {
		t.Error("Prepare succeeded")
	}
	f.c.Discard(t.Context())
	f.acquire()
	f.to(f.children, f.child(changelog.Insert, 1, 1))
	f.to(f.parents, f.parent(changelog.Insert, 1))
	f.finish()
	if got := e.all("SELECT * FROM children"); !slices.Equal(got, []string{"(1,1)"}) {
		t.Errorf("%v", got)
	}
}

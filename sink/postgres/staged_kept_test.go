package postgres_test

import (
	"slices"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// stageMany decides a checkpoint of many changes, so of several chunks: rows of which none is there, or all of them are.
func stageMany(e *env, a *writer, kind changelog.Kind, text string) {
	e.t.Helper()
	var changes []changelog.Change
	for k := range int64(7001) {
		changes = append(changes, a.change(kind, num(k), str(text)))
	}
	if err := a.write(changes...); err != nil {
		e.t.Fatal(err)
	}
	if err := a.prepare(); err != nil {
		e.t.Fatal(err)
	}
	if err := a.save(); err != nil {
		e.t.Fatal(err)
	}
	if n := e.all("SELECT count(*) > 3 FROM " + e.own + ".staging"); n[0] != "(t)" {
		e.t.Fatalf("rows of the staging table: %v", n)
	}
}

// Whoever staged a checkpoint merges it from memory, and whoever takes over reads it back: both make the same table, of new rows and of
// updates, and leave nothing.
func TestStaged_KeptOrReadBack(t *testing.T) {
	for name, takeOver := range map[string]bool{"kept": false, "read back": true} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			tb := e.keyed()
			a := e.writer(e.pool(nil), e.mode(postgres.Staged), tb)
			for _, x := range []struct {
				kind changelog.Kind
				text string
			}{{changelog.Insert, "one"}, {changelog.UpdateAfter, "two"}} {
				stageMany(e, a, x.kind, x.text)
				if takeOver {
					a = e.writer(e.pool(nil), e.mode(postgres.Staged), tb) // its Open settles
				} else if err := a.c.Commit(t.Context(), a.receipt); err != nil {
					t.Fatal(err)
				}
				if got := e.all("SELECT v, count(*), count(DISTINCT k), min(k), max(k) FROM kv GROUP BY v"); !slices.Equal(got, []string{"(" + x.text + ",7001,7001,0,7000)"}) {
					t.Errorf("%s: %v", x.text, got)
				}
				if left := e.leftovers(); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			}
		})
	}
}

// What is kept in memory is no proof: a checkpoint whose staged rows somebody took out, even one of them, is lost, and nothing of it is visible.
func TestStaged_KeptIsNoProof(t *testing.T) {
	for name, which := range map[string]string{"all": "", "a chunk": " AND number = 2", "the head": " AND number = 0"} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			a := e.writer(e.pool(nil), e.mode(postgres.Staged), e.keyed())
			stageMany(e, a, changelog.Insert, "one")
			e.exec("DELETE FROM " + e.own + ".staging WHERE checkpoint = 1" + which)
			for range 2 {
				if err := a.c.Commit(t.Context(), a.receipt); sink.ClassOf(err) != sink.ErrLost {
					t.Errorf("%v", err)
				}
			}
			if got := e.all("SELECT count(*) FROM kv"); got[0] != "(0)" {
				t.Errorf("visible: %v", got)
			}
		})
	}
}

// Somebody alters what was staged: whoever kept it writes what was decided, and whoever reads it back says that it is lost.
func TestStaged_KeptIsWhatWasDecided(t *testing.T) {
	e := newEnv(t)
	a := e.writer(e.pool(nil), e.mode(postgres.Staged), e.keyed())
	stageMany(e, a, changelog.Insert, "one")
	e.exec("UPDATE " + e.own + ".staging SET params = '{}' WHERE checkpoint = 1 AND number = 1")
	if err := a.c.Commit(t.Context(), a.receipt); err != nil {
		t.Fatal(err)
	}
	if got := e.all("SELECT v, count(*) FROM kv GROUP BY v"); !slices.Equal(got, []string{"(one,7001)"}) {
		t.Errorf("%v", got)
	}
}

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// Without --mode Postgres is in the mode that --store allows, check says which before the start, and the guarantee at the start.
func TestRun_ModeOfPostgres(t *testing.T) {
	s := newSteered(t)
	s.produce(`{"id":1}`)
	store := "file:" + filepath.Join(t.TempDir(), "s")
	got := command(t, s.run("--until-end", "--store", store)...)
	if got.status != exitDone || !strings.Contains(got.out, "chosen since another store decides") || !strings.Contains(got.out, "exactly once") {
		t.Fatalf("with another store: %+v", got)
	}
	if n := s.one(t, "SELECT count(*) FROM people"); n != 1 {
		t.Errorf("%d rows", n)
	}
	if got := command(t, s.run("--until-end", "--store", store, "--mode", "in-transaction")...); got.status != exitConfig || !strings.Contains(got.errs, "one such sink and no other store") {
		t.Errorf("a mode that cannot be: %+v", got)
	}
	if got := command(t, s.run("--until-end")...); got.status != exitDone || !strings.Contains(got.out, "(mode in-transaction, chosen since this sink is the store of its lane") {
		t.Errorf("without another store: %+v", got)
	}
}

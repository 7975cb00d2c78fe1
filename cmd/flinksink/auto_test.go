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
	if got := command(t, s.run("--until-end", "--store", store, "--mode", "in-transaction")...); got.status != exitConfig || !strings.Contains(got.errs, "--store names what is to decide instead") {
		t.Errorf("a mode that cannot be: %+v", got)
	}
	// Its positions are in the file: without it the rows would come again.
	if got := command(t, s.run("--until-end")...); got.status != exitConfig || !strings.Contains(got.errs, "--store is missing") {
		t.Errorf("without its store: %+v", got)
	}
	if n := s.one(t, "SELECT count(*) FROM people"); n != 1 {
		t.Errorf("%d rows without its store", n)
	}
}

func TestRun_OwnStoreOfPostgres(t *testing.T) {
	s := newSteered(t)
	s.produce(`{"id":1}`)
	if got := command(t, s.run("--until-end")...); got.status != exitDone || !strings.Contains(got.out, "(mode in-transaction, chosen since this sink is the store of its lane") {
		t.Errorf("without another store: %+v", got)
	}
	if got := command(t, s.run("--until-end", "--store", "file:"+filepath.Join(t.TempDir(), "s"))...); got.status != exitConfig || !strings.Contains(got.errs, "has its positions in Postgres") {
		t.Errorf("with another store: %+v", got)
	}
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Errorf("again: %+v", got)
	}
}

// In a mode that leaves receipts the table's own Postgres is the store too, unless another one is named.
func TestRun_StagedByItself(t *testing.T) {
	s := newSteered(t)
	s.produce(`{"id":1}`)
	for range 2 {
		if got := command(t, s.run("--until-end", "--mode", "staged")...); got.status != exitDone {
			t.Errorf("%+v", got)
		}
	}
}

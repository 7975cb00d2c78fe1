package postgres_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgxpool"
)

// other acquires another partition for w, so that two lanes are open at once.
func (w *writer) other(partition int32) changelog.Partition {
	w.t.Helper()
	p := changelog.Partition{Topic: "topic", Partition: partition}
	claim, err := w.store().Acquire(w.ctx, sink.AcquireRequest{Bridge: "bridge", Fingerprint: "f", Owner: "test", Partitions: []changelog.Partition{p}, GroupGeneration: -1})
	if err == nil {
		err = w.c.Open(w.ctx, claim)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.claim = claim
	return p
}

// saveOf saves positions [from, to) of one partition as the first checkpoint of the generation.
func (w *writer) saveOf(p changelog.Partition, from, to int64) error {
	at := func(n int64) []changelog.Position {
		return []changelog.Position{{Partition: p, Offset: n, LeaderEpoch: -1}}
	}
	return w.store().Save(w.ctx, w.claim.Generation, sink.Checkpoint{ID: 1, From: at(from), To: at(to)})
}

// Two lanes hold rows that the other wants next: sorting within a batch cannot help over several batches. The server ends one of them
// with 40P01, and its whole checkpoint is done again: within the sink, as long as that holds all of it (P34).
func TestWrite_Deadlock(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	// The server looks for a deadlock after this wait: the lane that looks first is ended, each time the same, so that they cannot go on ending one another.
	var pools []*pgxpool.Pool
	lane := func(looks string) *writer {
		p := e.pool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["deadlock_timeout"] = looks })
		pools = append(pools, p)
		c, err := e.lane(p, "", e.options(), tb)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		return &writer{t: t, ctx: t.Context(), c: c, table: tb}
	}
	a, b := lane("10ms"), lane("3s")
	const deadlocks = "SELECT deadlocks FROM (SELECT pg_stat_get_db_deadlocks(oid) AS deadlocks FROM pg_database WHERE datname = current_database()) s"
	before := e.one(deadlocks)
	parts := map[*writer]changelog.Partition{a: a.other(0), b: b.other(1)}
	text := map[*writer]string{a: "a", b: "b"}
	put := func(w *writer, key int64) error {
		return w.write(changelog.Change{Partition: parts[w], Offset: key, Kind: changelog.Insert, Row: changelog.Row{num(key), str(text[w])}})
	}
	if err := errors.Join(put(a, 1), put(b, 2)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		err := put(a, 2)
		if err == nil {
			err = a.saveOf(parts[a], 0, 3)
		}
		done <- err
	}()
	errB := put(b, 1)
	if errB == nil {
		errB = b.saveOf(parts[b], 0, 3)
	}
	if err := errors.Join(<-done, errB); err != nil {
		t.Fatalf("a deadlock reached the caller: %v", err)
	}
	got := e.all("SELECT * FROM kv")
	if !slices.Equal(got, []string{"(1,a)", "(2,a)"}) && !slices.Equal(got, []string{"(1,b)", "(2,b)"}) {
		t.Errorf("%v: neither lane is the last", got)
	}
	if got := e.all("SELECT partition, next_offset FROM " + e.own + ".position"); !slices.Equal(got, []string{"(0,3)", "(1,3)"}) {
		t.Errorf("positions %v", got)
	}
	for _, w := range []*writer{a, b} {
		w.c.Close(t.Context())
	}
	for _, p := range pools {
		p.Close() // a session counts what it met at its end, and every now and then before
	}
	for e.one(deadlocks) == before {
		time.Sleep(5 * time.Millisecond) // the server tells nobody
	}
}

package killtest

import (
	"context"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// This file kills bridges in the modes that leave receipts, in which a checkpoint is decided before it is visible.

// stepsOf are the steps of a mode.
func stepsOf(mode string) []step {
	if mode == "" {
		return steps()
	}
	hook := func(name, hook string) step { return step{name: name, hook: hook, request: -1, most: 4} }
	wire := func(name, hook string, at event, messages ...string) step {
		return step{name: name, hook: hook, messages: messages, at: at, request: -1, most: 4}
	}
	// What ends the transaction of the rows, and what makes them visible.
	ends, shows := "PREPARE TRANSACTION", "COMMIT PREPARED"
	if mode == "staged" {
		ends, shows = commit, commit
	}
	return []step{
		hook("before Open", "Acquired"),
		wire("in Open", "Acquired", sent, ""),
		hook("after Write", "Written"),
		wire("Prepare: its end not sent", "Begun", unsent, ends),
		wire("Prepare: its end sent", "Begun", sent, ends),
		wire("Prepare: its end answered", "Begun", answered, ends),
		hook("after Prepare", "Prepared"),
		wire("Save: COMMIT sent", "Saving", sent, commit),
		hook("after Save", "Saved"),
		wire("in Commit", "Saved", sent, ""),
		wire("Commit: not sent", "Saved", unsent, shows),
		wire("Commit: half of it sent", "Saved", half, shows),
		wire("Commit: sent", "Saved", sent, shows),
		wire("Commit: answered", "Saved", answered, shows),
		hook("before the group offset", "Committed"),
	}
}

// committedPositions are the stored ones, but for those of decided checkpoints that are not visible yet: there it is where they begin.
func (s *subject) committedPositions(ctx context.Context, tx pgx.Tx) (map[int32]int64, error) {
	out := map[int32]int64{}
	rows, err := tx.Query(ctx, fmt.Sprintf(`SELECT p.partition, coalesce((SELECT min((f->>'offset')::bigint) FROM %[1]s.committable c, jsonb_array_elements(c.from_positions) f
		WHERE c.bridge = p.bridge AND f->>'topic' = p.topic AND (f->>'partition')::int = p.partition
		AND NOT EXISTS (SELECT FROM %[1]s.fence x WHERE x.bridge = c.bridge AND x.sink = c.sink AND x.generation = c.generation AND x.committed >= c.checkpoint)), p.next_offset)
		FROM %[1]s.position p WHERE p.bridge = $1 AND p.topic = $1 AND p.next_offset IS NOT NULL`, s.own), s.topic)
	if err != nil {
		return nil, err
	}
	var p int32
	var at int64
	_, err = pgx.ForEachRow(rows, []any{&p, &at}, func() error {
		out[p] = at
		return nil
	})
	return out, err
}

// Bridges in the other modes die at each of their steps, and at random, and the tables are what was produced. Nothing is left behind.
func TestKill_Modes(t *testing.T) {
	to := server(t)
	n := seed(t)
	dir := t.TempDir()
	bin, err := build(t.Context(), dir, "cmd/flinksink")
	if err != nil {
		t.Fatal(err)
	}
	// The steps of Prepare and Commit have a sweep of their own, message by message, in package postgres: here some of them do, of another seed
	// each time.
	rounds, some, random, changes := 1, 6, 1, 5_000
	long := os.Getenv("FLINKSINK_LONG") != ""
	if long {
		rounds, some, random, changes = 3, math.MaxInt, 20, 60_000
	}
	w := world{to: to, flinksink: bin, seed: n, rebalance: time.Minute, session: 1500 * time.Millisecond, brokers: broker(t, dir)}
	for _, mode := range []string{"prepared", "staged"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("FLINKSINK_SEED=%d repeats what was produced", w.seed)
				}
			}()
			w := w
			w.name = fmt.Sprintf("killtest_%d_%s", os.Getpid(), mode)
			s := newSubjectOf(t, &w, "keyed", w.seed)
			s.mode = mode
			l := &life{t: t, w: &w, s: s, a: &account{}}
			for range rounds {
				order := s.r.Perm(len(stepsOf(mode)))
				l.stepsInOrder(order[:min(some, len(order))])
			}
			for range random {
				l.killOne("at random")
				l.killOne("at random, two lanes", "--lanes", "2")
			}
			for sum(l.a.moved) == 0 { // each died once, and perhaps before it had saved anything
				l.killOnceAhead()
			}
			l.conclude(changes)
			for _, step := range stepsOf(mode) {
				if long && l.a.kills[step.name] == 0 {
					t.Errorf("no bridge died at %q", step.name)
				}
			}
			if l.a.behind == 0 || sum(l.a.moved) == 0 {
				t.Error("no bridge died in the middle")
			}
			var left int
			err := s.pool.QueryRow(t.Context(), fmt.Sprintf(`SELECT (SELECT count(*) FROM %s.staging) + (SELECT count(*) FROM pg_prepared_xacts WHERE starts_with(gid, 'flinksink/%s/'))`, s.own, s.topic)).Scan(&left)
			if err != nil {
				t.Fatal(err)
			}
			if left > 0 {
				t.Errorf("%d prepared or staged checkpoints are left", left)
			}
			t.Logf("%d deaths", l.a.total())
		})
	}
}

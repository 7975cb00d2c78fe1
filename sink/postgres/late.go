package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/jackc/pgx/v5"
)

// This file writes what only the whole checkpoint can: a row that refers to one of a later batch, be it of another table, whose topic has no order with
// its own, or of its own; a unique value that another row holds until a later batch. The batch that was refused waits here, and what comes after it,
// until the end of the checkpoint. Then what waits of a table is one run of changes, whose net effect is written: rows are put there, those that
// are referred to first, and taken away, those that refer first, in rounds.
//
// Why the batches before it need not be part of the run: all that they wrote is in the table, so a row that the run does not touch is as the
// source has it at the end of the checkpoint, and so is one of the run once it is written. If the source's rows break no constraint then, none of the
// run is refused for another that stays; and all that are written again are taken out first where nothing else helps.

// maxAwaited is how often in a row a checkpoint is done again because a row refers to one that is not there, before a change is called rejected.
const maxAwaited = 5

// maxOccupied is the same where a row has a unique value that another one has still. Streams that break a unique constraint for good are more common than
// those that break a foreign key, so it is less.
const maxOccupied = 2

// foreign reports whether a foreign key refused: 23001 is what Postgres 18 says for ON DELETE RESTRICT.
func foreign(err error) bool {
	code := state(err)
	return code == "23503" || code == "23001"
}

// occupied reports whether a unique or an exclusion constraint refused.
func occupied(err error) bool {
	code := state(err)
	return code == "23505" || code == "23P01"
}

// edge says that rows of one target can refer to rows of another, or of the same: indexes of c.targets.
type edge struct{ child, parent int }

// edges reads the foreign keys between the tables of the lane.
func (c *committer) edges(ctx context.Context, t *transaction) ([]edge, error) {
	names := make([]string, len(c.targets))
	for i, tg := range c.targets {
		names[i] = tg.name.SQL()
	}
	rows, err := t.Query(ctx, `SELECT DISTINCT c.i - 1, p.i - 1 FROM unnest($1::text[]) WITH ORDINALITY AS c(name, i)
		JOIN pg_catalog.pg_constraint k ON k.contype = 'f' AND k.conrelid = to_regclass(c.name)
		JOIN unnest($1::text[]) WITH ORDINALITY AS p(name, i) ON k.confrelid = to_regclass(p.name) ORDER BY 1, 2`, names)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e edge, err error) {
		err = row.Scan(&e.child, &e.parent)
		return e, err
	})
}

// curable reports whether changes that come later in the checkpoint may undo the reason why one of tg was refused. all are the lane's foreign keys.
func (c *committer) curable(tg *target, refusal error, all []edge) bool {
	switch {
	case tg.swap != nil: // its groups are whole only in the order of their batches
		return false
	case occupied(refusal): // by a row that may go, or change
		return len(tg.keys) > 0 || tg.remove.sql != ""
	case foreign(refusal):
		i := slices.Index(c.targets, tg)
		return slices.ContainsFunc(all, func(e edge) bool { return e.child == i || e.parent == i })
	}
	return false
}

// mayWait takes a batch that was refused, in each order that it can be written in, for one that waits for the end of the checkpoint, if later changes can
// be of help. The transaction then holds what was taken before it.
func (c *committer) mayWait(ctx context.Context, b taken, refusals []error) (bool, error) {
	if !slices.ContainsFunc(refusals, func(err error) bool { return foreign(err) || occupied(err) }) {
		return false, nil
	}
	if err := c.restart(ctx); err != nil {
		return false, err
	}
	all, err := c.edges(ctx, c.tx)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(refusals, func(err error) bool { return c.curable(b.target, err, all) }) {
		return false, nil
	}
	c.late = append(c.late, b)
	return true, nil
}

// ranks numbers targets so that a table comes after all that it refers to. Tables that refer to each other in a circle come in any order.
func ranks(n int, all []edge) []int {
	rank := make([]int, n)
	for range n {
		for _, e := range all {
			if e.child != e.parent && rank[e.child] <= rank[e.parent] && rank[e.parent] < n {
				rank[e.child] = rank[e.parent] + 1
			}
		}
	}
	return rank
}

// lateRuns are the changes that wait, of each target, in the order in which they came.
func (c *committer) lateRuns() [][]changelog.Change {
	runs := make([][]changelog.Change, len(c.targets))
	for i, tg := range c.targets {
		for _, b := range c.late {
			if b.target == tg {
				runs[i] = append(runs[i], b.batch.Changes...)
			}
		}
	}
	return runs
}

// lateWork is one step of writing what waits of one table: a statement over a part of its net effect, or all of the run at once.
type lateWork struct {
	index   int // of c.targets
	tg      *target
	rank    int
	removes bool
	work
	run bool // work.changes are the run
	how order

	parks   bool     // rows are moved out of one another's way
	written *parking // no changes: all rows that were moved are written by now

	refusal error
}

// lateWorks is what waits, in the order in which foreign keys like it best. ways are how the run of each table is written: its net effect, all of it in the order of the topic, or
// its net effect with rows moved out of one another's way.
func (c *committer) lateWorks(ctx context.Context, t *transaction, runs [][]changelog.Change, all []edge, ways []order) (todo []lateWork, superseded int, err error) {
	rank := ranks(len(c.targets), all)
	for i, tg := range c.targets {
		changes := runs[i]
		switch {
		case len(changes) == 0:
			continue
		case tg.swap != nil, ways[i] == exact:
			w := lateWork{index: i, tg: tg, rank: rank[i], work: work{changes: changes}, run: true, how: exact}
			if tg.swap != nil {
				w.how = bulk
			}
			todo = append(todo, w)
			continue
		case ways[i] == bulk && tg.layered(changes): // it has no net effect that could be written at once
			todo = append(todo, lateWork{index: i, tg: tg, rank: rank[i], work: work{changes: changes}, run: true, how: bulk})
			continue
		}
		if bad := c.apply.unfit(tg, changes); len(bad) > 0 {
			return nil, 0, rejected(bad)
		}
		first := len(todo)
		if ways[i] == parked {
			switch left, passed, err := c.apply.passed(ctx, t, tg, changes); {
			case err == nil:
				changes, superseded = left, superseded+passed
			case !errors.Is(err, errNotInOrder):
				return nil, 0, err
			}
		}
		works, void := c.apply.plan(tg, changes)
		superseded += void
		for _, w := range works {
			if len(w.changes) == 0 {
				continue
			}
			w.changes = slices.Clone(w.changes) // the next plan would overwrite them
			removes := tg.isRemove(w.st)
			todo = append(todo, lateWork{index: i, tg: tg, rank: rank[i], removes: removes, work: w})
		}
		if ways[i] != parked {
			continue
		}
		p, err := tg.parking(ctx, t)
		if err != nil {
			return nil, 0, err
		}
		parks := p.parks(tg, works)
		for n := range parks {
			parks[n].changes = slices.Clone(parks[n].changes)
			todo = slices.Insert(todo, first+n, lateWork{index: i, tg: tg, rank: rank[i], parks: true, work: parks[n]})
		}
		if len(parks) > 0 {
			todo = append(todo, lateWork{index: i, tg: tg, rank: len(c.targets) + 1, written: p})
		}
	}
	slices.SortStableFunc(todo, func(a, b lateWork) int {
		switch {
		case a.removes != b.removes:
			return map[bool]int{false: -1, true: 1}[a.removes]
		case a.removes:
			return b.rank - a.rank
		}
		return a.rank - b.rank
	})
	return todo, superseded, nil
}

// settleLate writes what waits, or returns what the server refuses.
func (c *committer) settleLate(ctx context.Context) error {
	c.lateVoid = 0
	if len(c.late) == 0 {
		return nil
	}
	if s := c.apply.stage; s != nil && !s.later {
		if err := s.rehearse(ctx); err != nil { // its savepoint has to be outside of those below
			return err
		}
		// What is staged here is not more than what waits, which the lane's memory holds.
		s.whole = true
		defer func() { s.whole = false }()
	}
	// Constraints that can be deferred are, for here they may be broken on the way; the end of the checkpoint looks at them again. Whoever merges what
	// is rehearsed does the same.
	if _, err := c.tx.Exec(ctx, "SET CONSTRAINTS ALL DEFERRED"); err != nil {
		return err
	}
	void, stuck, err := c.arrange(ctx, c.tx, c.lateRuns())
	switch {
	case err != nil:
		return err
	case len(stuck) > 0:
		return refusalOf(stuck)
	}
	c.lateVoid = int64(void)
	return nil
}

// refusalOf is one of the refusals, one by a foreign key if there is any: it may be the reason of the others, and be gone in the next checkpoint.
func refusalOf(stuck []lateWork) error {
	for _, w := range stuck {
		if foreign(w.refusal) {
			return w.refusal
		}
	}
	return stuck[0].refusal
}

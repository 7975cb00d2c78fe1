package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
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

	refusal error
}

// lateWorks is what waits, in the order in which foreign keys like it best. exact are the tables whose run is written in the order of the topic.
func (c *committer) lateWorks(runs [][]changelog.Change, all []edge, exactly []bool) (todo []lateWork, superseded int, err error) {
	rank := ranks(len(c.targets), all)
	for i, tg := range c.targets {
		changes := runs[i]
		switch {
		case len(changes) == 0:
			continue
		case tg.swap != nil, exactly[i]:
			w := lateWork{index: i, tg: tg, rank: rank[i], work: work{changes: changes}, run: true, how: exact}
			if tg.swap != nil {
				w.how = bulk
			}
			todo = append(todo, w)
			continue
		}
		if bad := c.apply.unfit(tg, changes); len(bad) > 0 {
			return nil, 0, rejected(bad)
		}
		works, void := c.apply.plan(tg, changes)
		superseded += void
		for _, w := range works {
			if len(w.changes) == 0 {
				continue
			}
			w.changes = slices.Clone(w.changes) // the next plan would overwrite them
			removes := tg.remove.sql != "" && w.st.sql == tg.remove.sql
			todo = append(todo, lateWork{index: i, tg: tg, rank: rank[i], removes: removes, work: w})
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

// arrange writes runs of changes, one for each target, in whatever order the server takes them: the net effect of each, and where that is refused, all changes of such
// a table in the order of the topic. stuck is what it does not take; then the transaction holds the rest of the net effects.
func (c *committer) arrange(ctx context.Context, t *transaction, runs [][]changelog.Change) (void int, stuck []lateWork, err error) {
	all, err := c.edges(ctx, t)
	if err != nil {
		return 0, nil, err
	}
	exactly := make([]bool, len(runs))
	for last, tried := false, false; ; {
		todo, superseded, err := c.lateWorks(runs, all, exactly)
		if err != nil {
			return 0, nil, err
		}
		if _, err := t.Exec(ctx, "SAVEPOINT waiting"); err != nil {
			return 0, nil, err
		}
		held := c.apply.stage.held()
		void, stuck, err := c.rounds(ctx, t, todo)
		if err != nil {
			return 0, nil, err
		}
		turned := !last && turn(exactly, stuck)
		switch {
		case len(stuck) == 0, last, !turned && !tried:
			_, err := t.Exec(ctx, "RELEASE SAVEPOINT waiting")
			return superseded + void, stuck, err
		case !turned:
			clear(exactly)
			last = true
		}
		tried = true
		c.apply.stage.back(held)
		if _, err := t.Exec(ctx, "ROLLBACK TO SAVEPOINT waiting; RELEASE SAVEPOINT waiting"); err != nil {
			return 0, nil, err
		}
	}
}

// turn has tables whose net effect was refused written in the order of the topic, and reports whether there were any left. A row that waits for one of another
// table gains nothing by it, so it is the turn of those last.
func turn(exactly []bool, stuck []lateWork) (turned bool) {
	for _, waits := range []bool{false, true} {
		for _, w := range stuck {
			if byOrder(w.refusal) && foreign(w.refusal) == waits && !w.run && !exactly[w.index] {
				exactly[w.index], turned = true, true
			}
		}
		if turned {
			break
		}
	}
	return turned
}

// rounds carries works out. The net effects of a table are disjoint by key, so their order is free. What is refused in the first round
// may be accepted when the others are in place, a unique value that a deleted row still held for one; so rounds go on as long as each of them
// gets on.
func (c *committer) rounds(ctx context.Context, t *transaction, todo []lateWork) (void int, stuck []lateWork, err error) {
	for {
		stuck = nil
		for _, w := range todo {
			n, err := c.step(ctx, t, &w)
			if err != nil {
				return 0, nil, err
			}
			void += n
			if w.refusal != nil {
				stuck = append(stuck, w)
			}
		}
		if len(stuck) == 0 || len(stuck) == len(todo) {
			return void, stuck, nil
		}
		todo = stuck
	}
}

// step carries one work out, or notes in it why the server refuses that. Rows that are refused for one another are taken out first.
func (c *committer) step(ctx context.Context, t *transaction, w *lateWork) (void int, err error) {
	w.refusal = nil
	for _, how := range []order{bulk, afresh} {
		if _, err := t.Exec(ctx, "SAVEPOINT late"); err != nil {
			return 0, err
		}
		held := c.apply.stage.held()
		void, err := c.carry(ctx, t, w, how)
		switch {
		case err == nil:
			w.refusal = nil
			_, err = t.Exec(ctx, "RELEASE SAVEPOINT late")
			return void, err
		case errors.Is(err, errNotInOrder) && w.refusal != nil:
		case errors.Is(err, errNotInOrder), classify(err) == sink.ErrRejected:
			if w.refusal == nil {
				w.refusal = err
			}
		default:
			return 0, err
		}
		c.apply.stage.back(held)
		if _, err := t.Exec(ctx, "ROLLBACK TO SAVEPOINT late; RELEASE SAVEPOINT late"); err != nil {
			return 0, err
		}
		if w.run || w.removes || !byOrder(w.refusal) || foreign(w.refusal) {
			break
		}
	}
	return 0, nil
}

// carry writes the changes of one work.
func (c *committer) carry(ctx context.Context, t *transaction, w *lateWork, how order) (void int, err error) {
	a := &c.apply
	if w.run {
		return a.inOrder(ctx, t, w.tg, w.changes, w.how)
	}
	a.void = 0
	if how == afresh {
		if w.st.sql != w.tg.upsert.sql {
			return 0, errNotInOrder // columns that were not sent have nothing to be kept from
		}
		if err := w.tg.comesAfresh(ctx, t); err != nil {
			return 0, err
		}
		if err := a.run(ctx, t, w.tg, w.tg.takeOut, w.changes); err != nil {
			return 0, err
		}
	}
	err = a.run(ctx, t, w.tg, w.st, w.changes)
	return a.void, err
}

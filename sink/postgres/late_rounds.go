package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// This file writes what waits in rounds, each table in whatever way the server takes it.

// arrange writes runs of changes, one for each target, in whatever order the server takes them: the net effect of each, and where that is refused, all changes of such
// a table in the order of the topic, or its net effect with rows moved out of one another's way. stuck is what it does not take; then the transaction holds the rest of the net effects.
func (c *committer) arrange(ctx context.Context, t *transaction, runs [][]changelog.Change) (void int, stuck []lateWork, err error) {
	all, err := c.edges(ctx, t)
	if err != nil {
		return 0, nil, err
	}
	ways, occupy := make([]order, len(runs)), make([]bool, len(runs))
	for last, tried := false, false; ; {
		todo, superseded, err := c.lateWorks(ctx, t, runs, all, ways)
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
		turned := !last && turn(ways, occupy, stuck)
		switch {
		case len(stuck) == 0, last, !turned && !tried:
			_, err := t.Exec(ctx, "RELEASE SAVEPOINT waiting")
			return superseded + void, stuck, err
		case !turned:
			clear(ways)
			last = true
		}
		tried = true
		c.apply.stage.back(held)
		if _, err := t.Exec(ctx, "ROLLBACK TO SAVEPOINT waiting; RELEASE SAVEPOINT waiting"); err != nil {
			return 0, nil, err
		}
	}
}

// turn has tables whose net effect was refused written in the order of the topic, and where that was refused too and a unique value is the reason (occupy), with rows moved out of
// one another's way. It reports whether there were any left. A row that waits for one of another table gains nothing by it, so it is the turn of those last.
func turn(ways []order, occupy []bool, stuck []lateWork) (turned bool) {
	for _, w := range stuck {
		occupy[w.index] = occupy[w.index] || occupied(w.refusal)
	}
	was := slices.Clone(ways)
	for _, waits := range []bool{false, true} {
		for _, w := range stuck {
			i := w.index
			if foreign(w.refusal) != waits || was[i] != ways[i] || w.tg.swap != nil {
				continue
			}
			switch {
			case ways[i] == bulk && byOrder(w.refusal):
				ways[i], turned = exact, true
			case ways[i] == exact && occupy[i] && (byOrder(w.refusal) || errors.Is(w.refusal, errNotInOrder)):
				ways[i], turned = parked, true
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
		held, moved := c.apply.stage.held(), w.st.parks.held()
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
		w.st.parks.back(moved)
		if _, err := t.Exec(ctx, "ROLLBACK TO SAVEPOINT late; RELEASE SAVEPOINT late"); err != nil {
			return 0, err
		}
		if w.run || w.removes || w.parks || w.written != nil || !byOrder(w.refusal) || foreign(w.refusal) {
			break
		}
	}
	return 0, nil
}

// carry writes the changes of one work.
func (c *committer) carry(ctx context.Context, t *transaction, w *lateWork, how order) (void int, err error) {
	a := &c.apply
	if w.written != nil {
		return 0, a.written(ctx, t, w.tg, w.written)
	}
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

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file does a checkpoint again within the sink, after the server refused a part of it: while all of its batches are still alive, nobody
// else needs to know. What is done again is the whole transaction, since the refusal ended it.

// maxVictim is how often in a row a checkpoint is done again here after a deadlock or a serialization failure. Beyond that the coordinator does, which waits between its tries.
const maxVictim = 3

// victim reports whether the server ended the transaction to let another one through.
func victim(err error) bool {
	code := state(err)
	return code == "40001" || code == "40P01"
}

// raised reports whether the error comes from a RAISE of a user's function, whatever its SQLSTATE.
func raised(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Routine == "exec_stmt_raise"
}

// again is asked when a batch failed with refusal, and all that was written before it is still held. It looks for a way to write it after all: the
// same again after a deadlock; the order of the topic, then rows taken out first, or moved out of one another's way, where the order of rows can be the reason; and where what comes later
// in the checkpoint may undo the reason (a row that it refers to, a unique value that another row has still), at its end. nil: the batch is taken.
//
// Else it returns the refusal, or what came between. Only then is a change called rejected.
func (c *committer) again(ctx context.Context, b taken, refusal error) error {
	err := refusal
	for n := 0; n < maxVictim && victim(err); n++ {
		if err = c.restart(ctx); err == nil {
			err = c.take(ctx, b)
		}
	}
	if err == nil || !byOrder(err) {
		return err
	}
	refusals, hopeless := []error{err}, false
	for _, b.order = range []order{exact, afresh, parked} {
		if b.order == parked && (hopeless || !slices.ContainsFunc(refusals, occupied)) {
			break
		}
		if err := c.restart(ctx); err != nil {
			return err
		}
		err := c.take(ctx, b)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errNotInOrder):
		case byOrder(err):
			refusals = append(refusals, err)
			hopeless = b.order == afresh && occupied(err) // by a row that stays
		case victim(err), classify(err) != sink.ErrRejected:
			return err
		}
	}
	b.order = bulk
	if waits, err := c.mayWait(ctx, b, refusals); waits || err != nil {
		return err
	}
	return refusals[0]
}

// take writes a batch into the open transaction.
func (c *committer) take(ctx context.Context, b taken) error {
	void, err := c.apply.inOrder(ctx, c.tx, b.target, b.batch.Changes, b.order)
	if err != nil {
		return err
	}
	c.void += int64(void)
	c.taken = append(c.taken, b)
	return nil
}

// restart begins the checkpoint's transaction anew with all that was taken so far, each in the order that it was accepted in. Like any other
// transaction of the generation it looks at the fence first.
func (c *committer) restart(ctx context.Context) error {
	if c.tx != nil {
		c.tx.rollback(ctx)
		c.tx = nil
	}
	t, err := c.begin(ctx)
	if err != nil {
		return err
	}
	c.tx = t
	for _, b := range c.taken {
		if _, err := c.apply.inOrder(ctx, t, b.target, b.batch.Changes, b.order); err != nil {
			return err
		}
	}
	return nil
}

// whole has the server check what is deferred to the end of the transaction, after everything that waited is written; both again after a deadlock.
// A deferred constraint would else speak up at COMMIT, in Save, where it could not be told which sink's rows are to blame. This is the end of
// the checkpoint, so a row that refers to one of a later batch has it by now.
func (c *committer) whole(ctx context.Context) error {
	late, err := c.end(ctx)
	for n := 0; n < maxVictim && victim(err) && !c.spilt; n++ {
		if err = c.restart(ctx); err == nil {
			late, err = c.end(ctx)
		}
	}
	switch {
	case err == nil:
		c.awaited, c.void, c.lateVoid = 0, c.void+c.lateVoid, 0
		return nil
	case c.spilt || len(named(err)) > 0 || classify(err) != sink.ErrRejected:
		return err
	case foreign(err), occupied(err):
		// The checkpoint may end between a row and the one that it refers to, or that gives up its value, which the source has sent already or is about
		// to: somewhere else is a better place to end.
		what, tries := "refers to one that has not come yet", maxAwaited
		if occupied(err) {
			what, tries = "has a unique value that another one has not given up yet", maxOccupied
		}
		if c.awaited++; c.awaited <= tries {
			return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("a row of the checkpoint %s (try %d of %d, each with what has come meanwhile): %w",
				what, c.awaited, tries, tell(err))}
		}
		c.awaited = 0
	}
	switch {
	case late:
		return c.blameLate(ctx, err, true)
	case foreign(err):
		return c.orphaned(ctx, err)
	case occupied(err) && len(c.late) > 0:
		return c.blameDeferred(ctx, err)
	}
	return err
}

// end tells, beside an error, whether a statement over what waited failed, and not the look at the constraints after it.
func (c *committer) end(ctx context.Context) (late bool, err error) {
	if err := c.settleLate(ctx); err != nil {
		return true, err
	}
	return false, c.checkEnd(ctx)
}

package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// SettleOptions are the settings of [Store.Settle].
type SettleOptions struct {
	// Bridge whose work is settled. Required.
	Bridge string
	// Reason goes into the audit table.
	Reason string
	// AcceptLost lets decided work go that is proven to be lost, or that the table refuses for good: its receipt is taken out of the store, and the
	// generation ends. Its positions are then to be set back to InDoubt.From by hand, or its rows stay missing.
	AcceptLost bool
}

// Settled is what became of something that was in doubt.
type Settled struct {
	InDoubt
	Err error // why the plan was not carried out
}

// Settle carries out the plans that [Store.Pending] tells, for one bridge, beside a bridge that runs as well as without one: it commits only
// what the store has decided, and rolls back only what nobody can decide any more. Each deed is a row in the audit table for each partition, written
// before it. What cannot be done is told in Settled.Err, and so is what comes after it in its generation, which is left as it is: the checkpoints of a
// generation are committed one after the other, and the mark of a later one would say of it that it is committed. Other generations are settled all
// the same; the error is for what could not be looked at.
func (st *Store) Settle(ctx context.Context, o SettleOptions) ([]Settled, error) {
	if o.Bridge == "" {
		return nil, st.fail("settle", "", configf("SettleOptions.Bridge is empty: name the bridge"))
	}
	all, err := st.Pending(ctx, o.Bridge)
	if err != nil {
		return nil, err
	}
	var out []Settled
	stopped := make(map[writer]sink.CheckpointID) // where a generation's first failure was
	for _, d := range all {                       // those of a generation in the order of their numbers
		w := writer{d.Bridge, d.Sink, d.Generation}
		at, stop := stopped[w]
		switch {
		case d.Plan == Leave || d.Plan == Done:
			out = append(out, Settled{InDoubt: d})
			continue
		case stop:
			err = &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("checkpoint %d.%d was left as it is, since checkpoint %d.%d, which comes before it, could not be settled: "+
				"the checkpoints of a generation are settled one after the other", d.Generation, d.Checkpoint, d.Generation, at)}
		default:
			err = st.settle(ctx, &d, o)
		}
		if err != nil {
			if !stop {
				stopped[w] = d.Checkpoint
			}
			err = st.fail("settle", o.Bridge, err)
		}
		out = append(out, Settled{d, err})
	}
	return out, nil
}

func (st *Store) settle(ctx context.Context, d *InDoubt, o SettleOptions) error {
	c := &committer{s: st.s, lane: sink.Lane{Bridge: d.Bridge, Sink: d.Sink}}
	if d.Plan == RollBack {
		// Nothing is rolled back on the word of an older look. That its generation is over was seen before, and stays so.
		decided, err := st.s.decided(ctx, d)
		if err != nil {
			return lift(err)
		}
		if decided != nil {
			d.receipt, d.From, d.To = decided, decided.From, decided.To
			d.Plan, d.Why = Commit, "it is decided"
		}
	}
	switch d.Plan {
	case RollBack:
		if err := st.note(ctx, d, "roll back", o.Reason); err != nil {
			return err
		}
		if d.Name != "" {
			return st.s.rollbackPrepared(ctx, d.Name)
		}
		return st.s.unstage(ctx, prepared{writer: writer{d.Bridge, d.Sink, d.Generation}, cp: d.Checkpoint})
	case Lost:
		if !o.AcceptLost {
			return c.finish(ctx, *d.receipt) // which tells what is missing
		}
	case Commit:
		if err := st.note(ctx, d, "commit", o.Reason); err != nil {
			return err
		}
	}
	err := c.finish(ctx, *d.receipt)
	switch {
	case err == nil:
		return st.forget(ctx, d)
	case !o.AcceptLost || !errors.Is(err, sink.ErrLost) && !errors.Is(err, errRefused):
		return err
	}
	d.Plan, d.Why = Lost, "its receipt was let go"
	if err := st.note(ctx, d, "accept lost", o.Reason); err != nil {
		return err
	}
	// The generation ends first: its owner would save the receipt again.
	if _, err := st.s.endOne(ctx, sink.Generation{Bridge: d.Bridge, ID: d.Generation}); err != nil {
		return err
	}
	if err := c.undo(ctx, *d.receipt); err != nil {
		return err
	}
	return st.forget(ctx, d)
}

// forget takes a receipt out of the store, of a generation that has ended: one that lives says itself with its next checkpoint that it is
// committed.
func (st *Store) forget(ctx context.Context, d *InDoubt) error {
	_, err := st.s.pool.Exec(ctx, `DELETE FROM `+st.s.store.committable+` c USING `+st.s.store.generation+` g WHERE c.bridge = $1 AND c.sink = $2 AND c.generation = $3 AND c.checkpoint = $4
		AND g.bridge = c.bridge AND g.id = c.generation AND g.ended`, d.Bridge, d.Sink, int64(d.Generation), int64(d.Checkpoint))
	if err != nil {
		return lift(err)
	}
	return nil
}

// note writes the audit row of a deed, for each partition that the checkpoint covers, or the generation held.
func (st *Store) note(ctx context.Context, d *InDoubt, what, reason string) error {
	var moved []Moved
	for i := range d.From {
		m := Moved{Partition: d.From[i].Partition, Before: &d.From[i]}
		if i < len(d.To) {
			m.After = &d.To[i]
		}
		moved = append(moved, m)
	}
	t, err := st.s.beginStore(ctx, "")
	if err != nil {
		return lift(err)
	}
	if len(moved) == 0 {
		var topics []string
		var numbers []int32
		err := t.QueryRow(ctx, `SELECT topics, partitions FROM `+st.s.store.generation+` WHERE bridge = $1 AND id = $2`, d.Bridge, int64(d.Generation)).Scan(&topics, &numbers)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			t.rollback(ctx)
			return lift(err)
		}
		held, err := join(topics, numbers)
		if err != nil {
			t.rollback(ctx)
			return err
		}
		for _, p := range held {
			moved = append(moved, Moved{Partition: p})
		}
		if len(moved) == 0 {
			moved = []Moved{{}} // nobody knows of which partition
		}
	}
	why := fmt.Sprintf("%s of checkpoint %d.%d of sink %q: %s", d.What, d.Generation, d.Checkpoint, d.Sink, d.Why)
	if reason != "" {
		why = reason + " (" + why + ")"
	}
	if err := st.s.writeAudit(ctx, t, st.who, d.Bridge, what, why, moved, nil); err != nil {
		t.rollback(ctx)
		return lift(err)
	}
	return t.commit(ctx)
}

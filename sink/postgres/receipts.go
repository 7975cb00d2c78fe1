package postgres

import (
	"context"

	"github.com/flinksink/flinksink/sink"
)

// receipts is the committer of a mode that leaves receipts: any store decides. It is no [sink.Store] itself, or a coordinator would take it for one
// whose rows become visible with its Save.
type receipts struct{ *committer }

// readyToLeave looks at what the mode needs of the server, and makes its tables.
func (s *Sink) readyToLeave(ctx context.Context, c *committer) (err error) {
	if c.db, err = s.database(ctx); err != nil {
		return err
	}
	if s.o.Mode == Prepared {
		if err := s.mayPrepare(ctx, c.lane.Number+1); err != nil {
			return err
		}
	}
	return s.ensureReceipts(ctx)
}

// leavesReceipts reports whether Open has to settle: the mode leaves receipts, or the bridge may have been in one that does.
func (c *committer) leavesReceipts(ctx context.Context, claim sink.Claim) (yes bool, err error) {
	if c.s.o.Mode != InTransaction {
		return true, nil
	}
	if yes, err = c.s.hasTable(ctx, c.s.pool, "staging"); err != nil {
		return false, err
	}
	for _, e := range claim.Ended {
		for _, d := range e.Decided {
			if d.Sink == c.lane.Sink && !d.Empty() && !yes {
				yes = true // its proof is missing with the tables, which it will say
				err = c.s.ensureReceipts(ctx)
			}
		}
	}
	if yes && err == nil {
		c.db, err = c.s.database(ctx)
	}
	return yes, err
}

// leave ends the transaction of the checkpoint so that it waits for a decision.
func (c *committer) leave(ctx context.Context, cut sink.Cut) (out sink.Committable, err error) {
	if cut.Generation.ID != c.gen.ID || !c.opened {
		return out, endedError(cut.Generation.ID)
	}
	switch {
	case c.s.o.Mode == Staged:
		out, err = c.stageCheckpoint(ctx, cut)
	case c.rows > 0:
		out, err = c.prepareTransaction(ctx, cut)
	}
	if err != nil {
		return sink.Committable{}, err
	}
	if c.tx != nil { // nothing was written
		c.tx.rollback(ctx)
	}
	c.tx, c.rows, c.apply.stage = nil, 0, nil
	return out, nil
}

// OfferStore returns a store in the tables beside the rows, which knows the tables that the rows go into. Its Save is a transaction of its
// own.
func (r *receipts) OfferStore() sink.Store { return laneStore{r.committer} }

// laneStore is the store that a lane offers. Its methods may be called beside those of the committer.
type laneStore struct{ c *committer }

// Acquire implements [sink.Store]. The fingerprint is the same as in mode InTransaction, so that a bridge may change its mode.
func (st laneStore) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	r.Fingerprint = fingerprint(r.Fingerprint, st.c.targets)
	claim, err := st.c.s.acquireFor(ctx, r)
	if err != nil {
		return sink.Claim{}, st.c.fail("acquire", classify(err), err)
	}
	return claim, nil
}

// Save implements [sink.Store].
func (st laneStore) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	if err := st.c.s.saveAlone(ctx, gen, cp); err != nil {
		return st.c.fail("save", classify(err), err)
	}
	return nil
}

// End implements [sink.Store].
func (st laneStore) End(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	last, err := st.c.s.endOne(ctx, gen)
	if err != nil {
		return 0, st.c.fail("end", classify(err), err)
	}
	return last, nil
}

// Read implements [sink.Store].
func (st laneStore) Read(ctx context.Context, bridge string) (sink.State, error) {
	state, err := st.c.s.read(ctx, bridge)
	if err != nil {
		err = lift(err)
		return sink.State{}, st.c.fail("read", classify(err), err)
	}
	return state, nil
}

// Close implements [sink.Store]. There is nothing to free.
func (st laneStore) Close(context.Context) error { return nil }

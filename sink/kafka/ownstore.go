package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/sink"
)

// ownStore is the committer of an InTransaction sink: it is the store of its lane as well. Records are written under the transactional id by which
// the store fences the generation, and Save adds the positions to their transaction and ends it.
type ownStore struct {
	*committer
	store *Store

	checkpoint sink.CheckpointID // that is prepared, in the open transaction; 0: none
}

var _ sink.Store = (*ownStore)(nil)

func newOwnStore(c *committer) *ownStore {
	return &ownStore{committer: c, store: c.s.store}
}

// Acquire implements [sink.Store]: see [Store.Acquire].
func (o *ownStore) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	if r.Bridge != o.lane.Bridge {
		return sink.Claim{}, o.fail("acquire", sink.ErrConfig, fmt.Errorf("the committer of bridge %q cannot acquire for bridge %q", o.lane.Bridge, r.Bridge))
	}
	return o.store.Acquire(ctx, r)
}

// Open implements [sink.Committer]. The ended generations were fenced by the Acquire that ended them, and have left nothing decided: what Save
// commits is committed whole.
func (o *ownStore) Open(ctx context.Context, claim sink.Claim) error {
	if err := o.check(ctx); err != nil {
		return o.fail("open", sink.ErrTransient, err)
	}
	for _, e := range claim.Ended {
		if len(e.Decided) > 0 {
			d := e.Decided[0]
			return o.fail("open", sink.ErrConfig, fmt.Errorf("checkpoint %d.%d was prepared by TwoPhase, and waits to be committed: open the bridge with that once more", d.Generation, d.Checkpoint))
		}
	}
	if o.generation != claim.Generation.ID {
		o.checkpoint = 0
	}
	return o.hold(ctx, claim.Generation.ID, o.store.name(o.lane.Bridge, claim.Generation.ID))
}

// Prepare implements [sink.Committer]. The records are at the brokers when it returns, and their transaction stays open.
func (o *ownStore) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	if o.checkpoint != 0 {
		return sink.Committable{}, o.spoiled(fmt.Errorf("checkpoint %d is prepared: it is saved or aborted first", o.checkpoint))
	}
	if _, err := o.flush(ctx, cut, nil); err != nil {
		return sink.Committable{}, o.spoiled(err)
	}
	o.checkpoint = cut.Checkpoint
	o.clear()
	return sink.Committable{}, nil
}

// Discard implements [sink.Committer]: it drops what was written and not prepared.
func (o *ownStore) Discard(ctx context.Context) error {
	if o.checkpoint != 0 {
		return nil
	}
	return o.committer.Discard(ctx)
}

// Abort implements [sink.Committer].
func (o *ownStore) Abort(ctx context.Context, _ sink.Committable) error {
	o.checkpoint = 0
	return o.committer.Discard(ctx)
}

// Commit implements [sink.Committer]: Save has done it.
func (o *ownStore) Commit(_ context.Context, of sink.Committable) error {
	if of.Empty() {
		return nil
	}
	return o.fail("commit", sink.ErrConfig, errors.New("the receipt is none of InTransaction, which leaves none: open the bridge with TwoPhase once more"))
}

// Save implements [sink.Store].
func (o *ownStore) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	t := o.store.tenure(gen)
	if t == nil {
		return o.fail("save", sink.ErrFenced, fmt.Errorf("generation %d is over, or was acquired by another process", gen.ID))
	}
	again, err := t.allows(cp)
	if err != nil || again {
		return o.fail("save", sink.ErrFenced, err)
	}
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case o.closed:
		err = errClosed
	case o.session == nil || o.generation != gen.ID:
		err = fmt.Errorf("generation %d is not open", gen.ID)
	case o.checkpoint != cp.ID:
		err = fmt.Errorf("no open transaction holds checkpoint %d of generation %d: it was not prepared, or was dropped", cp.ID, gen.ID)
	}
	if err != nil {
		return o.fail("save", sink.ErrTransient, err)
	}
	o.checkpoint = 0
	return o.fail("save", sink.ErrTransient, o.store.decide(ctx, t, o.session, o.w, cp))
}

// End implements [sink.Store]: see [Store.End].
func (o *ownStore) End(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	return o.store.End(ctx, gen)
}

// Read implements [sink.Store]: see [Store.Read].
func (o *ownStore) Read(ctx context.Context, bridge string) (sink.State, error) {
	return o.store.Read(ctx, bridge)
}

// Close ends both sides of the lane. The other lanes of the sink keep the store.
func (o *ownStore) Close(ctx context.Context) error { return o.committer.Close(ctx) }

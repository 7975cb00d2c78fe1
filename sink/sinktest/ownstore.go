package sinktest

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/sink"
)

// ownStore is the committer of an InTransaction sink.
type ownStore struct {
	*committer
	*Store
}

var _ sink.Store = (*ownStore)(nil)

// Save commits the open transaction: the rows become visible in the same step that moves the positions, or neither happens. A
// refusal ends the transaction. A checkpoint whose transaction is over is refused, or its positions would move without its rows;
// the one that this very transaction saved is answered as the store answers it.
func (o *ownStore) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	if err := o.begin(ctx, "save"); err != nil {
		return err
	}
	srv, w := o.committer.srv, workName{gen.ID, cp.ID}
	defer srv.mu.Unlock()
	if gen.Bridge != o.lane.Bridge {
		return o.fail("save", sink.ErrConfig, fmt.Errorf("the committer of bridge %q cannot save for bridge %q", o.lane.Bridge, gen.Bridge))
	}
	if o.prepared == nil || *o.prepared != w {
		if o.fenced(gen.ID) || srv.store.saved(gen.Bridge, w) {
			return srv.store.save(gen, cp)
		}
		return o.fail("save", sink.ErrTransient, fmt.Errorf("no open transaction holds checkpoint %d of generation %d: it was not prepared, or was dropped", cp.ID, gen.ID))
	}
	rows := o.pending
	o.reset()
	if err := srv.store.save(gen, cp); err != nil {
		return err
	}
	srv.apply(rows)
	return nil
}

// Close ends both sides.
func (o *ownStore) Close(ctx context.Context) error { return o.committer.Close(ctx) }

package sinktest

import (
	"context"
	"errors"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// firstOfMessage keeps one change of a message: its row is named by the message's offset.
func firstOfMessage(c *changelog.Change) bool { return c.Index == 0 }

// onePartition takes rows of one offset for one row, whatever their partition.
func onePartition(c *changelog.Change) bool { return c.Partition.Partition == 0 }

// oneProof notes what was committed by generation and checkpoint, and not by bridge: what another bridge committed under the same numbers looks done.
type oneProof struct {
	*committer
	p *process
}

func (c oneProof) Commit(ctx context.Context, r sink.Committable) error {
	if by, ok := c.p.notes[name(r)]; ok && by != c.lane.Bridge {
		return nil
	}
	err := c.committer.Commit(ctx, r)
	if err == nil {
		c.p.notes[name(r)] = c.lane.Bridge
	}
	return err
}

// blamesFirst names the first change of the message in place of the one that it refuses.
type blamesFirst struct{ *committer }

func (c blamesFirst) Write(ctx context.Context, b *changelog.Batch) error {
	err := c.committer.Write(ctx, b)
	var e *sink.Error
	if errors.As(err, &e) && len(b.Changes) > 0 {
		first := &b.Changes[0]
		e.Rejected = []sink.Rejection{{Partition: first.Partition, Offset: first.Offset, Index: first.Index, Reason: e.Err}}
	}
	return err
}

// anyVersion reads a receipt of a version that it does not know as if it were its own.
type anyVersion struct{ sink.Committer }

func (c anyVersion) Commit(ctx context.Context, r sink.Committable) error {
	r.Version = 1
	return c.Committer.Commit(ctx, r)
}

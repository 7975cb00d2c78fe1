package s3

import (
	"context"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/sink"
)

// fenceBody is what a fence says to people who look at the bucket.
const fenceBody = "This generation has ended: everything that it decided is visible, and everything else of it is void.\n"

// Open settles what ended generations left, in an order that loses nothing:
//
//  1. It commits what they decided. The claim lists all of it, as Acquire ended them before it answered.
//  2. It writes a fence for each of them. From here on none of them prepares anything: see Prepare.
//  3. It aborts the uploads and deletes the staged objects of every fenced generation of this sink of this bridge, found by their names. All that
//     they ever decided was visible before their fence was written, so no decided work can be among it.
//
// So a Commit of theirs that is still on its way either is a repeat of one that was done, and completes nothing as its upload is gone, or was never
// decided, and its upload is gone as well. What one of them begins after the sweep, the sweep of a later Open finds: it looks at all names, of settled
// generations too. A live neighbour has no fence, and is left alone.
//
// An Open that comes late finds the fence of its own generation.
func (c *committer) Open(ctx context.Context, claim sink.Claim) error {
	c.drop(ctx)
	c.opened = false
	if err := c.settleEnded(ctx, claim); err != nil {
		return wrap(ctx, "open", c.lane.Sink, c.lane.Bridge, undone(err), err)
	}
	if claim.Generation.ID != c.gen.ID {
		c.seq, c.last = 0, 0
	}
	c.gen, c.opened = claim.Generation, true
	return nil
}

func (c *committer) settleEnded(ctx context.Context, claim sink.Claim) error {
	if claim.Generation.ID < 1 || claim.Generation.Bridge != c.lane.Bridge {
		return errorf(sink.ErrConfig, "the claim is of generation %d of bridge %q: a mistake of the caller", claim.Generation.ID, claim.Generation.Bridge)
	}
	if err := c.aliveIs(ctx, claim.Generation.ID); err != nil {
		return err
	}
	for _, e := range claim.Ended {
		for _, d := range e.Decided {
			if d.Sink != c.lane.Sink || d.Empty() {
				continue
			}
			if err := c.Commit(ctx, d); err != nil {
				return err
			}
		}
	}
	for _, e := range claim.Ended {
		if c.told[e.ID] {
			continue
		}
		if _, err := c.s.b.put(ctx, c.names.fence(e.ID), []byte(fenceBody), condition{}, ""); err != nil {
			return err
		}
		c.remember(e.ID)
	}
	return c.sweep(ctx, claim)
}

func (c *committer) remember(g sink.GenerationID) {
	if c.told == nil {
		c.told = map[sink.GenerationID]bool{}
	}
	if len(c.told) > 10_000 {
		clear(c.told)
	}
	c.told[g] = true
}

// isFenced reports whether a generation has a fence. One that has keeps it.
func (c *committer) isFenced(ctx context.Context, g sink.GenerationID) (bool, error) {
	if c.told[g] {
		return true, nil
	}
	_, ok, err := c.s.b.head(ctx, c.names.fence(g))
	if ok {
		c.remember(g)
	}
	return ok, err
}

func (c *committer) alive(ctx context.Context) error { return c.aliveIs(ctx, c.gen.ID) }

func (c *committer) aliveIs(ctx context.Context, g sink.GenerationID) error {
	if ok, err := c.isFenced(ctx, g); err != nil {
		return err
	} else if ok {
		return errorf(sink.ErrFenced, "generation %d has ended: its successor has written a fence (if the store was replaced by one that numbers generations anew, they go on until they have passed the fences)", g)
	}
	return nil
}

// sweep ends what fenced generations left behind.
func (c *committer) sweep(ctx context.Context, claim sink.Claim) error {
	dead := func(key string) (bool, error) {
		g, ours := c.names.generationOf(key)
		if !ours || g == claim.Generation.ID {
			return false, nil
		}
		return c.isFenced(ctx, g)
	}
	prefix := c.s.prefix
	if prefix != "" {
		prefix += "/"
	}
	// Again until there is none: a listing may leave some out, see listUploads.
	for found := true; found; {
		found = false
		err := c.s.b.listUploads(ctx, prefix, func(key, id string) error {
			ok, err := dead(key)
			if !ok || err != nil {
				return err
			}
			found = true
			return c.s.b.abort(ctx, key, id)
		})
		if err != nil {
			return sweeping(err)
		}
	}
	err := c.s.b.list(ctx, c.names.staging(), "", func(key string) error {
		ok, err := dead(key)
		if !ok || err != nil {
			return err
		}
		return c.s.b.remove(ctx, key)
	})
	if err != nil {
		return sweeping(err)
	}
	return c.sweepReceipts(ctx, claim)
}

// sweepReceipts deletes the receipts in objects that ended generations did not decide. Those of settled generations stay: a late Commit may need them.
func (c *committer) sweepReceipts(ctx context.Context, claim sink.Claim) error {
	decided := map[string]bool{}
	for _, e := range claim.Ended {
		for _, d := range e.Decided {
			if d.Sink != c.lane.Sink || d.Empty() {
				continue
			}
			r, err := parseReceipt(d.Version, d.Data)
			if err != nil {
				return err
			}
			decided[r.Object] = true
		}
	}
	for _, e := range claim.Ended {
		// Only what is behind the last checkpoint that waits is nobody's: an earlier one was decided too, and where none waits nobody can tell.
		var last sink.CheckpointID
		for _, d := range e.Decided {
			last = max(last, d.Checkpoint)
		}
		if last == 0 {
			continue
		}
		prefix := c.names.own("receipt", fmt.Sprintf("%012d-", e.ID))
		err := c.s.b.list(ctx, prefix, c.names.own("receipt", numbered(e.ID, last)+"~"), func(key string) error {
			if decided[key] {
				return nil
			}
			return c.s.b.remove(ctx, key)
		})
		if err != nil {
			return sweeping(err)
		}
	}
	return nil
}

func sweeping(err error) error {
	if errors.Is(err, errTooMany) {
		return errorf(sink.ErrConfig, "%w under the prefix: give the bridge a prefix of its own, or the bucket a lifecycle rule that aborts incomplete uploads after a week", err)
	}
	return err
}

package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

type visibleEarly struct{ sink.Committer }

func (c visibleEarly) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	r, err := c.Committer.Prepare(ctx, cut)
	if err == nil {
		err = c.Committer.Commit(ctx, r)
	}
	return r, err
}

type keepsBatch struct{ *committer }

func (c keepsBatch) Write(ctx context.Context, b *changelog.Batch) error {
	n := len(c.pending)
	err := c.committer.Write(ctx, b)
	for i := range c.pending[n:] {
		c.pending[n+i].row = b.Changes[i].Row
	}
	return err
}

type ignoresDiscard struct{ sink.Committer }

func (c ignoresDiscard) Discard(context.Context) error { return nil }

type ignoresAbort struct{ sink.Committer }

func (c ignoresAbort) Abort(context.Context, sink.Committable) error { return nil }

type abortOnce struct {
	sink.Committer
	p *process
}

func (c abortOnce) Abort(ctx context.Context, r sink.Committable) error {
	if c.p.notes[name(r)] != nil {
		return lost("abort")
	}
	c.p.notes[name(r)] = true
	return c.Committer.Abort(ctx, r)
}

type commitOnce struct {
	sink.Committer
	p *process
}

func (c commitOnce) Commit(ctx context.Context, r sink.Committable) error {
	if c.p.notes[name(r)] != nil {
		return lost("commit")
	}
	err := c.Committer.Commit(ctx, r)
	if err == nil {
		c.p.notes[name(r)] = true
	}
	return err
}

type commitDoubles struct {
	sink.Committer
	p *process
}

func (c commitDoubles) again(r sink.Committable) {
	c.p.locked(func(_ *bridgeState, st *sinkState) {
		if work, ok := st.staged[name(r)]; ok {
			c.p.notes[name(r)] = work
		} else if work, ok := c.p.notes[name(r)].([]change); ok {
			st.staged[name(r)] = work
			delete(st.done, name(r))
		}
	})
}

func (c commitDoubles) Commit(ctx context.Context, r sink.Committable) error {
	c.again(r)
	return c.Committer.Commit(ctx, r)
}

func (c commitDoubles) Open(ctx context.Context, claim sink.Claim) error {
	for _, e := range claim.Ended {
		for _, r := range e.Decided {
			c.again(r)
		}
	}
	return c.Committer.Open(ctx, claim)
}

type forgetful struct {
	sink.Committer
	knows []workName
}

func (c *forgetful) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	r, err := c.Committer.Prepare(ctx, cut)
	c.knows = append(c.knows, name(r))
	return r, err
}

func (c *forgetful) Commit(ctx context.Context, r sink.Committable) error {
	if !slices.Contains(c.knows, name(r)) {
		return lost("commit")
	}
	return c.Committer.Commit(ctx, r)
}

type absenceIsProof struct{ sink.Committer }

func (c absenceIsProof) Commit(ctx context.Context, r sink.Committable) error {
	if err := c.Committer.Commit(ctx, r); !errors.Is(err, sink.ErrLost) {
		return err
	}
	return nil
}

type movesEarly struct {
	sink.Committer
	p *process
}

func (c movesEarly) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	c.p.locked(func(b *bridgeState, _ *sinkState) {
		for _, to := range cut.To {
			b.partitions[to.Partition].saved = &sink.StoredPosition{Position: to}
		}
	})
	return c.Committer.Prepare(ctx, cut)
}

type abortsDecided struct{ sink.Committer }

func (c abortsDecided) Open(ctx context.Context, claim sink.Claim) error {
	claim.Ended = slices.Clone(claim.Ended)
	for i, e := range claim.Ended {
		for _, r := range e.Decided {
			if err := c.Committer.Abort(ctx, r); err != nil {
				return err
			}
		}
		claim.Ended[i].Decided = nil
	}
	return c.Committer.Open(ctx, claim)
}

type closeCommits struct {
	sink.Committer
	last sink.Committable
}

func (c *closeCommits) Prepare(ctx context.Context, cut sink.Cut) (r sink.Committable, err error) {
	c.last, err = c.Committer.Prepare(ctx, cut)
	return c.last, err
}

func (c *closeCommits) Close(ctx context.Context) error {
	return errors.Join(c.Committer.Commit(ctx, c.last), c.Committer.Close(ctx))
}

type abortsAll struct {
	sink.Committer
	p *process
}

func (c abortsAll) Abort(ctx context.Context, r sink.Committable) error {
	c.p.locked(func(_ *bridgeState, st *sinkState) { clear(st.staged) })
	return nil
}

type openSweepsAll struct {
	sink.Committer
	p *process
}

func (c openSweepsAll) Open(ctx context.Context, claim sink.Claim) error {
	err := c.Committer.Open(ctx, claim)
	c.p.locked(func(_ *bridgeState, st *sinkState) { clear(st.staged) })
	return err
}

type opensOnce struct {
	sink.Committer
	last sink.GenerationID
}

func (c *opensOnce) Open(ctx context.Context, claim sink.Claim) error {
	if c.last == claim.Generation.ID {
		return &sink.Error{Op: "open", Class: sink.ErrConfig, Err: fmt.Errorf("opened before")}
	}
	c.last = claim.Generation.ID
	return c.Committer.Open(ctx, claim)
}

// byKind writes the changes of one kind before those of the other, as sinks do that keep two lists.
type byKind struct {
	sink.Committer
	addsFirst bool
}

func (c byKind) Write(ctx context.Context, b *changelog.Batch) error {
	sorted := *b
	sorted.Changes = slices.Clone(b.Changes)
	slices.SortStableFunc(sorted.Changes, func(x, y changelog.Change) int {
		switch {
		case x.Kind.Adds() == y.Kind.Adds():
			return 0
		case x.Kind.Adds() == c.addsFirst:
			return -1
		}
		return 1
	})
	return c.Committer.Write(ctx, &sorted)
}

type equalIsOne struct{ sink.Committer }

func (c equalIsOne) Write(ctx context.Context, b *changelog.Batch) error {
	once := *b
	once.Changes = nil
	seen := make(map[string]bool)
	for _, ch := range b.Changes {
		if k := rowKey(&changelog.Schema{}, ch.Row); !seen[k] {
			seen[k] = true
			once.Changes = append(once.Changes, ch)
		}
	}
	return c.Committer.Write(ctx, &once)
}

type noSettling struct{ sink.Committer }

func (c noSettling) Open(ctx context.Context, claim sink.Claim) error {
	var decided []sink.Committable
	for _, e := range claim.Ended {
		decided = append(decided, e.Decided...)
	}
	claim.Ended = nil
	err := c.Committer.Open(ctx, claim)
	for _, r := range decided {
		err = errors.Join(err, c.Committer.Commit(ctx, r))
	}
	return err
}

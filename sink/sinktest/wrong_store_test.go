package sinktest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

type positionsOnly struct {
	sink.Store
	p *process
}

func (s positionsOnly) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	s.p.inner.reset()
	return s.Store.Save(ctx, gen, cp)
}

// noFence gives an ended generation its partitions back.
type noFence struct {
	sink.Store
	p *process
}

func (s noFence) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	s.p.locked(func(b *bridgeState, _ *sinkState) {
		b.generations[gen.ID].ended = false
		for _, to := range cp.To {
			b.partitions[to.Partition].owner = gen.ID
		}
	})
	return s.Store.Save(ctx, gen, cp)
}

type noCompare struct {
	sink.Store
	p *process
}

func (s noCompare) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	cp.From = slices.Clone(cp.From)
	s.p.locked(func(b *bridgeState, _ *sinkState) {
		for i, from := range cp.From {
			if saved := b.partitions[from.Partition].saved; saved != nil {
				cp.From[i] = saved.Position
			}
		}
	})
	return s.Store.Save(ctx, gen, cp)
}

type savesInParts struct {
	sink.Store
	p *process
}

func (s savesInParts) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	err := s.Store.Save(ctx, gen, cp)
	s.p.locked(func(b *bridgeState, _ *sinkState) {
		for i, from := range cp.From {
			if saved := b.partitions[from.Partition].saved; err != nil && saved != nil && saved.Position == from {
				saved.Position = cp.To[i]
			}
		}
	})
	return err
}

type savesTheRest struct {
	sink.Store
	p *process
}

func (s savesTheRest) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	err := s.Store.Save(ctx, gen, cp)
	s.p.locked(func(b *bridgeState, _ *sinkState) {
		for _, to := range cp.To {
			if p := b.partitions[to.Partition]; err != nil && p.owner == 0 {
				p.saved = &sink.StoredPosition{Position: to}
			}
		}
	})
	return err
}

type savesOnce struct {
	sink.Store
	last sink.CheckpointID
}

func (s *savesOnce) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	if cp.ID == s.last {
		return &sink.Error{Op: "save", Class: sink.ErrFenced, Err: fmt.Errorf("saved before")}
	}
	err := s.Store.Save(ctx, gen, cp)
	if err == nil {
		s.last = cp.ID
	}
	return err
}

type skipsEmpty struct{ sink.Store }

func (s skipsEmpty) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	if cp.Counters.Read == 0 {
		return nil
	}
	return s.Store.Save(ctx, gen, cp)
}

type neverSettles struct{ sink.Store }

func (s neverSettles) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	cp.Settled = nil
	return s.Store.Save(ctx, gen, cp)
}

type offsetsOnly struct{ sink.Store }

func (s offsetsOnly) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	cp.To = slices.Clone(cp.To)
	for i := range cp.To {
		cp.To[i].LeaderEpoch = 0
	}
	return s.Store.Save(ctx, gen, cp)
}

type liesAboutContext struct{ sink.Store }

func (s liesAboutContext) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	if err := s.Store.Save(context.WithoutCancel(ctx), gen, cp); err != nil || ctx.Err() == nil {
		return err
	}
	return &sink.Error{Op: "save", Class: sink.ErrTransient, Err: ctx.Err()}
}

type lostIsTransient struct{ sink.Store }

func (s lostIsTransient) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	err := s.Store.Save(context.WithoutCancel(ctx), gen, cp)
	if _, bounded := ctx.Deadline(); err == nil && bounded && cp.To[0].Offset == 2 {
		return &sink.Error{Op: "save", Class: sink.ErrTransient, Err: context.DeadlineExceeded}
	}
	return err
}

// shortClaims lists the generations that this Acquire ended, and no others.
type shortClaims struct {
	sink.Store
	p *process
}

func (s shortClaims) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	live := make(map[sink.GenerationID]bool)
	s.p.locked(func(b *bridgeState, _ *sinkState) {
		for id, g := range b.generations {
			live[id] = !g.ended
		}
	})
	c, err := s.Store.Acquire(ctx, r)
	c.Ended = slices.DeleteFunc(c.Ended, func(e sink.EndedGeneration) bool { return !live[e.ID] })
	return c, err
}

type reusesNumbers struct {
	sink.Store
	p *process
}

func (s reusesNumbers) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	s.p.locked(func(b *bridgeState, _ *sinkState) {
		if last := b.generations[b.next-1]; last != nil && last.last == nil && !slices.ContainsFunc(last.partitions, func(p changelog.Partition) bool {
			return !slices.Contains(r.Partitions, p)
		}) {
			b.next--
			b.end(b.next)
		}
	})
	return s.Store.Acquire(ctx, r)
}

type anyBridge struct {
	sink.Store
	p *process
}

func (s anyBridge) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	s.p.locked(func(b *bridgeState, _ *sinkState) { b.fingerprint = r.Fingerprint })
	return s.Store.Acquire(ctx, r)
}

type anyGroup struct{ sink.Store }

func (s anyGroup) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	r.GroupGeneration = -1
	return s.Store.Acquire(ctx, r)
}

type believesRestart struct {
	sink.Store
	p *process
}

func (s believesRestart) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	if r.GroupRestarted != 0 {
		s.p.locked(func(b *bridgeState, _ *sinkState) { r.GroupRestarted = b.group(r.Partitions) })
	}
	return s.Store.Acquire(ctx, r)
}

type endForgets struct {
	sink.Store
	p *process
}

func (s endForgets) End(ctx context.Context, gen sink.Generation) (id sink.CheckpointID, err error) {
	over := false
	s.p.locked(func(b *bridgeState, _ *sinkState) { over = b.generations[gen.ID].ended })
	if id, err = s.Store.End(ctx, gen); over {
		return 0, err
	}
	return id, err
}

type endsAll struct {
	sink.Store
	p *process
}

func (s endsAll) End(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	s.p.locked(func(b *bridgeState, _ *sinkState) {
		for id := range maps.Keys(b.generations) {
			b.end(id)
		}
	})
	return s.Store.End(ctx, gen)
}

type endsNothing struct {
	sink.Store
	p *process
}

func (s endsNothing) End(ctx context.Context, gen sink.Generation) (id sink.CheckpointID, err error) {
	s.p.locked(func(b *bridgeState, _ *sinkState) {
		if last := b.generations[gen.ID].last; last != nil {
			id = last.ID
		}
	})
	return id, nil
}

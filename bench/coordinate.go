package main

import (
	"context"
	"errors"

	"github.com/flinksink/flinksink/bench/internal/turns"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// nothing is a sink, its committer and a source that do nothing: what is left is the coordinator.
type nothing struct{}

var (
	_ sink.Sink      = nothing{}
	_ sink.Committer = nothing{}
	_ sink.Source    = nothing{}
	_ sink.Store     = (*forgetful)(nil)
)

func (nothing) Lane(context.Context, sink.Lane) (sink.Committer, error)         { return nothing{}, nil }
func (nothing) Guarantee() sink.Guarantee                                       { return sink.Guarantee{} }
func (nothing) Open(context.Context, sink.Claim) error                          { return nil }
func (nothing) Write(context.Context, *changelog.Batch) error                   { return nil }
func (nothing) Prepare(context.Context, sink.Cut) (c sink.Committable, _ error) { return c, nil }
func (nothing) Discard(context.Context) error                                   { return nil }
func (nothing) Commit(context.Context, sink.Committable) error                  { return nil }
func (nothing) Abort(context.Context, sink.Committable) error                   { return nil }
func (nothing) Close(context.Context) error                                     { return nil }
func (nothing) Seek(context.Context, []changelog.Position) error                { return nil }
func (nothing) Pause(...changelog.Partition)                                    {}
func (nothing) Resume(...changelog.Partition)                                   {}
func (nothing) Begin(_ context.Context, p []changelog.Partition) (at []changelog.Position, _ error) {
	for _, p := range p {
		at = append(at, changelog.Position{Partition: p, LeaderEpoch: -1})
	}
	return at, nil
}

// forgetful is a store that says yes to everything and keeps nothing but numbers. It guarantees nothing.
type forgetful struct {
	generation sink.GenerationID
	last       sink.CheckpointID
}

func (s *forgetful) Acquire(_ context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	s.generation++
	return sink.Claim{Generation: sink.Generation{Bridge: r.Bridge, ID: s.generation, Partitions: r.Partitions}}, nil
}

func (s *forgetful) Save(_ context.Context, _ sink.Generation, cp sink.Checkpoint) error {
	s.last = cp.ID
	return nil
}

func (s *forgetful) End(context.Context, sink.Generation) (sink.CheckpointID, error) {
	return s.last, nil
}
func (s *forgetful) Read(context.Context, string) (st sink.State, _ error) { return st, nil }
func (s *forgetful) Close(context.Context) error                           { return nil }

const coordinatorBatch = 1000

// steady is a coordinator that is given one batch over and over.
type steady struct {
	co    *sink.Coordinator
	batch *changelog.Batch
	to    []changelog.Position
}

func newSteady(ctx context.Context) (*steady, error) {
	o, err := newOrders(coordinatorBatch)
	if err != nil {
		return nil, err
	}
	s := &steady{batch: changelog.NewBatch(o.decoder.Table())}
	if err := o.typed(s.batch); err != nil {
		return nil, err
	}
	s.co, err = sink.NewCoordinator(ctx, sink.Options{Bridge: "bench", Sinks: []sink.Declared{{Name: "nothing", Sink: nothing{}}},
		Source: nothing{}, Store: new(forgetful), Tables: []*changelog.Table{s.batch.Table}})
	if err != nil {
		return nil, err
	}
	s.to, err = s.co.Assign(ctx, []changelog.Partition{{Topic: "orders"}})
	return s, err
}

// write gives the coordinator n batches, and has it make a checkpoint after every so many. It returns the number of changes.
func (s *steady) write(ctx context.Context, n, every int) (int, error) {
	for i := range n {
		s.to[0].Offset += int64(s.batch.Len())
		if err := s.co.Write(ctx, s.batch, sink.Progress{To: s.to, Records: int64(s.batch.Len())}); err != nil {
			return 0, err
		}
		if (i+1)%every != 0 {
			continue
		}
		rep, err := s.co.Checkpoint(ctx)
		if err != nil {
			return 0, err
		}
		if rep.Counters.Applied != int64(every*s.batch.Len()) {
			return 0, errors.New("a checkpoint does not hold what was written")
		}
	}
	return n * s.batch.Len(), nil
}

func (b *bench) coordinator(ctx context.Context) error {
	s, err := newSteady(ctx)
	if err != nil {
		return err
	}
	defer s.co.Close(ctx)
	batches := 40_000
	if b.quick {
		batches = 10_000
	}
	cs := []turns.Contender{
		{Name: "a checkpoint after 20 batches", Run: func() (int, error) { return s.write(ctx, batches, 20) }},
		{Name: "a checkpoint after every batch", Run: func() (int, error) { return s.write(ctx, batches, 1) }},
	}
	rs, err := turns.OnOneCore(b.rounds, cs)
	if err != nil {
		return err
	}
	b.say("\nCOORDINATOR: its own cost, over a sink that does nothing, batches of %d changes, one core", coordinatorBatch)
	w := b.table("", "CPU ns a change", "allocations a change", "allocations a batch")
	var ns [2]figure
	for i, r := range rs {
		for _, rate := range r.CPU {
			ns[i] = append(ns[i], 1e9/rate)
		}
		line(w, cs[i].Name, ns[i].String(), number(figure(r.Allocs).median()), number(figure(r.Allocs).median()*coordinatorBatch))
	}
	flush(w)
	b.atMost("coordinator: cost a change, a checkpoint each batch", "ns", 1000, ns[1]...)
	// A batch and a checkpoint allocate a few small things; none is there for a change.
	b.atMost("coordinator: allocations a change, a checkpoint each batch", "", 0.1, rs[1].Allocs...)
	return nil
}

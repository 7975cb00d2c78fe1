package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// mover moves stored positions by hand. Postgres does it in one transaction with an audit; other stores know no such call, and are moved by what
// every store has to know: a generation takes the partitions, and saves a checkpoint without rows that ends where the operator wants.
type mover interface {
	SetPositions(ctx context.Context, bridge string, moves []postgres.Move, reason string) (postgres.Steered, error)
	Reset(ctx context.Context, bridge string, parts []changelog.Partition, reason string) (postgres.Steered, error)
	Skip(ctx context.Context, bridge string, p changelog.Partition, offset int64, reason string) (postgres.Steered, error)
}

func (k *keeper) mover() mover {
	if k.pg != nil {
		return k.pg
	}
	return byGeneration{k: k}
}

// byGeneration moves positions of any store. What an ended generation decided and nobody has committed stays with it, and is the next owner's first
// duty all the same: it is listed to whoever acquires the partitions, until somebody says that it is settled, which this does where the operator accepts that
// it is lost.
type byGeneration struct {
	k          *keeper
	acceptLost bool
}

func (m byGeneration) config(format string, args ...any) error {
	return config("--store: %s: %w", m.k.place.public(), fmt.Errorf(format, args...))
}

// SetPositions implements mover.
func (m byGeneration) SetPositions(ctx context.Context, bridge string, moves []postgres.Move, reason string) (postgres.Steered, error) {
	if reason != "" {
		return postgres.Steered{}, m.config("no audit is written of this: leave --reason out")
	}
	state, err := m.k.Read(ctx, bridge)
	if err != nil {
		return postgres.Steered{}, err
	}
	if state.Bridge == "" {
		return postgres.Steered{}, m.config("it knows no bridge %q", bridge)
	}
	moves = slices.Clone(moves)
	slices.SortFunc(moves, func(a, b postgres.Move) int { return a.To.Partition.Compare(b.To.Partition) })
	var parts []changelog.Partition
	known := held(&state)
	for i, x := range moves {
		if i > 0 && moves[i-1].To.Partition == x.To.Partition {
			return postgres.Steered{}, m.config("%s is moved twice: name one offset", x.To.Partition)
		}
		if !slices.Contains(known, x.To.Partition) {
			return postgres.Steered{}, m.config("bridge %q has never held %s: its start setting says where it begins there", bridge, x.To.Partition)
		}
		if err := m.expected(storedPosition(&state, x.To.Partition), x); err != nil {
			return postgres.Steered{}, err
		}
		parts = append(parts, x.To.Partition)
	}
	var ended []sink.GenerationState
	for _, g := range state.Generations {
		if !g.Ended && slices.ContainsFunc(g.Partitions, func(p changelog.Partition) bool { return slices.Contains(parts, p) }) {
			ended = append(ended, g)
		}
	}
	host, _ := os.Hostname()
	claim, err := m.k.Acquire(ctx, sink.AcquireRequest{Bridge: bridge, Fingerprint: state.Fingerprint, Partitions: parts,
		Owner: fmt.Sprintf("flinksink positions on %s/%d", host, os.Getpid()), GroupGeneration: -1})
	if err != nil {
		return postgres.Steered{}, err
	}
	settled, err := m.lost(&state, claim, parts)
	var did postgres.Steered
	if err == nil {
		did, err = m.save(ctx, claim, moves, settled)
	}
	if _, lost := m.k.End(context.WithoutCancel(ctx), claim.Generation); err == nil {
		err = lost
	}
	did.Ended = ended
	return did, err
}

// lost returns the generations whose decided work the operator lets go: all that the claim lists. Each has to be of the partitions that are moved, since the rows of
// the others would be missing without a word.
func (m byGeneration) lost(state *sink.State, claim sink.Claim, parts []changelog.Partition) (ids []sink.GenerationID, err error) {
	if !m.acceptLost {
		return nil, nil
	}
	for _, e := range claim.Ended {
		if len(e.Decided) == 0 {
			continue
		}
		i := slices.IndexFunc(state.Generations, func(g sink.GenerationState) bool { return g.ID == e.ID })
		if i < 0 {
			return nil, m.config("nothing was changed: generation %d came while its store was looked at: stop the bridge, and repeat this", e.ID)
		}
		for _, p := range state.Generations[i].Partitions {
			if !slices.Contains(parts, p) {
				return nil, m.config("nothing was changed: what generation %d has decided is of %s too: name an offset for each of %v", e.ID, p, state.Generations[i].Partitions)
			}
		}
		ids = append(ids, e.ID)
	}
	if len(ids) == 0 {
		return nil, m.config("nothing was changed: nothing that is decided waits for these partitions: leave --accept-lost out")
	}
	return ids, nil
}

// expected compares what is stored with what the operator saw.
func (m byGeneration) expected(stored *changelog.Position, x postgres.Move) error {
	switch {
	case x.From == postgres.AnyOffset:
	case stored == nil:
		return m.config("%s has no stored position, and %d was expected: nothing was changed", x.To.Partition, x.From)
	case stored.Offset != x.From:
		return m.config("the stored position of %s is %d, and %d was expected: nothing was changed", x.To.Partition, stored.Offset, x.From)
	}
	return nil
}

// save makes the checkpoint. Nothing is saved where the positions moved between the look and the Acquire.
func (m byGeneration) save(ctx context.Context, claim sink.Claim, moves []postgres.Move, settled []sink.GenerationID) (did postgres.Steered, err error) {
	cp := sink.Checkpoint{ID: 1, Settled: settled}
	for _, x := range moves {
		moved := postgres.Moved{Partition: x.To.Partition, After: &x.To}
		from := x.To
		for i := range claim.Positions {
			if claim.Positions[i].Partition == x.To.Partition {
				from, moved.Before = claim.Positions[i], &claim.Positions[i]
			}
		}
		if err := m.expected(moved.Before, x); err != nil {
			return did, err
		}
		cp.From, cp.To = append(cp.From, from), append(cp.To, x.To)
		did.Moved = append(did.Moved, moved)
	}
	err = m.k.Save(ctx, claim.Generation, cp)
	if err != nil && sink.ClassOf(err) == sink.ErrUncertain { // whether it was saved is known once the generation is over
		last, lost := m.k.End(context.WithoutCancel(ctx), claim.Generation)
		switch {
		case lost != nil:
		case last == cp.ID:
			err = nil
		default:
			err = m.config("nothing was changed: %w", err)
		}
	}
	if err != nil {
		return postgres.Steered{}, err
	}
	return did, nil
}

// Reset implements mover. A protocol of checkpoints knows no way back to nothing.
func (m byGeneration) Reset(ctx context.Context, bridge string, parts []changelog.Partition, reason string) (postgres.Steered, error) {
	if m.k.file == nil || len(parts) > 0 {
		return postgres.Steered{}, m.config("positions cannot be forgotten there: set each to the offset to begin at, with 'flinksink positions set'")
	}
	if reason != "" {
		return postgres.Steered{}, m.config("it keeps no audit to write a reason into: leave --reason out")
	}
	state, err := m.k.Read(ctx, bridge)
	if err != nil {
		return postgres.Steered{}, err
	}
	if err := m.k.file.Rewind(ctx, bridge); err != nil {
		return postgres.Steered{}, err
	}
	var did postgres.Steered
	for i := range state.Positions {
		did.Moved = append(did.Moved, postgres.Moved{Partition: state.Positions[i].Position.Partition, Before: &state.Positions[i].Position})
	}
	return did, nil
}

// Skip implements mover.
func (m byGeneration) Skip(ctx context.Context, bridge string, p changelog.Partition, offset int64, reason string) (postgres.Steered, error) {
	return m.SetPositions(ctx, bridge, []postgres.Move{{From: offset, To: changelog.Position{Partition: p, Offset: offset + 1, LeaderEpoch: -1}}}, reason)
}

// held returns the partitions that the store has heard of.
func held(s *sink.State) (out []changelog.Partition) {
	for _, p := range s.Positions {
		out = append(out, p.Position.Partition)
	}
	for _, g := range s.Generations {
		out = append(out, g.Partitions...)
	}
	return out
}

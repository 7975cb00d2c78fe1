package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// outerStore plays the store where an outer engine decides. It holds the last decided state in memory, as the engine gave it back or decided
// it through this process; what is durable is with the engine.
type outerStore struct {
	bridge, fingerprint string
	next                func(ctx context.Context) (GenerationID, error)

	base    *OuterState  // last decided; nil: none ever was
	held    *OuterState  // prepared and undecided; its ID is set when Barrier returns it
	aborted int64        // number of the last checkpoint that was aborted
	acq     GenerationID // last number that next returned
}

// mostEnded bounds how many runs in a row may die before one completes a checkpoint, and so the length of a claim.
const mostEnded = 100_000

// Acquire takes the next number, and makes the claim that a store would make of the last decided state.
//
// Every number between the state's generation and this one may have been a run that died, so all of them are listed as ended: the sinks
// fence them, also one that is still alive, and roll back what they left. Numbers before the state's generation are settled: it saved this
// checkpoint, so its sinks were open, and to open them settled everything before it.
func (s *outerStore) Acquire(ctx context.Context, r AcquireRequest) (Claim, error) {
	refuse := func(format string, a ...any) (Claim, error) {
		return Claim{}, &Error{Op: "acquire", Bridge: s.bridge, Class: ErrConfig, Err: fmt.Errorf(format, a...)}
	}
	n, err := s.next(ctx)
	if err != nil {
		return Claim{}, &Error{Op: "acquire", Bridge: s.bridge, Class: ClassOf(err), Err: fmt.Errorf("next: %w", err)}
	}
	first := GenerationID(1)
	if s.base != nil {
		first = s.base.Generation
	}
	switch {
	case n <= s.acq || n < first || n == first && s.base != nil:
		return refuse("next returned %d, and %d was used before: its counter must be durable, and no other lane's", n, max(s.acq, first))
	case n-first > mostEnded:
		return refuse("next returned %d, and the last completed checkpoint is of generation %d: so many runs cannot have died; count in steps of one, for each lane", n, first)
	}
	s.acq = n
	c := Claim{Generation: Generation{Bridge: s.bridge, ID: n, Partitions: slices.Clone(r.Partitions)}}
	if s.base != nil {
		c.Positions = slices.Clone(s.base.To)
	}
	for g := first; g < n; g++ {
		e := EndedGeneration{ID: g}
		if s.base != nil && g == s.base.Generation {
			e.Decided = slices.Clone(s.base.Committables)
		}
		c.Ended = append(c.Ended, e)
	}
	return c, nil
}

// hold keeps the checkpoint that Save would send, for the engine.
func (s *outerStore) hold(gen Generation, cp Checkpoint) {
	s.held = &OuterState{Bridge: s.bridge, Fingerprint: s.fingerprint, Generation: gen.ID, Checkpoint: cp.ID, Counters: cp.Counters,
		From: cp.From, To: cp.To, Committables: cp.Committables}
}

// undecided reports whether a checkpoint waits for the engine. s may be nil.
func (s *outerStore) undecided() bool { return s != nil && s.held != nil }

// id returns the engine's number of the last decided checkpoint, 0 for none.
func (s *outerStore) id() int64 {
	if s.base == nil {
		return 0
	}
	return s.base.ID
}

// ownStore refuses a sink that decides by itself.
func (s *outerStore) ownStore(name string) error {
	return &Error{Op: "start", Sink: name, Bridge: s.bridge, Class: ErrConfig, Err: errors.New(
		"the sink makes its rows durable in a Save of its own and cannot wait for an outer engine between Barrier and Complete: use a mode of it that leaves receipts (of postgres, Prepared or Staged)")}
}

// Save is never asked for: the engine answers in its place.
func (s *outerStore) Save(context.Context, Generation, Checkpoint) error {
	return &Error{Op: "save", Bridge: s.bridge, Class: ErrConfig, Err: errors.New("the outer engine decides; this is a mistake in flinksink")}
}

// End tells what was decided for gen. Nothing has to be ended: only this process's External can decide for it.
func (s *outerStore) End(_ context.Context, gen Generation) (CheckpointID, error) {
	if s.base != nil && s.base.Generation == gen.ID {
		return s.base.Checkpoint, nil
	}
	return 0, nil
}

// Read returns what the last decided state holds.
func (s *outerStore) Read(_ context.Context, bridge string) (State, error) {
	if s.base == nil || bridge != s.bridge {
		return State{}, nil
	}
	out := State{Bridge: s.bridge, Format: outerVersion, Fingerprint: s.fingerprint, Pending: slices.Clone(s.base.Committables)}
	for _, p := range s.base.To {
		out.Positions = append(out.Positions, StoredPosition{Position: p, Generation: s.base.Generation, Checkpoint: s.base.Checkpoint,
			Owner: s.acq, Counters: s.base.Counters})
	}
	return out, nil
}

// Close has nothing to close.
func (s *outerStore) Close(context.Context) error { return nil }

var _ Store = (*outerStore)(nil)

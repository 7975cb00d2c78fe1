package sink

import (
	"context"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/internal/protocol"
)

// External runs the checkpoint protocol for one lane where an outer engine decides: a stream processor, a batch job or a test that keeps the
// checkpoint's bytes together with its own state. It is a [Coordinator] whose step 3 is the engine's durable decision:
//
//	positions, err := x.Restore(ctx, partitions, state) // state: of the last completed checkpoint, nil at the very first start
//	... x.Write(ctx, batch, progress) ...
//	state, err := x.Barrier(ctx, id)                     // 1 and 2: prepared, nothing visible
//	... the engine makes state durable under id ...      // 3: the decision
//	err = x.Complete(ctx, id)                            // 4: visible
//
// # What the engine has to do
//
// Its durable record stands where the store stands in the protocol, and so do the store's duties:
//
//  1. It decides once: after it made the state of id durable, id is never aborted; a state it has not made durable is never completed.
//  2. Restore gets the state of the newest completed checkpoint, all of it or nothing. An older one would read changes again that are visible
//     already. Within one External that is refused; across processes only the engine can know it. With sinks whose tables have a key the end
//     state is right all the same; without a key, rows are doubled.
//  3. It fences itself: once a newer run was given a state to restore, no Barrier of an older run may become the newest completed
//     checkpoint. A rising run number that is compared in the same write as the state will do.
//  4. The counter behind next (see [NewExternal]) never gives a number twice, and from that moment on gives the older run none, but
//     ErrFenced: with a higher number an old state would be restored over the newer run, and roll back what that one decided.
//
// An engine that does not know what became of its own decision must find out before it calls Complete or Abort. A process that cannot wait for
// that calls neither, and Close; whoever restores next settles it.
//
// # Why each change takes effect once
//
// Until Complete nothing of the checkpoint is visible, and a process that dies leaves prepared work behind. Restore then has one of two
// states. If it is the one that the work belongs to, the state lists the committables, and Open commits them before anything is written;
// Commit is harmless when repeated, so it does not matter how far the dead process came, or whether it lives on and commits too. If it is
// an older one, the work is in no list, and Open fences its generation and rolls it back before the positions, which the same state holds,
// are read again. No third case exists, because positions and committables are one piece of bytes.
//
// # Calls
//
// Methods are called from one goroutine at a time. One checkpoint may be undecided at a time: between Barrier and Complete or Abort there
// is no second Barrier and no Write (changes may be read and decoded meanwhile). Numbers of checkpoints rise.
//
//	call                                       answer
//	Complete of the undecided checkpoint       commits; what cannot be committed yet is tried until ctx ends
//	Complete again, also after Restore         nil: it is committed, or will be before this returns
//	Complete of an older one that was decided  nil: a later decision includes it
//	Complete of one that was aborted           ErrLost: its work is rolled back
//	Complete of one that never was             ErrConfig
//	Abort of the undecided checkpoint          rolls back, goes back to the last decided positions (Source.Seek)
//	Abort again, or of one whose Barrier failed  nil
//	Abort of the last decided checkpoint       ErrConfig: it cannot be undone
//	Barrier while one is undecided             ErrConfig
//	Write while one is undecided               ErrConfig
//	Restore a second time                      ErrConfig: make a new External
//
// A sink that commits its rows in its own Save (postgres in its mode InTransaction) cannot wait for an outer decision and is refused with
// ErrConfig: use a mode that leaves receipts.
type External struct {
	c *Coordinator
	s *outerStore

	restored bool
	last     int64 // highest number of a Barrier, of this External or of the state it began with
}

// NewExternal checks o, all of it at once, and asks every sink for its committer. o.Store must be nil, as the engine decides.
//
// next returns the next number of a counter that the engine keeps for this lane: greater than every number it returned before, in any process,
// also across restarts. Each Restore takes one, and each time a checkpoint is done again. It names the generation, and with it everything that
// is prepared: a number used twice would let a late request of one run hit the other's work. Numbers that are skipped are taken for
// runs that died, so a counter in steps of one that belongs to this lane alone is best. For a run that was replaced it returns ErrFenced, which
// ends the lane; other errors are classified as those of a [Store].
func NewExternal(ctx context.Context, o Options, next func(ctx context.Context) (GenerationID, error)) (*External, error) {
	var errs []error
	if o.Store != nil {
		errs = append(errs, errors.New("Options.Store is set, and the outer engine decides: leave it nil"))
	}
	if next == nil {
		errs = append(errs, errors.New("next is nil: the generations of a lane need numbers that are never used twice"))
	}
	if len(errs) > 0 {
		return nil, &Error{Op: "start", Bridge: o.Bridge, Class: ErrConfig, Err: errors.Join(errs...)}
	}
	s := &outerStore{bridge: o.Bridge, fingerprint: o.Fingerprint, next: next}
	o.Store = s
	c, err := NewCoordinator(ctx, o)
	if err != nil {
		return nil, err
	}
	return &External{c: c, s: s}, nil
}

// Guarantee states what the combination of sinks gives, if the engine does what it has to do.
func (x *External) Guarantee() Guarantee { return x.c.Guarantee() }

// Pending returns what the current checkpoint holds so far: changes and bytes of batches.
func (x *External) Pending() (changes, bytes int) { return x.c.Pending() }

// Restore begins: it commits what state lists, fences every run before this one and rolls back what else they left, and returns where the
// partitions are to be read from. The caller moves its consumer there. partitions hold all that state has positions of; a
// partition that state does not know begins where Source.Begin says. That begin lasts once a checkpoint is completed: where Begin
// answers "the end", take a Barrier at once.
//
// A state of another bridge or fingerprint, of a sink that is not declared, or in an unknown format is ErrConfig. When ctx ends, or the
// sinks are away for longer, Restore returns the cause and may be called again with the same state.
func (x *External) Restore(ctx context.Context, partitions []changelog.Partition, state []byte) ([]changelog.Position, error) {
	switch {
	case x.restored:
		return nil, x.fail("restore", ErrConfig, errors.New("it was restored before: go on with it, or close it and make a new one"))
	case len(partitions) == 0:
		return nil, x.fail("restore", ErrConfig, errors.New("no partitions: a lane holds at least one"))
	}
	if state != nil {
		var st OuterState
		if err := st.UnmarshalBinary(state); err != nil {
			return nil, x.c.wrap("restore", "", err)
		}
		if err := x.fits(&st, partitions); err != nil {
			return nil, x.fail("restore", ErrConfig, err)
		}
		x.s.base, x.last = &st, st.ID
	}
	at, err := x.c.Assign(ctx, partitions)
	x.restored = err == nil
	return at, err
}

// fits checks a state against what this External is for.
func (x *External) fits(st *OuterState, partitions []changelog.Partition) error {
	if st.Bridge != x.s.bridge || st.Fingerprint != x.s.fingerprint {
		return fmt.Errorf("the state is of bridge %q with fingerprint %q, and this is bridge %q with fingerprint %q", st.Bridge, st.Fingerprint, x.s.bridge, x.s.fingerprint)
	}
	held := make(map[changelog.Partition]bool)
	for _, p := range partitions {
		held[p] = true
	}
	for _, p := range st.To {
		if !held[p.Partition] {
			return fmt.Errorf("the state holds a position of %s, which is not among the partitions: nobody would read on there", p.Partition)
		}
	}
	return nil
}

// Write takes a batch into the current checkpoint, as [Coordinator.Write] does.
func (x *External) Write(ctx context.Context, b *changelog.Batch, p Progress) error {
	if err := x.ready("write"); err != nil {
		x.c.release(b)
		return err
	}
	return x.c.Write(ctx, b, p)
}

// Barrier prepares everything that was written, and returns the state for the engine to make durable under id. Nothing is visible yet. With
// nothing written it returns a state all the same.
//
// When the checkpoint could not be prepared, nothing of it is left, the source was sent back to the last decided positions, and the error is
// of class ErrTransient: take another Barrier, with a higher number, when changes were written again. Abort of id is fine then and does
// nothing.
func (x *External) Barrier(ctx context.Context, id int64) ([]byte, error) {
	if err := x.ready("barrier"); err != nil {
		return nil, err
	}
	if id < 1 || id <= x.last {
		return nil, x.fail("barrier", ErrConfig, fmt.Errorf("checkpoint %d after %d: numbers begin at 1 and rise", id, x.last))
	}
	x.last = id
	if err := x.c.drive(ctx, protocol.Barrier{}); err != nil {
		return nil, err
	}
	if !x.s.undecided() {
		return nil, x.fail("barrier", ErrTransient, fmt.Errorf("checkpoint %d was not prepared, and is read again from the last decided positions: %w", id, x.why()))
	}
	x.s.held.ID = id
	return x.s.held.MarshalBinary()
}

func (x *External) why() error {
	if x.c.err != nil {
		return x.c.err
	}
	return errors.New("the generation before was given up")
}

// Complete makes the checkpoint visible, after the engine made its state durable. See the table of [External] for other numbers. When ctx ends
// first, the checkpoint stays decided: call Complete again, or leave it to the next Restore.
func (x *External) Complete(ctx context.Context, id int64) error {
	switch {
	case x.c.over != nil:
		return x.c.over
	case x.s.undecided() && x.s.held.ID == id:
		// The decision was made before this call. From here on every Acquire of this process lists the checkpoint as decided, and there is no way
		// back, whatever happens to the commits.
		x.s.base, x.s.held = x.s.held, nil
		x.c.decided()
		return x.c.run(ctx, protocol.Saved{})
	case !x.restored:
		return x.fail("complete", ErrConfig, errors.New("nothing was restored: call Restore first"))
	case x.s.aborted > x.s.id() && x.s.aborted == id:
		return x.fail("complete", ErrLost, fmt.Errorf("checkpoint %d was aborted, and its work is rolled back", id))
	case id > x.s.id() || id < 1:
		return x.fail("complete", ErrConfig, fmt.Errorf("checkpoint %d is not one whose Barrier succeeded", id))
	case x.s.undecided():
		return nil // an older one, committed before this Barrier could be taken
	}
	if x.c.m.Owned() {
		return nil
	}
	// A Complete before this one did not come to its end. A new generation's Open commits what is decided.
	return x.c.drive(ctx, protocol.Recover{})
}

// Abort drops the checkpoint, which the engine has certainly not made durable and never will. The lane goes on from the last decided
// positions: Source.Seek was called when it returns.
func (x *External) Abort(ctx context.Context, id int64) error {
	switch {
	case x.c.over != nil:
		return x.c.over
	case x.s.undecided() && x.s.held.ID == id:
		x.s.held, x.s.aborted = nil, id
		x.c.err = x.fail("save", ErrTransient, errors.New("the outer engine aborted the checkpoint"))
		// A Save that was certainly refused. Redo: there is nothing to wait for.
		return x.c.run(ctx, protocol.Failed{Class: protocol.Redo})
	case x.s.base != nil && x.s.base.ID == id:
		return x.fail("abort", ErrConfig, fmt.Errorf("checkpoint %d is decided and cannot be undone", id))
	}
	return nil
}

// Close drops what is not prepared and closes the committers. It decides nothing: an undecided checkpoint waits for the next Restore. Twice is
// harmless.
func (x *External) Close(ctx context.Context) error { return x.c.Close(ctx) }

// ready says why a Write or a Barrier cannot be now.
func (x *External) ready(op string) error {
	switch {
	case x.c.over != nil:
		return x.c.over
	case !x.restored:
		return x.fail(op, ErrConfig, errors.New("nothing was restored: call Restore first"))
	case x.s.undecided():
		return x.fail(op, ErrConfig, fmt.Errorf("checkpoint %d is undecided: Complete or Abort it first", x.s.held.ID))
	}
	return nil
}

func (x *External) fail(op string, class, err error) error {
	return &Error{Op: op, Bridge: x.s.bridge, Class: class, Err: err}
}

package sinktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Faults stands between a coordinator and its sinks and stores, counts their calls and lets some fail. One Faults may wrap
// any number of them; it is safe for use by several goroutines.
type Faults struct {
	mu     sync.Mutex // guards all below
	faults []armed
	dice   *rand.Rand // nil: only faults
	oneIn  int
	calls  []string
	late   []lateCall

	stopped bool
}

type armed struct {
	Fault
	seen  int // calls that matched
	fired int
}

type lateCall struct {
	name string
	do   func(context.Context) error
}

// Faulty returns the faults, each of which counts its calls for itself. A call that several want takes the first. Wrap with [Faults.Sink],
// [Faults.Committer] and [Faults.Store] what is to meet them.
func Faulty(faults ...Fault) *Faults {
	f := &Faults{}
	for _, x := range faults {
		f.faults = append(f.faults, armed{Fault: x})
	}
	return f
}

// RandomFaults lets each call but lane, read and close fail with a chance of one in n, before or after its effect. The same seed and the
// same calls give the same faults.
func RandomFaults(seed uint64, n int) *Faults {
	return &Faults{dice: rand.New(rand.NewPCG(seed, seed)), oneIn: max(n, 1)}
}

// Fired returns nil if every fault fired as often as it should, and else says which did not, with the calls that were seen: a test that
// never met its fault proves nothing.
func (f *Faults) Fired() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, x := range f.faults {
		if err := x.valid(); err != nil {
			errs = append(errs, err)
		} else if x.If != nil {
			if x.fired == 0 {
				errs = append(errs, fmt.Errorf("sinktest: fault %q never fired; the calls were: %s", x.Fault, f.callsText()))
			}
		} else if want := max(x.Times, 1); x.fired < want {
			errs = append(errs, fmt.Errorf("sinktest: fault %q fired %d times, expected %d; the calls were: %s", x.Fault, x.fired, want, f.callsText()))
		}
	}
	return errors.Join(errs...)
}

// callsText returns the calls so far for an error. The caller holds f.mu.
func (f *Faults) callsText() string {
	if len(f.calls) == 0 {
		return "none"
	}
	return strings.Join(f.calls, ", ")
}

// Calls returns the calls so far, those that a fault met marked with it: "save", "commit@target", "save (save 2 after)".
func (f *Faults) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Stop lets all further calls through.
func (f *Faults) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
}

// Deliver makes the calls that are late, in the order they were sent, and returns their errors, joined. Nobody else sees their answers.
func (f *Faults) Deliver(ctx context.Context) error {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	var errs []error
	for _, l := range late {
		if err := l.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("late %s: %w", l.name, err))
		}
	}
	return errors.Join(errs...)
}

// meets counts a call and returns the fault that it meets, if any.
func (f *Faults) meets(call, sinkName string) (Fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	label := call
	if sinkName != "" {
		label += "@" + sinkName
	}
	var met Fault
	found := false
	for i := range f.faults {
		x := &f.faults[i]
		if x.valid() != nil || x.Call != "" && x.Call != call || x.Sink != "" && x.Sink != sinkName || !x.When.canBe(call) {
			continue
		}
		x.seen++
		if x.If != nil {
			if hit := x.If.Hit(Call{call, sinkName}); hit && !found && !f.stopped {
				x.fired++
				met, found = x.Fault, true
			}
			continue
		}
		if first := max(x.At, 1); !found && !f.stopped && x.seen >= first && x.seen < first+max(x.Times, 1) {
			x.fired++
			met, found = x.Fault, true
		}
	}
	if !found && !f.stopped && f.dice != nil && call != "lane" && call != "read" && call != "close" && f.dice.IntN(f.oneIn) == 0 {
		met, found = Fault{Call: call, At: 1, When: When(f.dice.IntN(2))}, true
	}
	if found {
		label += " (" + met.String() + ")"
	}
	f.calls = append(f.calls, label)
	return met, found
}

// call makes one call through the faults.
func (f *Faults) call(ctx context.Context, name, sinkName string, do func(context.Context) error) error {
	return f.callInParts(ctx, name, sinkName, do, nil)
}

// callInParts is call for one that can be made with the first half of what it is given.
func (f *Faults) callInParts(ctx context.Context, name, sinkName string, do, half func(context.Context) error) error {
	fault, met := f.meets(name, sinkName)
	if !met {
		return do(ctx)
	}
	switch fault.When {
	case Panic:
		if fault.Do != nil {
			fault.Do(ctx)
		}
		panic(fault.injected(name, sinkName))
	case Delay:
		if fault.Do != nil {
			fault.Do(ctx)
		}
		pause(ctx, fault.For)
		return do(ctx)
	case Partial:
		if half != nil {
			_ = half(ctx)
		}
	case After:
		_ = do(ctx) // whatever it was, nobody hears it
	case Late:
		f.mu.Lock()
		f.late = append(f.late, lateCall{name, do})
		f.mu.Unlock()
	}
	if fault.Do != nil {
		fault.Do(ctx)
	}
	return fault.injected(name, sinkName)
}

// Sink wraps a sink and the committers it makes. A committer that is a [sink.Store] stays one.
func (f *Faults) Sink(s sink.Sink) sink.Sink { return faultySink{s, f} }

// Committer wraps a committer of the sink called name. One that is a [sink.Store], or a [sink.DeadLetterKeeper], stays one.
func (f *Faults) Committer(name string, c sink.Committer) sink.Committer {
	w := faultyCommitter{c, f, name}
	s, isStore := c.(sink.Store)
	k, keeps := c.(sink.DeadLetterKeeper)
	switch {
	case isStore && keeps:
		return faultyOwnKeeper{faultyKeeper{w, k}, faultyStore{s, f}}
	case isStore:
		return faultyOwnStore{w, faultyStore{s, f}}
	case keeps:
		return faultyKeeper{w, k}
	}
	return w
}

// Store wraps a store.
func (f *Faults) Store(s sink.Store) sink.Store { return faultyStore{s, f} }

type faultySink struct {
	sink.Sink
	f *Faults
}

func (s faultySink) Lane(ctx context.Context, l sink.Lane) (c sink.Committer, err error) {
	err = s.f.call(ctx, "lane", l.Sink, func(ctx context.Context) (err error) {
		c, err = s.Sink.Lane(ctx, l)
		return err
	})
	if err != nil {
		if c != nil { // made, and its answer lost: nobody else can close it
			_ = c.Close(context.WithoutCancel(ctx))
		}
		return nil, err
	}
	return s.f.Committer(l.Sink, c), nil
}

type faultyCommitter struct {
	c    sink.Committer
	f    *Faults
	name string
}

func (w faultyCommitter) Open(ctx context.Context, c sink.Claim) error {
	return w.f.call(ctx, "open", w.name, func(ctx context.Context) error { return w.c.Open(ctx, c) })
}

func (w faultyCommitter) Write(ctx context.Context, b *changelog.Batch) error {
	return w.f.callInParts(ctx, "write", w.name, func(ctx context.Context) error { return w.c.Write(ctx, b) }, func(ctx context.Context) error {
		part := *b
		part.Changes = b.Changes[:b.Len()/2]
		return w.c.Write(ctx, &part)
	})
}

func (w faultyCommitter) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	var r sink.Committable
	err := w.f.call(ctx, "prepare", w.name, func(ctx context.Context) (err error) {
		r, err = w.c.Prepare(ctx, cut)
		return err
	})
	if err != nil {
		return sink.Committable{}, err
	}
	return r, nil
}

func (w faultyCommitter) Discard(ctx context.Context) error {
	return w.f.call(ctx, "discard", w.name, w.c.Discard)
}

func (w faultyCommitter) Commit(ctx context.Context, c sink.Committable) error {
	return w.f.call(ctx, "commit", w.name, func(ctx context.Context) error { return w.c.Commit(ctx, c) })
}

func (w faultyCommitter) Abort(ctx context.Context, c sink.Committable) error {
	return w.f.call(ctx, "abort", w.name, func(ctx context.Context) error { return w.c.Abort(ctx, c) })
}

func (w faultyCommitter) Close(ctx context.Context) error {
	return w.f.call(ctx, "close", w.name, w.c.Close)
}

type faultyStore struct {
	s sink.Store
	f *Faults
}

func (w faultyStore) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	var c sink.Claim
	err := w.f.call(ctx, "acquire", "", func(ctx context.Context) (err error) {
		c, err = w.s.Acquire(ctx, r)
		return err
	})
	if err != nil {
		return sink.Claim{}, err
	}
	return c, nil
}

func (w faultyStore) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	return w.f.call(ctx, "save", "", func(ctx context.Context) error { return w.s.Save(ctx, gen, cp) })
}

func (w faultyStore) End(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	var id sink.CheckpointID
	err := w.f.call(ctx, "end", "", func(ctx context.Context) (err error) {
		id, err = w.s.End(ctx, gen)
		return err
	})
	if err != nil {
		return 0, err
	}
	return id, nil
}

func (w faultyStore) Read(ctx context.Context, bridge string) (sink.State, error) {
	var s sink.State
	err := w.f.call(ctx, "read", "", func(ctx context.Context) (err error) {
		s, err = w.s.Read(ctx, bridge)
		return err
	})
	if err != nil {
		return sink.State{}, err
	}
	return s, nil
}

func (w faultyStore) Close(ctx context.Context) error { return w.f.call(ctx, "close", "", w.s.Close) }

// faultyOwnStore is one client with two sides, and is closed once.
type faultyOwnStore struct {
	faultyCommitter
	faultyStore
}

func (w faultyOwnStore) Close(ctx context.Context) error { return w.faultyCommitter.Close(ctx) }

package sink_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

var simSeed = flag.Uint64("seed", math.MaxUint64, "of TestSimulate: run this one schedule and print it")

var simWorlds = []struct {
	name string
	with simOptions
}{
	{"two phases", simOptions{}},
	{"in transaction", simOptions{inTx: true}},
	{"in transaction beside two phases, in a group", simOptions{inTx: true, second: true, group: true}},
	{"two phases, in a group, refused changes", simOptions{group: true, poison: true}},
}

type simOptions struct {
	inTx   bool // the first sink is its own store
	second bool // a two-phase sink beside it, on another server
	group  bool // a consumer group says who owns the partitions
	poison bool // some changes are refused for good, and set aside
}

// TestSimulate runs coordinators against the memory sink and store while calls fail before or after their effect, answers are lost,
// saves arrive late, processes crash, and processes that were given up go on. The table has no key, so a lost or doubled change shows. The
// protocol's own simulation, of whole groups of processes in time, is in internal/protocol; this one has the shell around it, and real sinks.
//
//	go test ./sink -run Simulate -seed 17
//
// runs one schedule again, exactly, in every world, and prints it.
func TestSimulate(t *testing.T) {
	for _, sim := range simWorlds {
		t.Run(sim.name, func(t *testing.T) {
			if *simSeed != math.MaxUint64 {
				w := newWorld(*simSeed, sim.with)
				err := w.run(t.Context())
				for _, l := range w.history {
					t.Log(l)
				}
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			faults, lates, fenced, aside := 0, 0, 0, 0
			for seed := range uint64(250) {
				w := newWorld(seed, sim.with)
				if err := w.run(t.Context()); err != nil {
					w = fewest(t.Context(), w, err)
					for _, l := range w.history {
						t.Log(l)
					}
					t.Fatalf("seed %d (-seed %d repeats it): %v; above is what happens with %d of its faults, the fewest that are enough", seed, seed, err, w.faults)
				}
				faults, lates, fenced, aside = faults+w.faults, lates+w.lates, fenced+w.fenced, aside+w.refusals
			}
			t.Logf("%d faults, %d late requests, %d zombies fenced, %d changes set aside", faults, lates, fenced, aside)
			if faults < 1000 || fenced < 20 || (!sim.with.inTx && lates < 50) || (sim.with.poison && aside < 100) {
				t.Error("the simulation met too little to say anything")
			}
		})
	}
}

// fewest runs a schedule that failed again with one fault less, and again, for as long as it still fails.
func fewest(ctx context.Context, w *simWorld, err error) *simWorld {
	for smaller := true; smaller; {
		smaller = false
		for _, n := range w.fired {
			try := newWorld(w.seed, w.with)
			try.off = maps.Clone(w.off)
			try.off[n] = true
			if try.run(ctx) != nil && try.faults < w.faults {
				w, smaller = try, true
				break
			}
		}
	}
	return w
}

const perPartition = 60

type simWorld struct {
	seed     uint64
	with     simOptions
	r        *rand.Rand
	srv      *sinktest.Server
	srv2     *sinktest.Server // of the second sink
	owner    int              // process that the group assigns the partitions to
	session  int32            // generation of the group
	draws    int              // how many times a fault could have been
	off      map[int]bool     // faults that are left out
	fired    []int
	table    *changelog.Table
	parts    []changelog.Partition
	late     []func()
	calm     bool // no more faults
	p        float64
	faults   int
	lates    int
	fenced   int
	history  []string
	refusals int
}

func newWorld(seed uint64, with simOptions) *simWorld {
	w := &simWorld{seed: seed, with: with, r: rand.New(rand.NewPCG(seed, 7)), srv: sinktest.NewServer(), srv2: sinktest.NewServer(), off: map[int]bool{}}
	w.table = &changelog.Table{Name: "t", Mode: changelog.Append, Schema: &changelog.Schema{Columns: []changelog.Column{
		{Name: "id", Type: changelog.Type{Root: changelog.RootBigInt}}}}}
	for i := range int32(2) {
		w.parts = append(w.parts, changelog.Partition{Topic: "t", Partition: i})
	}
	w.p = w.r.Float64() * 0.15
	return w
}

func (w *simWorld) note(format string, a ...any) {
	w.history = append(w.history, fmt.Sprintf(format, a...))
}

// process is one coordinator with its source.
type process struct {
	w    *simWorld
	name int
	c    *sink.Coordinator
	next map[changelog.Partition]int64
	// aside are the changes that a sink refused for good, by id. Each process finds out for itself.
	aside   map[int64]bool
	session int32
}

// Generation and Confirm are the process's place in the group.
func (p *process) Generation() int32 { return p.session }

func (p *process) Confirm(ctx context.Context) (bool, error) {
	if p.w.owner != p.name {
		return false, nil
	}
	p.session = p.w.session
	return true, nil
}

// refuse sets aside what a sink named.
func (p *process) refuse(err *sink.Error) bool {
	for _, r := range err.Rejected {
		p.w.note("%d sets %s@%d aside", p.name, r.Partition, r.Offset)
		p.aside[int64(r.Partition.Partition)*1000+r.Offset] = true
		p.w.refusals++
	}
	return len(err.Rejected) > 0
}

// poison reports a change that sinks refuse.
func (w *simWorld) poison(id int64) bool { return w.with.poison && id%17 == 5 }

func (p *process) Begin(ctx context.Context, ps []changelog.Partition) (out []changelog.Position, err error) {
	for _, q := range ps {
		out = append(out, changelog.Position{Partition: q})
	}
	return out, nil
}

func (p *process) Seek(ctx context.Context, to []changelog.Position) error {
	for _, q := range to {
		p.next[q.Partition] = q.Offset
	}
	return nil
}

func (p *process) Pause(...changelog.Partition)  {}
func (p *process) Resume(...changelog.Partition) {}

func (w *simWorld) start(ctx context.Context, name int) (*process, error) {
	p := &process{w: w, name: name, next: map[changelog.Partition]int64{}, aside: map[int64]bool{}}
	w.session++
	w.owner, p.session = name, w.session
	o := sink.Options{Bridge: "sim", Source: p, Tables: []*changelog.Table{w.table}, Backoff: func(int) time.Duration { return 0 }, Attempts: 1 << 30,
		Sinks: []sink.Declared{{Name: "target", Sink: faultySink{w, name, sinktest.NewSink(w.srv, &sinktest.SinkOptions{InTransaction: w.with.inTx})}}}, Rejected: p.refuse}
	if w.with.second {
		o.Sinks = append(o.Sinks, sink.Declared{Name: "second", Sink: faultySink{w, name, sinktest.NewSink(w.srv2, nil)}})
	}
	if w.with.group {
		o.Group = p
	}
	if !w.with.inTx {
		o.Store = faultyStore{w, name, sinktest.NewStore(w.srv), true}
	}
	var err error
	p.c, err = sink.NewCoordinator(ctx, o)
	return p, err
}

// assign takes partitions and moves the source there.
func (p *process) assign(ctx context.Context, parts []changelog.Partition) error {
	at, err := p.c.Assign(ctx, parts)
	for _, q := range at {
		p.next[q.Partition] = q.Offset
	}
	return err
}

// read writes up to n changes of one partition; reports whether there was something to read.
func (p *process) read(ctx context.Context, n int64) (bool, error) {
	held := p.c.Partitions()
	if len(held) == 0 {
		return false, nil
	}
	q := held[p.w.r.IntN(len(held))]
	from, known := p.next[q]
	if !known {
		_, err := p.c.Checkpoint(ctx) // an interrupted Assign: the lane seeks when it acquires anew
		return true, err
	}
	to := min(from+n, perPartition)
	if to == from {
		return false, nil
	}
	b := changelog.NewBatch(p.w.table)
	skipped := int64(0)
	for o := from; o < to; o++ {
		id := int64(q.Partition)*1000 + o
		if p.aside[id] {
			skipped++
			continue
		}
		row := b.NewRow()
		row[0] = changelog.IntValue(id)
		b.Append(changelog.Change{Partition: q, Offset: o, Row: row})
	}
	p.next[q] = to
	return true, p.c.Write(ctx, b, sink.Progress{To: []changelog.Position{{Partition: q, Offset: to}}, Records: to - from, Skipped: skipped})
}

func (w *simWorld) run(ctx context.Context) error {
	var zombies []*process
	p, err := w.start(ctx, 0)
	if err != nil {
		return err
	}
	for step := range 150 {
		w.deliver()
		err := w.step(ctx, p)
		if err != nil && !errors.Is(err, context.Canceled) {
			if !errors.Is(err, sink.ErrFenced) || len(zombies) == 0 {
				return fmt.Errorf("process %d: %w", p.name, err)
			}
			w.fenced++ // a process that was given up asked for partitions again
			if p, err = w.start(ctx, step+1000); err != nil {
				return err
			}
		}
		if len(zombies) > 0 && w.r.IntN(4) == 0 {
			z := zombies[w.r.IntN(len(zombies))]
			if err := w.step(ctx, z); errors.Is(err, sink.ErrFenced) {
				w.fenced++
			}
		}
		if w.r.IntN(25) == 0 {
			w.note("process %d is given up", p.name)
			if w.r.IntN(2) == 0 {
				zombies = append(zombies, p)
			}
			if p, err = w.start(ctx, step+1); err != nil {
				return err
			}
		}
	}
	w.calm = true
	w.deliver()
	last, err := w.start(ctx, 999)
	if err != nil {
		return err
	}
	if err := last.assign(ctx, w.parts); err != nil {
		return fmt.Errorf("the last process: %w", err)
	}
	for rounds := 0; ; rounds++ { // a refused change sends the source back
		unread := false
		for _, q := range w.parts {
			for last.next[q] < perPartition {
				unread = true
				if _, err := last.read(ctx, 7); err != nil {
					return err
				}
			}
		}
		if _, err := last.c.Checkpoint(ctx); err != nil {
			return err
		}
		if !unread {
			break
		}
		if rounds > 10*perPartition {
			return errors.New("the last process comes to no end")
		}
	}
	for _, z := range zombies {
		for range 3 {
			if err := w.step(ctx, z); errors.Is(err, sink.ErrFenced) {
				w.fenced++
			}
		}
	}
	return w.check()
}

// step lets a process do one thing.
func (w *simWorld) step(ctx context.Context, p *process) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !w.calm && w.r.IntN(30) == 0 {
		cancel() // the caller's patience ended
	}
	held := p.c.Partitions()
	var err error
	switch k := w.r.IntN(12); {
	case len(held) < len(w.parts) && k < 4:
		for _, q := range w.parts {
			if w.r.IntN(2) == 0 {
				w.note("%d assign %s", p.name, q)
				err = errors.Join(err, p.assign(ctx, []changelog.Partition{q}))
			}
		}
	case k == 4 && len(held) > 0:
		w.note("%d revoke %s", p.name, held[0])
		err = p.c.Revoke(ctx, held[:1])
		delete(p.next, held[0])
	case k == 5 && len(held) > 0:
		w.note("%d lose %s", p.name, held[0])
		err = p.c.Lose(ctx, held[:1])
		delete(p.next, held[0])
	case k < 8:
		w.note("%d checkpoint", p.name)
		_, err = p.c.Checkpoint(ctx)
	default:
		w.note("%d read", p.name)
		_, err = p.read(ctx, 1+int64(w.r.IntN(6)))
	}
	if err != nil {
		w.note("%d: %v", p.name, err)
	}
	return err
}

// deliver lets some of the requests arrive whose senders gave them up.
func (w *simWorld) deliver() {
	for len(w.late) > 0 && (w.calm || w.r.IntN(6) == 0) {
		i := w.r.IntN(len(w.late))
		f := w.late[i]
		w.late = append(w.late[:i:i], w.late[i+1:]...)
		f()
	}
}

func (w *simWorld) check() error {
	if err := w.checkServer(w.srv); err != nil {
		return err
	}
	if w.with.second {
		if err := w.checkServer(w.srv2); err != nil {
			return fmt.Errorf("second sink: %w", err)
		}
	}
	return nil
}

func (w *simWorld) checkServer(srv *sinktest.Server) error {
	seen := map[int64]int{}
	for _, row := range srv.Table("t") {
		seen[row[0].Int()]++
	}
	var lost, doubled []int64
	for _, q := range w.parts {
		for o := range int64(perPartition) {
			switch id := int64(q.Partition)*1000 + o; {
			case w.poison(id) && seen[id] == 0:
			case w.poison(id):
				return fmt.Errorf("change %d was refused, and is visible", id)
			case seen[id] == 0:
				lost = append(lost, id)
			case seen[id] > 1:
				doubled = append(doubled, id)
			}
		}
	}
	if len(lost) > 0 || len(doubled) > 0 {
		return fmt.Errorf("lost %v, doubled %v", lost, doubled)
	}
	if n := srv.Staged(); n > 0 {
		return fmt.Errorf("%d pieces of work are left staged", n)
	}
	return nil
}

// fault decides about one call: do it or not, and what to answer instead of the truth.
func (w *simWorld) fault(who int, op string, do func() error, late bool) error {
	hit, k := !w.calm && w.r.Float64() < w.p, w.r.IntN(4) // drawn whether it is used or not: a fault that is left out leaves the others be
	w.draws++
	if !hit || w.off[w.draws] {
		err := do()
		if err != nil {
			w.note("%d %s: %v", who, op, err)
		}
		return err
	}
	w.faults++
	w.fired = append(w.fired, w.draws)
	switch {
	case k == 0:
		w.note("%d %s: not sent", who, op)
		return &sink.Error{Op: op, Class: sink.ErrTransient, Err: errors.New("not sent")}
	case k == 1:
		w.note("%d %s: not done, unclear", who, op)
		return errors.New("connection lost before")
	case k == 2 && late:
		w.note("%d %s: on its way, unclear", who, op)
		w.lates++
		w.late = append(w.late, func() { w.note("%d %s arrives: %v", who, op, do()) })
		return errors.New("connection lost while it was on its way")
	default:
		w.note("%d %s: done, answer lost: %v", who, op, do())
		return errors.New("connection lost after")
	}
}

type faultySink struct {
	w   *simWorld
	who int
	sink.Sink
}

func (f faultySink) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := f.Sink.Lane(ctx, l)
	if err != nil {
		return nil, err
	}
	fc := faultyCommitter{f.w, f.who, c}
	if s, ok := c.(sink.Store); ok {
		return faultyBoth{fc, faultyStore{f.w, f.who, s, false}}, nil
	}
	return fc, nil
}

type faultyCommitter struct {
	w   *simWorld
	who int
	c   sink.Committer
}

func (f faultyCommitter) Open(ctx context.Context, c sink.Claim) error {
	return f.w.fault(f.who, "open", func() error { return f.c.Open(ctx, c) }, false)
}
func (f faultyCommitter) Write(ctx context.Context, b *changelog.Batch) error {
	var refused []sink.Rejection
	for _, ch := range b.Changes {
		if f.w.poison(int64(ch.Partition.Partition)*1000 + ch.Offset) {
			refused = append(refused, sink.Rejection{Partition: ch.Partition, Offset: ch.Offset, Reason: errors.New("never")})
		}
	}
	if len(refused) > 0 {
		return &sink.Error{Op: "write", Class: sink.ErrRejected, Rejected: refused, Err: errors.New("refused")}
	}
	return f.w.fault(f.who, "write", func() error { return f.c.Write(ctx, b) }, false)
}
func (f faultyCommitter) Prepare(ctx context.Context, cut sink.Cut) (c sink.Committable, err error) {
	err = f.w.fault(f.who, "prepare", func() (err error) { c, err = f.c.Prepare(ctx, cut); return }, false)
	return c, err
}
func (f faultyCommitter) Discard(ctx context.Context) error {
	return f.c.Discard(ctx) // what a process holds itself does not get lost on a wire
}
func (f faultyCommitter) Commit(ctx context.Context, c sink.Committable) error {
	return f.w.fault(f.who, "commit", func() error { return f.c.Commit(context.WithoutCancel(ctx), c) }, true)
}
func (f faultyCommitter) Abort(ctx context.Context, c sink.Committable) error {
	return f.w.fault(f.who, "abort", func() error { return f.c.Abort(context.WithoutCancel(ctx), c) }, true)
}
func (f faultyCommitter) Close(ctx context.Context) error { return f.c.Close(ctx) }

type faultyStore struct {
	w    *simWorld
	who  int
	s    sink.Store
	late bool
}

func (f faultyStore) Acquire(ctx context.Context, r sink.AcquireRequest) (c sink.Claim, err error) {
	err = f.w.fault(f.who, "acquire", func() (err error) { c, err = f.s.Acquire(ctx, r); return }, false)
	return c, err
}
func (f faultyStore) Save(ctx context.Context, g sink.Generation, cp sink.Checkpoint) error {
	ctx = context.WithoutCancel(ctx)
	return f.w.fault(f.who, fmt.Sprintf("save %d.%d", g.ID, cp.ID), func() error { return f.s.Save(ctx, g, cp) }, f.late)
}
func (f faultyStore) End(ctx context.Context, g sink.Generation) (id sink.CheckpointID, err error) {
	ctx = context.WithoutCancel(ctx)
	err = f.w.fault(f.who, "end", func() (err error) { id, err = f.s.End(ctx, g); return }, f.late)
	return id, err
}
func (f faultyStore) Read(ctx context.Context, b string) (sink.State, error) { return f.s.Read(ctx, b) }
func (f faultyStore) Close(ctx context.Context) error                        { return f.s.Close(ctx) }

type faultyBoth struct {
	faultyCommitter
	s faultyStore
}

func (f faultyBoth) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	return f.s.Acquire(ctx, r)
}
func (f faultyBoth) Save(ctx context.Context, g sink.Generation, cp sink.Checkpoint) error {
	return f.s.Save(ctx, g, cp)
}
func (f faultyBoth) End(ctx context.Context, g sink.Generation) (sink.CheckpointID, error) {
	return f.s.End(ctx, g)
}
func (f faultyBoth) Read(ctx context.Context, b string) (sink.State, error) { return f.s.Read(ctx, b) }

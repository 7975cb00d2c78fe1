package sink_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// The simulation runs coordinators against the memory sink and store while calls fail before or after their effect, answers are lost,
// saves arrive late, processes crash, and processes that were given up go on. The table has no key, so a lost or doubled change shows.
//
// FLINKSINK_SEED=n runs one seed and prints its history.
func TestSimulation(t *testing.T) {
	for _, mode := range []string{"two phases", "in transaction"} {
		t.Run(mode, func(t *testing.T) {
			if s := os.Getenv("FLINKSINK_SEED"); s != "" {
				seed, err := strconv.ParseUint(s, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				w := newWorld(seed, mode == "in transaction")
				err = w.run(t.Context())
				for _, l := range w.history {
					t.Log(l)
				}
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			faults, lates, fenced := 0, 0, 0
			for seed := range uint64(400) {
				w := newWorld(seed, mode == "in transaction")
				if err := w.run(t.Context()); err != nil {
					tail := w.history[max(0, len(w.history)-60):]
					for _, l := range tail {
						t.Log(l)
					}
					t.Fatalf("seed %d (FLINKSINK_SEED=%d prints all of it): %v", seed, seed, err)
				}
				faults, lates, fenced = faults+w.faults, lates+w.lates, fenced+w.fenced
			}
			t.Logf("%d faults, %d late saves, %d zombies fenced", faults, lates, fenced)
			if faults < 1000 || fenced < 20 || (mode == "two phases" && lates < 50) {
				t.Error("the simulation met too few faults to say anything")
			}
		})
	}
}

const perPartition = 60

type simWorld struct {
	r       *rand.Rand
	srv     *sinktest.Server
	inTx    bool
	table   *changelog.Table
	parts   []changelog.Partition
	late    []func()
	calm    bool // no more faults
	p       float64
	faults  int
	lates   int
	fenced  int
	history []string
}

func newWorld(seed uint64, inTx bool) *simWorld {
	w := &simWorld{r: rand.New(rand.NewPCG(seed, 7)), srv: sinktest.NewServer(), inTx: inTx}
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
}

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
	p := &process{w: w, name: name, next: map[changelog.Partition]int64{}}
	o := sink.Options{Bridge: "sim", Source: p, Tables: []*changelog.Table{w.table}, Backoff: func(int) time.Duration { return 0 }, Attempts: 1 << 30,
		Sinks: []sink.Declared{{Name: "target", Sink: faultySink{w, name, sinktest.NewSink(w.srv, &sinktest.SinkOptions{InTransaction: w.inTx})}}}}
	if !w.inTx {
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
	for o := from; o < to; o++ {
		row := b.NewRow()
		row[0] = changelog.IntValue(int64(q.Partition)*1000 + o)
		b.Append(changelog.Change{Partition: q, Offset: o, Row: row})
	}
	p.next[q] = to
	return true, p.c.Write(ctx, b, sink.Progress{To: []changelog.Position{{Partition: q, Offset: to}}, Records: to - from})
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
	for _, q := range w.parts {
		for last.next[q] < perPartition {
			if _, err := last.read(ctx, 7); err != nil {
				return err
			}
		}
	}
	if _, err := last.c.Checkpoint(ctx); err != nil {
		return err
	}
	if _, err := last.c.Checkpoint(ctx); err != nil {
		return err
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
	seen := map[int64]int{}
	for _, row := range w.srv.Table("t") {
		seen[row[0].Int()]++
	}
	var lost, doubled []int64
	for _, q := range w.parts {
		for o := range int64(perPartition) {
			switch id := int64(q.Partition)*1000 + o; {
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
	if n := w.srv.Staged(); n > 0 {
		return fmt.Errorf("%d pieces of work are left staged", n)
	}
	return nil
}

// fault decides about one call: do it or not, and what to answer instead of the truth.
func (w *simWorld) fault(who int, op string, do func() error, late bool) error {
	if w.calm || w.r.Float64() >= w.p {
		err := do()
		if err != nil {
			w.note("%d %s: %v", who, op, err)
		}
		return err
	}
	w.faults++
	switch k := w.r.IntN(4); {
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

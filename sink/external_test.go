package sink_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// engine is an outer engine that does what External asks of it, and nothing else.
type engine struct {
	run     int // the newest run; older ones are refused
	counter sink.GenerationID
	id      int64  // of the last decided checkpoint
	state   []byte // nil: none
}

// begin starts a run, and gives it the state.
func (e *engine) begin() (run int, state []byte) {
	e.run++
	return e.run, e.state
}

func (e *engine) next(run int) func(context.Context) (sink.GenerationID, error) {
	return func(context.Context) (sink.GenerationID, error) {
		if run != e.run {
			return 0, fmt.Errorf("run %d was replaced by %d: %w", run, e.run, sink.ErrFenced)
		}
		e.counter++
		return e.counter, nil
	}
}

// decide makes a state durable, unless the run was replaced.
func (e *engine) decide(run int, id int64, state []byte) bool {
	if run != e.run {
		return false
	}
	e.id, e.state = id, slices.Clone(state)
	return true
}

// outerLane is one run with its consumer.
type outerLane struct {
	*sink.External
	topic *sinktest.Topic
	parts []changelog.Partition
	at    []changelog.Position
	run   int
}

func (l *outerLane) Begin(_ context.Context, ps []changelog.Partition) (out []changelog.Position, err error) {
	for _, p := range ps {
		out = append(out, l.topic.Position(p.Partition, 0))
	}
	return out, nil
}

func (l *outerLane) Seek(_ context.Context, to []changelog.Position) error {
	for _, p := range to {
		for i := range l.at {
			if l.at[i].Partition == p.Partition {
				l.at[i] = p
			}
		}
	}
	return nil
}

func (l *outerLane) Pause(...changelog.Partition)  {}
func (l *outerLane) Resume(...changelog.Partition) {}

func newOuterLane(ctx context.Context, e *engine, run int, topic *sinktest.Topic, snk sink.Sink) (*outerLane, error) {
	l := &outerLane{topic: topic, run: run, parts: []changelog.Partition{topic.Partition(0), topic.Partition(1)}}
	l.at = []changelog.Position{topic.Position(0, 0), topic.Position(1, 0)}
	x, err := sink.NewExternal(ctx, sink.Options{Bridge: sinktest.Bridge, Fingerprint: "f", Source: l, Tables: []*changelog.Table{topic.Table},
		Sinks: []sink.Declared{{Name: sinktest.SinkName, Sink: snk}}, Backoff: func(int) time.Duration { return 0 }, Attempts: 1 << 30}, e.next(run))
	l.External = x
	return l, err
}

func (l *outerLane) restore(ctx context.Context, state []byte) error {
	at, err := l.Restore(ctx, l.parts, state)
	if err == nil {
		l.at = at
	}
	return err
}

// read writes up to most messages of each partition.
func (l *outerLane) read(ctx context.Context, most int) error {
	b, to := l.topic.Read(l.at, most)
	l.at = to
	return l.Write(ctx, b, sink.Progress{To: slices.Clone(to), Records: int64(b.Len())})
}

func outerWorld(t *testing.T) (*sinktest.Server, *sinktest.Topic, *engine, *outerLane) {
	t.Helper()
	srv, topic, e := sinktest.NewServer(), sinktest.NewTopic(sinktest.Appended()), &engine{}
	for i := range int64(10) {
		topic.Put(int32(i%2), sinktest.Insert(i, "a"))
	}
	run, state := e.begin()
	l, err := newOuterLane(t.Context(), e, run, topic, sinktest.NewSink(srv, nil))
	if err == nil {
		err = l.restore(t.Context(), state)
	}
	if err != nil {
		t.Fatal(err)
	}
	return srv, topic, e, l
}

func rowsAre(t *testing.T, srv *sinktest.Server, when string, want ...sinktest.Row) {
	t.Helper()
	if got := sinktest.FixtureRows(srv.Table(sinktest.AppendTable)); !slices.Equal(got, want) {
		t.Errorf("%s: rows are %v, expected %v", when, got, want)
	}
}

func is(t *testing.T, err, class error, what string) {
	t.Helper()
	if sink.ClassOf(err) != class {
		t.Errorf("%s: got %v, expected class %v", what, err, class)
	}
}

// The table of the documentation, row by row.
func TestExternal_Calls(t *testing.T) {
	ctx := t.Context()
	srv, topic, e, l := outerWorld(t)
	one := topic.Rows(topic.Position(0, 1), topic.Position(1, 1))
	two := topic.Rows(topic.Position(0, 2), topic.Position(1, 2))

	is(t, l.read(ctx, 1), nil, "Write")
	s1, err := l.Barrier(ctx, 1)
	is(t, err, nil, "Barrier")
	rowsAre(t, srv, "after Barrier")
	_, err = l.Barrier(ctx, 2)
	is(t, err, sink.ErrConfig, "Barrier while one is undecided")
	is(t, l.Write(ctx, nil, sink.Progress{}), sink.ErrConfig, "Write while one is undecided")
	is(t, l.Complete(ctx, 2), sink.ErrConfig, "Complete of one that never was")
	is(t, l.Abort(ctx, 2), nil, "Abort of one that never was")
	e.decide(l.run, 1, s1)
	is(t, l.Complete(ctx, 1), nil, "Complete")
	rowsAre(t, srv, "after Complete", one...)
	is(t, l.Complete(ctx, 1), nil, "Complete again")
	rowsAre(t, srv, "after Complete again", one...)
	is(t, l.Abort(ctx, 1), sink.ErrConfig, "Abort of the last decided one")

	is(t, l.read(ctx, 1), nil, "Write")
	_, err = l.Barrier(ctx, 1)
	is(t, err, sink.ErrConfig, "Barrier with a number that was used")
	_, err = l.Barrier(ctx, 5)
	is(t, err, nil, "Barrier with a number left out")
	is(t, l.Complete(ctx, 1), nil, "Complete of an older one, while one is undecided")
	is(t, l.Abort(ctx, 5), nil, "Abort")
	rowsAre(t, srv, "after Abort", one...)
	if srv.Staged() != 0 || l.at[0].Offset != 1 {
		t.Errorf("Abort left %d pieces of work, and the source at %v", srv.Staged(), l.at)
	}
	is(t, l.Abort(ctx, 5), nil, "Abort again")
	is(t, l.Complete(ctx, 5), sink.ErrLost, "Complete of one that was aborted")
	is(t, l.read(ctx, 1), nil, "Write")
	s6, err := l.Barrier(ctx, 6)
	is(t, err, nil, "Barrier")
	e.decide(l.run, 6, s6)
	is(t, l.Complete(ctx, 6), nil, "Complete")
	rowsAre(t, srv, "after the checkpoint was done again", two...)
	is(t, l.Complete(ctx, 1), nil, "Complete of an older one")
	_, err = l.Restore(ctx, l.parts, s1)
	is(t, err, sink.ErrConfig, "Restore of an older checkpoint than was completed")

	s7, err := l.Barrier(ctx, 7)
	is(t, err, nil, "Barrier with nothing written")
	e.decide(l.run, 7, s7)
	is(t, l.Complete(ctx, 7), nil, "Complete")
	is(t, l.Close(ctx), nil, "Close")
	is(t, l.Close(ctx), nil, "Close again")
	_, err = l.Barrier(ctx, 8)
	is(t, err, sink.ErrConfig, "Barrier after Close")
	is(t, l.Complete(ctx, 7), sink.ErrConfig, "Complete after Close")
}

// A process dies between Barrier and Complete. What becomes of its work is what the engine decided, and a late Complete changes nothing.
func TestExternal_Restore(t *testing.T) {
	for _, decided := range []bool{true, false} {
		t.Run(fmt.Sprint("decided ", decided), func(t *testing.T) {
			ctx := t.Context()
			srv, topic, e, a := outerWorld(t)
			is(t, a.read(ctx, 2), nil, "Write")
			state, err := a.Barrier(ctx, 1)
			is(t, err, nil, "Barrier")
			if decided {
				e.decide(a.run, 1, state)
			}
			run, state := e.begin()
			b, err := newOuterLane(ctx, e, run, topic, sinktest.NewSink(srv, nil))
			is(t, err, nil, "NewExternal")
			is(t, b.restore(ctx, state), nil, "Restore")
			var want []sinktest.Row
			if decided {
				want = topic.Rows(topic.Position(0, 2), topic.Position(1, 2))
				is(t, b.Complete(ctx, 1), nil, "Complete after Restore")
			}
			rowsAre(t, srv, "after Restore", want...)
			if srv.Staged() != 0 {
				t.Errorf("%d pieces of prepared work are left", srv.Staged())
			}
			if decided {
				is(t, a.Complete(ctx, 1), nil, "the first run's late Complete")
			} else {
				is(t, a.Abort(ctx, 1), sink.ErrFenced, "the first run's Abort, which would begin again")
			}
			rowsAre(t, srv, "after the late call", want...)
			is(t, b.read(ctx, -1), nil, "Write")
			state, err = b.Barrier(ctx, 2)
			is(t, err, nil, "Barrier")
			e.decide(run, 2, state)
			is(t, b.Complete(ctx, 2), nil, "Complete")
			rowsAre(t, srv, "at the end", topic.Rows(topic.End(0), topic.End(1))...)
		})
	}
}

func TestExternal_Refuses(t *testing.T) {
	ctx := t.Context()
	srv, topic, e, l := outerWorld(t)
	o := sink.Options{Bridge: "b", Source: l, Tables: []*changelog.Table{topic.Table}, Sinks: []sink.Declared{{Name: "s", Sink: sinktest.NewSink(srv, &sinktest.SinkOptions{InTransaction: true})}}}
	_, err := sink.NewExternal(ctx, o, e.next(1))
	is(t, err, sink.ErrConfig, "a sink that is its own store")
	o.Store = sinktest.NewStore(srv)
	_, err = sink.NewExternal(ctx, o, nil)
	is(t, err, sink.ErrConfig, "a store, and no counter")

	is(t, l.read(ctx, 1), nil, "Write")
	good, err := l.Barrier(ctx, 1)
	is(t, err, nil, "Barrier")
	other := func(change func(s *sink.OuterState)) []byte {
		var s sink.OuterState
		if err := s.UnmarshalBinary(good); err != nil {
			t.Fatal(err)
		}
		change(&s)
		b, _ := s.MarshalBinary()
		return b
	}
	for what, state := range map[string][]byte{
		"nonsense":           []byte("nonsense"),
		"empty":              {},
		"another bridge":     other(func(s *sink.OuterState) { s.Bridge = "x" }),
		"another target":     other(func(s *sink.OuterState) { s.Fingerprint = "x" }),
		"a foreign position": other(func(s *sink.OuterState) { s.From[1].Partition.Partition, s.To[1].Partition.Partition = 9, 9 }),
		"an unknown sink":    other(func(s *sink.OuterState) { s.Committables[0].Sink = "x" }),
	} {
		x, err := newOuterLane(ctx, e, 1, topic, sinktest.NewSink(srv, nil))
		is(t, err, nil, "NewExternal")
		is(t, x.read(ctx, 1), sink.ErrConfig, "Write before Restore")
		is(t, x.Complete(ctx, 1), sink.ErrConfig, "Complete before Restore")
		is(t, x.restore(ctx, state), sink.ErrConfig, what)
	}
	stuck := func(context.Context) (sink.GenerationID, error) { return 1, nil }
	o.Store, o.Bridge, o.Fingerprint, o.Sinks = nil, sinktest.Bridge, "f", []sink.Declared{{Name: sinktest.SinkName, Sink: sinktest.NewSink(srv, nil)}}
	x, err := sink.NewExternal(ctx, o, stuck)
	is(t, err, nil, "NewExternal")
	_, err = x.Restore(ctx, l.parts, good)
	is(t, err, sink.ErrConfig, "a counter that stands still")
}

// Faults at every call, processes that die at any moment and some that live on as zombies: the engine's decisions alone count, and each
// row is there once.
func TestExternal_Simulation(t *testing.T) {
	completed, deaths, zombies := 0, 0, 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 11))
		srv, topic, e := sinktest.NewServer(), sinktest.NewTopic(sinktest.Appended()), &engine{}
		for i := range int64(60) {
			topic.Put(int32(i%2), sinktest.Insert(i, "a"))
		}
		f := sinktest.RandomFaults(seed, 12)
		var history []string
		note := func(format string, a ...any) { history = append(history, fmt.Sprintf(format, a...)) }
		fail := func(format string, a ...any) {
			for _, h := range history {
				t.Log(h)
			}
			t.Fatalf("seed %d: %s", seed, fmt.Sprintf(format, a...))
		}
		id := int64(0)
		var pending *struct { // of the live run, prepared; decided or not
			id      int64
			state   []byte
			decided bool
		}
		start := func() *outerLane {
			for {
				run, state := e.begin()
				pending = nil
				l, err := newOuterLane(t.Context(), e, run, topic, f.Sink(sinktest.NewSink(srv, nil)))
				if err == nil {
					err = l.restore(t.Context(), state)
				}
				note("run %d restores %d: %v", run, e.id, err)
				if err == nil {
					return l
				}
			}
		}
		l := start()
		var old []*outerLane
		for range 120 {
			switch r.IntN(12) {
			case 0: // the process dies, or is given up and lives on
				if r.IntN(2) == 0 {
					old = append(old, l)
				}
				deaths++
				l = start()
			case 1:
				if len(old) > 0 {
					z := old[r.IntN(len(old))]
					id++
					note("zombie of run %d wakes", z.run)
					zombies++
					_ = z.read(t.Context(), 3)
					if state, err := z.Barrier(t.Context(), id); err == nil && e.decide(z.run, id, state) {
						fail("the engine decided for a zombie")
					}
					_ = z.Complete(t.Context(), id-int64(r.IntN(5)))
					_ = z.Abort(t.Context(), id-int64(r.IntN(5)))
				}
			case 2, 3, 4:
				if pending == nil {
					id++
					state, err := l.Barrier(t.Context(), id)
					note("barrier %d: %v", id, err)
					if err == nil {
						pending = &struct {
							id      int64
							state   []byte
							decided bool
						}{id, state, false}
					} else if sink.ClassOf(err) != sink.ErrTransient {
						fail("barrier: %v", err)
					}
				}
			case 5, 6, 7:
				if pending == nil {
					break
				}
				if !pending.decided && r.IntN(4) == 0 {
					err := l.Abort(t.Context(), pending.id)
					note("abort %d: %v", pending.id, err)
					if err != nil {
						fail("abort: %v", err)
					}
					pending = nil
					break
				}
				if !pending.decided {
					pending.decided = e.decide(l.run, pending.id, pending.state)
					note("the engine decides %d", pending.id)
					break // it may die before it tells anyone
				}
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(3) == 0 {
					cancel()
				}
				err := l.Complete(ctx, pending.id)
				cancel()
				note("complete %d: %v", pending.id, err)
				switch {
				case err == nil:
					pending = nil
					completed++
				case !errors.Is(err, context.Canceled):
					fail("complete: %v", err)
				}
			default:
				if pending == nil {
					if err := l.read(t.Context(), 1+r.IntN(3)); err != nil {
						fail("write: %v", err)
					}
				}
			}
			// What readers see is at most what is decided, each row once.
			var st sink.OuterState
			var want []sinktest.Row
			if e.state != nil {
				if err := st.UnmarshalBinary(e.state); err != nil {
					fail("%v", err)
				}
				want = topic.Rows(st.To...)
			}
			seen := sinktest.FixtureRows(srv.Table(sinktest.AppendTable))
			if n := len(slices.Compact(slices.Clone(seen))); n != len(seen) || n > len(want) {
				fail("readers see %d rows, %d of them different, decided are %d", len(seen), n, len(want))
			}
		}
		f.Stop()
		l = start()
		if err := l.read(t.Context(), -1); err != nil {
			fail("write: %v", err)
		}
		state, err := l.Barrier(t.Context(), id+1)
		if err != nil || !e.decide(l.run, id+1, state) {
			fail("barrier: %v", err)
		}
		if err := l.Complete(t.Context(), id+1); err != nil {
			fail("complete: %v", err)
		}
		if got := sinktest.FixtureRows(srv.Table(sinktest.AppendTable)); !slices.Equal(got, topic.Rows(topic.End(0), topic.End(1))) {
			fail("at the end there are %d rows %v", len(got), got)
		}
		if srv.Staged() != 0 {
			fail("%d pieces of prepared work are left", srv.Staged())
		}
	}
	t.Logf("%d checkpoints completed, %d deaths, %d zombies woke", completed, deaths, zombies)
	if completed < 1000 || deaths < 500 || zombies < 200 {
		t.Error("the simulation met too little to say anything")
	}
}

// The engine decided, and the sink is away until the caller's patience ends: Complete says so, and the next one makes the rows visible.
func TestExternal_CompleteAgainAfterItsContextEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv, topic, e := sinktest.NewServer(), sinktest.NewTopic(sinktest.Appended()), &engine{}
	topic.Put(0, sinktest.Insert(1, "a"))
	f := sinktest.Faulty(sinktest.Fault{Call: "commit", Do: func(context.Context) { cancel() }})
	run, _ := e.begin()
	l, err := newOuterLane(ctx, e, run, topic, f.Sink(sinktest.NewSink(srv, nil)))
	is(t, err, nil, "NewExternal")
	is(t, l.restore(ctx, nil), nil, "Restore")
	is(t, l.read(ctx, -1), nil, "Write")
	state, err := l.Barrier(ctx, 1)
	is(t, err, nil, "Barrier")
	e.decide(run, 1, state)
	if err := l.Complete(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Complete: %v", err)
	}
	rowsAre(t, srv, "after the Commit that failed")
	is(t, l.Complete(t.Context(), 1), nil, "Complete again")
	rowsAre(t, srv, "after Complete again", sinktest.Row{ID: 1, V: "a"})
	if err := f.Fired(); err != nil {
		t.Error(err)
	}
}

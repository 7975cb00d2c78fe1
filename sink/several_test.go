package sink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

var pairs = map[string]func() []kept{
	"two phases, two phases":                   func() []kept { return []kept{staged(), staged()} },
	"two phases, index":                        func() []kept { return []kept{staged(), index()} },
	"index, two phases":                        func() []kept { return []kept{index(), staged()} },
	"index, index":                             func() []kept { return []kept{index(), index()} },
	"own store, two phases":                    func() []kept { return []kept{ownStore(), staged()} },
	"two phases, own store":                    func() []kept { return []kept{staged(), ownStore()} },
	"own store, index":                         func() []kept { return []kept{ownStore(), index()} },
	"own store, two phases, index, two phases": func() []kept { return []kept{ownStore(), staged(), index(), staged()} },
}

// A process is killed before, or after, each call that it makes of any sink and the store, and then its successor too, at some calls of it: at
// every moment readers of the sinks that wait for the decision see a decided checkpoint, and at the end all sinks hold the same.
func TestSeveral_KilledAtEveryCall(t *testing.T) {
	for name, sinks := range pairs {
		for _, file := range []bool{false, true} {
			if file && name != "two phases, two phases" {
				continue // each call of the file store takes a disk's time, and beside other sinks it does nothing new
			}
			t.Run(fmt.Sprintf("%s, file %t", name, file), func(t *testing.T) {
				t.Parallel()
				kills := 0
				sweep := func(first, second int, when sinktest.When) (fired bool) {
					w := newSeveral(t, sinks(), file)
					for _, at := range []int{first, second} {
						if at == 0 {
							continue
						}
						f := sinktest.Faulty(sinktest.Fault{At: at, When: when, Do: func(context.Context) { panic(killed{}) }})
						err, dead := w.life(t.Context(), f)
						if err != nil {
							t.Fatalf("killed at %d and %d, %s: %v", first, second, when, err)
						}
						fired = dead
						if dead {
							kills++
						}
						if err := w.between(); err != nil {
							t.Fatalf("killed at %d and %d, %s: %v; the calls were %v", first, second, when, err, f.Calls())
						}
					}
					f := sinktest.Faulty()
					if err, _ := w.life(t.Context(), f); err != nil {
						t.Fatalf("after a kill at %d and %d, %s: %v", first, second, when, err)
					}
					if err := w.ended(); err != nil {
						t.Fatalf("after a kill at %d and %d, %s: %v; the calls were %v", first, second, when, err, f.Calls())
					}
					return fired
				}
				whens := []sinktest.When{sinktest.Before, sinktest.After}
				if file {
					whens = whens[:1]
				}
				for _, when := range whens {
					for first := 1; sweep(first, 0, when); first++ {
						// Every third call of the successor, another third each time.
						for second := 1 + first%3; !file && len(sinks()) < 4 && sweep(first, second, when); second += 3 {
						}
					}
				}
				t.Logf("%d kills", kills)
				if kills < 25 {
					t.Error("too few to say anything")
				}
			})
		}
	}
}

// A call of any sink or the store fails, before its effect or with a lost answer, and the process goes on.
func TestSeveral_FailsAtEveryCall(t *testing.T) {
	for name, sinks := range pairs {
		for _, when := range []sinktest.When{sinktest.Before, sinktest.After, sinktest.Partial} {
			t.Run(fmt.Sprintf("%s, %s", name, when), func(t *testing.T) {
				t.Parallel()
				err := sinktest.Sweep(when, func(f *sinktest.Faults) error {
					w := newSeveral(t, sinks(), false)
					err, _ := w.life(t.Context(), f)
					if err != nil && errors.Is(err, sinktest.ErrInjected) { // start, and Close, are not tried again
						err, _ = w.life(t.Context(), f)
					}
					return errors.Join(err, w.ended())
				})
				if err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// The early sink is given nothing before the others have prepared, wherever it is declared; Eager leaves it where it is.
func TestSeveral_EarlyComesLast(t *testing.T) {
	for name, c := range map[string]struct {
		sinks func() []kept
		eager bool
		want  string
	}{
		"declared first": {pairs["index, two phases"], false, "write@s1 prepare@s1 write@s0 prepare@s0 save commit@s1"},
		"declared last":  {pairs["two phases, index"], false, "write@s0 prepare@s0 write@s1 prepare@s1 save commit@s0"},
		"eager":          {pairs["index, two phases"], true, "write@s0 write@s1 prepare@s0 prepare@s1 save commit@s1"},
		"nothing else":   {pairs["index, index"], false, "write@s0 write@s1 prepare@s0 prepare@s1 save"},
		"beside the store": {func() []kept { return []kept{index(), staged(), ownStore()} }, false,
			"write@s1 write@s2 prepare@s1 prepare@s2 write@s0 prepare@s0 save commit@s1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSeveral(t, c.sinks(), false)
			if c.eager {
				w.o.Sinks = []sink.Declared{{Eager: true}, {}}
			}
			f := sinktest.Faulty()
			if err, _ := w.life(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			calls := strings.Join(f.Calls(), " ")
			if !strings.Contains(calls, c.want) {
				t.Errorf("the calls were %s, want among them %s", calls, c.want)
			}
			if err := w.ended(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What another sink refuses, or fails to prepare, was never seen in the early one.
func TestSeveral_RefusedIsNeverSeenEarly(t *testing.T) {
	for _, call := range []string{"write", "prepare"} {
		e := newEarly()
		w := newSeveral(t, []kept{{sink: func(*bool) sink.Sink { return e }, rows: e.rows, left: func() int { return 0 }}, staged()}, false)
		var seen []sinktest.Row
		f := sinktest.Faulty(sinktest.Fault{Call: call, Sink: "s1", Class: sink.ErrRejected, Do: func(context.Context) { seen = e.rows() }})
		err, _ := w.life(t.Context(), f)
		if !errors.Is(err, sink.ErrRejected) || f.Fired() != nil {
			t.Fatalf("%s: %v, %v", call, err, f.Fired())
		}
		if len(seen) > 0 || len(e.docs) > 0 {
			t.Errorf("%s: the early sink held %v, and holds %v", call, seen, e.rows())
		}
	}
}

// A Commit of one sink that fails for long: the others are done, the alarm is told, what waits is in the store; after a restart it is
// settled before anything is written.
func TestSeveral_CommitFailsForLong(t *testing.T) {
	w := newSeveral(t, []kept{staged(), staged(), index()}, false)
	var alarms []int
	var steps []string
	w.o.AlarmAfter, w.o.StopAfter = 2, 4
	w.o.Hooks.Alarm = func(err error, n int) { alarms = append(alarms, n) }
	w.o.Hooks.Step = func(s sink.SinkStep) {
		if s.Kind == sink.SinkCommitFailed && (s.Err == nil || s.Checkpoint == 0) {
			t.Errorf("step %+v", s)
		}
		steps = append(steps, fmt.Sprintf("%s %d", s.Sink, s.Kind))
	}
	f := sinktest.Faulty(sinktest.Fault{Call: "commit", Sink: "s0", Times: 1000, Class: sink.ErrTransient})
	err, _ := w.life(t.Context(), f)
	if err == nil || !strings.Contains(err.Error(), "given up after 4 tries (StopAfter)") || !errors.Is(err, sink.ErrTransient) || !errors.Is(err, sinktest.ErrInjected) {
		t.Fatalf("got %v", err)
	}
	if !slices.Equal(alarms, []int{2, 3, 4}) {
		t.Errorf("alarms %v", alarms)
	}
	first := w.topic.Rows(w.topic.Position(0, step))
	if got := w.sinks[1].rows(); !slices.Equal(got, first) {
		t.Errorf("the other sink holds %v, want %v", got, first)
	}
	if got := w.sinks[0].rows(); len(got) != 0 {
		t.Errorf("the sink that cannot commit holds %v", got)
	}
	st, err := w.read()
	if err != nil {
		t.Fatal(err)
	}
	waits := map[string]int{}
	for _, p := range st.Pending {
		waits[p.Sink]++
	}
	if waits["s0"] != 1 {
		t.Errorf("the store holds %v", waits)
	}
	for _, want := range []string{"s0 0", "s0 1", "s1 1", "s2 1", "s0 3", "s1 2"} {
		if !slices.Contains(steps, want) {
			t.Errorf("no step %s in %v", want, steps)
		}
	}

	f = sinktest.Faulty()
	w.o.Hooks = sink.Hooks{}
	if err, _ := w.life(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := w.ended(); err != nil {
		t.Error(err)
	}
	opened, written := slices.Index(f.Calls(), "open@s0"), slices.IndexFunc(f.Calls(), func(c string) bool { return strings.HasPrefix(c, "write") })
	if opened < 0 || written < opened {
		t.Errorf("the calls were %v", f.Calls())
	}
}

// Without StopAfter the lane goes on until the Commit succeeds, however long that takes, and reads nothing meanwhile.
func TestSeveral_CommitIsTriedOn(t *testing.T) {
	w := newSeveral(t, []kept{staged(), staged()}, false)
	f := sinktest.Faulty(sinktest.Fault{Call: "commit", Sink: "s1", Times: 200})
	if err, _ := w.life(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Fired(), w.ended()); err != nil {
		t.Error(err)
	}
	failing := false
	for _, c := range f.Calls() {
		if failing = strings.HasPrefix(c, "commit@s1 ("); failing {
			continue
		}
		if strings.HasPrefix(c, "write") && failing {
			t.Fatal("written while a decided checkpoint waits")
		}
	}
}

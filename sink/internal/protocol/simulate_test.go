package protocol

import (
	"container/heap"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

var (
	simSeed      = flag.Uint64("seed", math.MaxUint64, "of TestSimulate: run this one schedule and print it")
	simSchedules = flag.Int("schedules", 2000, "of TestSimulate: how many")
	simFrom      = flag.Uint64("from", 0, "of TestSimulate: the first seed")
)

// TestSimulate runs whole groups of processes through time: rebalances, processes that crash, or stop and go on as zombies, requests and answers
// that are lost or late, batches that are refused, a store that fails over, a topic that is made anew. When the faults end, everything must come to
// its end. The invariants of every machine are checked at every step.
//
//	go test ./sink/internal/protocol -run Simulate -seed 17
//
// runs one schedule again, exactly, and prints it. A schedule that fails is run again with fewer faults, for as long as it still fails.
func TestSimulate(t *testing.T) {
	if *simSeed != math.MaxUint64 {
		s := newSimulation(*simSeed, nil)
		s.log = t.Logf
		if err := s.run(); err != nil {
			t.Fatal(err)
		}
		return
	}
	schedules := *simSchedules
	if raced {
		schedules /= 5
	}
	began := time.Now()
	fired, steps := map[string]int{}, 0
	for i := range uint64(schedules) {
		seed := *simFrom + i
		s := newSimulation(seed, nil)
		if err := s.run(); err != nil {
			t.Fatal(shrink(seed, s.fired, err, newSimulation))
		}
		steps += s.steps
		for _, f := range s.fired {
			fired[f.what]++
		}
	}
	took := time.Since(began)
	var counts []string
	for what, n := range fired {
		counts = append(counts, fmt.Sprintf("%6d  %s", n, what))
	}
	slices.Sort(counts)
	t.Logf("%d schedules, %d steps of a machine, %.1f s, %.0f schedules a minute; faults:\n%s", schedules, steps, took.Seconds(),
		float64(schedules)/took.Minutes(), strings.Join(counts, "\n"))
	for _, what := range []string{"a process crashes", "a process is stopped", "patience ends", "a sink refuses a batch", "the store fails over", "the topic is made anew",
		"Save arrives late", "the answer to Save is lost", "Acquire arrives late", "the answer to Commit is lost", "Prepare arrives late", "Abort arrives late",
		"Commit of the claim arrives late", "Fence arrives late", "Rollback arrives late"} {
		if fired[what] == 0 && schedules >= 1000 {
			t.Errorf("it never happened that %s: the simulation says nothing about it", what)
		}
	}
}

// TestSimulate_Repeats: one seed is one schedule.
func TestSimulate_Repeats(t *testing.T) {
	for seed := range uint64(20) {
		var runs [2]strings.Builder
		for i := range runs {
			s := newSimulation(seed, nil)
			s.log = func(format string, a ...any) { fmt.Fprintf(&runs[i], format+"\n", a...) }
			if err := s.run(); err != nil {
				t.Fatal(err)
			}
		}
		if runs[0].String() != runs[1].String() {
			t.Fatalf("seed %d is not the same twice", seed)
		}
	}
}

// TestSimulate_FindsMistakes: the simulation finds what the exploration finds, by chance, and says with how few faults it comes about.
func TestSimulate_FindsMistakes(t *testing.T) {
	for _, c := range []struct {
		name   string
		wrong  func(m *Machine, e Event, extra uint8) ([]Effect, uint8)
		faults int // are enough
	}{
		{"commit before Save", commitBeforeSave, 0},
		{"abort after an unclear Save", abortAfterUnclearSave, 1},
		{"an unclear Save is taken for done", guessSaved, 1},
		{"an unclear Prepare is taken for done", guessPrepared, 1},
		{"a failed Commit is forgotten", commitForgotten, 1},
		{"abort after the decision", abortAfterDecision, 1},
		{"the source is not sent back", noSeek, 1},
		{"what was written is not discarded", noDiscard, 1},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			with := func(seed uint64, off map[int]bool) *simulation {
				s := newSimulation(seed, off)
				s.wrong = c.wrong
				return s
			}
			fewest := math.MaxInt
			for seed := range uint64(400) {
				s := with(seed, nil)
				if err := s.run(); err != nil {
					least, _ := shrunk(seed, s.fired, err, with)
					if fewest = min(fewest, len(least.fired)); fewest <= c.faults {
						t.Logf("seed %d, %d faults of %d: %v", seed, len(least.fired), len(s.fired), least.failed)
						return
					}
				}
			}
			t.Errorf("the smallest schedule found has %d faults, %d are enough", fewest, c.faults)
		})
	}
}

func newSimulation(seed uint64, off map[int]bool) *simulation {
	s := &simulation{seed: seed, r: rand.New(rand.NewPCG(seed, 3)), off: off, topic: 1}
	s.level = []float64{0.3, 1, 1, 2}[s.r.IntN(4)]
	s.messages = 8 + s.r.Int64N(25)
	s.group = simGroup{owner: map[changelog.Partition]*simProcess{}, moving: map[changelog.Partition]*simProcess{}}
	s.store = simStore{own: map[changelog.Partition]int64{}, saved: map[changelog.Partition]changelog.Position{}, newest: map[changelog.Partition]int32{}}
	for p := range 1 + s.r.IntN(4) {
		s.parts = append(s.parts, partition(p))
	}
	kinds := [][]kind{{twoPhase}, {ownStore}, {unfenced}, {ownStore, twoPhase}, {twoPhase, convergent}, {unfenced, twoPhase}, {ownStore, unfenced, convergent}, {twoPhase, twoPhase, twoPhase}}
	for n, k := range kinds[s.r.IntN(len(kinds))] {
		sink := &simSink{number: n, kind: k, staged: map[work][]span{}, done: map[work]bool{}, fenced: map[int64]bool{}, visible: map[changelog.Partition][]uint8{}}
		for _, p := range s.parts {
			sink.visible[p] = make([]uint8, s.messages)
		}
		s.sinks = append(s.sinks, sink)
	}
	return s
}

const (
	simFaults = 2500   // milliseconds with faults
	simEnd    = 120000 // by then all must be done
)

// run runs the schedule to its end.
func (s *simulation) run() error {
	for range 1 + s.r.IntN(3) {
		s.start(1 + s.r.IntN(2))
	}
	s.after(200+s.r.Int64N(simFaults), func() {
		if s.fault(0.5, "the store fails over") {
			s.store.away = s.now + 50 + s.r.Int64N(400)
			for _, g := range s.store.gens {
				if g.tx != nil {
					g.tx.dead = true
				}
			}
		}
	})
	s.after(500+s.r.Int64N(simFaults), func() {
		if s.fault(0.05, "the topic is made anew") {
			s.topic++
		}
	})
	s.after(s.r.Int64N(simFaults), func() {
		if s.fault(0.5, "a process joins") {
			s.start(1 + s.r.IntN(2))
		}
	})
	s.after(simFaults, func() {
		s.calm = true
		s.note("no more faults")
		s.start(1)
	})
	for s.failed == nil && len(s.queue) > 0 {
		e := heap.Pop(&s.queue).(*event)
		s.now = e.at
		e.do()
		if s.now < simFaults {
			continue
		}
		switch {
		case s.topic != 1: // it stays as it was: nobody takes the new topic for the old
			if s.now > 2*simFaults {
				return s.end()
			}
		case s.complete() == nil:
			return s.end()
		case s.now > simEnd:
			s.fail("not done after %d s without faults: %v", (simEnd-simFaults)/1000, s.complete())
		}
	}
	return s.failed
}

// end lets everything arrive that is still on its way, and looks again.
func (s *simulation) end() error {
	for _, e := range s.late {
		if e.at > s.now {
			e.do()
		}
	}
	if s.failed == nil && s.topic == 1 {
		if err := s.complete(); err != nil {
			s.fail("after late requests: %w", err)
		}
	}
	return s.failed
}

// shrink tells of a schedule that fails with the fewest faults with which it still does.
func shrink(seed uint64, fired []firedFault, err error, simulate func(uint64, map[int]bool) *simulation) error {
	_, off := shrunk(seed, fired, err, simulate)
	var b strings.Builder
	s := simulate(seed, off)
	s.log = func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	if again := s.run(); again != nil {
		err = again
	}
	return fmt.Errorf("seed %d: %w\n%d faults are enough:\n%s", seed, err, len(s.fired), b.String())
}

// shrunk runs a schedule again with fewer and fewer faults, for as long as it still fails: halves are left out, then quarters, at last one by one.
func shrunk(seed uint64, fired []firedFault, err error, simulate func(uint64, map[int]bool) *simulation) (least *simulation, off map[int]bool) {
	least, off = &simulation{fired: fired, failed: err}, map[int]bool{}
	for chunk := (len(fired) + 1) / 2; chunk > 0; {
		smaller := false
		for i := 0; i < len(least.fired); i += chunk {
			try := maps.Clone(off)
			for _, f := range least.fired[i:min(i+chunk, len(least.fired))] {
				try[f.number] = true
			}
			s := simulate(seed, try)
			// Without a fault others may come that did not before: only fewer are progress.
			if s.run() != nil && len(s.fired) < len(least.fired) {
				least, off, smaller = s, try, true
				break
			}
		}
		if !smaller {
			chunk /= 2
		}
	}
	return least, off
}

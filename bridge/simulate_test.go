package bridge

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flinksink/flinksink/sink/sinktest"
)

var (
	simSeed      = flag.Uint64("seed", math.MaxUint64, "of TestSimulate: run this one schedule and print it")
	simSchedules = flag.Int("schedules", 100, "of TestSimulate: how many")
	simFrom      = flag.Uint64("from", 0, "of TestSimulate: the first seed")
)

// TestSimulate runs groups of whole bridges, with their clients and their goroutines, against a broker in the process and sinktest's memory, in
// virtual time: processes are killed, stand still and go on, leave and join, lose their connections, answers and calls, the store is away and fails
// over, the topic is made anew, and what a dead process had asked arrives late. When that is over, everything that was written must be there once.
//
//	go test ./bridge -run Simulate -seed 17
//
// runs one schedule again and prints it. What a seed decides is the plan: the world, what is written when, and what goes wrong when. Time is
// virtual, so nothing depends on how fast the machine is; but which of two goroutines comes first at the same moment the runtime decides, and
// what they do to each other may be another thing the next time (and kgo and the group draw ids and pauses at random). So a failing schedule is
// tried a few times, and again with fewer faults for as long as it fails. The machine and the coordinator have simulations that repeat
// exactly: sink/internal/protocol and sink.
func TestSimulate(t *testing.T) {
	if *simSeed != math.MaxUint64 {
		p := newSimPlan(*simSeed).withSecond()
		w := simulate(t, p, nil, memoryOf(p), os.Stdout)
		for _, f := range p.faults {
			t.Log(f)
		}
		t.Logf("%v\n%s", p, strings.Join(w.history, "\n"))
		if w.failed != nil {
			t.Fatal(w.failed)
		}
		return
	}
	schedules := *simSchedules
	switch {
	case raced:
		schedules /= 5
	case os.Getenv("FLINKSINK_LONG") != "":
		schedules *= 20
	}
	began := time.Now()
	met, virtual, checkpoints := map[string]int{}, time.Duration(0), 0
	for i := range uint64(schedules) {
		p := newSimPlan(*simFrom + i).withSecond()
		w := simulate(t, p, nil, memoryOf(p), nil)
		if w.failed != nil {
			t.Fatal(fewestFaults(t, p, w, memoryOf))
		}
		for what, n := range w.met {
			met[what] += n
		}
		virtual, checkpoints = virtual+w.took, checkpoints+len(w.decided)
	}
	took := time.Since(began)
	var counts []string
	for what, n := range met {
		counts = append(counts, fmt.Sprintf("%6d  %s", n, what))
	}
	slices.Sort(counts)
	t.Logf("%d schedules of %v, %d checkpoints, %.1f s, %.0f schedules a minute; what happened:\n%s", schedules, virtual.Round(time.Second), checkpoints, took.Seconds(),
		float64(schedules)/took.Minutes(), strings.Join(counts, "\n"))
	for _, what := range append(simKinds[:], "a call arrives late", "a process finds another topic", "a generation is fenced") {
		if met[what] == 0 && schedules >= 100 {
			t.Errorf("it never happened that %s: the simulation says nothing about it", what)
		}
	}
}

func memoryOf(p simPlan) simServer {
	m := memory{sinktest.NewServer(), p.inTx, p.table()}
	if p.second {
		return pair{m}
	}
	return m
}

// simulate runs a plan in a bubble.
func simulate(t *testing.T, p simPlan, off map[int]bool, server simServer, out io.Writer) (w *simWorld) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if out != nil {
		log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	// A goroutine that waits for a lock whose holder waits for time stops the bubble's clock. Nothing in the bubble could tell.
	over := make(chan struct{})
	defer close(over)
	var seconds atomic.Int64 // of virtual time
	go func() {
		for last := int64(-1); ; last = seconds.Load() {
			select {
			case <-over:
				return
			case <-time.After(patience):
			}
			if seconds.Load() == last {
				stacks := make([]byte, 4<<20)
				panic(fmt.Sprintf("simulation %d: virtual time stands still\n%s", p.seed, stacks[:runtime.Stack(stacks, true)]))
			}
		}
	}()
	synctest.Test(t, func(*testing.T) {
		done := make(chan struct{})
		defer close(done)
		go func() {
			clock := time.NewTicker(time.Second)
			defer clock.Stop()
			for {
				select {
				case <-clock.C:
					seconds.Add(1)
				case <-done:
					return
				}
			}
		}()
		w = p.run(off, server, log)
	})
	return w
}

// fewestFaults runs a schedule that failed with fewer and fewer faults, for as long as it still fails: halves are left out, then quarters, at
// last one by one. Each is tried a few times, as goroutines may come in another order.
func fewestFaults(t *testing.T, p simPlan, w *simWorld, server func(simPlan) simServer) string {
	t.Helper()
	const tries = 3
	off := map[int]bool{}
	left := func() (out []int) {
		for _, f := range p.faults {
			if !off[f.number] {
				out = append(out, f.number)
			}
		}
		return out
	}
	for chunk := (len(p.faults) + 1) / 2; chunk > 0; {
		smaller := false
		for ns := range slices.Chunk(left(), chunk) {
			less := maps.Clone(off)
			for _, n := range ns {
				less[n] = true
			}
			for range tries {
				if again := simulate(t, p, less, server(p), nil); again.failed != nil {
					w, off, smaller = again, less, true
					break
				}
			}
			if smaller {
				break
			}
		}
		if !smaller || len(left()) == 0 {
			chunk /= 2
		}
	}
	var b strings.Builder
	for _, f := range p.faults {
		if !off[f.number] {
			fmt.Fprintf(&b, "%v\n", f)
		}
	}
	return fmt.Sprintf("seed %d (-seed %d runs it again): %v\n%v\n%d faults are enough:\n%s%s", p.seed, p.seed, w.failed, p, len(left()), b.String(), strings.Join(w.history, "\n"))
}

// TestSimulate_FindsMistakes: a mistake of a sink or a store that passes is a hole in the simulation.
func TestSimulate_FindsMistakes(t *testing.T) {
	if raced {
		t.Skip("it takes long, and says nothing about races that TestSimulate does not")
	}
	const within = 100 // schedules, which is what TestSimulate runs
	for _, c := range []struct {
		name  string
		wrong simWrong
	}{
		{"a Commit that is repeated shows the rows again", simWrong{doubles: true}},
		{"Prepare shows the rows", simWrong{early: true}},
		{"Open commits what was not decided", simWrong{undecided: true}},
		{"Open does not commit what was decided", simWrong{forgets: true}},
		{"Discard keeps what was written", simWrong{keeps: true}},
		{"Acquire does not list what ended generations decided", simWrong{unlisted: true}},
		{"a Save is answered and not done", simWrong{unsaved: true}},
		{"deletes have no effect", simWrong{swallows: true}},
		{"work is named by its checkpoint alone", simWrong{unnumbered: true}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			for seed := range uint64(within) {
				p := newSimPlan(seed)
				p.inTx = false
				if w := simulate(t, p, nil, newSimple(p.table(), c.wrong), nil); w.failed != nil {
					t.Logf("seed %d: %v", seed, w.failed)
					return
				}
			}
			t.Errorf("it passes %d schedules", within)
		})
	}
	t.Run("none", func(t *testing.T) { // else what is found above may be something else
		for seed := range uint64(within / 4) {
			p := newSimPlan(seed)
			p.inTx = false
			if w := simulate(t, p, nil, newSimple(p.table(), simWrong{}), nil); w.failed != nil {
				t.Fatalf("seed %d: %v", seed, w.failed)
			}
		}
	})
}

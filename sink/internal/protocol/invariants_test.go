package protocol

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// TestInvariants_RandomRuns answers every effect in every possible way, by seed. What the world would really answer is the
// coordinator's and sinktest's business; the invariants must hold whatever it answers.
func TestInvariants_RandomRuns(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(4000) {
		if trace, err := randomRun(seed, seen); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, trace)
		}
	}
	for _, f := range []Effect{Acquire{}, Begin{}, Open{}, Seek{}, Prepare{}, Save{}, End{}, Commit{}, Discard{}, Abort{}, Confirm{}, Wait{}, Hint{}, Pause{}, Resume{}, Alarm{}, ReportFenced{}, Done{}, Halt{}} {
		if seen[fmt.Sprintf("%T", f)] == 0 {
			t.Errorf("no run ever reached %T: the test does not explore it", f)
		}
	}
}

func randomRun(seed uint64, seen map[string]int) (trace string, err error) {
	r := rand.New(rand.NewPCG(seed, 1))
	sinks := 1 + r.IntN(3)
	cfg := Settings{Sinks: sinks, Attempts: 3, AlarmAfter: 2, StopAfter: r.IntN(4), Group: r.IntN(2) == 0, Outer: r.IntN(4) == 0}
	m, w := New(cfg), newChecker(cfg)
	parts := []changelog.Partition{{Topic: "t"}, {Topic: "t", Partition: 1}, {Topic: "t", Partition: 2}}
	stored := map[changelog.Partition]int64{}
	gen := int64(0)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	chaos := r.Float64() * 0.5
	var last Effect
	step := func(e Event) {
		trace += fmt.Sprintf("> %v\n", e)
		fx := m.Step(e)
		last = nil
		for _, f := range fx {
			trace += fmt.Sprintf("%v\n", f)
			seen[fmt.Sprintf("%T", f)]++
			if wantsAnswer(f) {
				last = f
			}
		}
		if werr := w.step(e, fx); werr != nil && err == nil {
			err = werr
		}
	}
	subset := func(ps []changelog.Partition) (out []changelog.Partition) {
		for _, p := range ps {
			if r.IntN(2) == 0 {
				out = append(out, p)
			}
		}
		return out
	}
	for range 120 {
		if err != nil || m.Halted() {
			return trace, err
		}
		if r.IntN(40) == 0 {
			m.Step(Interrupt{})
			trace += "> interrupt\n"
		}
		if last == nil {
			held := slices.Clone(m.Partitions())
			switch k := r.IntN(10); {
			case len(held) == 0 || k == 0:
				if add := subset(parts); len(add) > 0 {
					step(Assign{add})
				}
			case k == 1:
				step(Revoke{subset(held)})
			case k == 2:
				step(Lose{subset(held)})
			case k == 3:
				step(Recover{})
			case k < 6 || !m.Owned():
				step(Barrier{})
				if last != nil && r.IntN(4) == 0 {
					out := last
					step(Barrier{}) // joins
					last = out
				}
			case k == 6:
				step(WriteFailed{r.IntN(sinks), Class(r.IntN(len(classNames))), held[:1]})
			default:
				p := held[r.IntN(len(held))]
				at, _ := m.Position(p)
				step(Advance{[]changelog.Position{{Partition: p, Offset: at.Offset + 1 + int64(r.IntN(5))}}})
			}
			continue
		}
		if r.Float64() < chaos {
			if _, wait := last.(Wait); !wait {
				step(Failed{Class(r.IntN(len(classNames)))})
				continue
			}
		}
		switch f := last.(type) {
		case Acquire:
			a := Acquired{}
			for g := range gen {
				if r.IntN(3) == 0 {
					a.Ended = append(a.Ended, Ended{g + 1, r.IntN(2)})
				}
			}
			gen++
			a.Generation = gen
			for _, p := range f.Partitions {
				if o, ok := stored[p]; ok {
					a.Positions = append(a.Positions, changelog.Position{Partition: p, Offset: o})
				}
			}
			step(a)
		case Open:
			step(Opened{f.Sink})
		case Begin:
			b := Begun{}
			for _, p := range f.Partitions {
				b.Positions = append(b.Positions, changelog.Position{Partition: p, Offset: int64(r.IntN(9))})
			}
			step(b)
		case Seek:
			step(Sought{})
		case Prepare:
			step(Prepared{f.Sink, r.IntN(2) == 0})
		case Save:
			for _, p := range f.To {
				stored[p.Partition] = p.Offset
			}
			step(Saved{})
		case End:
			step(AllEnded{int64(r.IntN(int(w.cp) + 1))})
		case Commit:
			step(Committed{})
		case Discard:
			step(Discarded{})
		case Abort:
			step(Aborted{})
		case Confirm:
			step(Confirmed{r.IntN(2) == 0})
		case Wait:
			step(Waited{})
		}
	}
	return trace, err
}

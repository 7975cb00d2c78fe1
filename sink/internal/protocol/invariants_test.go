package protocol

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// watcher sees every event and effect of a machine and checks the invariants of the package comment without looking inside.
type watcher struct {
	sinks     int
	gen, cp   int64
	out       Effect // that wants an answer
	prepared  map[int]bool
	nonEmpty  map[Receipt]bool
	savedCP   int64 // last clear Saved of gen
	sentSave  int64 // last Save sent in gen
	unclear   bool  // a Save of gen is unclear, End has not answered
	mute      bool  // gen may neither commit nor abort any more: unclear Save, End, or fenced
	opened    int
	ended     []int64
	lastTo    []changelog.Position
	gone      map[changelog.Partition]bool
	req       Event
	refused   bool // the last Save was certainly refused
	committed map[Receipt]bool
}

func wantsAnswer(f Effect) bool {
	switch f.(type) {
	case Hint, Pause, Resume, Alarm, Done, Halt:
		return false
	}
	return true
}

func (w *watcher) step(e Event, fx []Effect) error {
	if w.gone == nil {
		w.gone, w.nonEmpty, w.committed = map[changelog.Partition]bool{}, map[Receipt]bool{}, map[Receipt]bool{}
	}
	w.event(e)
	for _, f := range fx {
		if err := w.effect(f); err != nil {
			return fmt.Errorf("%w: %v after %v", err, f, e)
		}
	}
	return nil
}

func (w *watcher) event(e Event) {
	switch e := e.(type) {
	case Interrupt:
		return
	case Assign:
		for _, p := range e.Add {
			delete(w.gone, p)
		}
		w.req = e
	case Lose:
		for _, p := range e.Gone {
			w.gone[p] = true
		}
		w.req = e
	case Revoke, Barrier, Recover:
		w.req = e
	case Acquired:
		w.gen, w.cp, w.savedCP, w.sentSave = e.Generation, 0, 0, 0
		w.unclear, w.mute, w.opened, w.refused = false, false, 0, false
		w.ended = nil
		for _, x := range e.Ended {
			w.ended = append(w.ended, x.Generation)
		}
		w.lastTo = nil
		for _, p := range e.Positions {
			w.lastTo = put(w.lastTo, p)
		}
	case Begun:
		for _, p := range e.Positions {
			w.lastTo = put(w.lastTo, p)
		}
	case Opened:
		w.opened++
	case Prepared:
		w.prepared[e.Sink] = true
		if !e.Empty {
			w.nonEmpty[Receipt{e.Sink, w.gen, w.cp}] = true
		}
	case Saved:
		w.savedCP = w.sentSave
	case AllEnded:
		w.mute = true
	case Failed:
		switch w.out.(type) {
		case Save:
			if e.Class == Uncertain {
				w.unclear, w.mute = true, true
			} else {
				w.refused = true
			}
			if e.Class == Fenced {
				w.mute = true
			}
		case Prepare, Commit:
			if e.Class == Fenced {
				w.mute = true
			}
		}
	case WriteFailed:
		if e.Class == Fenced {
			w.mute = true
		}
	}
	w.out = nil
}

func (w *watcher) effect(f Effect) error {
	if wantsAnswer(f) {
		if w.out != nil {
			return fmt.Errorf("I9: %v is still out", w.out)
		}
		w.out = f
	}
	if w.unclear {
		if _, ok := f.(End); ok {
			w.unclear = false
		} else if _, ok := f.(Wait); !ok && wantsAnswer(f) {
			return fmt.Errorf("I4: something else than End after an unclear Save")
		}
	}
	for _, p := range named(f) {
		if w.gone[p] {
			return fmt.Errorf("I6: %s is gone", p)
		}
	}
	switch f := f.(type) {
	case Prepare:
		if f.Sink == 0 {
			if f.Generation != w.gen || f.Checkpoint <= w.cp {
				return fmt.Errorf("I5: checkpoint %d.%d after %d.%d", f.Generation, f.Checkpoint, w.gen, w.cp)
			}
			w.cp, w.prepared, w.refused = f.Checkpoint, map[int]bool{}, false
		}
	case Save:
		if len(w.prepared) != w.sinks || f.Checkpoint != w.cp || w.sentSave >= f.Checkpoint {
			return fmt.Errorf("I2: not all prepared, or saved twice")
		}
		if !slices.Equal(f.From, w.lastTo) {
			return fmt.Errorf("I7: from %s, expected %s", positions(f.From), positions(w.lastTo))
		}
		w.lastTo = f.To
		w.sentSave = f.Checkpoint
		if len(f.Settled) > 0 && (w.opened < w.sinks || !slices.Equal(f.Settled, w.ended)) {
			return fmt.Errorf("I8: settled before every sink opened")
		}
		for _, r := range f.Receipts {
			if !w.nonEmpty[r] {
				return fmt.Errorf("I2: receipt %v was not prepared", r)
			}
		}
	case Commit:
		if f.Receipt.Generation != w.gen || f.Receipt.Checkpoint != w.savedCP || w.mute {
			return fmt.Errorf("I1: not known to be saved")
		}
		if w.committed[f.Receipt] {
			return fmt.Errorf("I1: committed twice")
		}
	case Abort:
		if w.mute || f.Receipt.Generation != w.gen || f.Receipt.Checkpoint <= w.savedCP {
			return fmt.Errorf("I3: may be decided, or fenced")
		}
		if w.sentSave == f.Receipt.Checkpoint && !w.refused {
			return fmt.Errorf("I3: its Save was sent and not refused")
		}
	case Done:
		if r, ok := w.req.(Revoke); ok {
			for _, p := range r.Gone {
				w.gone[p] = true
			}
		}
		w.req = nil
	}
	return nil
}

// named returns the partitions an effect names.
func named(f Effect) (out []changelog.Partition) {
	add := func(ps []changelog.Position) {
		for _, p := range ps {
			out = append(out, p.Partition)
		}
	}
	switch f := f.(type) {
	case Acquire:
		return f.Partitions
	case Begin:
		return f.Partitions
	case Seek:
		add(f.To)
	case Save:
		add(f.To)
	case Prepare:
		add(f.To)
	}
	return out
}

// TestInvariants_RandomRuns answers every effect in every possible way, by seed. What the world would really answer is the
// coordinator's and sinktest's business; the invariants must hold whatever it answers.
func TestInvariants_RandomRuns(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(4000) {
		if trace, err := randomRun(seed, seen); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, trace)
		}
	}
	for _, f := range []Effect{Acquire{}, Begin{}, Open{}, Seek{}, Prepare{}, Save{}, End{}, Commit{}, Discard{}, Abort{}, Confirm{}, Wait{}, Hint{}, Pause{}, Resume{}, Alarm{}, Done{}, Halt{}} {
		if seen[fmt.Sprintf("%T", f)] == 0 {
			t.Errorf("no run ever reached %T: the test does not explore it", f)
		}
	}
}

func randomRun(seed uint64, seen map[string]int) (trace string, err error) {
	r := rand.New(rand.NewPCG(seed, 1))
	sinks := 1 + r.IntN(3)
	m := New(Settings{Sinks: sinks, Attempts: 3, AlarmAfter: 2})
	w := &watcher{sinks: sinks}
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
			case k == 6:
				step(WriteFailed{r.IntN(sinks), Class(r.IntN(6)), held[:1]})
			default:
				p := held[r.IntN(len(held))]
				at, _ := m.Position(p)
				step(Advance{[]changelog.Position{{Partition: p, Offset: at.Offset + 1 + int64(r.IntN(5))}}})
			}
			continue
		}
		if r.Float64() < chaos {
			if _, wait := last.(Wait); !wait {
				step(Failed{Class(r.IntN(6))})
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
			w.committed[f.Receipt] = true
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

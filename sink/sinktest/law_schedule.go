package sinktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// scheduleLaws play at random what the others play by design.
func scheduleLaws() []Law {
	return []Law{
		{ID: "L53", Table: AppendTable, Needs: Exact, run: anySchedule, long: 4,
			Sentence: "Whatever order lanes write, checkpoint, abort, die, live on and take each other's partitions in, each change is there once."},
	}
}

// deed is one step of a schedule. A step that does not fit its lane's state is left out.
type deed struct {
	what string
	lane int // of those that are there
	n    int
}

func (d deed) String() string { return fmt.Sprintf("%s by lane %d (%d)", d.what, d.lane, d.n) }

const (
	schedules      = 24
	scheduleLength = 60
	scheduleLanes  = 2
)

// anySchedule plays schedules of the seed. One that breaks the law is played again with steps left out, as long as it still does: what is
// shown is the shortest that was found.
func anySchedule(w *world) {
	seed := max(w.h.Seed, 1)
	for i := range uint64(schedules) {
		deeds := schedule(seed + i)
		v := w.play(deeds)
		if v == nil {
			continue
		}
		for size := len(deeds) / 2; size > 0; {
			shorter := false
			for at := 0; at+size <= len(deeds); {
				without := slices.Delete(slices.Clone(deeds), at, at+size)
				if again := w.play(without); again != nil {
					deeds, v, shorter = without, again, true
				} else {
					at += size
				}
			}
			if !shorter {
				size /= 2
			}
		}
		v.Seed = seed + i
		panic(stopped{v})
	}
}

func schedule(seed uint64) []deed {
	r := rand.New(rand.NewPCG(seed, 53))
	// What lanes mostly do comes often.
	kinds := []string{"write", "write", "write", "checkpoint", "prepare", "prepare", "prepare", "save", "save", "commit", "abort", "abort", "abort", "die", "take one", "take one", "take both", "zombie", "discard", "close"}
	deeds := make([]deed, scheduleLength)
	for i := range deeds {
		deeds[i] = deed{kinds[r.IntN(len(kinds))], r.IntN(scheduleLanes), 1 + r.IntN(3)}
	}
	return deeds
}

// play plays a schedule in an empty place, and returns how it broke the law, or nil.
func (w *world) play(deeds []deed) (v *Violation) {
	w.release()
	w.lanes, w.history, w.srv = nil, nil, NewServer()
	w.topic = NewTopic(w.topic.Table)
	if err := w.h.Reset(w.ctx, w.topic.Table); err != nil {
		w.broken("Harness.Reset: %v", err)
	}
	for i := range int64(40) {
		w.topic.Put(int32(i%2), Insert(i/2, "a"))
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stopped:
			if !errors.As(p.err, &v) {
				panic(p)
			}
		default:
			panic(p)
		}
	}()
	s := &stage{w: w}
	s.take(0, false, 0)
	s.take(1, false, 1)
	for _, d := range deeds {
		s.do(d)
	}
	last := w.lane()
	last.begin(0, 1)
	last.checkpoint()
	w.sees("after the last owner's checkpoint", w.topic.End(0), w.topic.End(1))
	w.saved("after the last owner's checkpoint", w.topic.End(0), w.topic.End(1))
	return nil
}

// stage is the state of a schedule.
type stage struct {
	w       *world
	actors  [scheduleLanes]*actor
	zombies []*actor
}

type actor struct {
	*lane
	parts []int32
	state string // "open", "written", "prepared", "saved": what may come next
	over  bool   // a successor took a partition: nothing it is told matters, and no Save may succeed
}

// take begins a generation over partitions, and ends those that hold one of them.
func (s *stage) take(i int, fresh bool, parts ...int32) {
	for j, a := range s.actors {
		if a != nil && j != i && slices.ContainsFunc(a.parts, func(p int32) bool { return slices.Contains(parts, p) }) {
			a.over = true
			s.zombies = append(s.zombies, a)
			s.actors[j] = nil
		}
	}
	a := s.actors[i]
	if a == nil || fresh {
		a = &actor{lane: s.w.lane()}
	}
	a.begin(parts...)
	a.parts, a.state = parts, "open"
	s.actors[i] = a
}

func (s *stage) do(d deed) {
	a := s.actors[d.lane]
	switch {
	case d.what == "take one":
		s.take(d.lane, false, int32(d.n%2))
		return
	case d.what == "take both":
		s.take(d.lane, false, 0, 1)
		return
	case d.what == "zombie":
		s.wake(d)
		return
	case a == nil:
		return
	}
	w := s.w
	switch what := d.what; {
	case what == "write" && (a.state == "open" || a.state == "written"):
		w.must(a.Write(w.ctx, d.n), "Write")
		a.state = "written"
	case what == "discard" && (a.state == "open" || a.state == "written"):
		a.discard()
		a.state = "open"
	case what == "prepare" && (a.state == "open" || a.state == "written"):
		if a.state == "open" && d.n > 1 { // with nothing written, one in three
			w.must(a.Write(w.ctx, d.n), "Write")
		}
		a.prepare()
		a.state = "prepared"
	case what == "checkpoint" && (a.state == "open" || a.state == "written"):
		w.must(a.Write(w.ctx, d.n), "Write")
		a.prepare()
		a.save()
		a.commit()
		a.state = "open"
		w.seesNoMore(fmt.Sprintf("after a checkpoint of lane %s", a.Name))
	case what == "save" && a.state == "prepared":
		a.save()
		a.state = "saved"
	case what == "commit" && a.state == "saved":
		a.commit()
		a.state = "open"
	case what == "abort" && a.state == "prepared":
		a.abort()
		s.take(d.lane, false, a.parts...)
	case what == "die":
		a.crash()
		s.take(d.lane, true, a.parts...)
	case what == "close":
		a.close()
		s.take(d.lane, true, a.parts...)
	}
}

// wake lets a zombie do what it was about to.
func (s *stage) wake(d deed) {
	if len(s.zombies) == 0 || s.w.h.Unfenced {
		return
	}
	z := s.zombies[d.n%len(s.zombies)]
	w := s.w
	switch z.state {
	case "open", "written":
		_ = z.Write(w.ctx, d.n)
		if z.Prepare(w.ctx) == nil {
			z.state = "prepared"
		} else {
			_ = z.Discard(w.ctx)
		}
	case "prepared":
		if d.n == 1 {
			_ = z.Abort(w.ctx)
			z.state = "open"
			return
		}
		if z.Save(w.ctx) == nil {
			w.fail("Save of generation %d succeeded, whose partitions were taken", z.Claim.Generation.ID)
		}
		z.state = "open"
	case "saved":
		_ = z.Commit(w.ctx)
		z.state = "open"
	}
}

// seesNoMore is a violation if readers see a row twice more often than it was sent.
func (w *world) seesNoMore(when string) {
	left := w.topic.Rows(w.topic.End(0), w.topic.End(1))
	for _, r := range w.rows() {
		i, ok := slices.BinarySearchFunc(left, r, compareRows)
		if !ok {
			w.fail("%s, readers see the row %v more often than it was sent", when, r)
		}
		left = slices.Delete(left, i, i+1)
	}
}

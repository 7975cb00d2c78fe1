package protocol

import (
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// checker sees every event and effect of a machine and checks the invariants of the package comment without looking inside. Traces,
// random runs, the exploration and the simulation all use this one. It is a value: a copy by clone goes on alone.
type checker struct {
	sinks    int
	group    bool
	gen, cp  int64
	out      Effect // that wants an answer
	prepared uint16 // of checkpoint cp, by sink
	nonEmpty uint16 // of those, the ones with something to commit
	sent     int64  // last Save sent in gen
	saved    int64  // last clear Saved of gen
	refused  bool   // the last Save was certainly refused
	unclear  bool   // a Save of gen is unclear, End has not answered
	mute     bool   // gen may neither commit nor abort any more: unclear Save, End, or fenced
	waiting  uint16 // decided by gen and not committed, by sink
	opened   int
	ended    []int64
	lastTo   []changelog.Position
	gone     []changelog.Partition
	req      Event
	slept    bool   // a Wait of this request ended, and no Confirm said yes since
	dirty    uint16 // sinks that hold what a failure left, until Discard
	owned    bool   // the last Done said so
	halted   bool
}

func newChecker(cfg Settings) *checker { return &checker{sinks: cfg.Sinks, group: cfg.Group} }

// clone copies what is changed in place.
func (c *checker) clone() *checker {
	d := *c
	d.gone, d.lastTo = slices.Clone(c.gone), slices.Clone(c.lastTo)
	return &d
}

func wantsAnswer(f Effect) bool {
	switch f.(type) {
	case Hint, Pause, Resume, Alarm, ReportFenced, Done, Halt:
		return false
	}
	return true
}

// step is told an event and what the machine made of it.
func (c *checker) step(e Event, fx []Effect) error {
	c.event(e)
	for _, f := range fx {
		if err := c.effect(f); err != nil {
			return fmt.Errorf("%w: %v after %v", err, f, e)
		}
	}
	return nil
}

func (c *checker) all() uint16 { return 1<<c.sinks - 1 }

func (c *checker) event(e Event) {
	switch e := e.(type) {
	case Interrupt:
		return
	case Assign:
		c.gone = slices.DeleteFunc(c.gone, func(p changelog.Partition) bool { return slices.Contains(e.Add, p) })
		c.req = e
	case Lose:
		c.gone = append(c.gone, e.Gone...)
		c.req = e
		if c.owned {
			c.dirty = c.all()
		}
	case Revoke, Recover:
		c.req = e
	case Barrier:
		if c.out != nil { // it joins, and answers nothing
			return
		}
		c.req = e
	case Acquired:
		*c = checker{sinks: c.sinks, group: c.group, gen: e.Generation, gone: c.gone, req: c.req}
		for _, x := range e.Ended {
			c.ended = append(c.ended, x.Generation)
		}
		for _, p := range e.Positions {
			c.lastTo = put(c.lastTo, p)
		}
	case Begun:
		for _, p := range e.Positions {
			c.lastTo = put(c.lastTo, p)
		}
	case Opened:
		c.opened++
	case Prepared:
		c.prepared |= 1 << e.Sink
		if !e.Empty {
			c.nonEmpty |= 1 << e.Sink
		}
	case Saved:
		c.saved, c.waiting = c.sent, c.nonEmpty
	case AllEnded:
		c.mute = true
	case Committed:
		if f, ok := c.out.(Commit); ok {
			c.waiting &^= 1 << f.Receipt.Sink
		}
	case Discarded:
		if f, ok := c.out.(Discard); ok {
			c.dirty &^= 1 << f.Sink
		}
	case Confirmed:
		c.slept = c.slept && !e.Yes
	case Waited:
		c.slept = true
	case Failed:
		switch f := c.out.(type) {
		case Save:
			c.dirty = c.all()
			if e.Class == Uncertain {
				c.unclear, c.mute = true, true
			} else {
				c.refused = true
			}
		case Prepare:
			c.dirty = c.all()
		case Discard: // what is left is rolled back by exact name
			c.dirty &^= 1 << f.Sink
		}
		switch c.out.(type) {
		case Save, Prepare, Commit:
			c.mute = c.mute || e.Class == Fenced
		}
	case WriteFailed:
		c.dirty = c.all()
		c.mute = c.mute || e.Class == Fenced
		c.req = e
	}
	c.out = nil
}

func (c *checker) effect(f Effect) error {
	if c.halted {
		return fmt.Errorf("I9: an effect after Halt")
	}
	if wantsAnswer(f) {
		if c.out != nil {
			return fmt.Errorf("I9: %v is still out", c.out)
		}
		c.out = f
	}
	if c.unclear {
		if _, ok := f.(End); ok {
			c.unclear = false
		} else if _, ok := f.(Wait); !ok && wantsAnswer(f) {
			return fmt.Errorf("I4: something else than End after an unclear Save")
		}
	}
	for _, p := range named(f) {
		if slices.Contains(c.gone, p) {
			return fmt.Errorf("I6: %s is gone", p)
		}
	}
	switch f := f.(type) {
	case Acquire:
		if c.group && c.slept {
			return fmt.Errorf("I11: acquired after a wait, not confirmed")
		}
		if c.dirty != 0 {
			return fmt.Errorf("I12: not every sink was told Discard")
		}
	case Prepare:
		if f.Sink == 0 {
			if f.Generation != c.gen || f.Checkpoint <= c.cp {
				return fmt.Errorf("I5: checkpoint %d.%d after %d.%d", f.Generation, f.Checkpoint, c.gen, c.cp)
			}
			if c.waiting != 0 {
				return fmt.Errorf("I10: checkpoint %d is not committed", c.saved)
			}
			c.cp, c.prepared, c.nonEmpty, c.refused = f.Checkpoint, 0, 0, false
		}
	case Save:
		return c.save(f)
	case Commit:
		r := f.Receipt
		if r.Generation != c.gen || r.Checkpoint != c.saved || c.mute {
			return fmt.Errorf("I1: not known to be saved")
		}
		if c.waiting>>r.Sink&1 == 0 {
			return fmt.Errorf("I1: committed twice, or never prepared")
		}
	case Abort:
		if c.mute || f.Receipt.Generation != c.gen || f.Receipt.Checkpoint <= c.saved {
			return fmt.Errorf("I3: may be decided, or fenced")
		}
		if c.sent == f.Receipt.Checkpoint && !c.refused {
			return fmt.Errorf("I3: its Save was sent and not refused")
		}
	case Done:
		if r, ok := c.req.(Revoke); ok {
			c.gone = append(c.gone, r.Gone...)
		}
		c.owned = f.Owned
		c.req, c.slept = nil, false // whoever asks next was just told by the group
	case Halt:
		c.halted = true
	}
	return nil
}

func (c *checker) save(f Save) error {
	if c.prepared != c.all() || f.Checkpoint != c.cp || c.sent >= f.Checkpoint {
		return fmt.Errorf("I2: not all prepared, or saved twice")
	}
	var receipts uint16
	for _, r := range f.Receipts {
		if r.Generation != c.gen || r.Checkpoint != c.cp {
			return fmt.Errorf("I2: receipt %v is of another checkpoint", r)
		}
		receipts |= 1 << r.Sink
	}
	if receipts != c.nonEmpty {
		return fmt.Errorf("I2: the receipts are not those that were prepared")
	}
	if !slices.Equal(f.From, c.lastTo) {
		return fmt.Errorf("I7: from %s, expected %s", positions(f.From), positions(c.lastTo))
	}
	for i, to := range f.To {
		if len(f.To) != len(f.From) || to.Partition != f.From[i].Partition || to.Offset < f.From[i].Offset {
			return fmt.Errorf("I7: from %s to %s", positions(f.From), positions(f.To))
		}
	}
	c.lastTo, c.sent = slices.Clone(f.To), f.Checkpoint
	if len(f.Settled) > 0 && (c.opened < c.sinks || !slices.Equal(f.Settled, c.ended)) {
		return fmt.Errorf("I8: settled before every sink opened")
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

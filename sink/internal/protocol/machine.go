package protocol

import (
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// Settings are what a machine is made for.
type Settings struct {
	Sinks      int // how many, in declared order
	Attempts   int // unclear failures in a row before Halt; 0: no bound
	AlarmAfter int // failed Commits in a row before Alarm; 0: never
	StopAfter  int // failed Commits in a row before Halt, which leaves them to the next owner; 0: never
	// Group: a consumer group assigns the partitions and answers Confirm. Then an Acquire that follows a Wait is confirmed first (I11);
	// without a group nobody could, and Confirm, asked after a fence, is answered with no.
	Group bool
	// Outer: somebody else answers Save, and keeps what it holds under a number of his own. So there is no checkpoint that he did not ask
	// for, and each Barrier is one, also with nothing to save.
	Outer bool
}

// Machine is the protocol of one lane.
type Machine struct {
	cfg   Settings
	phase phase
	req   request

	parts []changelog.Partition // what the lane holds, sorted; no effect names another (I6)
	added []changelog.Partition // being added by this Assign: its caller moves the source there, so no Seek
	gone  []changelog.Partition // being given back by this Revoke or Lose
	at    []changelog.Position  // where the source stands, sorted; a partition missing here must be sought

	gen    int64
	cp     int64                // last number used in gen (I5)
	from   []changelog.Position // what is saved, of all parts, sorted (I7)
	to     []changelog.Position // what is written, of all parts, sorted
	ended  []Ended              // what the claim of gen listed
	settle []int64              // may be named as settled in the next Save (I8)
	atOnce bool                 // the running checkpoint was not asked for: the claim must not grow, the begin must last

	sink     int       // index of the loop over sinks
	receipts []Receipt // prepared for the running checkpoint
	pending  []Receipt // decided and not committed (I1)
	retry    []Receipt // of pending, those whose Commit failed in this pass
	paused   bool
	commits  int  // failed passes over pending in a row
	lost     bool // a Commit of this pass found its work gone

	aborts []Receipt // rest of the clean-up's aborts
	then   action    // what follows the clean-up
	class  Class     // why

	tries       int  // failures in a row, for Wait
	unclear     int  // those of them that were uncertain
	slept       bool // a Wait of this request ended, and no Confirm said yes since
	told        bool // ReportFenced came out since the last Acquired
	interrupted bool
	decided     int64 // last checkpoint decided while serving the request
	decidedGen  int64
}

type phase uint8

const (
	unowned phase = iota // no generation to write for
	acquiring
	opening
	beginning
	seeking
	running
	preparing
	saving
	asking // End after an unclear Save
	committing
	commitWait
	aborting
	discarding
	confirming
	confirmWait
	acquireWait
	askWait
	leaving // End with nothing left to hold
	halted
)

type request uint8

const (
	none request = iota
	assign
	barrier
	revoke
	lose
	recover_
	write
)

// action is what follows a clean-up.
type action uint8

const (
	thenRetry   action = iota // wait, then acquire anew
	thenAcquire               // acquire anew at once
	thenConfirm               // fenced: ask whether the partitions are still ours
	thenHalt
	thenDrop // drop what is gone, then go on with what is left
)

// New returns a machine that holds nothing.
func New(cfg Settings) *Machine { return &Machine{cfg: cfg} }

// Owned reports whether the lane holds a generation that can be written to.
func (m *Machine) Owned() bool { return m.phase == running }

// Idle reports whether a request may come.
func (m *Machine) Idle() bool { return m.phase == running || m.phase == unowned }

// Halted reports whether the lane is over.
func (m *Machine) Halted() bool { return m.phase == halted }

// Generation returns the number of the last acquired generation.
func (m *Machine) Generation() int64 { return m.gen }

// Partitions returns what the lane holds, sorted. The caller must not change it.
func (m *Machine) Partitions() []changelog.Partition { return m.parts }

// Position returns where the source stands in p, and whether the lane knows.
func (m *Machine) Position(p changelog.Partition) (changelog.Position, bool) {
	i, ok := find(m.at, p)
	if !ok {
		return changelog.Position{}, false
	}
	return m.at[i], true
}

// Moved reports whether a checkpoint would have something to save.
func (m *Machine) Moved() bool { return !samePositions(m.from, m.to) || len(m.settle) > 0 }

// Step takes an event and returns what to do. An event that does not fit the state is a mistake of the driver and panics: going
// on would break an invariant.
func (m *Machine) Step(e Event) []Effect {
	if m.phase == halted {
		panic("protocol: event after halt: " + fmt.Sprint(e))
	}
	switch e := e.(type) {
	case Interrupt:
		m.interrupted = true
		return nil
	case Assign, Barrier, Revoke, Lose, Recover, WriteFailed, Advance:
		if _, ok := e.(Barrier); ok && !m.Idle() {
			// Nothing can be written while an effect is out, so what is being done covers all that this barrier could: it joins.
			return nil
		}
		if !m.Idle() {
			panic(fmt.Sprintf("protocol: request %v while an effect is out", e))
		}
		return m.ask(e)
	case Failed:
		return m.failed(e.Class)
	}
	return m.answer(e)
}

// ask serves a request.
func (m *Machine) ask(e Event) []Effect {
	if e, ok := e.(Advance); ok { // the hot one: no effect, no Done
		m.advance(e.To)
		return nil
	}
	m.decided, m.decidedGen, m.added, m.gone = 0, 0, nil, nil
	switch e := e.(type) {
	case Assign:
		m.req = assign
		for _, p := range e.Add {
			if _, held := slices.BinarySearchFunc(m.parts, p, changelog.Partition.Compare); !held {
				m.added = insert(m.added, p)
				m.parts = insert(m.parts, p)
			}
		}
		if m.phase == running && m.Moved() {
			return m.checkpoint(false)
		}
		return m.acquire()
	case Barrier:
		m.req = barrier
		if m.phase == unowned {
			return m.acquire()
		}
		if !m.Moved() && !m.cfg.Outer {
			return m.done()
		}
		return m.checkpoint(false)
	case Revoke:
		m.req, m.gone = revoke, e.Gone
		if m.phase == running && m.Moved() {
			return m.checkpoint(false)
		}
		return m.drop()
	case Lose:
		m.req, m.gone = lose, e.Gone
		if m.phase == unowned {
			return m.drop()
		}
		return m.cleanUp(nil, thenDrop, Fenced)
	case Recover:
		m.req = recover_
		m.forget(e.Read)
		if m.phase == running {
			return m.done()
		}
		return m.acquire()
	case WriteFailed:
		m.req = write
		m.forget(e.Read)
		return m.undecided(e.Class, nil)
	}
	panic(fmt.Sprintf("protocol: unknown request %v", e))
}

// answer takes a good answer to the effect that is out.
func (m *Machine) answer(e Event) []Effect {
	switch e := e.(type) {
	case Acquired:
		m.expect(acquiring, e)
		if e.Generation <= m.gen {
			panic(fmt.Sprintf("protocol: generation %d after %d", e.Generation, m.gen))
		}
		m.gen, m.cp = e.Generation, 0
		m.ended, m.settle, m.atOnce, m.told = e.Ended, nil, false, false
		m.from = nil
		for _, p := range e.Positions {
			if contains(m.parts, p.Partition) {
				m.from = put(m.from, p)
			}
		}
		m.receipts, m.pending, m.retry = nil, nil, nil // the claim knows better what is decided
		m.phase, m.sink = opening, 0
		return m.open()
	case Opened:
		m.expect(opening, e)
		m.sink++
		return m.open()
	case Begun:
		m.expect(beginning, e)
		for _, p := range e.Positions {
			m.from = put(m.from, p)
		}
		// The begin is saved at once: "latest", asked again after a crash, would be another place, and what lay between lost.
		m.atOnce = true
		return m.seek()
	case Sought:
		m.expect(seeking, e)
		for _, p := range m.from {
			m.at = put(m.at, p)
		}
		return m.start()
	case Prepared:
		m.expect(preparing, e)
		if !e.Empty {
			m.receipts = append(m.receipts, Receipt{m.sink, m.gen, m.cp})
		}
		m.sink++
		return m.prepare()
	case Saved:
		m.expect(saving, e)
		return m.saved()
	case AllEnded:
		if m.phase == leaving {
			return m.leave()
		}
		m.expect(asking, e)
		if e.Last == m.cp {
			m.decided, m.decidedGen = m.cp, m.gen
			m.from = slices.Clone(m.to)
		}
		// Decided or not, this lane neither commits nor aborts (I4): the claim of the next generation lists what was decided, and its Open
		// rolls back what was not.
		return m.cleanUp(nil, thenAcquire, Uncertain)
	case Committed:
		m.expect(committing, e)
		m.sink++
		return m.commit()
	case Aborted:
		m.expect(aborting, e)
		return m.nextAbort()
	case Discarded:
		m.expect(discarding, e)
		m.sink++
		return m.discard()
	case Confirmed:
		m.expect(confirming, e)
		if !e.Yes {
			return m.reportFenced(m.halt(Fenced))
		}
		if m.slept {
			m.slept = false
			return m.acquire()
		}
		return m.again(Fenced)
	case Waited:
		return m.waited()
	}
	panic(fmt.Sprintf("protocol: unknown event %v", e))
}

func (m *Machine) expect(p phase, e Event) {
	if m.phase != p {
		panic(fmt.Sprintf("protocol: answer %v in phase %d", e, m.phase))
	}
}

func (m *Machine) advance(to []changelog.Position) {
	if m.phase != running {
		panic("protocol: advance without a generation")
	}
	for _, p := range to {
		if _, held := find(m.to, p.Partition); !held {
			panic("protocol: advance of a partition that the lane does not hold: " + p.Partition.String())
		}
		m.to, m.at = put(m.to, p), put(m.at, p)
	}
}

// done ends a request with what the lane holds.
func (m *Machine) done() []Effect {
	if m.phase != running {
		m.phase = unowned
	}
	var fx []Effect
	if m.paused {
		m.paused = false
		fx = append(fx, Resume{m.parts})
	}
	m.req, m.added, m.gone, m.interrupted, m.slept = none, nil, nil, false, false
	return append(fx, Done{m.decidedGen, m.decided, m.phase == running})
}

// giveUp ends an interrupted request: the generation is not used any more, the next request acquires anew.
func (m *Machine) giveUp() []Effect {
	m.phase = unowned
	m.remove()
	return m.done()
}

func (m *Machine) halt(c Class) []Effect {
	m.phase = halted
	return []Effect{Halt{Class: c}}
}

// reportFenced puts the report of a fence before what follows it, once a fence: also where the lane goes on, people want to know.
func (m *Machine) reportFenced(fx []Effect) []Effect {
	if m.told {
		return fx
	}
	m.told = true
	return append([]Effect{ReportFenced{}}, fx...)
}

// forget notes that the source is past changes that were dropped: whatever it said of these partitions, they must be sought.
func (m *Machine) forget(ps []changelog.Partition) {
	for _, p := range ps {
		if i, ok := find(m.at, p); ok {
			m.at = slices.Delete(m.at, i, i+1)
		}
	}
}

// remove forgets the partitions that are gone.
func (m *Machine) remove() {
	for _, p := range m.gone {
		if i, ok := slices.BinarySearchFunc(m.parts, p, changelog.Partition.Compare); ok {
			m.parts = slices.Delete(slices.Clone(m.parts), i, i+1)
		}
		if i, ok := find(m.at, p); ok {
			m.at = slices.Delete(m.at, i, i+1)
		}
	}
	m.gone = nil
}

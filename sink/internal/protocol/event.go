package protocol

import (
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// Class says what the world is like after a failure; package sink's error classes as data.
type Class uint8

const (
	Uncertain Class = iota // nobody knows; also every failure nobody classified
	Transient              // surely nothing is durable
	Fenced                 // another generation owns the partitions
	Rejected               // a change can never succeed
	Config                 // a setting is wrong
	Lost                   // what was asked for no longer exists
	Redo                   // a change was refused before the decision, and will not come again: surely nothing is durable
)

var classNames = [...]string{"uncertain", "transient", "fenced", "rejected", "config", "lost", "redo"}

// String returns the class's name in lower case.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// Receipt stands for a committable that is not empty; the driver keeps its bytes.
type Receipt struct {
	Sink       int // index in declared order
	Generation int64
	Checkpoint int64
}

// Ended is a generation that is over and not settled.
type Ended struct {
	Generation int64
	Decided    int // how many committables it decided and nobody is known to have committed; Open sees to them
}

// Event is a request or an answer.
type Event interface{ event() }

type (
	// Assign asks for partitions to be added to the lane.
	Assign struct{ Add []changelog.Partition }
	// Advance tells that every sink took a batch, and how far the source was read with it.
	Advance struct{ To []changelog.Position }
	// WriteFailed tells that a sink refused a batch. Read are the partitions it held changes of: the batch is dropped, so the source
	// no longer stands where the lane last advanced to.
	WriteFailed struct {
		Sink  int
		Class Class
		Read  []changelog.Partition
	}
	// Barrier asks for a checkpoint.
	Barrier struct{}
	// Revoke asks to give partitions back in order.
	Revoke struct{ Gone []changelog.Partition }
	// Lose tells that somebody else may own partitions already.
	Lose struct{ Gone []changelog.Partition }
	// Recover asks for a generation again after an interrupted request. Read are partitions of a batch that could not be taken and
	// was dropped.
	Recover struct{ Read []changelog.Partition }
	// Interrupt tells that the caller will not wait any longer; it comes before the answer that is out, or before the next.
	Interrupt struct{}

	// Acquired answers Acquire. A partition missing in Positions was never saved.
	Acquired struct {
		Generation int64
		Positions  []changelog.Position
		Ended      []Ended
	}
	// Begun answers Begin.
	Begun struct{ Positions []changelog.Position }
	// Opened answers Open.
	Opened struct{ Sink int }
	// Sought answers Seek.
	Sought struct{}
	// Prepared answers Prepare; Empty: there will be nothing to commit.
	Prepared struct {
		Sink  int
		Empty bool
	}
	// Saved answers Save: it is decided.
	Saved struct{}
	// AllEnded answers End with the last checkpoint that was saved for the generation, 0 for none.
	AllEnded struct{ Last int64 }
	// Committed answers Commit.
	Committed struct{}
	// Discarded answers Discard, Aborted answers Abort. A failure of either is told as Failed and changes nothing: what is left is rolled
	// back by exact name when the next generation opens.
	Discarded struct{}
	Aborted   struct{}
	// Confirmed answers Confirm: whether the partitions are still this lane's to acquire.
	Confirmed struct{ Yes bool }
	// Waited answers Wait.
	Waited struct{}
	// Failed answers any effect that failed.
	Failed struct{ Class Class }
)

func (Assign) event()      {}
func (Advance) event()     {}
func (WriteFailed) event() {}
func (Barrier) event()     {}
func (Revoke) event()      {}
func (Lose) event()        {}
func (Recover) event()     {}
func (Interrupt) event()   {}
func (Acquired) event()    {}
func (Begun) event()       {}
func (Opened) event()      {}
func (Sought) event()      {}
func (Prepared) event()    {}
func (Saved) event()       {}
func (AllEnded) event()    {}
func (Committed) event()   {}
func (Discarded) event()   {}
func (Aborted) event()     {}
func (Confirmed) event()   {}
func (Waited) event()      {}
func (Failed) event()      {}

func (e Assign) String() string  { return "assign " + partitions(e.Add) }
func (e Advance) String() string { return "advance to " + positions(e.To) }
func (e WriteFailed) String() string {
	return fmt.Sprintf("write to sink %d failed: %s, read %s", e.Sink, e.Class, partitions(e.Read))
}
func (Barrier) String() string  { return "barrier" }
func (e Revoke) String() string { return "revoke " + partitions(e.Gone) }
func (e Lose) String() string   { return "lose " + partitions(e.Gone) }
func (e Recover) String() string {
	if len(e.Read) == 0 {
		return "recover"
	}
	return "recover, read " + partitions(e.Read)
}
func (Interrupt) String() string { return "interrupt" }
func (e Acquired) String() string {
	s := fmt.Sprintf("acquired generation %d at %s", e.Generation, positions(e.Positions))
	if len(e.Ended) > 0 {
		s += ", ended " + ended(e.Ended)
	}
	return s
}
func (e Begun) String() string  { return "begun at " + positions(e.Positions) }
func (e Opened) String() string { return fmt.Sprintf("opened sink %d", e.Sink) }
func (Sought) String() string   { return "sought" }
func (e Prepared) String() string {
	if e.Empty {
		return fmt.Sprintf("prepared sink %d, nothing to commit", e.Sink)
	}
	return fmt.Sprintf("prepared sink %d", e.Sink)
}
func (Saved) String() string      { return "saved" }
func (e AllEnded) String() string { return fmt.Sprintf("ended, last saved %d", e.Last) }
func (Committed) String() string  { return "committed" }
func (Discarded) String() string  { return "discarded" }
func (Aborted) String() string    { return "aborted" }
func (e Confirmed) String() string {
	if e.Yes {
		return "confirmed"
	}
	return "not confirmed"
}
func (Waited) String() string   { return "waited" }
func (e Failed) String() string { return "failed: " + e.Class.String() }

func partitions(ps []changelog.Partition) string {
	if len(ps) == 0 {
		return "nothing"
	}
	s := make([]string, len(ps))
	for i, p := range ps {
		s[i] = p.String()
	}
	return strings.Join(s, " ")
}

func positions(ps []changelog.Position) string {
	if len(ps) == 0 {
		return "nothing"
	}
	s := make([]string, len(ps))
	for i, p := range ps {
		s[i] = place(p)
	}
	return strings.Join(s, " ")
}

func ended(es []Ended) string {
	s := make([]string, len(es))
	for i, e := range es {
		s[i] = fmt.Sprintf("%d", e.Generation)
		if e.Decided > 0 {
			s[i] += fmt.Sprintf("(%d decided)", e.Decided)
		}
	}
	return strings.Join(s, " ")
}

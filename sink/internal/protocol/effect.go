package protocol

import (
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// Effect is something for the driver to do.
type Effect interface{ effect() }

type (
	// Acquire takes all partitions of the lane for a new generation.
	Acquire struct{ Partitions []changelog.Partition }
	// Open fences and settles, for one sink, what the ended generations left.
	Open struct {
		Sink       int
		Generation int64
		Ended      []Ended
	}
	// Begin asks the source where partitions that were never saved are to be read from.
	Begin struct{ Partitions []changelog.Partition }
	// Seek moves the source.
	Seek struct{ To []changelog.Position }
	// Prepare makes one sink's work durable.
	Prepare struct {
		Sink       int
		Generation int64
		Checkpoint int64
		From, To   []changelog.Position
	}
	// Save decides.
	Save struct {
		Generation int64
		Checkpoint int64
		From, To   []changelog.Position
		Receipts   []Receipt
		Settled    []int64
	}
	// End ends this lane's own generation and asks what was saved for it.
	End struct{ Generation int64 }
	// Commit makes decided work visible.
	Commit struct{ Receipt Receipt }
	// Discard drops what a sink was given and did not prepare.
	Discard struct{ Sink int }
	// Abort drops what a sink prepared.
	Abort struct{ Receipt Receipt }
	// Confirm asks whether the partitions are still this lane's to acquire.
	Confirm struct{}
	// Wait asks for a pause before the Nth try, from 1.
	Wait struct {
		N     int
		Class Class
	}

	// Hint tells the positions that are decided and committed, for the consumer group.
	Hint struct{ To []changelog.Position }
	// Pause and Resume stop and start fetching while decided work waits to be committed.
	Pause  struct{ Partitions []changelog.Partition }
	Resume struct{ Partitions []changelog.Partition }
	// Alarm tells that N Commits in a row failed.
	Alarm struct{ N int }
	// ReportFenced tells that another generation owns the partitions; the lane may take them back, see Confirm. Once a fence.
	ReportFenced struct{}
	// Done tells that the request is served. Checkpoint is the number that was decided last while serving it, 0 for none; Owned:
	// the lane holds a generation and can be written to.
	Done struct {
		Generation int64
		Checkpoint int64
		Owned      bool
	}
	// Halt tells that the lane is over. Tries is how often the Commit of what is decided failed, where the lane leaves it to the next owner; else 0.
	Halt struct {
		Class Class
		Tries int
	}
)

func (Acquire) effect()      {}
func (Open) effect()         {}
func (Begin) effect()        {}
func (Seek) effect()         {}
func (Prepare) effect()      {}
func (Save) effect()         {}
func (End) effect()          {}
func (Commit) effect()       {}
func (Discard) effect()      {}
func (Abort) effect()        {}
func (Confirm) effect()      {}
func (Wait) effect()         {}
func (Hint) effect()         {}
func (Pause) effect()        {}
func (Resume) effect()       {}
func (Alarm) effect()        {}
func (ReportFenced) effect() {}
func (Done) effect()         {}
func (Halt) effect()         {}

func (f Acquire) String() string { return "acquire " + partitions(f.Partitions) }
func (f Open) String() string {
	s := fmt.Sprintf("open sink %d for generation %d", f.Sink, f.Generation)
	if len(f.Ended) > 0 {
		s += ", settle " + ended(f.Ended)
	}
	return s
}
func (f Begin) String() string { return "begin " + partitions(f.Partitions) }
func (f Seek) String() string  { return "seek " + positions(f.To) }
func (f Prepare) String() string {
	return fmt.Sprintf("prepare sink %d for checkpoint %d.%d from %s to %s", f.Sink, f.Generation, f.Checkpoint, positions(f.From), positions(f.To))
}
func (f Save) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "save checkpoint %d.%d from %s to %s", f.Generation, f.Checkpoint, positions(f.From), positions(f.To))
	for _, r := range f.Receipts {
		fmt.Fprintf(&b, ", to commit %s", r)
	}
	for i, g := range f.Settled {
		if i == 0 {
			b.WriteString(", settled")
		}
		fmt.Fprintf(&b, " %d", g)
	}
	return b.String()
}
func (f End) String() string        { return fmt.Sprintf("end generation %d", f.Generation) }
func (f Commit) String() string     { return "commit " + f.Receipt.String() }
func (f Discard) String() string    { return fmt.Sprintf("discard sink %d", f.Sink) }
func (f Abort) String() string      { return "abort " + f.Receipt.String() }
func (Confirm) String() string      { return "confirm the assignment" }
func (f Wait) String() string       { return fmt.Sprintf("wait before try %d (%s)", f.N, f.Class) }
func (f Hint) String() string       { return "hint " + positions(f.To) }
func (f Pause) String() string      { return "pause " + partitions(f.Partitions) }
func (f Resume) String() string     { return "resume " + partitions(f.Partitions) }
func (f Alarm) String() string      { return fmt.Sprintf("alarm: commit failed %d times", f.N) }
func (ReportFenced) String() string { return "report the fence" }
func (f Done) String() string {
	s := "done"
	if f.Checkpoint > 0 {
		s += fmt.Sprintf(", checkpoint %d.%d", f.Generation, f.Checkpoint)
	}
	if !f.Owned {
		s += ", no generation"
	}
	return s
}
func (f Halt) String() string {
	if f.Tries > 0 {
		return fmt.Sprintf("halt: commit failed %d times", f.Tries)
	}
	return "halt: " + f.Class.String()
}

// String returns the form "sink 0 at 3.7".
func (r Receipt) String() string {
	return fmt.Sprintf("sink %d at %d.%d", r.Sink, r.Generation, r.Checkpoint)
}

package sink

import (
	"context"
	"log/slog"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// Options are the settings of a [Coordinator]. Bridge, Sinks, Source and Tables are required; the zero of everything else is a
// good default.
type Options struct {
	// Bridge is the durable name that keys everything that is stored.
	Bridge string
	// Lane numbers this lane among those of the process. Defaults to 0.
	Lane int
	// Sinks in declared order, in which they are written, prepared and committed; those that show rows early come last, see [Declared]. The
	// names are stored with committables; renaming one orphans what it has not yet committed.
	Sinks []Declared
	// Store decides. Defaults to the committer of the first of Sinks whose committer is a Store, else to the store that one of them offers
	// (StoreOfferer).
	Store Store
	// Source goes back, begins and pauses.
	Source Source
	// Group tells the consumer group's generation. nil: partitions are not assigned by a group; then a lane that is fenced stops,
	// while one with a group that still assigns it the partitions acquires again.
	Group Group
	// Tables are those whose batches will be written.
	Tables []*changelog.Table
	// Fingerprint tells this bridge from another that uses the same name by mistake: group, topics, target.
	Fingerprint string
	// Owner names this process to people who look at the store. Defaults to host name and process number.
	Owner string
	// Interval is the longest time between two checkpoints that the caller means to let pass, for sinks whose servers give up what waits for its decision or
	// its commit (kafka.TwoPhase): they refuse what would be too long. Defaults to 0: not known.
	Interval time.Duration
	// ByteBudget is the memory of the lane. Defaults to DefaultByteBudget.
	ByteBudget int
	// Grace bounds how long the outcome of a Save that was sent is waited for after the caller's context ended, and how long Revoke
	// and Close take to finish a checkpoint. Defaults to 30 s.
	Grace time.Duration
	// Attempts bounds how many failures in a row of unknown outcome (ErrUncertain, so every unclassified one) are followed by another
	// try before the coordinator gives up and returns the error. Defaults to 10. Transient failures, such as a server that is away,
	// and Commit after a decision are tried without end; Hooks.Retry and the log hear of each.
	Attempts int
	// Backoff is the pause before the nth try, from 1. Defaults to 100 ms doubling to 30 s, with jitter.
	Backoff func(n int) time.Duration
	// AlarmAfter is the number of failed Commits in a row after which Hooks.Alarm is called. Defaults to 5.
	AlarmAfter int
	// StopAfter is the number of failed Commits in a row after which the lane gives up, with the error of the last. What is decided stays so: the sinks
	// whose Commit succeeded are done, and the store holds the receipts of the others, which the next owner settles before anything else.
	// Defaults to 0: the lane goes on trying, with its partitions paused. It never goes on reading meanwhile: one decided checkpoint waits at
	// most, since sinks count on being committed in order.
	StopAfter int
	// Hint is told the positions after every committed checkpoint, for the consumer group's offsets. Errors do not matter.
	Hint func(ctx context.Context, to []changelog.Position)
	// Release is told each batch that was written once nothing refers to it any more, so that the caller can use it again.
	Release func(b *changelog.Batch)
	// Rejected is asked about an ErrRejected of Write, Prepare or Save, in which err.Rejected names the refused changes if the sink
	// could tell. True has the checkpoint dropped and done again from the saved positions, at once: the caller sees to it that the refused
	// changes do not come again, or where they are not known, that fewer come at a time until they are. False, and nil, end the lane.
	Rejected func(err *Error) bool
	// Hooks observe; see there.
	Hooks Hooks
	// Logger hears of retries, fences and settlements. Defaults to silence.
	Logger *slog.Logger
}

// Group is a member of a consumer group, as far as fencing needs it.
type Group interface {
	// Generation returns the generation that the group last gave this member, -1 before the first.
	Generation() int32
	// Confirm asks the broker whether this member and its generation are the group's current ones.
	Confirm(ctx context.Context) (bool, error)
}

// Progress says how far the source has been read by a Write.
type Progress struct {
	To         []changelog.Position // next offset to read of each partition that moved
	Records    int64                // messages that were read, those without a change included
	Superseded int64                // changes not in the batch because a later one of the same key made them void
	Skipped    int64                // changes not in the batch because of a filter or the data policy; those that no sink takes are added
	Letters    []DeadLetter         // messages that are set aside; the sinks must hold a DeadLetterKeeper
}

// Hooks are called by the coordinator, each optional, from the goroutine that called it; a hook that blocks blocks the lane. What they
// are given they may keep.
type Hooks struct {
	Acquired  func(c Claim)
	Begun     func(c Cut)              // step 1, before Prepare
	Prepared  func(c Cut)              // step 2 is done
	Saving    func(c Cut)              // step 3 is about to be sent
	Saved     func(r Report)           // step 3 is decided
	Committed func(r Report)           // step 4 is done, before the group offset
	Aborted   func(c Cut, err error)   // not decided; it will be done again or given up
	Retry     func(err error, n int)   // before the nth try again
	Fenced    func(err error)          // another generation owns the partitions
	Alarm     func(err error, n int)   // n Commits in a row failed
	Step      func(s SinkStep)         // one of the sinks opened, prepared, committed, or could not commit
	Written   func(t string, n, b int) // a batch of n changes and b bytes of table t was taken by every sink
}

// Report describes what one call of the coordinator decided: mostly one checkpoint. A call that had to acquire anew may decide two, the second
// without changes; the hooks then hear of both, and Counters sum up over the call.
type Report struct {
	Generation GenerationID
	Checkpoint CheckpointID // 0: there was nothing to save, or the checkpoint is being done again
	To         []changelog.Position
	Counters   Counters
	Prepare    time.Duration
	Save       time.Duration
	Commit     time.Duration
}

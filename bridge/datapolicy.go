package bridge

import (
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// DataPolicy says what happens with a message that cannot be decoded, and with one of which the sink refuses a change: a value that its
// column cannot hold, a constraint that is not met. Both are bad data, which no retry makes good. An outage is never taken for
// it: only a [sink.ErrRejected] of a write comes here, and what a server that is away answers is not one.
//
// # What is dropped
//
// A message that cannot be decoded is dropped whole. Of one that holds several changes only the refused one is dropped, but the two changes of
// an update (-U and +U next to each other in one message) go together. Where the sink cannot say which change it was (a
// deferred constraint says no at COMMIT), the checkpoint is done again in halves until one message is left, and that one is dropped whole. Messages
// are then judged one by one: a row that a deferred constraint accepts only together with one of a later message may be taken for
// bad. Everything else is applied, and the account of the checkpoint stays balanced: read = applied + superseded + dead-lettered + skipped.
//
// A change that a later one of its key made void before the sink wrote it (sink.Counters.Superseded) is not looked at, and so not refused.
//
// # What follows
//
// Each change stands for itself. The row keeps the state of the last change of its key that was accepted, and a later change of the key
// applies as usual: so after a refused +I or +U in upsert encoding the sink holds the row as it was before, or none, until its next change; a refused -D
// leaves the row; and the +U after a refused one finds the older row and replaces it. In a retract encoding whose update is two
// messages (debezium-json as Flink writes it), the delete of the old row has been applied when the insert of the new one is refused:
// the row is gone until the key's next change. What is set aside is not applied later by itself; whoever corrects the cause
// writes the row's present state to the topic again, or into the table.
type DataPolicy uint8

const (
	// Halt checkpoints everything before the message and stops with a [sink.ErrRejected] that holds a *changelog.DataError and names the
	// command that gets past it.
	Halt DataPolicy = iota
	// DeadLetter keeps the message beside the rows (see [sink.DeadLetterKeeper]), in the same checkpoint, and goes on. It is refused
	// at start for a sink that cannot do that.
	DeadLetter
	// Skip drops the message, counts it (sink.Counters.Skipped), logs its coordinates and goes on.
	Skip
)

// String returns the policy's name as the flinksink command spells it.
func (p DataPolicy) String() string {
	switch p {
	case Halt:
		return "halt"
	case DeadLetter:
		return "dead-letter"
	case Skip:
		return "skip"
	}
	return fmt.Sprintf("policy(%d)", uint8(p))
}

// aside is a message of a load, or one change of it, that is dropped by the data policy.
type aside struct {
	part *partition
	// pos is the message, as a position before it. Its leader epoch is the message's own; see tail.start for why that may be saved.
	pos     changelog.Position
	before  int64 // messages of its partition that the load holds before it
	changes int   // that are not in the batch because of it
	err     *changelog.DataError
	refusal *refusal         // nil: it cannot be decoded
	letter  *sink.DeadLetter // nil: it is skipped
}

// asideBytes is what an aside costs beside its letter's key, value and headers.
const asideBytes = 400

func (a *aside) bytes() int {
	n := asideBytes
	if l := a.letter; l != nil {
		n += len(l.Key) + len(l.Value)
		for _, h := range l.Headers {
			n += len(h.Key) + len(h.Value)
		}
	}
	return n
}

package sink

import (
	"context"
	"errors"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// DeadLetter is a message that is set aside because it cannot be decoded, or because one of its changes can never be written. It is the
// only place where the bytes of a refused message go: they are in no error and no log.
type DeadLetter struct {
	changelog.Partition
	Offset    int64
	Index     int32 // of the refused change within the message, from 0; -1: the message as a whole
	Column    string
	Class     string    // "data": it cannot be decoded; "rejected": the sink refused a change
	Error     string    // what is wrong, without a row value
	Timestamp time.Time // of the message; zero where it has none
	Key       []byte    // nil: none
	Value     []byte    // nil: a tombstone
	Headers   []changelog.Header
	Changes   int // how many changes of the message are not written because of it, at least 1
}

// DeadLetterKeeper is a [Committer] that keeps dead letters: they become visible with the rows and the positions of the checkpoint that
// they are written in, or not at all.
type DeadLetterKeeper interface {
	// WriteDeadLetters takes letters into the current checkpoint, as Write takes a batch. They stay valid until Prepare or Discard
	// returns. A letter is never refused because of its content. Without letters it writes nothing, and tells whether they could be
	// written.
	WriteDeadLetters(ctx context.Context, letters []DeadLetter) error
}

// CheckDeadLetters asks, once partitions are assigned, whether letters could be written: what is missing for that is better found at the
// start than with the first letter.
func (c *Coordinator) CheckDeadLetters(ctx context.Context) error {
	i := c.keeper()
	if i < 0 {
		return &Error{Op: "check dead letters", Bridge: c.o.Bridge, Class: ErrConfig, Err: errors.New("no sink of this lane keeps dead letters")}
	}
	if err := c.committers[i].(DeadLetterKeeper).WriteDeadLetters(ctx, nil); err != nil {
		return c.wrap("check dead letters", c.o.Sinks[i].Name, err)
	}
	return nil
}

// Superseder is a [Committer] that writes only the last change of a key where a batch holds several.
//
// With several sinks a change counts as superseded where none of them wrote it by itself: the smallest of their numbers is taken out of
// Counters.Applied, 0 if one of them is no Superseder. Where a sink is given a part of the changes only, the numbers cannot be compared, and
// what sinks pass over stays in Applied. What each sink did is told by Hooks.Step.
type Superseder interface {
	// Superseded tells, between Prepare and Save, how many changes written since the last Prepare were not written by themselves because
	// a later one of the same key made them void.
	Superseded() int64
}

// Spiller is a [Committer] that can let go of batches before the end of a checkpoint, because its system holds what was written.
type Spiller interface {
	// Spill tells, between two calls of Write, that the batches written so far are about to be used again by the caller.
	Spill()
}

// OriginalTaker is a [Committer] that can make use of [changelog.Batch].Originals: it writes the encoding that it reads, and hands values on as they came.
type OriginalTaker interface {
	// TakesOriginals reports whether it does so for batches of t. The answer does not change.
	TakesOriginals(t *changelog.Table) bool
}

// StoreOfferer is a [Committer] that has a place for positions beside its rows, although any store may decide about them. The store that the first
// of a lane offers decides where [Options].Store is nil and no committer is a Store itself.
type StoreOfferer interface {
	// OfferStore returns the store, which is called from the goroutine that calls the committer, or nil.
	OfferStore() Store
}

// Rejection names a change that a sink can never write.
type Rejection struct {
	changelog.Partition
	Offset int64
	Index  int32  // of the change within its message, from 0; -1: some change of the message
	Column string // "" where it is not one column's
	Reason error  // without a row value
}

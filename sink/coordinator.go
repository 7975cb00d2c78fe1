package sink

import (
	"context"
	"errors"

	"github.com/flinksink/flinksink/changelog"
)

// Coordinator runs the checkpoint protocol for one lane. Its methods are called from one goroutine at a time.
//
// When a checkpoint must be done again (a transient or unclear failure, a fence while the partitions are still assigned) the
// coordinator acquires anew and calls Source.Seek, and then Write or Checkpoint returns nil: the caller goes on reading from
// where the source now is. An error from a method is final: the lane is over, Close it.
type Coordinator struct{}

// NewCoordinator checks o, all of it at once, and asks every sink for its committer.
func NewCoordinator(ctx context.Context, o Options) (*Coordinator, error) {
	return nil, errors.New("not built")
}

// Guarantee states what the combination of store and sinks gives, and names the weakest link.
func (c *Coordinator) Guarantee() Guarantee { return Guarantee{} }

// Assign adds partitions to the lane: what is written so far is checkpointed, a new generation over the old and the new partitions
// is acquired, every sink opened. It returns where the added partitions are to be read from; the caller moves its consumer
// there (Seek is not called for them) and checks that these positions still exist.
func (c *Coordinator) Assign(ctx context.Context, add []changelog.Partition) ([]changelog.Position, error) {
	return nil, nil
}

// Write takes a batch into the current checkpoint. b may be nil when messages were read that hold no change. Batches of
// partitions that the lane does not hold are an error. p.To must not pass a message of which b holds only a part.
func (c *Coordinator) Write(ctx context.Context, b *changelog.Batch, p Progress) error { return nil }

// Checkpoint runs steps 1 to 4. With nothing read and nothing to settle it does nothing.
func (c *Coordinator) Checkpoint(ctx context.Context) (Report, error) { return Report{}, nil }

// Revoke gives partitions back in order: it finishes a checkpoint within the grace, else aborts, and ends the generation; a new
// one begins with the partitions that are left.
func (c *Coordinator) Revoke(ctx context.Context, gone []changelog.Partition) error { return nil }

// Lose drops partitions that somebody else may own already: nothing more is saved for them. What was written is discarded and read again by
// their new owner; the partitions that are left begin a new generation from their saved positions (Seek is called for them).
func (c *Coordinator) Lose(ctx context.Context, gone []changelog.Partition) error { return nil }

// Pending returns what the current checkpoint holds so far: changes and bytes of batches.
func (c *Coordinator) Pending() (changes int, bytes int) { return 0, 0 }

// Partitions returns the partitions that the lane holds, sorted.
func (c *Coordinator) Partitions() []changelog.Partition { return nil }

// Close aborts what is not checkpointed and closes committers and store. Checkpoint first to keep it.
func (c *Coordinator) Close(ctx context.Context) error { return nil }

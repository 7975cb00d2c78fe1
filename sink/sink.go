package sink

import (
	"context"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// Sink makes committers, one a lane. It is safe for use by several goroutines.
//
// Tables come with a key and without one. A job that only inserts writes tables without a key (Schema.Key is empty, Mode is Append), where equal
// rows are all kept: a sink that names its rows names such a one by its change: topic, partition, offset and index. A sink
// that cannot take one refuses it in Lane or Open, as an ErrConfig that names the table.
type Sink interface {
	// Lane returns the committer of one lane. Nothing is fenced yet; settings and tables that the server contradicts are an ErrConfig here
	// or in Open. A committer that also implements [Store] can be the store of its lane: its Save makes the rows and the
	// decision durable in one transaction.
	Lane(ctx context.Context, l Lane) (Committer, error)
	// Guarantee states what the sink's mode gives when its store and source do their part.
	Guarantee() Guarantee
}

// Lane describes one lane to a sink.
type Lane struct {
	Bridge     string             // the bridge's durable name
	Number     int                // from 0; only for messages and metrics, nothing stored is keyed by it
	Sink       string             // the declared name of the sink in this bridge; stored with its committables
	Tables     []*changelog.Table // what batches will hold; each may have a key or none
	Interval   time.Duration      // the longest time between two checkpoints, which a sink compares with how long its servers keep what is not committed; 0: not known
	ByteBudget int                // how many bytes of written batches the lane may keep alive; 0: DefaultByteBudget
	OtherStore bool               // another than this sink decides: the store in Options.Store, an outer engine, or a sink before it that is its own store
}

// DefaultByteBudget is the memory of one lane.
const DefaultByteBudget = 64 << 20

// Committer is one sink's side of a lane's checkpoints. Calls come from one goroutine at a time, in the order that the package
// comment numbers. [sinktest.Run] checks an implementation, law by law.
//
// Errors carry a class (see [Error]); an error without one is taken for ErrUncertain. When ctx ends during a call its outcome is
// as unknown as after any lost answer.
//
// A call may also come late: its process was stopped before it, or its request was on the way, while a successor acquired, opened and
// went on. Whatever an ended generation calls after its successor's Open fails or changes nothing that readers or successors see. Where the
// sink knows why, it says ErrFenced: after ErrTransient or ErrUncertain a lane acquires anew, and would take the partitions back from
// their new owner.
//
// [sinktest.Run]: https://pkg.go.dev/github.com/flinksink/flinksink/sink/sinktest#Run
type Committer interface {
	// Open fences the writers of the ended generations in c, of all of them whatever partitions they held, and settles what they
	// left of this sink: what c lists as decided is committed, in the order listed (of other sinks c lists nothing), everything else of
	// theirs is rolled back, by exact name. nil: ended generations can write no more. It may be called again with the same claim. It
	// comes after Acquire and before the first Write of c's generation.
	//
	// It may come late: c's own generation may have been ended, by a successor that opened already. That Open is ErrFenced where the sink
	// knows; where it cannot know, nil is fine if nothing that the generation writes and prepares afterwards can become visible. A
	// generation that acquired and never opened is among those to be fenced too.
	Open(ctx context.Context, c Claim) error
	// Write takes a batch (changes of one table, in order) into the current checkpoint. It may send the rows on at once, into an open
	// transaction or a staging place, or keep them until Prepare; what is kept counts against Lane.ByteBudget, and more than that has to be
	// sent on. The batch and all memory that its rows point to stay valid until Prepare or Discard returns, or Spill where the committer
	// is a Spiller; b.Bytes() counts what it pins.
	//
	// A key may come several times, in any kinds: the last change wins ([changelog.Net] works that out). A column may be Unchanged
	// ([changelog.UnchangedValue]): its source did not send it, and it stays what the row has, from the changes before it or from the
	// table. A change for which there is no such row, and any such change for a sink that writes whole rows only, is ErrRejected, and is never
	// written as NULL. A change that can never succeed is ErrRejected and named in Error.Rejected.
	//
	// After an error nothing of this checkpoint becomes visible (a convergent sink: early, and converges), and Prepare fails until
	// Discard or Open: a checkpoint with a hole is not prepared.
	Write(ctx context.Context, b *changelog.Batch) error
	// Prepare makes all that was written durable without making it visible, and returns the receipt, which alone is enough for
	// another process to commit or abort. Nobody is there to tell that process the bridge, or what this one had in memory: what Commit
	// needs beside the fields of [Committable] goes into its Data. An empty receipt (no Data) means: nothing to commit. A committer that is
	// its own store may leave the work in the open transaction that its Save commits.
	Prepare(ctx context.Context, cut Cut) (Committable, error)
	// Discard drops what was written and not prepared. Nothing written is fine. Also when it fails nothing of it is in a later checkpoint.
	Discard(ctx context.Context) error
	// Commit makes prepared work visible. It is called only after Save has decided.
	//
	// Order: the checkpoints of a lane are committed one after the other. The next one is not written before the Commit of the last was
	// nil, and a successor's Open settles all that was decided before it writes. So no Commit takes effect for the first time
	// behind that of a later checkpoint of the same partitions, and a sink need not sort them.
	//
	// Repeats: a Commit whose answer was lost comes again, and one that was done may come at any later time, behind later checkpoints of the
	// same keys, from any process, and inside a late Open. It is nil then, or ErrFenced to a generation that is over, and changes
	// nothing: no row is doubled, no old row comes back.
	//
	// Proof: "not there" is no evidence that it was done; without positive proof it is ErrLost. The sink itself keeps the proof, as nobody
	// tells it when a generation is settled. It may drop it once nobody is left who could ask: the generation is missing in Claim.Ended of
	// a later claim over one of the receipt's partitions (so it was settled), and every process that may hold the receipt is surely dead, which only
	// time can tell (days, not minutes). A proof is a few bytes a checkpoint; keeping it for ever is fine. A Commit without its
	// proof must be ErrLost, never done again.
	Commit(ctx context.Context, c Committable) error
	// Abort discards prepared work whose Save was certainly never sent or certainly refused. Gone and never there are both nil.
	Abort(ctx context.Context, c Committable) error
	// Close frees what the committer holds and decides nothing: an open transaction ends without effect. Twice is harmless.
	Close(ctx context.Context) error
}

// Store remembers a bridge's checkpoints. Its answer decides. It is checked by sinktest like a Committer.
type Store interface {
	// Acquire takes partitions for a new generation. When it returns, no older generation holding any of them can Save, ever;
	// every such generation is ended. The claim tells the last saved positions, and every ended and not yet settled generation that
	// ever held one of these partitions, transitively. A fingerprint that differs from the stored one is an ErrConfig. A group generation
	// older than the stored one is ErrFenced.
	Acquire(ctx context.Context, r AcquireRequest) (Claim, error)
	// Save makes cp the last checkpoint of all its partitions at once, or of none. nil is the decision. It succeeds only if gen still
	// owns all of cp's partitions (else ErrFenced) and the stored positions are cp.From (else ErrFenced too: somebody else moved
	// them); the very same checkpoint again is fine. A partition that was never saved accepts any From. A refusal that is certain is
	// ErrFenced or ErrTransient; anything unclear is ErrUncertain, and is settled by End.
	Save(ctx context.Context, gen Generation, cp Checkpoint) error
	// End ends gen itself, and nobody else, and tells the last checkpoint that was saved for it (0: none): the way to learn what
	// became of a Save whose answer was lost. After End nothing more can be saved for gen, also not by a Save that is still on its
	// way. It may be repeated and answers also for generations that others ended or settled.
	End(ctx context.Context, gen Generation) (CheckpointID, error)
	// Read returns what is stored for a bridge, for operators and tools. A bridge that was never acquired has a zero State.
	Read(ctx context.Context, bridge string) (State, error)
	// Close frees what the store holds. Twice is harmless.
	Close(ctx context.Context) error
}

// Source is what a [Coordinator] needs of a consumer. bridge has one; own consumer loops pass theirs. Calls come from the goroutine
// that called the Coordinator.
type Source interface {
	// Begin returns where a partition that the store knows nothing of is to be read from (the bridge's start setting), with
	// the partition's topic id and leader epoch as far as known.
	Begin(ctx context.Context, p []changelog.Partition) ([]changelog.Position, error)
	// Seek makes the next change that is written come from these positions. All that was read of these partitions and not yet
	// written is forgotten, of these partitions only. A position that no longer exists, or that is of a topic that was made
	// anew, is ErrLost.
	Seek(ctx context.Context, to []changelog.Position) error
	// Pause stops fetching partitions while the member keeps its place in the group; Resume goes on.
	Pause(p ...changelog.Partition)
	Resume(p ...changelog.Partition)
}

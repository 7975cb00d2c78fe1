package sink

import (
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// GenerationID numbers the generations of a bridge. It rises and is never used twice; 0 is none.
type GenerationID int64

// CheckpointID numbers the checkpoints of a generation, from 1. Together with the generation's number it is never used twice:
// to re-open is to acquire anew. 0 is none.
type CheckpointID int64

// Generation is one run of a lane over a fixed set of partitions. It is over the moment anyone acquires one of them.
type Generation struct {
	Bridge     string
	ID         GenerationID
	Partitions []changelog.Partition // sorted
}

// AcquireRequest asks a [Store] for partitions.
type AcquireRequest struct {
	Bridge      string
	Fingerprint string                // of group, topics and target: a second bridge under the same name is told apart by it
	Partitions  []changelog.Partition // sorted, at least one
	Owner       string                // host, process and member id, for people who look at the store
	// GroupGeneration is the generation of the consumer group that assigned the partitions, -1 where there is no group. A store
	// refuses one that is older than the newest it has seen for any of the partitions: it is an Acquire that was given up long ago.
	GroupGeneration int32
	// GroupRestarted holds the stored group generation that the asker was refused for, after it made sure at the broker that its own
	// is the current one: a broker that forgot an empty group counts from 1 again. The store accepts a lower GroupGeneration only if
	// what it holds is still this number. 0: no such case.
	GroupRestarted int32
}

// Claim is the answer to Acquire.
type Claim struct {
	Generation Generation
	// Positions are the last saved ones; a partition that is missing here was never saved.
	Positions []changelog.Position
	// Ended lists the generations that are over and not settled, oldest first; among them those that never opened.
	Ended []EndedGeneration
	// Incarnation rises when a topic is made anew or the user asks for a rewind; part of an external version.
	Incarnation uint16
}

// EndedGeneration is a generation that is over, with what it decided and nobody has yet said to be committed.
type EndedGeneration struct {
	ID      GenerationID
	Decided []Committable // in the order in which they are to be committed, an earlier checkpoint first
}

// Committable is a sink's receipt for prepared work: small (64 KiB of Data at most), serialisable, enough for another process to commit or
// abort it. Names of prepared work contain the bridge, which is no field here: a sink that needs it, or anything else that the fields do not
// say, puts it into Data.
type Committable struct {
	Sink       string // the declared name
	Generation GenerationID
	Checkpoint CheckpointID
	Version    int    // of the format of Data
	Data       []byte // empty: nothing to commit
	From, To   []changelog.Position
}

// Empty reports that there is nothing to commit.
func (c Committable) Empty() bool { return len(c.Data) == 0 }

// Cut describes the checkpoint that is being prepared.
type Cut struct {
	Generation Generation
	Checkpoint CheckpointID
	From, To   []changelog.Position // of all partitions of the generation, sorted
	Counters   Counters
}

// Counters account for what a checkpoint read: Read = Applied + Superseded + DeadLettered + Skipped, or the lane halts.
type Counters struct {
	Records      int64 // messages, those without a change included
	Read         int64 // changes decoded
	Applied      int64 // changes handed to the sinks: to every one that takes them, and to one at least
	Superseded   int64 // changes that a later change of the same key made void, before the sinks or in every one of them; see Superseder
	DeadLettered int64
	Skipped      int64 // by a filter, by the data policy, or because no sink takes them
}

// Balanced reports whether every change that was read is accounted for.
func (c Counters) Balanced() bool {
	return c.Read == c.Applied+c.Superseded+c.DeadLettered+c.Skipped
}

// Add returns the sum.
func (c Counters) Add(d Counters) Counters {
	return Counters{c.Records + d.Records, c.Read + d.Read, c.Applied + d.Applied, c.Superseded + d.Superseded,
		c.DeadLettered + d.DeadLettered, c.Skipped + d.Skipped}
}

// Checkpoint is a numbered cut of a lane: positions plus committables. Saving it is the decision.
type Checkpoint struct {
	ID       CheckpointID
	From, To []changelog.Position // of all partitions of the generation, sorted
	Counters Counters
	// Committables are all that were decided by this generation and are not yet committed, this checkpoint's included. Empty
	// ones are left out.
	Committables []Committable
	// Settled are ended generations whose decided committables are all committed by now: the store forgets them, and later claims do not list
	// them. Sinks are not told; what they may forget is said at Committer.Commit.
	Settled []GenerationID
}

// State is what a store holds for a bridge.
type State struct {
	Bridge      string
	Format      int // version of what is stored
	Fingerprint string
	Incarnation uint16
	Generations []GenerationState // that are not settled, and the owners of partitions
	Positions   []StoredPosition
	Pending     []Committable // decided and not yet known to be committed
}

// GenerationState describes one generation to people.
type GenerationState struct {
	ID         GenerationID
	Owner      string
	Ended      bool
	Partitions []changelog.Partition
	Last       CheckpointID // last saved, 0: none
	Acquired   time.Time
}

// StoredPosition is the last saved position of one partition.
type StoredPosition struct {
	changelog.Position
	Generation GenerationID // that saved it
	Checkpoint CheckpointID
	Owner      GenerationID // that holds the partition now, 0: nobody
	Saved      time.Time
	Counters   Counters // of the checkpoint that saved it, over all partitions of its lane
}

package protocol

// The world that the exploration puts around machines: a consumer group, a store, sinks, the requests that are under way. It is a value of
// fixed size without a pointer, so that a state is copied by assignment and hashed as bytes.
//
// A request is either answered at once, which is its moment, or given up by its sender and left under way, from where it reaches its
// server at any later time or never. An answer that was lost is a request that arrives right afterwards. A process that takes no more steps is
// a dead one; one that goes on after others took its partitions is a zombie.

const (
	nParts   = 2
	nChanges = 4 // of a partition: two messages, each a -U and its +U
	nLanes   = 3 // two processes, and last, the owner who recovers
	last     = 2
	nGens    = 8 // numbers from 1
	nCps     = 3 // numbers from 1, of a generation
	nSinks   = 2
	nWays    = 2 // requests under way whose sender gave up
	allParts = 1<<nParts - 1
)

// kind is what a sink is like, and which of its rules are in force.
type kind uint8

const (
	absent     kind = iota
	twoPhase        // named work, a row for each generation that may prepare; commit, fence, roll back by exact name
	locked          // the same, and prepared work locks its generation's row: fence and roll back take turns (Postgres, prepared transactions)
	unfenced        // named work without a fence: every open sweeps settled generations too (S3 uploads)
	sessions        // an id with an epoch for each generation (Kafka transactions)
	ownStore        // rows and positions in one transaction (Postgres, the default)
	convergent      // visible at Prepare, again is harmless (Elasticsearch)
)

// twoSteps reports a sink whose work waits between Prepare and Commit.
func (k kind) twoSteps() bool { return k >= twoPhase && k <= sessions }

// exact reports a sink that shows nothing undecided.
func (k kind) exact() bool { return k.twoSteps() || k == ownStore }

// sweeps reports a sink that cannot keep late requests of a settled generation out: the next open finds what they left.
func (k kind) sweeps() bool { return k == unfenced || k == sessions }

// content is a set of changes, nChanges bits a partition.
type content uint8

func message(p, offset uint8) content { return 3 << (p*nChanges + offset) }

func change(p, offset uint8) content { return 1 << (p*nChanges + offset) }

type generation struct {
	Set     uint8 // of partitions, 0: never acquired
	Last    uint8 // checkpoint that was saved last
	Pend    uint8 // sinks with a committable in Last
	Settled uint8
	Epoch   uint8 // sessions: in the committable of Last
}

// item is work of a two-phase sink under the name of its generation and checkpoint.
type item struct {
	State uint8 // 0 not there, 1 prepared, 2 committed
	What  content
}

// session is a Kafka transactional id.
type session struct {
	Epoch, Open, Gen, Cp, Mixed uint8
	What                        content
}

type sinkState struct {
	Items    [nGens][nCps]item
	Sessions [nGens]session
	Fenced   uint8 // generations that may prepare nothing any more
	Visible  content
}

type lane struct {
	Node   uint32 // of the space: machine, checker, the effect that is out
	Step   uint8  // which request of the effect is next
	Dead   uint8  // it halted and nobody renews it
	Group  uint8  // the group generation that it knows
	Gen    uint8
	Claim  uint8 // generations
	Adding uint8 // partitions of an Assign
	Giving uint8 // partitions of a Revoke
	GiveTo uint8
	Read   [nParts]uint8   // where its source stands
	Given  [nSinks]content // to the sinks, not prepared
	Tried  [nSinks]uint8   // checkpoint of a Prepare that failed: Discard rolls it back
	Epoch  [nSinks]uint8   // sessions: of the lane's own id
	Tx     uint8           // ownStore: 1 open, 2 ended by the server
	InTx   content
	Run    uint8    // outer: of the engine, that this process belongs to
	Kept   uint8    // outer: the engine has made the state of its barrier durable, and will complete it
	Base   base     // outer: the last state that this process was given, or completed
	Pad    [3]uint8 // a state is hashed as bytes, so nothing is left to the compiler
}

// base is a state that an outer engine has made durable, as External holds it.
type base struct {
	Gen, Cp, Pend uint8 // Gen 0: none ever was; sinks with a committable
	Pos           [nParts]uint8
}

// wire is a request to a server.
type wire struct {
	Kind, Sink, Lane, Gen, Cp, Name, Epoch, Mask, Group uint8
	Receipts                                            uint8 // of a Save: sinks with a committable
	What                                                content
	From, To                                            [nParts]uint8
}

const (
	_ uint8 = iota
	rAcquire
	rSave
	rEnd
	rConfirm
	rPrepare
	rCommit
	rAbort
	rFence
	rRollBack
	rInit // sessions: InitProducerID
	rSend // sessions: records in a transaction
	rCommitTxn
	rAbortTxn
	rStatements // ownStore: the rows, in the open transaction
	rWrite      // convergent
	rNext       // outer: the next number of the engine's counter
)

type world struct {
	Lanes    [nLanes]lane
	Assigned [nParts]uint8 // by the group: lane + 1
	Group    uint8         // its generation
	Bad      uint8
	Own      [nParts]uint8 // store: generation
	Pos      [nParts]uint8
	Newest   [nParts]uint8 // store: group generation that acquired it last
	Known    uint8         // partitions that were ever saved
	Next     uint8         // last generation number given out
	Run      uint8         // outer: the engine's newest run
	Engine   base          // outer: the newest state that it has made durable
	Older    base          // outer: the one before
	Pad      uint8
	Gens     [nGens]generation
	Sinks    [nSinks]sinkState
	Ways     [nWays]wire
	Budget   budget
}

// budget is how much may still go wrong; it is part of the state.
type budget struct{ Crashes, Lost, Refused, Moves, Interrupts, Writes uint8 }

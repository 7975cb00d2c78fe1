// Package protocol is the checkpoint protocol of one lane as a pure state machine: [Machine.Step] takes an event and returns the
// effects to perform. It has no clock, no I/O, no goroutine and no randomness; time comes in as the answer to a [Wait]. The
// same events always give the same effects.
//
// # How it is driven
//
// Events are requests ([Assign], [Advance], [Barrier], [Revoke], [Lose], [Recover]) and answers. At most one effect is waiting for its
// answer at any time; a request comes only while none is, except a [Barrier], which then joins what is being done. Effects that want an
// answer are Acquire, Begin, Open, Seek, Prepare, Save, End, Commit, Discard, Abort, Confirm and Wait; each is answered by the event of
// the same family or by [Failed]. Hint, Pause, Resume, Alarm, ReportFenced, Done and Halt want none. A request is served when Done or Halt
// comes out. [Interrupt] may come at any time, before an answer: the caller's patience has ended, the machine then takes the shortest
// safe way to Done.
//
// # The order of a checkpoint
//
//  1. Barrier: the driver stops between two messages.
//  2. Prepare every sink, in declared order.
//  3. Save. This is the decision.
//  4. Commit every sink, in declared order, all of them even if one fails; then Hint.
//
// # Invariants
//
// They hold after every Step, whatever the world answers; one checker holds every run of the tests to them and names them by number. The
// sentence after each is what would happen without it.
//
//	I1  Commit is asked for only what a clear answer says is saved, Saved for this generation's own, a claim for others' (inside Open), and
//	    not again once it succeeded. Readers would see what is then rolled back, and read again into the sink a second time.
//	I2  Save is asked for only when every sink answered Prepared for that checkpoint number, and once for each number. A sink that was
//	    not asked would lose what it was given; of two Saves that cross, the answer of one says nothing about the other.
//	I3  Abort is asked for only work whose Save was certainly never sent or certainly refused, by a lane that is not fenced. The
//	    successor may be committing it: decided work would be gone.
//	I4  After an unclear Save the next effect that touches the world is End; after End comes no Commit and no Abort by this generation.
//	    A guess is wrong one way or the other; and the successor may already have settled it.
//	I5  A generation number only rises, a checkpoint number within it too, and none is used twice. A late request for the first use would
//	    hit the second.
//	I6  Once a partition was lost no effect names it; after Revoke is done none names what was given back. Two owners would take turns in
//	    fencing each other.
//	I7  The From of each Save is the To of the last one of the same generation, or what Acquire and Begin told, and no To is before its
//	    From. The store compares From: a gap or an overlap between two checkpoints would be changes lost or doubled.
//	I8  Settled generations are named in a Save only after every sink answered Opened for the claim that listed them. Nobody would list
//	    them again, and what they decided would wait for ever.
//	I9  At most one effect that wants an answer is out, and none after Halt. The driver could not say what an answer answers.
//	I10 No checkpoint is begun while something that this generation decided is not committed. At most one decided checkpoint waits, so that
//	    a claim is small and Write never meets its own locks.
//	I11 Where a group assigns the partitions, an Acquire that follows a Wait follows a Confirm that said yes. A process that slept would
//	    fence its successor.
//	I12 After a failure before the decision every sink is told Discard before the next Acquire. What was written would be in the
//	    next checkpoint a second time.
package protocol

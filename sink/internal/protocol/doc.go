// Package protocol is the checkpoint protocol of one lane as a pure state machine: [Machine.Step] takes an event and returns the
// effects to perform. It has no clock, no I/O, no goroutine and no randomness; time comes in as the answer to a [Wait]. The
// same events always give the same effects.
//
// # How it is driven
//
// Events are requests ([Assign], [Advance], [Barrier], [Revoke], [Lose], [Recover]) and answers. At most one effect is waiting for its
// answer at any time; a request comes only while none is. Effects that want an answer are Acquire, Begin, Open, Seek, Prepare,
// Save, End, Commit, Discard, Abort, Confirm and Wait; each is answered by the event of the same family or by [Failed]. Hint,
// Pause, Resume, Alarm, Done and Halt want none. A request is served when Done or Halt comes out. [Interrupt] may come at any
// time, before an answer: the caller's patience has ended, the machine then takes the shortest safe way to Done.
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
// They hold after every Step; the tests check them and name them by number.
//
//	I1  Commit is asked for only what a clear answer says is saved: Saved for this generation's own, a claim for others' (inside Open).
//	I2  Save is asked for only when every sink answered Prepared for that checkpoint number, and once for each number.
//	I3  Abort is asked for only work whose Save was certainly never sent or certainly refused, by a lane that is not fenced.
//	I4  After an unclear Save the next effect that touches the world is End; after End comes no Commit and no Abort by this generation.
//	I5  A generation number only rises, a checkpoint number within it too, and none is used twice.
//	I6  Once a partition was lost no effect names it; after Revoke is done none names what was given back.
//	I7  The From of each Save is the To of the last one of the same generation, or what Acquire and Begin told.
//	I8  Settled generations are named in a Save only after every sink answered Opened for the claim that listed them.
//	I9  At most one effect that wants an answer is out.
package protocol

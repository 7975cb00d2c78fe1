// Package sink holds the interfaces of flinksink's checkpoint protocol, [Committer], [Store] and [Source], and the [Coordinator]
// that runs it.
//
// # Overview
//
// One checkpoint, always in this order:
//
//  1. Barrier: stop between two messages, never between a -U and its +U.
//  2. Prepare every committer, in declared order: durable, not visible. Those that cannot wait with that come last; see [Declared].
//  3. Save positions and committables in the store. This is the decision.
//  4. Commit every committer, in declared order, all of them even if one fails.
//
// Before 3 every failure means: abort, acquire anew, go back to the last saved positions. After 3 the only way is forward: the next checkpoint
// is not written before step 4 of this one was done.
//
// # Drivers
//
// Package bridge drives a [Coordinator] by itself. A consumer loop of one's own calls its Assign, Write, Checkpoint, Revoke and Lose
// (examples/ownloop). Where an outer engine decides about checkpoints and keeps them, [External] has the steps one by one: Barrier returns the
// checkpoint's bytes ([OuterState]), Complete and Abort follow the engine's decision, Restore begins from it (examples/callbacks).
//
// # A sink of one's own
//
// A [Sink] makes a [Committer] for each lane. What is asked of it stands at the methods; package sinktest checks it, law by law, and
// examples/customsink is a whole one. Its work, in short: stage the rows under a name made of bridge, sink, generation and checkpoint, show
// them in Commit, keep a proof that this was done, and have Open of a new generation stop the old ones for good.
//
// # Stores
//
// A sink that is its own store (postgres), a file on one host (package filestore), memory in tests (package sinktest), or anybody's [Store].
package sink

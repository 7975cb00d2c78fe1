// Package sink holds the interfaces of flinksink's checkpoint protocol, [Committer], [Store] and [Source], and the [Coordinator]
// that runs it.
//
// # Overview
//
// One checkpoint, always in this order:
//
//  1. Barrier: stop between two messages, never between a -U and its +U.
//  2. Prepare every committer, in declared order: durable, not visible.
//  3. Save positions and committables in the store. This is the decision.
//  4. Commit every committer, in declared order, all of them even if one fails.
//
// Before 3 every failure means: abort, acquire anew, go back to the last saved positions. After 3 the only way is forward.
package sink

// Package sinktest holds the conformance suite for anybody's [sink.Committer] and [sink.Store], an in-memory sink and store, faults
// to put between a coordinator and either, and topics to feed them. It is for tests: nothing else should import it.
//
// # Overview
//
// The suite is a table of laws ([Laws]), each one sentence of the contract of package sink with the few calls that find out. A
// [Harness] says how to open a new client of the implementation, how to empty it and how to read its tables; [Run] makes a subtest of
// each law, [Check] returns the violations as an error. The laws call the interfaces directly, in the order that package sink
// numbers, and play the processes that die, live on as zombies or lose an answer. They know no implementation.
//
//	func TestLaws(t *testing.T) {
//		sinktest.Run(t, sinktest.Harness{
//			Connect: func(ctx context.Context, t *changelog.Table) (sinktest.Client, error) { ... },
//			Reset:   func(ctx context.Context, t *changelog.Table) error { ... },
//			Rows:    func(ctx context.Context, t *changelog.Table) ([]sinktest.Row, error) { ... },
//		})
//	}
//
// # Abilities
//
// The zero Harness asks for the strongest. InTransaction and Convergent declare another kind of sink; Harness.Skip names a law
// that is not kept, with the reason, in the implementation's own test file where its readers look. A law that is skipped says why.
//
// # Failure
//
// A [Violation] shows the law, what was seen, and the calls that led to it, with the changes they wrote:
//
//	sinktest: L25 is broken: The last change of a key wins, across kinds and batches, in one checkpoint as in many.
//	  seen: after delete, then insert (in one batch), readers see 1 rows [{2 old}]; expected are 2 rows [{1 new} {2 old}]
//	  after:
//	    A: Acquire [0] = generation 1 from [], ended []
//	    A: Open generation 1
//	    delete, then insert, in one batch:
//	    ...
//	    A: Write -D(1 "old") +I(1 "new") up to [0@6]
//
// Laws wait for nothing and assert no time; only L28
// ends a context at a moment it does not choose, and accepts every outcome that the store confirms.
//
// # Memory
//
// A [Server] is what outlives processes. [NewSink] and [NewStore] make clients of it: exactly once, in two phases or in one
// transaction, keeping all laws, and strict, so that a coordinator that passes on them has asked for nothing that a store may refuse.
// [Server.Clone] is the world after a power loss at that moment. Memory is never given back while a Server lives: it remembers
// every generation and every commit.
//
// # Faults
//
// [Faulty] wraps sinks and stores so that chosen calls fail, before their effect, after it, or with the effect late. [Sweep] runs a
// scenario with a fault at every call in turn, [RandomFaults] by a seed. [Faults.Fired] fails a test that never met its fault.
//
// # Not covered
//
// Column types, quoting, sizes, speed and what a server answers to wrong settings differ from sink to sink and belong in their own
// tests. A lane writes one table here, and one sink; several sinks at once are the coordinator's matter. The guarantee of a source is not
// looked at.
package sinktest

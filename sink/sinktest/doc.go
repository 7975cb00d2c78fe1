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
// The four tables are those of the constants: two of numbers and texts, with a key and without, one of texts as keys, and one whose second
// column has each logical type in turn. A sink is given all of them, each in laws of its own. A store alone is tested by [RunStore].
//
// The suite calls Open, Write, Prepare and Commit some 3,600 times and writes some 42,000 rows, 33,000 of them in L49. It takes a second in
// memory, tens of seconds on a database nearby, and elsewhere the time of a call and of a row times these numbers: where a row is a file that
// is synced, or a request, leave that out for the test, or raise Harness.Timeout. -run 'TestLaws/L[01]' runs a part.
//
// # Abilities
//
// The zero Harness claims the strongest. Its fields weaken that, in the implementation's own test file, where its readers look:
//
//	InTransaction  rows and positions in one transaction: no receipts
//	Convergent     rows may be seen early and twice, the end state is right
//	NoDeletes      only +I is taken
//	NotAtomic      a reader may see a part of a checkpoint while it is committed
//	Unfenced       Open does not stop the writers of ended generations
//	KeyedOnly      no tables without a key: their laws are run on one with a key, and see less
//	WholeRows      a change with a column that was not sent is refused, and the column not kept
//	Delay          how long a reader may still see what was
//	Skip           a law that is not kept, by its id, with the reason
//
// A law that is skipped says why. What is claimed must be tested: a Harness that skips every law of something it claims is refused, and so is a
// committer that keeps dead letters (sink.DeadLetterKeeper) without Harness.Letters to read them. What an implementation has beside
// its own interface is looked for, and its laws are skipped where it is not there.
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
// Laws assert no time. L28 and L39 end contexts at moments they do not choose, and accept every outcome that the store confirms. L53 plays at
// random from Harness.Seed; a schedule that breaks it is made shorter as long as it still does, and the violation shows the seed and the calls
// that are left.
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
// [Faulty] wraps sinks and stores so that chosen calls fail: before their effect, after it (a lost answer), late, in their middle, after
// a delay, or by a panic. A [Fault] chooses calls by name and number, or by an [Injector]; both print, and their text parses back, so that a
// failing run's line becomes a test:
//
//	commit@target 1x3 before lost
//	save if And(OnCall(3), Random(0.5, 7)) after
//
// [Sweep] runs a scenario with a fault at every call in turn, [RandomFaults] by a seed. [Faults.Fired] fails a test that never met its fault.
//
// # Topics
//
// A [Topic] holds changes of two of the tables, and knows what they must become. A [Log] holds messages of any table in any encoding that there
// is an encoder for, with transactions, aborted records and holes: as records in memory ([Log.Records]), or on a broker by package kafkatopic.
//
// # Not covered
//
// Speed, and what a server answers to wrong settings, differ from sink to sink and belong in their own tests, as do limits of a system that
// no law can know. A lane writes one table here, and one sink; several sinks at once are the coordinator's matter. The guarantee of a source is not
// looked at. The laws stop processes between two calls, end the contexts of calls, and make the faults that something around a sink can make: what a sink does in one call is one step to
// them. A process that dies inside its own Commit is out of their reach, as they know neither the requests of which it consists nor a way to end a client while it works (Client.Release
// may wait for what is under way): the order of the requests within a call (the proof of a Commit after its rows, say) is for its own tests to break off. Claim.Incarnation is the same throughout.
package sinktest

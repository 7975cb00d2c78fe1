// Package bridge moves the topics of Flink tables to sinks, exactly once where these can: a franz-go consumer group around
// [sink.Coordinator].
//
// # Overview
//
// [FromTable] makes an [Input] of a CREATE TABLE and a decoder, [New] checks all settings, [Bridge.Run] blocks until its context
// ends. Positions live in the store and nowhere else; a partition that the store knows nothing of begins at Input.Start. The group hands
// out partitions, and its committed offsets are written after the decision, for lag monitors: nothing is read from
// there, but an offset there that is beyond the store shows a store that lost something.
//
// Partitions are spread over Options.Lanes lanes and stay with their lane while they are held. Each lane has its own coordinator and
// checkpoints by itself: at Options.Interval, Options.Changes or Options.Bytes, whichever comes first (every few minutes where the sinks prefer that, see sink.Pacer). A rebalance does not disturb
// the lanes that neither win nor lose a partition.
//
// # Several tables, several sinks
//
// [NewMany] makes a bridge of several of either. One decision is for all: each sink prepares its part of a checkpoint, the store decides, each makes its
// part visible; see [Output] for what a sink is given, and Bridge.Guarantee for what a reader of each may see when. A batch holds changes of one table, so a
// lane fills one for each table and hands over the oldest first.
//
// A Commit that fails is tried without end, or until Options.StopAfter; the other sinks have the checkpoint, Hooks.Alarm is told, and LaneStatus.Sinks
// shows what waits and since when. Nothing more is read until it is done, by this process or the next.
//
// # Goroutines
//
// All are started by Run and have ended when it returns.
//
//   - poll (fetch.go): takes what the client fetched to the lanes' queues and serves seeks, between two polls. It never waits for a lane.
//   - decode, one a lane (decode.go): turns records into batches while the writer is busy with the batch before.
//   - write, one a lane (lane.go): the only one that calls the lane's coordinator: Assign, Write, Checkpoint, Revoke, Lose.
//   - hint (hint.go): commits the group's offsets.
//   - watch (watch.go): asks for watermarks, topic ids and open transactions, which no fetch shows.
//   - the client's own, which call back into group.go when the group gives or takes partitions.
//
// # Going back
//
// A checkpoint that failed is done again from the saved positions. What is on its way between fetch and write by then is dropped by
// its epoch, for exactly the partitions that are sought and no others; see type partition.
//
// # Updates in two messages
//
// Flink's writers of retract encodings write an update as a delete of the old row and an insert of the new one. So that no reader of the sink
// sees the row vanish, the deletes that a partition was read up to wait for a message that puts a row there, at most Options.Interval;
// see Options.HoldRetractions. The position stays before them meanwhile: a partition that is given back, and a process that is stopped or
// killed, leave them to the next owner. The end of Options.UntilEnd applies them. Changes of one message are never parted: positions
// pass whole messages only.
//
// This needs the order of a row's changes, which records without a key have in a topic of one partition only. More partitions are refused
// at start, unless Options.Unordered accepts them.
//
// # Memory
//
// A lane holds at most Options.ByteBudget, plus what one poll brings: half for the current checkpoint, a quarter for what is fetched
// and not yet written, a thirty-second for deletes that wait. When that quarter is full its partitions are paused; the member stays in the group.
//
// # Failure
//
// Found at start, before the first row, as [sink.ErrConfig]: brokers that do not answer, missing topics, missing rights, options
// that work against the bridge's own, a store that belongs to another bridge of this name. [sink.ErrLost], with numbers: a position that
// retention overtook, a topic that was deleted and made again, a log that was cut off, a store that lost checkpoints while the target kept
// their rows, a position that is older than a compacted topic keeps deletes; there is no silent reset. [sink.ErrRejected]
// with a [*changelog.DataError]: a record that cannot be decoded or written, after everything before it was checkpointed; see
// DataPolicy. Brokers or a sink that go away later are waited for, with the partitions paused.
//
// A generation that another process ended, or that the group took away, is over with an [sink.ErrFenced], which Hooks.Fenced and the
// status tell; then the process joins the group again, or halts with it (Options.HaltWhenFenced). A static member that was replaced
// under its instance id always halts with it. What was not saved never becomes visible. A lane with nothing to save finds out by
// itself, within Options.Watch.
//
// # Bad data
//
// Options.OnData says what becomes of a message that cannot be decoded, and of one of which the sink refuses a change: see [DataPolicy]. A
// refused checkpoint is done again from the saved positions without what the sink named, or in halves until it is known
// (datapolicy_refused.go).
//
// # Required settings
//
// The brokers, from 'properties.bootstrap.servers' or kgo.SeedBrokers. For a restart without a rebalance, Options.InstanceID.
//
// # Not covered
//
// A bridge that reads on, but lags behind a compacted topic for longer than delete.retention.ms, is not noticed: the check is of positions
// that do not move. The broker-side group protocol (KIP-848) is refused. Topics that begin to match Input.Pattern while
// the bridge runs are read from its next start on.
package bridge

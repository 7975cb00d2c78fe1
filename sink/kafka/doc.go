// Package kafka writes a changelog into a Kafka topic, exactly once, and keeps checkpoints in Kafka itself.
//
// # Overview
//
// The target is a table of Flink: a pasted CREATE TABLE names the topic and picks the encoding. 'upsert-kafka' writes one record a change, deletes as null
// values; 'kafka' with a format of kinds (debezium-json and its like) writes what Flink would; 'kafka' with any other format takes inserts
// only. Columns are matched by name, and need the same types. All changes are written, in order, none left out.
//
//	target, err := ddl.Find(createTable, "orders_copy")
//	to, err := kafka.InTransaction(client, target, formats, &kafka.Options{Group: "orders-copy"})
//	b, err := bridge.New("orders-copy", from, to, nil)
//
// There are two modes, and a store for bridges to anywhere:
//
//   - [InTransaction]: the records of a checkpoint, its positions and the group's offsets are one transaction, which Save commits. The
//     sink is its own store. For a bridge within one cluster, this is the mode.
//   - [TwoPhase]: Prepare flushes the records and leaves their transaction open; Commit ends it, in whatever process, once a store has decided. For several sinks
//     that are to agree, and for a target on another cluster than the store.
//   - [Store]: checkpoints in a compacted topic, for sinks that leave receipts, without any database.
//
// # Guarantees
//
// Both modes: every change takes effect exactly once for readers that are read_committed (isolation.level). A reader that is not sees records at once,
// also those of transactions that are aborted later, and nothing on the side of the writer can prevent that. Neither can anybody look it up: a
// broker does not know the setting of a group's members, so no check of flinksink can see it. Flink's own source is
// read_uncommitted unless its table says 'properties.isolation.level' = 'read_committed', and so are most consumers.
//
// A transaction becomes visible partition by partition: for a moment a reader may see a checkpoint in one partition and not yet in another. Within a partition
// it is all or nothing. An open transaction holds read_committed readers of its partitions back, behind everything that was
// written after it began: so what readers see lags by one checkpoint, and by longer where a process died and nobody opens its bridge again,
// up to Options.TransactionTimeout.
//
// A process that comes back from the dead is fenced. Each generation of a lane works under a transactional id of its own, which nobody may have taken before
// it: the first to take an id gets its epoch 0. Its successor takes the id too, so the zombie is refused by the broker whatever it
// sends, and one that comes so late that it never took its id finds that it is not the first.
//
// One epoch of an id holds one transaction at most: from transaction.version 2 on (Kafka 4.0) the broker sees to that, before it InitProducerID
// does. So a receipt (id, producer id, epoch, and the last offset in each partition) names one transaction, and a Commit that comes again never commits a
// later one. What became of a transaction is read where it stands: see the argument in evidence.go.
//
// # Values that are handed on
//
// Where source and target are encoded alike (the value's format with its options, and the columns in it: see [Sink.HandsOn]), and nothing but the decoder was at a
// change, the bytes of its value go into the target as they came, in formats that can tell whether that is right: json, debezium-json, canal-json, maxwell-json and
// ogg-json. The bridge logs it at its start. Every message is still decoded and checked, and what is set aside or refused is so as before. Only a message whose rows are all
// that it says is handed on: one with a member that is no column of the table is encoded anew, so that what a CREATE TABLE leaves out is not in the target. An update that
// is one message in the source stays one; encoded anew it is two, as Flink writes it. Either way the target's readers have the same changelog.
//
// Keys are always encoded, so that a key has one form and one partition, and timestamps and headers are those of the target's METADATA columns, else the time
// of writing and none. Options.EncodeAnew switches it off.
//
// # Loss
//
// TwoPhase depends on the broker's patience: what was decided and is not committed within Options.TransactionTimeout is aborted by the broker. That is
// [sink.ErrLost], which names the offsets; nothing of it is visible, so reading them again is safe. Set the timeout above the longest time that the bridge may be
// away, up to transaction.max.timeout.ms of the brokers: a bridge whose interval and Options.MaxDowntime together are not below it is refused before it reads anything, and so is
// one whose timeout the brokers do not allow. InTransaction has nothing to lose, since nothing is
// decided before it is visible. Brokers that let another process finish a prepared transaction without a timeout (KIP-939) will end this; the Go
// client cannot ask for it yet, and only initProducer and receipts would have to know.
//
// The proof of a Commit is the end of its transaction in the log of a partition that it wrote. A topic whose retention is shorter than the time in which a
// Commit may be repeated (minutes at most while a bridge is up, as long as it is away else) can lose it; the coordinator remembers
// the last transaction of an id beyond that. Where neither tells, it is ErrLost, and never guessed. Options.ProofTopic keeps proofs apart from the target.
//
// # Required settings
//
// Kafka 3.0 or newer (DescribeTransactions, KIP-664). The target's topic exists; nothing makes it. Its max.message.bytes bounds a record: a larger one is [sink.ErrRejected] and
// named. The client's user needs WRITE, READ and DESCRIBE on the topic, DESCRIBE_CONFIGS or else the defaults count, WRITE and DESCRIBE on
// transactional ids with Options.Prefix, and for checkpoints the same on Options.Topic and READ on Options.Group. The client must not be
// transactional itself; it may be shared by lanes, sinks and the bridge's own programs.
//
// Keys go to the partitions that Java's producer and so Flink's sink choose (murmur2); a topic that gets more partitions moves keys, here as there.
//
// # Not covered
//
// One sink writes one table into one topic. Rows are whole: a change with a column that was not sent (Unchanged) is ErrRejected.
package kafka

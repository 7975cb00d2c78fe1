// Command bench measures flinksink beside what else one could do, and prints tables for people. It writes no file unless asked to.
//
//	./bench/run          all of it: half an hour or more, since contenders take turns
//	./bench/run -quick   fewer rounds over fewer rows, in minutes
//	./bench/run -only postgres,guarantee -shapes narrow -rounds 11 -rows 400000 -profile FOLDER
//	./bench/run -only memory -records 20000000
//
// # What is measured
//
//   - decode: JSON into typed rows on one core, beside encoding/json.
//   - formats: every wire format into typed rows and back on one core, beside the best libraries for the same bytes. The libraries are those
//     of bench/rivals, a module of its own that no user of flinksink meets; the go command fetches them the first time.
//   - coordinator: what the checkpoint protocol costs a change, over a sink that does nothing.
//   - postgres: Kafka to Postgres in checkpoints of 20,000: new keys beside COPY into the same table, updates beside the best bare statements, deletes beside
//     DELETE ... USING, all of them beside the usual loop.
//   - small: the same in checkpoints of 1,000, beside the bare UNNEST upsert.
//   - guarantee: the same bridge with its guarantee and without, in at least 11 pairs.
//   - modes: InTransaction, Prepared and Staged of sink/postgres.
//   - lanes: two lanes beside one.
//   - fillfactor: what room in the pages of a table does to updates. No figure was set for it.
//   - waits: what the server's session does while the bridge writes, by looks at pg_stat_activity. It is run only when -only names it.
//   - memory: heap and resident memory while large checkpoints pass, and over a short and a long journey.
//   - kafka: Kafka to Kafka, TwoPhase and InTransaction beside each other and beside a bare transactional copy of kgo.
//   - latency: how long a row takes through a bridge to a read_committed consumer, at 10,000 rows a second.
//   - s3: Kafka to JSON lines with gzip beside fetch and gzip alone, and to Parquet beside parquet-go's own writer on rows that are ready.
//   - flat: memory while a stream of any length (-records) passes into Kafka and into objects (-into takes one of them).
//
// Sections with Postgres move rows of two shapes: narrow ones of 4 columns and wide ones of 20. bench/peers, a module of its own with a command of
// its own, measures the bridge beside other programs: Bento, and Flink's own sink.
//
// # How
//
// The contenders of a section take turns, each once a round, and the one that begins a round is another one each time: what else the
// machine does in a minute hits all of them alike. A figure is the median of the rounds, with the lowest and the highest; a ratio is
// taken within each round, and the median of these is shown, with an interval that holds the true median in at least 95 % of cases, for which six rounds
// are the least. On a machine that others use, only ratios say anything.
//
// Start-up does not count: the clock of a consumer begins at its first record. Every table that was written is compared with what
// it must hold, outside the measured time.
//
// Whoever reads the topic into Postgres does so in a process of its own, as a service does: the process that runs the contest holds the rows of all phases for those that
// have them ready, and a collector that looks through gigabytes of them takes both cores from the server again and again. Do not run it under SCHED_RR or SCHED_FIFO:
// Postgres would have them too, and none of the processes that share two cores then gives way to another before it blocks.
//
// # Settings
//
// FLINKSINK_POSTGRES names the server, else one is started (testbed/postgres); a database is made in it and dropped again. Mode Prepared needs its
// max_prepared_transactions above 0.
// FLINKSINK_KAFKA names a real broker, else an in-process broker runs in a process of its own; topics are made and deleted again.
// FLINKSINK_S3 names a real S3 server with the keys of testbed/s3-up, else one in memory runs in a process of its own; a bucket is made and deleted again.
// Sections kafka, latency, s3 and flat need no Postgres.
package main

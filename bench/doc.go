// Command bench measures flinksink beside what else one could do, and prints tables for people. It writes no file unless asked to.
//
//	./bench/run          all of it, in less than six minutes on two cores
//	./bench/run -quick   fewer rounds over fewer rows, in less than one
//	./bench/run -only decode,coordinator,postgres,memory -rounds 9 -rows 400000 -profile FOLDER
//
// # What is measured
//
//   - decode: JSON into typed rows on one core, beside encoding/json.
//   - coordinator: what the checkpoint protocol costs a change, over a sink that does nothing.
//   - postgres: Kafka to Postgres, beside COPY, the best bare statements, the usual loop, and the same bridge without its guarantee.
//   - memory: heap and resident memory while large checkpoints pass.
//
// # How
//
// The contenders of a section take turns, each once a round, and the one that begins a round is another one each time: what else the
// machine does in a minute hits all of them alike. A figure is the median of the rounds, with the lowest and the highest; a ratio is
// taken within each round, and the median of these is shown. On a machine that others use, only ratios say anything.
//
// Start-up does not count: the clock of a consumer begins at its first record. Every table that was written is compared with what
// it must hold, outside the measured time.
//
// # Settings
//
// FLINKSINK_POSTGRES names the server, else one is started (testbed/postgres); a database is made in it and dropped again.
// FLINKSINK_KAFKA names a real broker, else an in-process broker runs in a process of its own; topics are made and deleted again.
package main

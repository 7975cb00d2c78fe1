// Command peers measures flinksink beside what else moves a topic into Postgres: the usual hand-written loop, Bento, and Flink's own JDBC sink.
//
//	bench/peers/run                                    all of it; the first time it fetches and builds for some minutes
//	bench/peers/run -rounds 3 -rows 1000000 -only flinksink,flink -limit 10m
//
// It is a module of its own, and Bento another one within it, so that none of what is here comes near a user of flinksink.
//
// # What is measured
//
// Two jobs: rows with new keys into an empty table, and updates with deletes (one to ten) of a table that is loaded. Keys are drawn at random, so
// some of them change several times. Rows have 4 narrow columns, topics 3 partitions, in the encoding of upsert-kafka in JSON. Each contender
// works alone, in a process of its own, with one lane (task, flight); they take turns, and the one that begins a round is another one each time.
//
// The clock begins at a contender's first write and ends with its last, as Postgres's own log position tells (pg_current_wal_insert_lsn), so start-up
// does not count, whatever it consists of. A run is over when the table holds what it must and nothing has been written for two seconds; one that does not
// get there before -limit is shown as such, and has no rate. COPY of rows that are ready in memory stands for what the table takes.
// The CPU time that a contender used, and that its sessions with Postgres used for it (where both run on this machine's Linux), is disturbed less than the
// clock by whatever else the machine does; with one lane, the larger of the two bounds the rate.
//
// # Contenders
//
//   - flinksink: the bridge with its defaults, exactly once.
//   - loop: franz-go, encoding/json, pgx: INSERT ... ON CONFLICT of 1,000 rows, DELETE ... = ANY, COMMIT, then the offsets.
//   - bento-insert: Bento's sql_insert, 1,000 rows a statement; it cannot delete. bento-array: sql_raw with a batch as one JSON array, which can.
//   - flink: Flink's JDBC sink with a buffer of 10,000 rows and rewritten batches, checkpoints every 3 s.
//
// All but flinksink are at-least-once. Debezium's JDBC sink is not among them: it reads Connect's schema envelope, so its topics would be others.
//
// # What it needs
//
// Go. A Postgres server, which is started (testbed/postgres) unless FLINKSINK_POSTGRES names one, on which nobody else may write meanwhile. A real
// Kafka broker, which is started (testbed/kafka-up: Java, Maven) unless FLINKSINK_KAFKA names one. For Flink Java, Maven, pip and unzip
// (flink/cluster), and 4 GB of memory for all of it. A contender that cannot be had is left out, and the reason is printed.
package main

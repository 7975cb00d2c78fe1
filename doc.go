// Package flinksink is the map of the house: it holds no code. flinksink takes the changelog that a Flink SQL job writes to Kafka
// (+I, -U, +U, -D) and makes it true, exactly once, in a sink, and lets its users prove their sinks in unit tests.
//
// # The house
//
//	changelog                kind, mode, type, schema, value, row, change, position; net effect per key
//	changelog/ddl            a Flink CREATE TABLE becomes schema, key, connector and format options
//	changelog/explain        what EXPLAIN CHANGELOG_MODE says of a job, judged by its table
//	changelog/format         assembly of kafka and upsert-kafka records from a table and the formats that are passed
//	changelog/format/json    Flink's json format, by a scanner driven by the schema
//	changelog/format/raw     Flink's raw format
//	changelog/format/csv     Flink's csv format
//	changelog/format/avro    Flink's avro format, whose messages have no schema
//	changelog/format/protobuf Flink's protobuf format, over descriptors in place of Java classes
//	changelog/format/debezium Flink's debezium-json format
//	changelog/format/canal   Flink's canal-json format; beside it maxwell and ogg
//	sink                     Committer, Store, Coordinator, guarantees, error classes
//	sink/sinktest            the conformance suite for anybody's sink, a memory sink and store, faults
//	sink/postgres            rows and positions in one Postgres transaction
//	sink/kafka               a Kafka topic, in two modes, and a store in Kafka
//	sink/s3                  objects in a bucket, and a store in one; beside it its formats parquet and avro
//	sink/elastic             an Elasticsearch index that converges
//	sink/filestore           a store in a file, for one host
//	bridge                   a franz-go consumer group over the coordinator: the main job in a few lines
//	bridge/statuspage        a page, JSON and a health check for people on call
//	bridge/otelbridge        OpenTelemetry metrics
//	cmd/flinksink            the same parts from a shell
//	examples                 whole programs that run with go run
//
// # The order of a checkpoint
//
//  1. Barrier: stop between two messages, never between a -U and its +U.
//  2. Prepare every committer, in declared order: durable, not visible.
//  3. Save positions and receipts in the store. This is the decision.
//  4. Commit every committer, in declared order; then the Kafka group offset, as a mere hint.
//
// Before 3 every failure means: abort, acquire anew, go back to the last saved positions. After 3 the only way is forward. An unclear
// answer at 3 is settled by asking the store, never by guessing.
//
// # Guarantees
//
//	sink and mode            how                                     visible               zombie
//	postgres InTransaction   rows and positions in one transaction   at commit, atomically fenced by generation row
//	postgres Prepared        PREPARE TRANSACTION, COMMIT PREPARED    at commit, atomically fenced by generation row
//	postgres Staged          staging table, merged at commit         at commit, atomically fenced by generation row
//	kafka InTransaction      records and positions in a transaction  to read_committed     fenced by id a generation
//	kafka TwoPhase           flushed transaction, ended at commit    to read_committed     fenced by id a generation
//	s3 Multipart             upload completed at commit              file by file          fenced by object
//	s3 Rename                staged object copied at commit          file by file          fenced by object
//	elastic                  id by key, version by offset            early; converges      stale versions refused
//
// The last is convergent, never exactly once. Coordinator.Guarantee, printed at start by the bridge's command, states what an actual
// combination gives and names its weakest link.
//
// # Where to begin
//
// A user reads examples/postgres and package bridge. An author of a sink reads package sink and then sink/sinktest. A maintainer reads
// docs/design.md.
package flinksink

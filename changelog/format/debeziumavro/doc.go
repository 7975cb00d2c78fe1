// Package debeziumavro reads and writes Flink's format 'debezium-avro-confluent': Debezium's envelope in Avro, with its schema in Confluent's schema registry, a
// retract changelog.
//
// # Overview
//
// [Format] makes decoders and encoders that agree with Flink 2.2. What a message becomes is what package debezium says of the same envelope in JSON:
//
//	op c, r   +I of the field 'after'
//	op u      -U of 'before' and +U of 'after'
//	op d      -D of 'before'
//
// The envelope that Debezium registers, with 'source', 'ts_ms' and more, is read as well as the one of Flink, by the rules of resolution that package
// avroconfluent lists; so are the options and what becomes of an outage of the registry. There is no metadata. Null values, the tombstones
// that Debezium sends after a delete, mean nothing.
//
// An encoder writes +I and +U as op c, -U and -D as op d: Flink's writer has no op u. So an update that Flink wrote is two messages, and a
// reader may see the row gone in between.
//
// # Values that were not sent
//
// Debezium writes a placeholder where its source did not send a value, mostly a large one that an UPDATE in Postgres did not touch; Flink
// takes it for text. Here such a value is what 'before' says, and if 'before' is NULL there the column is Unchanged. Format.UnavailableValue
// changes the placeholder, and whether it is looked for.
//
// # Guesses
//
// Beside what package avroconfluent lists, Flink guesses silently in these cases, and a decoder reports a [*changelog.DataError] instead unless
// its Payload is Lenient: the placeholder in a row that is new (op c, r), whose values the source knows (Flink: the text); and an empty message
// (Flink: nothing).
//
// As in Flink, any other op and an op u or d without 'before' fail: in Postgres the source's tables need REPLICA IDENTITY FULL.
package debeziumavro

// Package debezium reads and writes Flink's format 'debezium-json': rows of JSON in the envelope of Debezium, a retract changelog.
//
// # Overview
//
// [Format] makes decoders and encoders that agree with Flink 2.2. What a message becomes:
//
//	op c, r   +I of the member 'after'
//	op u      -U of 'before' and +U of 'after'
//	op d      -D of 'before'
//
// Columns are read by the rules of package json with 'decode.json-parser.enabled' = 'false', as Flink does. METADATA columns under 'value.'
// are schema, ingestion-timestamp, source.timestamp, source.database, source.schema, source.table and source.properties. Null values,
// the tombstones that Debezium sends after a delete, mean nothing.
//
// An encoder writes +I and +U as op c, -U and -D as op d: Flink's writer has no op u. So an update that Flink wrote is two messages, and a
// reader may see the row gone in between.
//
// # Values that were not sent
//
// Debezium writes a placeholder where its source did not send a value, mostly a large one that an UPDATE in Postgres did not touch; Flink
// takes it for text. Here such a value is what 'before' says, and if 'before' does not say it the column is Unchanged. Format.UnavailableValue
// changes the placeholder, and whether it is looked for.
//
// A member that is missing in 'before' was not sent either. In a table with a PRIMARY KEY the column is Unchanged in the -U or -D, which the
// key identifies all the same; a -U or -D with nothing but its key is KeyOnly. With 'encode.ignore-null-fields' = 'true', which says that
// the writer leaves NULLs out, the column is NULL.
//
// # Guesses
//
// Beside what package json lists, Flink guesses silently in these cases, and a decoder reports a [*changelog.DataError] instead unless
// its Payload is Lenient:
//
//   - a member that is missing in 'before' while the table has no PRIMARY KEY (Flink: NULL, so that the row is never found);
//   - the placeholder in a row that is new (op c, r), whose values the source knows (Flink: the text);
//   - an empty message, and text after the message.
//
// # Failure
//
// As in Flink, any other op (t for a truncated table, m for a message in the source's log) and an op u or d without 'before' fail. With
// 'ignore-parse-errors' = 'true' such messages are skipped, and with them what they deleted.
//
// # Debezium's types
//
// Debezium has dates, times and decimals that Flink does not know: numbers and bytes, of which Flink reads a BIGINT or a STRING only. Format.SourceTypes
// reads them as DATE, TIME, TIMESTAMP and DECIMAL. Format.Truncate and Format.Messages say what becomes of op t and op m.
package debezium

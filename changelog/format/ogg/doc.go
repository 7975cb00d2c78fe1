// Package ogg reads and writes Flink's format 'ogg-json': rows of JSON in the envelope of Oracle GoldenGate, a retract changelog.
//
// # Overview
//
// [Format] makes decoders and encoders that agree with Flink 2.2. What a message becomes:
//
//	op_type I   +I of the member 'after'
//	op_type U   -U of 'before' and +U of 'after'
//	op_type D   -D of 'before'
//
// Columns are read by the rules of package json with 'decode.json-parser.enabled' = 'false', as Flink does. METADATA columns under 'value.'
// are table, primary-keys, ingestion-timestamp and event-timestamp. Both times have milliseconds, as Flink reads them; an
// ingestion-timestamp in another form than 2020-05-13T15:40:07.000123 is NULL, unless it is one that java.sql.Timestamp takes.
//
// An encoder writes +I and +U as op_type I, -U and -D as op_type D, as Flink's does. So an update that Flink wrote is two messages, and a
// reader may see the row gone in between.
//
// # Values that were not sent
//
// A member that is missing in 'before', or in the 'after' of an update, was not sent: GoldenGate's trail may hold no more than the key and what
// changed. So is a column whose flag NAME_isMissing is true, which GoldenGate can write beside a null. A column that 'after' lacks is what 'before' says. In a table with a PRIMARY KEY a column that nobody says is Unchanged, and
// a -U or -D with nothing but its key is KeyOnly. With 'encode.ignore-null-fields' = 'true', which says that the writer leaves NULLs out,
// the column is NULL.
//
// # Guesses
//
// Beside what package json lists, Flink guesses silently in these cases, and a decoder reports a [*changelog.DataError] instead unless
// its Payload is Lenient:
//
//   - a member that is missing in 'before', or in the 'after' of an update, while the table has no PRIMARY KEY (Flink: NULL);
//   - an empty message, and text after the message.
//
// # Failure
//
// As in Flink, any other op_type fails (T for a truncated table), and an op_type U or D without 'before'. With
// 'ignore-parse-errors' = 'true' such messages are skipped, and with them what they deleted.
package ogg

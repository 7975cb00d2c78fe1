// Package maxwell reads and writes Flink's format 'maxwell-json': rows of JSON in the envelope of Maxwell's daemon, a retract changelog.
//
// # Overview
//
// [Format] makes decoders and encoders that agree with Flink 2.2. What a message becomes:
//
//	type insert   +I of 'data'
//	type update   -U of the old row and +U of 'data'
//	type delete   -D of 'data'
//
// Columns are read by the rules of package json with 'decode.json-parser.enabled' = 'false', as Flink does. METADATA columns under 'value.'
// are database, table, primary-key-columns and ingestion-timestamp.
//
// An encoder writes +I and +U as type insert, -U and -D as type delete, as Flink's does. So an update that Flink wrote is two messages, and a
// reader may see the row gone in between.
//
// # Old rows
//
// 'old' has the columns that were other than they are in 'data'. Flink takes a column for changed when its name is found anywhere in 'old',
// also inside a value that is a JSON document. In a table with a PRIMARY KEY only the members of 'old' itself count here; without one the
// answer is Flink's.
//
// A column that neither 'old' nor 'data' has was not sent. With a PRIMARY KEY it is Unchanged in the -U or -D, and a -U or -D with nothing
// but its key is KeyOnly. With 'encode.ignore-null-fields' = 'true', which says that the writer leaves NULLs out, it is NULL.
//
// # Guesses
//
// Beside what package json lists, Flink guesses silently in these cases, and a decoder reports a [*changelog.DataError] instead unless
// its Payload is Lenient:
//
//   - a column that a row which goes away does not have, while the table has no PRIMARY KEY (Flink: NULL, so that the row is never found);
//   - an empty message, and text after the message.
//
// # Failure
//
// As in Flink, any other type fails: bootstrap-start, bootstrap-insert and bootstrap-complete, with which Maxwell sends the rows that a
// table has already, and changes of definitions. Format.Bootstrap reads the first, Format.SkipDDL passes over the second. With
// 'ignore-parse-errors' = 'true' such messages are skipped, and with them the rows of a bootstrap.
package maxwell

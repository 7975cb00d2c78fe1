// Package canal reads and writes Flink's format 'canal-json': rows of JSON in the envelope of Alibaba's Canal, a retract changelog.
//
// # Overview
//
// [Format] makes decoders and encoders that agree with Flink 2.2. What a message becomes:
//
//	type INSERT   +I of each row in 'data'
//	type UPDATE   for each row in 'data', -U of its old row and +U of itself
//	type DELETE   -D of each row in 'data'
//	type CREATE   nothing
//
// Columns are read by the rules of package json with 'decode.json-parser.enabled' = 'false', as Flink does; Canal writes all values as
// strings. With 'database.include' and 'table.include', which are regular expressions for the whole of the name, other messages are
// skipped. METADATA columns under 'value.' are database, table, sql-type, pk-names, ingestion-timestamp and event-timestamp.
//
// An encoder writes +I and +U as type INSERT, -U and -D as type DELETE, one row a message, as Flink's does. So an update that Flink wrote is
// two messages, and a reader may see the row gone in between.
//
// # Old rows
//
// 'old' has, for each row of 'data', the columns that were other than they are now. Flink takes a column for changed when its name is
// found anywhere in 'old', and so in a message of several rows it reads NULL for a value that only another row's change names. Such a -U
// finds no row to take away. In a table with a PRIMARY KEY, where the key finds it, the right value is read here; without one the answer is
// Flink's.
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
//   - with 'ignore-parse-errors' = 'true', a message whose second or later row is broken (Flink: the rows before it, and not the others);
//   - an empty message, and text after the message.
//
// # Failure
//
// As in Flink, any other type fails: a table that was truncated or dropped, and changes of definitions, which Format.SkipDDL passes over. With
// 'ignore-parse-errors' = 'true' such messages are skipped. A message of more rows than Format.MaxRows fails whatever the options.
package canal

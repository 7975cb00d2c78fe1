// Package avro reads and writes Flink's format 'avro': a row is an Avro datum by itself, without its schema.
//
// # Overview
//
// [Format] makes decoders and encoders that agree with Flink 2.2. The schema is that of the table: a record of its columns in their order, each
// that is not NOT NULL a union of null and its type. There is no other, so a message of a table with other columns, or with the
// same ones in another order, is read as nonsense or not at all; the format avro-confluent is the one for tables that change.
//
// DECIMAL is bytes, the unscaled number at the column's scale. TIME, TIMESTAMP and TIMESTAMP_LTZ are milliseconds, whatever their precision:
// also with 'timestamp_mapping.legacy' = 'false', where Flink says microseconds in the schema. Without it TIMESTAMP has a precision of at most 3,
// and there is no TIMESTAMP_LTZ. MAPs and MULTISETs have keys of text; their entries are written in the order of Java's HashMap, as Flink's are.
//
// # Guesses
//
// Flink guesses silently in these cases, and a decoder reports a [*changelog.DataError] instead unless its Payload is Lenient:
//
//   - bytes after the row (Flink does not look at them);
//   - a TINYINT or SMALLINT beyond its range (Flink: another number), a DECIMAL with more digits than its column (Flink: NULL);
//   - a DATE or TIMESTAMP outside the years 0001 to 9999;
//   - a BOOLEAN that is neither 0 nor 1 (Flink: FALSE), text that is not UTF-8 (Flink: U+FFFD), a key that is twice in a map.
//
// An encoder reports a time with more than milliseconds, which Flink cuts off.
//
// # JSON
//
// With 'encoding' = 'json' a row is in Avro's JSON encoding: {"id":{"int":1},"name":null}. Every column has to be there. Here a decoder also reports a
// number with a fraction for an integer (Flink cuts it off), members that are none of the table's and a union with two branches (Flink does not
// look at them). A member that is there twice is an error even when Lenient, and so is a message that is broken after its last value.
// Like Flink, an encoder puts a line feed before each message but its first; unlike Flink it refuses NaN and the infinities, which no
// reader takes.
package avro

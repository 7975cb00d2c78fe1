// Package json reads and writes Flink's format 'json'.
//
// # Overview
//
// [Format] makes decoders and encoders that agree with Flink 2.2, slips included: JsonParserToRowDataConverters, or with
// 'decode.json-parser.enabled' = 'false' JsonToRowDataConverters, and RowDataToJsonConverters. Clean messages that fit their types, which is
// nearly all, are read in one pass and without an allocation for a scalar.
//
// An encoder's bytes are Flink's: members in the order of the columns, no white space, DECIMALs with an exponent where they end with zeros
// before the point (1E+2 for 100; not with 'encode.decimal-as-plain-number' = 'true'), FLOAT and DOUBLE as a JDK up to 18 prints them,
// characters beyond U+FFFF as two escapes.
//
// # Guesses
//
// Where Flink guesses silently, a decoder reports a [*changelog.DataError] instead, unless its Payload is Lenient:
//
//   - BOOLEAN from other texts than true and false (Flink: FALSE);
//   - DECIMAL with more digits than the type has (Flink: NULL);
//   - INT, BIGINT from a number with a fraction or an exponent (Flink cuts the fraction off; BIGINT goes through a double);
//   - FLOAT, DOUBLE beyond the range of the type (Flink: infinite);
//   - a TIME with a fraction or at 24:00:00, a TIMESTAMP on a day that its month does not have;
//   - one member twice (Flink: the rest of the object may be ignored);
//   - numbers inside an object or array that is read into a STRING and that a double does not hold;
//   - an empty message (Flink drops it), a null in an array of rows, text after the JSON value, UTF-16 and UTF-32, overlong UTF-8;
//   - with 'ignore-parse-errors', a field whose error makes Flink lose its place in the rest of the message.
//
// # Null rows
//
// Flink's parser decoder hands on a null row where a message breaks inside an object and 'ignore-parse-errors' is on, and for the
// element null of an array. Such a row is a change whose Row is nil; what it means is the connector's matter: on
// upsert-kafka Flink makes it a delete.
//
// # Bounds
//
// Nesting beyond 1000, numbers beyond 1000 characters and names beyond 50000 bytes are errors, as in Jackson. The memory of the rows
// of a message is bounded by its size; a message that asks for more is an error, in lenient mode too.
//
// # Failure to write
//
// A [*changelog.DataError] reports a value that is not of its column's type, one that is Unchanged, text that is not UTF-8, a map's NULL key
// (unless 'map-null-key.mode' says what becomes of it), a DECIMAL with more digits than its column, and, unless the Payload is Lenient, a TIME
// with a fraction of a second, which Flink 2.2 cuts off.
//
// # Not covered
//
// TIMESTAMP WITH TIME ZONE, VARIANT, RAW and structured types, and maps whose keys are not text, as in Flink: making a decoder or an encoder
// for them fails.
package json

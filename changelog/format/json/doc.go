// Package json reads Flink's format 'json'.
//
// # Overview
//
// [Format] makes decoders that agree with Flink 2.2. Two readers stand behind one decoder. The plain one is a scanner driven
// by the schema, in one pass and without an allocation for a scalar; it takes messages that are clean JSON and fit their types, which is
// nearly all. Whatever it does not take, however slight the oddness, is read again by the exact one, which follows Flink's
// JsonParserToRowDataConverters over Jackson's tokens (or, with 'decode.json-parser.enabled' = 'false', JsonToRowDataConverters over
// a tree) step by step, their slips included. The plain reader's answer is always the exact one's; a test holds that.
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
// # Not covered
//
// Encoding: NewEncoder says so.
package json

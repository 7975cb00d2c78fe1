// Package avroconfluent reads and writes Flink's format 'avro-confluent': a zero, the id of a schema in Confluent's schema registry, and a row in Avro's
// binary encoding.
//
// # Overview
//
// [Format] makes decoders and encoders that agree with Flink 2.2. The reader's schema is that of the table, derived from its columns as package
// avro says (with the legacy mapping of times: TIMESTAMP has a precision of at most 3, and there is no TIMESTAMP_LTZ), or given in the option
// 'schema', whose types must then be those of the table. A message's own schema is fetched from the registry by its id, once; the two are brought
// together by Avro's rules of resolution:
//
//   - fields are found by name, in any order; those that the table does not have are passed over;
//   - a column that the writer's schema does not have is NULL, or the default of 'schema'; one that is NOT NULL and has no default is an error;
//   - int is read as long, float or double, long as float or double, float as double, text as bytes and bytes as text; nothing else is converted;
//   - a union of the writer is read branch by branch: a branch that does not fit is an error only in a message that takes it;
//   - the aliases of 'schema' rename the fields of a writer's record that has the name of the reader's, or one of its aliases; those of a writer's schema
//     count for nothing. (What Flink derives from a table is called org.apache.flink.avro.generated.record, and has none.)
//
// # Options
//
// Flink's, by their names: url (several addresses with commas between are tried in turn), subject, schema, ssl.*, basic-auth.*, bearer-auth.*,
// and of properties those that are about the same. Stores of certificates must be in PEM form. [Format.HTTP] has what else a
// program may want.
//
// # The registry
//
// A decoder keeps up to a thousand schemas. Where the registry does not answer, answers with an error of its own, or does not take the credentials,
// nothing is wrong with the message: the error is a [*changelog.UnavailableError], which no data policy counts, and the next call asks again. An id
// that the registry does not know, a schema that is none of Avro or that cannot be parsed is a [*changelog.DataError].
//
// An encoder registers the table's schema with its first row, under 'subject', or as Flink does under the topic with -value or -key behind it.
//
// # Guesses
//
// Beside what package avro lists, Flink guesses silently in these cases, and a decoder reports a [*changelog.DataError] instead unless its Payload
// is Lenient:
//
//   - a time that the writer counts in other units (Flink: the number, as milliseconds or days);
//   - a decimal of another scale than its column (Flink: its digits at the column's scale), or written as text (Flink: its bytes as a number);
//   - bytes with a logical type for a column of text.
package avroconfluent

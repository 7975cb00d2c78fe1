// Package changelog holds what a Flink SQL job writes to Kafka, as values: kinds of change, modes, logical types, rows,
// changes, batches and positions, and the net effect of a run of changes for each key.
//
// # Overview
//
// A [Change] is one +I, -U, +U or -D of one [Row], with the place in Kafka it came from. A row is one [Value] for each
// column of a [Schema]; values are exact: BIGINT keeps 64 bits, DECIMAL its digits, a TIMESTAMP never gains a zone, nanoseconds
// survive. A [Decoder] turns Kafka records into changes in a [Batch], an [Encoder] turns changes into records.
//
// # Keys
//
// Keys are equal as typed values: a DECIMAL at its column's scale, -0 equal to 0, NaN equal to NaN. [AppendKey] gives the one
// canonical byte form, ordered as the values are, that net effect, sorting and document ids share.
//
// # Failure
//
// A message that cannot be decoded is a [*DataError]; it names topic, partition, offset and field and never a value.
//
// # Not covered
//
// Nothing here does I/O, keeps time or knows a sink. The package imports the standard library only.
package changelog

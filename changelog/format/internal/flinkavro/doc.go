// Package flinkavro is Avro's binary encoding as Flink reads and writes it: rows of a table from and to bytes, without a schema at hand. The
// formats that have Avro in them are made of it.
//
// A [Plan] is the reader's schema, which for Flink is that of the table. [Reader.Value] reads what was written with the same schema; a [Step]
// is what the schema of another writer comes to beside the plan, by Avro's rules of resolution, and [Reader.Row] reads by it.
package flinkavro

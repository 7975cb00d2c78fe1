// Package avro makes Avro object container files for package s3: a record of the table's columns in their order, the schema in the file.
//
// # Types
//
//	BOOLEAN                       boolean
//	TINYINT, SMALLINT, INT        int
//	BIGINT                        long
//	FLOAT, DOUBLE                 float, double
//	DECIMAL(p, s)                 bytes, decimal
//	CHAR, VARCHAR, STRING         string
//	BINARY, VARBINARY, BYTES      bytes
//	DATE                          int, date
//	TIME(p)                       int, time-millis (p to 3); long, time-micros (p to 6)
//	TIMESTAMP(p)                  long, local-timestamp-millis, -micros, -nanos (p to 3, 6, 9)
//	TIMESTAMP_LTZ(p)              long, timestamp-millis, -micros, -nanos
//	INTERVAL in months, in days   int, long (milliseconds)
//	ARRAY, MAP, MULTISET          array; map, of text keys; map of int
//	ROW                           record
//
// What is not NOT NULL is a union of null and its type. Names that Avro does not take have other characters replaced by _ and the column's own name
// in the property "flinksink-name". These are not the bytes of Flink's format 'avro', which keeps times in milliseconds only.
//
// Refused as a setting: TIME(7) to TIME(9), and maps whose keys are not text. Refused as a value: a TIMESTAMP(7) to (9) beyond the years 1678 to 2261.
package avro

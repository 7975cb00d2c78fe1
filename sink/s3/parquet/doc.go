// Package parquet makes Parquet files for package s3: each column with its Parquet type, statistics, and row groups of bounded size.
//
// # Types
//
//	BOOLEAN                       BOOLEAN
//	TINYINT .. BIGINT             INT32 or INT64, INT(8) to INT(64)
//	FLOAT, DOUBLE                 FLOAT, DOUBLE
//	DECIMAL(p, s)                 DECIMAL over INT32 (p to 9), INT64 (p to 18), 16 bytes (p to 38)
//	CHAR, VARCHAR, STRING         STRING
//	BINARY, VARBINARY, BYTES      BYTE_ARRAY
//	DATE                          DATE
//	TIME(p)                       TIME in milli-, micro- or nanoseconds (p to 3, 6, 9), local
//	TIMESTAMP(p)                  TIMESTAMP in such units, local
//	TIMESTAMP_LTZ(p)              TIMESTAMP in such units, adjusted to UTC
//	INTERVAL in months            INT32
//	INTERVAL in days              INT64, milliseconds
//	ARRAY, MAP, MULTISET          LIST, MAP, MAP with counts
//	ROW                           a group
//
// A column that is not NOT NULL is optional. A TIMESTAMP of precision 7 to 9 holds the years 1678 to 2261, as 64 bits of nanoseconds do; a value beyond them is
// refused. So is a NULL in a place that is NOT NULL, and the NULL key of a map.
package parquet

// Package registry is what the formats of Confluent's schema registry have in common: their options, a client with a bounded cache, the schema
// that Flink registers for a table, and what the schema of a writer comes to beside it by Avro's rules of resolution. It is the one
// package that knows an HTTP client and a parser of schemas.
package registry

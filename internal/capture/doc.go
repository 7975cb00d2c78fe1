// Package capture reads topics that were captured from a real broker, and writes them into another broker at the same offsets.
//
// # Overview
//
// A capture is a file of one JSON object a line, one line a record (topic.jsonl in the golden data). [ReadFile] reads it; [Load]
// makes the topic again, so that a test or a demonstration meets the same keys, values, offsets, gaps, aborted records and open
// transactions that the capture's consumer met.
//
// # The file
//
//	partition, offset   numbers, offsets rising within a partition
//	timestamp           milliseconds since the Unix epoch
//	key, value          base64; null is Kafka's null, "" is empty
//	headers             [[name, base64 or null], ...]
//	aborted             true: of an aborted transaction; a read_committed consumer never gets it
//	open                true: behind the last stable offset; a read_committed consumer does not get it yet
//	keyText, valueText  for people; not read
//
// # Not covered
//
// The file holds records and no transaction markers. Where offsets are missing between two records Load puts markers; behind the
// last record it puts those that its own transactions need, so the topic's end may be an offset or two from the original's.
// Producer ids, batches and the moments of the markers are not those of the original.
package capture

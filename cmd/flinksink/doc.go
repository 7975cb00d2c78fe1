// Command flinksink is the library from a shell: it reads a topic as changes, runs a bridge into Postgres, Kafka, S3 or Elasticsearch, replays a captured
// topic into it, shows and moves the positions of bridges, settles what they left in doubt, compares tables with topics and mends them, finds what would stop one, and says what a Flink plan will write.
//
// # Exit status
//
//	0  done
//	1  a bad record, a failure while running, or a check that found what would stop a bridge
//	2  a wrong command line, or a setting that cannot work; found before the first row
//
// # Output
//
// Standard output holds what was asked for: the changes of read, the guarantee and the account of run and replay,
// positions and findings. Standard error holds progress, warnings and errors. No password appears in either.
package main

// Command flinksink is the library from a shell: it reads a topic as changes, runs a bridge into Postgres, and replays a captured
// topic into it.
//
// # Exit status
//
//	0  done
//	1  a bad record, or a failure while running
//	2  a wrong command line, or a setting that cannot work; found before the first row
//
// # Output
//
// Standard output holds what was asked for: the changes of read, the guarantee and the account of run and replay. Standard error
// holds progress, warnings and errors. No password appears in either.
package main

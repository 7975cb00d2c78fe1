// Command rivals measures the wire formats beside the best Go libraries for the same bytes, and prints what it measured as JSON. It is
// run by ./bench/run -only formats, which makes tables of that; go doc ./bench tells how things are measured.
//
// It is a module of its own, so that no library that is here for its speed alone comes near a user of flinksink.
//
// # Same bytes, same work
//
// Messages are what our encoders write of made-up rows of 8 columns, so they are as Flink writes them; those of Debezium itself are made
// here. Each contender ends with rows of typed values that may be kept after the message: integers, an exact DECIMAL, a DOUBLE, a
// timestamp of numbers. Where a library has no such type, its text is parsed after it, by the quickest code that there is. Before
// anything is measured, what each made of each message is compared with the row that it was made of.
//
// No rival looks at what Flink would read otherwise, tells a wrong type in a named column, or knows one kind of change from another.
package main

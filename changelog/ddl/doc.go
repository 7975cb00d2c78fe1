// Package ddl reads Flink CREATE TABLE statements: what a user pasted, and what SHOW CREATE TABLE prints, become columns, key
// and options.
//
// # Overview
//
// A text is one statement or a whole script. [Find] returns the table of one name, or the only one that the text creates:
//
//	table, err := ddl.Find(text, "orders")
//	for _, c := range table.Schema().Columns { ... } // names and types
//	topic := table.Options["topic"]
//
// [Parse] returns the tables of all CREATE TABLE statements. Both skip other statements (SET, USE, CREATE VIEW, INSERT, ...). A
// [Table] keeps everything that the statement says. [Table.Schema] holds the columns whose content a topic can have: physical and
// metadata columns; computed columns are in Table.Columns only. Package changelog/format makes a decoder from a Table.
//
// What is accepted and what is refused follows Flink 2.2 (the statements and answers in testdata are its own), with three
// differences: of the words that Flink keeps for itself only those are refused as names without back quotes that every release from 1.17 to 2.3
// refuses ([changelog.ReservedWord]; HASH and MATERIALIZED were names before 1.20), a type is not checked against a connector, and the name of
// a user-defined type is refused, since no format reads one (STRUCTURED<...> and RAW(...) are read).
// Columns of the PRIMARY KEY are NOT NULL, whatever they were declared as, and TIME(p) is TIME(0), as in Flink.
//
// # Failure
//
// A mistake is an [*Error] with line, column, what was expected and what was found; for the name of a type that Flink does not have
// also what was likely meant: "line 1, column 19: expected a Flink type, found TEXT: did you mean STRING?". A table made by LIKE or AS SELECT has columns
// that its own text does not tell; it is refused, and the error says to paste what SHOW CREATE TABLE prints.
//
// # Secrets
//
// Options hold passwords, keys and tokens. No printing of [Options] or [Table], by any verb or logger, and no error shows them;
// only [Table.SQLWithSecrets] does.
//
// # Not covered
//
// Expressions (computed columns, watermarks) are kept as text. Nothing here knows what a connector or a format makes of an option.
package ddl

// Package ddl reads Flink CREATE TABLE statements: what a user pasted, and what SHOW CREATE TABLE prints, become columns, key
// and options.
//
// # Overview
//
// [Parse] reads every CREATE TABLE of a text and skips the other statements (SET, USE, CREATE VIEW, INSERT, ...); [Find] picks one
// table by name. A [Table] keeps everything that the statement says. [Table.Schema] holds the columns whose content a topic can
// have: physical and metadata columns; computed columns are kept in [Table.Columns] and are not part of it.
//
// What is accepted and what is refused follows Flink 2.2 (the statements and answers in testdata are its own), with two
// differences: reserved words may be used as names without back quotes, and a type is not checked against a connector.
// Columns of the PRIMARY KEY are NOT NULL, whatever they were declared as, and TIME(p) is TIME(0), as in Flink.
//
// # Failure
//
// A mistake is an [*Error] with line, column, what was expected and what was found. A table made by LIKE or AS SELECT has columns
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

// Package csv reads and writes Flink's format 'csv': a row is one line of cells, without a header and without a line's end.
//
// # Overview
//
// [Format] makes decoders and encoders that agree with Flink 2.2, which uses Jackson's CSV, and so with Jackson's rules, which are not those of
// RFC 4180. Reading: the first line of a message counts; a cell that begins with a quote ends with one, after which blanks may
// follow; a quote elsewhere is a character like others; a quote in quotes is doubled or, with 'escape-character', escaped; one empty cell
// more than the table has columns is accepted, as is a byte order mark. Numbers and booleans may have blanks around them, text keeps its own.
//
// Writing: a text is quoted that is longer than 24 characters or has one that is not above the delimiter and the quote, both in
// UTF-16, or the escape character, or without one a backslash; numbers and booleans are never quoted. DECIMALs have all digits of their scale, whatever 'write-bigdecimal-in-scientific-notation'
// says, and so do Flink's. ARRAYs and ROWs are one cell, their elements between 'array-element-delimiter'; they hold no others.
//
// Some texts are not read as they were written, by Flink and here: one that is the 'null-literal', and in the first column one that begins with
// U+FEFF, which is taken for a mark, or with U+0000, for which the message is taken for UTF-16.
//
// # NULL
//
// NULL is what 'null-literal' says. Without the option NULL and the empty text are both written as nothing, and nothing is read as
// an empty text: Flink cannot read the NULLs it wrote in columns of other types. An empty 'null-literal' makes both NULL. What an ARRAY
// is that was written as nothing is not known: it is read as one without elements, a ROW as NULL. A BOOLEAN that was written as nothing is
// read as FALSE, by Flink and here.
//
// # Options of Flink 2.3
//
// They need a Payload of Flink 2.3, and change nothing that is written. 'trim-spaces' takes blanks and control characters off a cell without quotes, and off
// each element of an ARRAY or ROW; a quote may then follow on blanks. 'empty-string-as-null' makes an empty cell NULL, quoted or not,
// and an empty element too. 'ignore-trailing-unmappable' passes over cells that the table has no columns for. 'fail-on-missing-columns' makes a line with too few
// cells fail where 'ignore-parse-errors' would take NULL for them. 'allow-trailing-comma' changes nothing: one empty cell more is accepted without it too.
//
// # Guesses
//
// Flink guesses silently in these cases, and a decoder reports a [*changelog.DataError] instead unless its Payload is Lenient:
//
//   - a BOOLEAN that is neither true nor false (Flink: FALSE);
//   - a DECIMAL with more digits than its column (Flink: NULL);
//   - a FLOAT or DOUBLE beyond its range (Flink: an infinity);
//   - a DATE that its month does not have, or of the ten days of October 1582 that were left out (Flink: another day);
//   - a TIMESTAMP on such a day, and a TIME with a fraction (Flink: without);
//   - a ROW of more fields than its type (Flink: without them);
//   - text after the first line (Flink: without it);
//   - a message in UTF-16 or UTF-32, or in UTF-8 that no encoder writes.
//
// # Failure
//
// A cell that does not fit its type, a line with too few or too many cells, and an empty message fail. With
// 'ignore-parse-errors' = 'true' a cell that does not fit is NULL, and so are cells that are missing; other messages are skipped.
package csv

package ddl

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is a mistake in a text of statements. It never shows the content of a string literal, and nothing that stands inside a
// WITH clause: these may be secrets.
type Error struct {
	Line, Column int    // where, from 1; Column counts characters
	Expected     string // what could stand there; "" where Reason says it all
	Found        string // what stands there
	Reason       string // a mistake that is not one of grammar, with the cure; "" otherwise
	Err          error  // a cause, or nil: a *changelog.TypeError
}

// Error returns one line that begins with the place.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("ddl: ")
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d, column %d: ", e.Line, e.Column)
	}
	if e.Reason != "" {
		b.WriteString(e.Reason)
		return b.String()
	}
	fmt.Fprintf(&b, "expected %s, found %s", e.Expected, e.Found)
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// place returns the line and column, from 1, of a byte offset.
func place(text string, offset int) (line, column int) {
	before := text[:min(offset, len(text))]
	line = 1 + strings.Count(before, "\n")
	before = before[strings.LastIndexByte(before, '\n')+1:]
	return line, 1 + utf8.RuneCountInString(before)
}

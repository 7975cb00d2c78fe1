package changelog

import "fmt"

// Column is one column of a table whose content a row holds.
type Column struct {
	Name     string
	Type     Type
	Metadata string // the metadata key of a METADATA column ("offset", "value.source.table"); "" for a physical column
	Virtual  bool   // METADATA ... VIRTUAL: read, never written
	Comment  string
}

// Schema describes the rows of one table: columns in declared order, and the key. It is not changed after it was made; batches,
// changes and sinks share it.
type Schema struct {
	Columns []Column
	Key     []int // columns of the PRIMARY KEY, in the order the PRIMARY KEY clause lists them; empty: no key
}

// Index returns the column called name, or -1.
func (s *Schema) Index(name string) int {
	for i := range s.Columns {
		if s.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// Validate reports what is contradictory in s: no or two equal names, a key column that does not exist or is listed twice.
func (s *Schema) Validate() error {
	seen := make(map[string]bool, len(s.Columns))
	for i := range s.Columns {
		n := s.Columns[i].Name
		if n == "" {
			return fmt.Errorf("changelog: column %d has no name", i+1)
		}
		if seen[n] {
			return fmt.Errorf("changelog: two columns are called %q", n)
		}
		seen[n] = true
	}
	inKey := make(map[int]bool, len(s.Key))
	for _, k := range s.Key {
		if k < 0 || k >= len(s.Columns) {
			return fmt.Errorf("changelog: key column number %d of %d columns", k, len(s.Columns))
		}
		if inKey[k] {
			return fmt.Errorf("changelog: key lists column %q twice", s.Columns[k].Name)
		}
		inKey[k] = true
	}
	return nil
}

// Table is a named schema with the kinds of change its topic may hold.
type Table struct {
	Name   string // as errors and sinks name it, unquoted
	Schema *Schema
	Mode   Mode
	// Encoding stands for how a row is written into the value of a record: format, options, columns. Where two tables have the same, each reads from a
	// value of the other's what the other does. "": nobody knows, or a reader would not say so much of a value (changelog/format sets it).
	Encoding string
}

package ddl

import (
	"strings"
	"sync"

	"github.com/flinksink/flinksink/changelog"
)

// Table is what one CREATE TABLE says; [Find] and [Parse] make it. It is handed around by pointer and not changed after it was made.
type Table struct {
	Catalog, Database, Table string        // unquoted; "" as far as the name is not qualified
	Columns                  []Column      // in declared order, of all three kinds
	PrimaryKey               []string      // in the order of the PRIMARY KEY clause; nil: none
	Constraint               string        // name of the PRIMARY KEY constraint; "" if it has none
	Watermark                *Watermark    // nil: none
	DistributedBy            *Distribution // nil: not given
	PartitionedBy            []string
	Comment                  string
	Temporary                bool
	IfNotExists              bool
	Options                  Options // of the WITH clause; nil: there is none

	once   sync.Once
	schema *changelog.Schema
}

// Column is one declared column, in any of Flink's three kinds: computed if Computed is set, METADATA if Metadata is, else physical.
type Column struct {
	changelog.Column
	// Computed is the text of the expression of a computed column, as written but for comments; "" for the other kinds. The Type of
	// a computed column is not known, since nothing here evaluates expressions: its Root is RootInvalid.
	Computed string
	// Declared is the type as it is written where Flink before 2.3 makes less of it: TIME(3) is TIME(0) there. nil: it is Type.
	Declared *changelog.Type
}

// Watermark is WATERMARK FOR column AS expression. It is kept and not evaluated.
type Watermark struct {
	Column     string
	Expression string // as written but for comments
}

// Distribution is DISTRIBUTED BY or DISTRIBUTED INTO. It is kept and means nothing to a reader of the topic.
type Distribution struct {
	Kind    string   // "HASH", "RANGE" or ""
	Columns []string // nil for DISTRIBUTED INTO n BUCKETS
	Buckets int      // 0: not given
}

// Name returns the last part of the table's name, unquoted.
func (t *Table) Name() string { return t.Table }

// Schema returns the columns whose content a topic can have, physical and METADATA ones, in declared order, and the key. Computed
// columns are left out. It is the same pointer each time. In a table that was made by hand, a PRIMARY KEY column that is none of
// these is index -1 in the key, which [changelog.Schema.Validate] reports.
func (t *Table) Schema() *changelog.Schema {
	t.once.Do(func() {
		s := &changelog.Schema{}
		for i := range t.Columns {
			if t.Columns[i].Computed == "" {
				s.Columns = append(s.Columns, t.Columns[i].Column)
			}
		}
		for _, n := range t.PrimaryKey {
			s.Key = append(s.Key, s.Index(n))
		}
		t.schema = s
	})
	return t.schema
}

// parts returns the parts of the name that are given.
func (t *Table) parts() []string {
	switch {
	case t.Catalog != "":
		return []string{t.Catalog, t.Database, t.Table}
	case t.Database != "":
		return []string{t.Database, t.Table}
	}
	return []string{t.Table}
}

// fullName returns the name as qualified as it is, quoted.
func (t *Table) fullName() string {
	parts := t.parts()
	for i := range parts {
		parts[i] = quoteName(parts[i])
	}
	return strings.Join(parts, ".")
}

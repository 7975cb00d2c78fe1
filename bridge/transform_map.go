package bridge

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// Mapping is the SELECT of a bridge: it makes rows of another table of the decoded ones, and the sinks see that table. The key is
// not its affair: both tables have the same key, under other names perhaps, and the bridge copies it. So a mapping cannot make two rows of
// one, or lose a delete.
//
// Columns that are copied keep everything, also that the source did not send a value ([changelog.Value].IsUnchanged). Those that Row fills
// need a row that was sent whole, see Reads.
type Mapping struct {
	// Name is the name of the new table, in errors and for sinks that ask for it. Defaults to the old name.
	Name string
	// Schema describes the new rows. A column is copied if From names it, or if the old table has a column of its name and type
	// (NOT NULL aside); Row fills the others. Its key must be copies of the old table's key columns, all of them. Required.
	Schema *changelog.Schema
	// From says of which old column a new one is a copy: new name to old name. The types must be the same.
	From map[string]string
	// Row fills the columns of out that are not copied; the copied ones are there already. in and out must not be kept, and
	// in not be changed. Text and bytes that Row makes come from b.NewBytes, the inside of arrays, maps and rows from b.NewValues: that memory
	// lives as long as the row, and is counted; values of in may be used as they are. An error makes the message a
	// *changelog.DataError, with which Options.OnData deals. So do a value that is not of its column's type and a NULL in a NOT NULL column.
	//
	// Row may look at nothing but in, and has to give equal rows for equal ones: without a key the delete of a row is mapped as its insert
	// was, and must find it. It is called for deletes too, but not for those that know their key only. With several lanes it is called by several goroutines
	// at once. A panic is not caught. Required if a column is not copied.
	Row func(b *changelog.Batch, in, out changelog.Row) error
	// Reads names the old columns that Row looks at. A row that lacks one of these values is an error, as Row could only guess; a delete
	// by key becomes one that knows its key only. Defaults to nil: all of them.
	Reads []string
}

// mapping is a Mapping that was checked against the table that goes in.
type mapping struct {
	name    string
	schema  *changelog.Schema
	fill    func(b *changelog.Batch, in, out changelog.Row) error // nil: nothing to fill
	reads   []int
	keys    []copied // of the key
	others  []copied
	notNull []int // columns that may turn out NULL and must not
	blank   changelog.Row
	old     *changelog.Schema
}

type copied struct{ from, to int }

func newMapping(o *Mapping, from *changelog.Table) (*mapping, error) {
	if o.Schema == nil {
		return nil, errors.New("Options.Map.Schema is missing: set the columns of the new rows")
	}
	if err := o.Schema.Validate(); err != nil {
		return nil, fmt.Errorf("Options.Map.Schema: %w", err)
	}
	m := &mapping{name: o.Name, schema: o.Schema, fill: o.Row, old: from.Schema, blank: make(changelog.Row, len(o.Schema.Columns))}
	if m.name == "" {
		m.name = from.Name
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("Options.Map: "+format, args...)) }
	for _, n := range slices.Sorted(maps.Keys(o.From)) {
		if o.Schema.Index(n) < 0 {
			bad("From names %s, which is no column of Schema", n)
		}
	}
	source := make([]int, len(o.Schema.Columns)) // -1: filled
	for i := range o.Schema.Columns {
		c := &o.Schema.Columns[i]
		name, named := o.From[c.Name]
		if !named {
			name = c.Name
		}
		source[i] = from.Schema.Index(name)
		same := source[i] >= 0 && sameType(c.Type, from.Schema.Columns[source[i]].Type)
		switch {
		case named && source[i] < 0:
			bad("column %s is to be a copy of %s, and table %s has no such column", c.Name, name, from.Name)
		case named && !same:
			bad("column %s is %s and cannot be a copy of %s, which is %s: give it that type, or fill it in Row", c.Name, c.Type, name, from.Schema.Columns[source[i]].Type)
		case !same && o.Row == nil:
			bad("column %s is no copy of a column of table %s, which has none of its name and type: set From, or fill it in Row", c.Name, from.Name)
		}
		if !same {
			source[i] = -1
		}
		if c.Type.NotNull && (o.Row != nil || source[i] < 0 || !from.Schema.Columns[source[i]].Type.NotNull) {
			m.notNull = append(m.notNull, i)
		}
	}
	if err := m.key(from, source); err != nil {
		bad("%w", err)
	}
	for i, f := range source {
		if f >= 0 && !slices.Contains(o.Schema.Key, i) {
			m.others = append(m.others, copied{f, i})
		}
	}
	var err error
	if m.reads, err = columnsOf("Options.Map.Reads", from.Schema, o.Reads); err != nil {
		errs = append(errs, err)
	}
	return m, errors.Join(errs...)
}

// key checks that the new key is the old one. Under another key two rows could become one, or a delete could miss its row.
func (m *mapping) key(from *changelog.Table, source []int) error {
	left := slices.Clone(from.Schema.Key)
	for _, k := range m.schema.Key {
		i := slices.Index(left, source[k])
		if i < 0 {
			return fmt.Errorf("column %s is in the key of Schema and is no copy of a key column of table %s: both tables must have the same key", m.schema.Columns[k].Name, from.Name)
		}
		left = slices.Delete(left, i, i+1)
		m.keys = append(m.keys, copied{source[k], k})
	}
	if len(left) > 0 {
		return fmt.Errorf("the key of Schema lacks a copy of %s, which is in the key of table %s: both tables must have the same key", from.Schema.Columns[left[0]].Name, from.Name)
	}
	return nil
}

func sameType(a, b changelog.Type) bool {
	a.NotNull, b.NotNull = false, false
	return a.String() == b.String()
}

// mapFrom maps the changes of one message, those from n on.
func (t *transform) mapFrom(b *changelog.Batch, n int) error {
	m := t.mapping
	for i, end := n, b.Len(); i < end; i++ {
		c := &b.Changes[i]
		if skipped(c) {
			c.Row = m.blank // as wide as the table's rows are; nobody looks at it
			continue
		}
		row, err := m.change(b, c)
		if err != nil {
			return err
		}
		if b.Len() != end {
			return &changelog.DataError{Reason: "Options.Map.Row added a change to the batch: it may only take memory from it"}
		}
		b.Changes[i].Row = row
	}
	return nil
}

func (m *mapping) change(b *changelog.Batch, c *changelog.Change) (changelog.Row, error) {
	if m.fill != nil && !c.KeyOnly {
		if missing := firstUnchanged(c.Row, m.reads); missing >= 0 {
			if c.Kind.Adds() || len(m.keys) == 0 {
				return nil, &changelog.DataError{Class: changelog.Missing, Field: m.old.Columns[missing].Name, Reason: "the mapping looks at this column, and the source did not send its value; " +
					"let the source send rows whole, or leave the column out of what Row looks at (Options.Map.Reads)"}
			}
			c.KeyOnly = true // its key says which row it takes away
		}
	}
	if c.KeyOnly && len(m.keys) == 0 {
		return nil, &changelog.DataError{Class: changelog.Missing, Reason: "the delete knows its key only, and the table has no key"}
	}
	row := b.NewRow()
	m.copyKey(row, c.Row)
	if c.KeyOnly {
		return row, nil
	}
	for _, o := range m.others {
		row[o.to] = c.Row[o.from]
	}
	if m.fill != nil {
		if err := m.fill(b, c.Row, row); err != nil {
			return nil, &changelog.DataError{Reason: "the mapping does not take this row", Err: err}
		}
		m.copyKey(row, c.Row)
		for i := range row {
			col := &m.schema.Columns[i]
			if k := row[i].Kind(); k > changelog.KindUnchanged && k != col.Type.Root.ValueKind() {
				return nil, &changelog.DataError{Class: changelog.WrongType, Field: col.Name, Reason: fmt.Sprintf("the mapping gave a value that is no %s", col.Type)}
			}
		}
	}
	if c.Kind.Adds() {
		for _, i := range m.notNull {
			if row[i].IsNull() {
				return nil, &changelog.DataError{Class: changelog.Missing, Field: m.schema.Columns[i].Name, Reason: "the mapping gave NULL, and the column is NOT NULL"}
			}
		}
	}
	return row, nil
}

func (m *mapping) copyKey(out, in changelog.Row) {
	for _, k := range m.keys {
		out[k.to] = in[k.from]
	}
}

package s3

import (
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
)

// target is where the rows of one table go.
type target struct {
	table     *changelog.Table
	out       *changelog.Table // as the files have it: with the columns of Kind
	format    TableFormat
	layout    Layout
	parts     []partitioner
	folder    string // of the table, below the prefix, with a slash
	eventTime int    // column; -1: none
	front     int    // how many columns of out stand before those of table
	row       changelog.Row
}

// The columns that Changelog and Upsert put in front.
var frontColumns = [...]struct{ name, typ string }{
	{"_op", "STRING NOT NULL"}, {"_topic", "STRING NOT NULL"}, {"_partition", "INT NOT NULL"}, {"_offset", "BIGINT NOT NULL"}, {"_index", "INT NOT NULL"},
}

// newTarget checks that a table can be written, before the first row.
func (s *Sink) newTarget(t *changelog.Table) (*target, error) {
	tg := &target{table: t, out: t, layout: s.o.Format.Layout(), eventTime: -1, folder: escape(t.Name) + "/"}
	if t.Name == "" {
		return nil, errors.New("a table has no name")
	}
	if err := t.Schema.Validate(); err != nil {
		return nil, err
	}
	var errs []error
	switch {
	case s.o.Kind == AppendOnly && t.Mode != changelog.Append:
		errs = append(errs, fmt.Errorf("its changes are %s, and Options.Kind AppendOnly writes inserts alone: set Options.Kind to Changelog (every change, with its kind) or Upsert (the last change of each key)", t.Mode))
	case s.o.Kind == Upsert && len(t.Schema.Key) == 0:
		errs = append(errs, errors.New("it has no PRIMARY KEY, and Options.Kind Upsert writes one row a key: set it to Changelog"))
	case s.o.Kind != AppendOnly:
		var err error
		if tg.out, err = fronted(t); err != nil {
			errs = append(errs, err)
		}
		tg.front = len(frontColumns)
	}
	var err error
	if tg.parts, err = newPartitioners(s.o.PartitionBy, t.Schema); err != nil {
		errs = append(errs, err)
	}
	if s.o.EventTime != "" {
		tg.eventTime = t.Schema.Index(s.o.EventTime)
		if tg.eventTime < 0 {
			errs = append(errs, fmt.Errorf("Options.EventTime names column %q, which the table does not have", s.o.EventTime))
		} else if k := t.Schema.Columns[tg.eventTime].Type.Root.ValueKind(); k != changelog.KindDate && k != changelog.KindTimestamp && k != changelog.KindTimestampLTZ {
			errs = append(errs, fmt.Errorf("Options.EventTime names column %q of type %s: it takes DATE, TIMESTAMP and TIMESTAMP_LTZ", s.o.EventTime, &t.Schema.Columns[tg.eventTime].Type))
		}
	}
	if s.o.Kind != AppendOnly {
		for _, p := range tg.parts {
			if !isKey(t.Schema, p.column) {
				errs = append(errs, fmt.Errorf("Options.PartitionBy names column %q, which is not in the PRIMARY KEY: a delete may not know it, and a change of it would leave the old row in another folder", t.Schema.Columns[p.column].Name))
			}
		}
	}
	if len(errs) == 0 {
		if tg.format, err = s.o.Format.Table(tg.out); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("table %q: %w", t.Name, err)
	}
	tg.row = make(changelog.Row, len(tg.out.Schema.Columns))
	return tg, nil
}

func isKey(s *changelog.Schema, column int) bool {
	for _, k := range s.Key {
		if k == column {
			return true
		}
	}
	return false
}

// fronted returns t with the columns of Kind in front. Columns beside the key may be NULL then: a delete may know its key only.
func fronted(t *changelog.Table) (*changelog.Table, error) {
	out := &changelog.Table{Name: t.Name, Mode: changelog.Append, Schema: &changelog.Schema{}}
	for _, c := range frontColumns {
		if t.Schema.Index(c.name) >= 0 {
			return nil, fmt.Errorf("it has a column %q, which Options.Kind adds: rename it", c.name)
		}
		typ, err := changelog.ParseType(c.typ)
		if err != nil {
			return nil, err
		}
		out.Schema.Columns = append(out.Schema.Columns, changelog.Column{Name: c.name, Type: typ})
	}
	for i, c := range t.Schema.Columns {
		if !isKey(t.Schema, i) {
			c.Type.NotNull = false
		}
		out.Schema.Columns = append(out.Schema.Columns, c)
	}
	for _, k := range t.Schema.Key {
		out.Schema.Key = append(out.Schema.Key, k+len(frontColumns))
	}
	return out, nil
}

// change returns c as the files have it, in memory that the next call uses again.
func (tg *target) change(c *changelog.Change) *changelog.Change {
	if tg.front == 0 {
		return c
	}
	kind := c.Kind
	tg.row[0] = changelog.StringValue(kind.String())
	tg.row[1] = changelog.StringValue(c.Topic)
	tg.row[2] = changelog.IntValue(int64(c.Partition.Partition))
	tg.row[3] = changelog.IntValue(c.Offset)
	tg.row[4] = changelog.IntValue(int64(c.Index))
	copy(tg.row[tg.front:], c.Row)
	out := *c
	out.Kind, out.Row = changelog.Insert, tg.row
	return &out
}

// judge says why a change can never be written, or nil.
func (tg *target) judge(c *changelog.Change, k Kind) *changelog.DataError {
	bad := func(class changelog.DataClass, field, reason string) *changelog.DataError {
		return &changelog.DataError{Partition: c.Partition, Offset: c.Offset, Field: field, Class: class, Reason: reason}
	}
	if len(c.Row) != len(tg.table.Schema.Columns) {
		return bad(changelog.SchemaMismatch, "", fmt.Sprintf("the row has %d columns, and the table %d", len(c.Row), len(tg.table.Schema.Columns)))
	}
	if k == AppendOnly && c.Kind != changelog.Insert {
		return bad(changelog.UnknownOp, "", fmt.Sprintf("the change is a %s, and Options.Kind AppendOnly writes inserts alone: set it to Changelog or Upsert", c.Kind))
	}
	for i := range c.Row {
		if unsent(c.Row[i]) {
			return bad(changelog.Missing, tg.table.Schema.Columns[i].Name, "the source did not send the column, and a file holds whole rows only: have the source send it (Debezium: REPLICA IDENTITY FULL)")
		}
	}
	if c.KeyOnly {
		return nil
	}
	for i := range c.Row {
		if c.Row[i].IsNull() && tg.table.Schema.Columns[i].Type.NotNull {
			return bad(changelog.Missing, tg.table.Schema.Columns[i].Name, "NULL in a column that is NOT NULL")
		}
	}
	return nil
}

func unsent(v changelog.Value) bool {
	if v.IsUnchanged() {
		return true
	}
	switch v.Kind() {
	case changelog.KindArray, changelog.KindMap, changelog.KindRow:
		for _, e := range v.Elems() {
			if unsent(e) {
				return true
			}
		}
	}
	return false
}

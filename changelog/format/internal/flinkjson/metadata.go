package flinkjson

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// MetadataKey is what a format offers to METADATA columns.
type MetadataKey struct {
	Key    string // after "value."
	Type   string // that the column must be declared as; a TIMESTAMP_LTZ of another precision will do too
	Member string // of the message's root
	As     string // the type that the member is read as
	// Convert makes the column's value of one that is not NULL; nil leaves it as it is. An error hides with 'ignore-parse-errors'.
	Convert func(changelog.Value) (changelog.Value, error)
}

// Metadata fills the METADATA columns of a table from members of a message's root.
type Metadata struct {
	columns []metadataColumn
	fields  []*Field
}

type metadataColumn struct {
	slot    int
	member  string
	unit    int64 // nanoseconds that the column's precision holds
	convert func(changelog.Value) (changelog.Value, error)
}

// NewMetadata makes the reader of the columns of s that are among keys, or says which of them the format does not have, or not in this type.
func NewMetadata(format string, s *changelog.Schema, keys []MetadataKey) (*Metadata, error) {
	m := &Metadata{}
	var errs []error
	for i := range s.Columns {
		c := &s.Columns[i]
		name, ok := strings.CutPrefix(c.Metadata, "value.")
		if !ok {
			continue
		}
		k, err := findKey(keys, name)
		if err == nil {
			err = m.add(i, c, k)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: column %s: %w", format, c.Name, err))
		}
	}
	return m, errors.Join(errs...)
}

func findKey(keys []MetadataKey, name string) (*MetadataKey, error) {
	var known []string
	for i := range keys {
		if keys[i].Key == name {
			return &keys[i], nil
		}
		known = append(known, keys[i].Key+" "+keys[i].Type)
	}
	return nil, fmt.Errorf("the format has no metadata '%s'; it has %s, each under 'value.'", name, strings.Join(known, ", "))
}

func (m *Metadata) add(slot int, c *changelog.Column, k *MetadataKey) error {
	want, err := changelog.ParseType(k.Type)
	if err != nil {
		return err
	}
	col := metadataColumn{slot: slot, member: k.Member, unit: 1, convert: k.Convert}
	if want.Root == changelog.RootTimestampLTZ {
		for p := c.Type.Precision; p < 9; p++ {
			col.unit *= 10
		}
		want.Precision = c.Type.Precision
	}
	if !sameType(&want, &c.Type) {
		return fmt.Errorf("metadata 'value.%s' must be declared %s; the column is %s", k.Key, k.Type, c.Type)
	}
	f, err := NewField(k.Member, k.As)
	if err != nil {
		return err
	}
	m.fields = append(m.fields, f)
	m.columns = append(m.columns, col)
	return nil
}

// sameType compares types but for their being nullable.
func sameType(a, b *changelog.Type) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Root == b.Root && a.Length == b.Length && a.Precision == b.Precision && a.Scale == b.Scale && len(a.Fields) == len(b.Fields) &&
		sameType(a.Key, b.Key) && sameType(a.Elem, b.Elem)
}

// Fields are the members of the message that are needed.
func (m *Metadata) Fields() []*Field { return m.fields }

// Read returns the columns' values, in memory of b; nil if there are no columns.
func (m *Metadata) Read(b *changelog.Batch, msg *Message) ([]changelog.Value, *Failure) {
	if len(m.columns) == 0 {
		return nil, nil
	}
	values := b.NewValues(len(m.columns))
	for i := range m.columns {
		c := &m.columns[i]
		v := msg.Value(c.member)
		if c.convert != nil && !v.IsNull() {
			var err error
			if v, err = c.convert(v); err != nil {
				return nil, misfitf(err.Error()).at(c.member)
			}
			if sec, nsec := v.Timestamp(); v.Kind() == changelog.KindTimestampLTZ {
				v = changelog.TimestampLTZValue(sec, nsec-int32(int64(nsec)%c.unit))
			}
		}
		values[i] = v
	}
	return values, nil
}

// Set fills the columns of one row.
func (m *Metadata) Set(row changelog.Row, values []changelog.Value) {
	for i := range values {
		row[m.columns[i].slot] = values[i]
	}
}

// Millis makes a TIMESTAMP_LTZ of milliseconds since the Unix epoch.
func Millis(v changelog.Value) (changelog.Value, error) {
	sec, ms := v.Int()/1000, v.Int()%1000
	if ms < 0 {
		sec, ms = sec-1, ms+1000
	}
	return changelog.TimestampLTZValue(sec, int32(ms)*1e6), nil
}

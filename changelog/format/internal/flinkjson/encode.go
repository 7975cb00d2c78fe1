package flinkjson

import (
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
)

// Encoder writes rows as JSON objects, byte for byte as RowDataToJsonConverters of Flink 2.2 and Jackson's generator do: members in the
// order of the columns, no white space, numbers as Java prints them. It is safe for use by several goroutines.
type Encoder struct {
	Options
	lenient bool
	flink   changelog.FlinkVersion
	row     rowPlan
}

// NewEncoder makes an encoder for p, whose options o are, or says which columns JSON cannot hold. format is what errors begin with.
func NewEncoder(format string, p changelog.Payload, o Options) (*Encoder, error) {
	e := &Encoder{Options: o, lenient: p.Lenient, flink: p.Flink}
	e.row.index = make(map[string]int, len(p.Columns))
	var errs []error
	for i, col := range p.Columns {
		c := &p.Table.Schema.Columns[col]
		f, err := newPlan(&c.Type)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: column %s: %w", format, c.Name, err))
			continue
		}
		e.row.add(p.Names[i], col, f)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return e, nil
}

// AppendPayload implements [changelog.PayloadEncoder]. The payload is the row whatever the change's kind; it is never null.
func (e *Encoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	out, err = e.AppendRow(dst, c.Row)
	return out, false, err
}

// AppendRow appends one row. An error is a *changelog.DataError, and out is dst then.
func (e *Encoder) AppendRow(dst []byte, row changelog.Row) (out []byte, err error) {
	out, f := e.object(dst, &e.row, row)
	if f != nil {
		return dst, f.dataError()
	}
	return out, nil
}

// object is createRowConverter. row has a value at each field's slot.
func (e *Encoder) object(dst []byte, rp *rowPlan, row []changelog.Value) ([]byte, *Failure) {
	dst = append(dst, '{')
	first := true
	for i := range rp.fields {
		fd := &rp.fields[i]
		if fd.slot >= len(row) {
			return dst, misfitf("the row does not have this column").As(changelog.SchemaMismatch).at(fd.name)
		}
		if e.IgnoreNulls && row[fd.slot].IsNull() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, fd.member...)
		var ok bool
		if dst, ok = e.quick(dst, &fd.plan, &row[fd.slot]); ok {
			continue
		}
		var f *Failure
		if dst, f = e.value(dst, &fd.plan, row[fd.slot]); f != nil {
			return dst, f.at(fd.name)
		}
	}
	return append(dst, '}'), nil
}

// value is wrapIntoNullableConverter. Whether a type is NOT NULL is not looked at, as in Flink.
func (e *Encoder) value(dst []byte, p *plan, v changelog.Value) ([]byte, *Failure) {
	switch {
	case v.IsNull():
		return append(dst, "null"...), nil
	case v.IsUnchanged():
		return dst, misfitf("the value was not sent by its source (Unchanged), and JSON has no word for that").As(changelog.Missing)
	case v.Kind() != p.kind:
		return dst, misfitf("the row has a value of another type here; the column is " + p.typ.String())
	}
	switch p.root {
	case changelog.RootArray:
		dst = append(dst, '[')
		for i, elem := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			var f *Failure
			if dst, f = e.value(dst, p.elem, elem); f != nil {
				return dst, f.element(i)
			}
		}
		return append(dst, ']'), nil
	case changelog.RootMap, changelog.RootMultiset:
		return e.mapping(dst, p, v.Elems())
	case changelog.RootRow:
		return e.object(dst, p.row, v.Elems())
	}
	return e.scalar(dst, p, v)
}

// entry is a member that a map becomes.
type entry struct {
	name  []byte
	value changelog.Value
}

// mapping is createMapConverter: members in the order of the map, which Flink keeps too.
func (e *Encoder) mapping(dst []byte, p *plan, pairs []changelog.Value) ([]byte, *Failure) {
	entries, f := e.entries(p, pairs)
	if f != nil {
		return dst, f
	}
	dst = append(dst, '{')
	for i := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		var ok bool
		if dst, ok = appendText(dst, entries[i].name); !ok {
			return dst, misfitf("a key of the map is not UTF-8").As(changelog.Malformed)
		}
		dst = append(dst, ':')
		if dst, f = e.value(dst, p.elem, entries[i].value); f != nil {
			return dst, f.entry()
		}
	}
	return append(dst, '}'), nil
}

// entries settles what a NULL key is and puts a later entry of one name in an earlier one's place, as Jackson's ObjectNode does.
func (e *Encoder) entries(p *plan, pairs []changelog.Value) ([]entry, *Failure) {
	if len(pairs)%2 != 0 {
		return nil, misfitf("the map has a key without a value").As(changelog.Malformed)
	}
	list := make([]entry, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		switch key := pairs[i]; {
		case key.Kind() == changelog.KindString:
			list = append(list, entry{key.Bytes(), pairs[i+1]})
		case !key.IsNull():
			return nil, misfitf("a key of the map is no text")
		case e.NullKey == NullKeyFail:
			return nil, misfitf("a key of the map is NULL; 'map-null-key.mode' = 'DROP' leaves the entry out, 'LITERAL' writes the key that 'map-null-key.literal' says").As(changelog.Missing)
		case e.NullKey == NullKeyLiteral:
			list = append(list, entry{[]byte(e.NullKeyLiteral), pairs[i+1]})
		}
	}
	if distinct(list) {
		return list, nil
	}
	if e.IgnoreNulls && p.elem.root == changelog.RootRow {
		// Flink writes the later row over the members of the earlier one, so that members of both come out.
		return nil, misfitf("a key of the map is there twice; with 'encode.ignore-null-fields' Flink would mix the two rows").As(changelog.Malformed)
	}
	at := make(map[string]int, len(list))
	kept := list[:0]
	for _, en := range list {
		if k, ok := at[string(en.name)]; ok {
			kept[k].value = en.value
			continue
		}
		at[string(en.name)] = len(kept)
		kept = append(kept, en)
	}
	return kept, nil
}

func distinct(list []entry) bool {
	if len(list) <= 16 {
		for i := range list {
			for j := range i {
				if string(list[i].name) == string(list[j].name) {
					return false
				}
			}
		}
		return true
	}
	met := make(map[string]struct{}, len(list))
	for i := range list {
		met[string(list[i].name)] = struct{}{}
	}
	return len(met) == len(list)
}

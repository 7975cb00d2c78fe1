package avro

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// node is one value of a row, at any depth.
type node struct {
	name     string // of a field, as the column has it
	avro     string // of a record
	typ      *changelog.Type
	optional bool
	children []*node
	per      int64 // of a time: units a second
}

func compile(t *changelog.Table) (*node, error) {
	root := &node{avro: identifier(t.Name), typ: &changelog.Type{Root: changelog.RootRow, NotNull: true}}
	var errs []error
	for i := range t.Schema.Columns {
		c := &t.Schema.Columns[i]
		n, err := newNode(c.Name, root.avro+"_"+identifier(c.Name), &c.Type)
		if err != nil {
			errs = append(errs, fmt.Errorf("column %q: %w", c.Name, err))
		}
		root.children = append(root.children, n)
	}
	errs = append(errs, distinct(root.children))
	return root, errors.Join(errs...)
}

var countType = changelog.Type{Root: changelog.RootInt, NotNull: true}

func newNode(name, record string, t *changelog.Type) (n *node, err error) {
	n = &node{name: name, avro: record, typ: t, optional: !t.NotNull}
	child := func(name string, t *changelog.Type) {
		c, cerr := newNode(name, record+"_"+identifier(name), t)
		err = errors.Join(err, cerr)
		n.children = append(n.children, c)
	}
	switch t.Root {
	case changelog.RootArray:
		child("element", t.Elem)
	case changelog.RootMap, changelog.RootMultiset:
		key, value := t.Key, t.Elem
		if t.Root == changelog.RootMultiset {
			key, value = t.Elem, &countType
		}
		if key.Root != changelog.RootChar && key.Root != changelog.RootVarchar {
			return n, fmt.Errorf("type %s: keys of an Avro map are text", t)
		}
		child("value", value)
	case changelog.RootRow:
		for i := range t.Fields {
			child(t.Fields[i].Name, &t.Fields[i].Type)
		}
		err = errors.Join(err, distinct(n.children))
	case changelog.RootTime:
		if t.Precision > 6 {
			return n, fmt.Errorf("type %s: Avro has no time in nanoseconds: declare TIME(6)", t)
		}
		n.per = perSecond(t.Precision)
	case changelog.RootTimestamp, changelog.RootTimestampLTZ:
		n.per = perSecond(t.Precision)
	default:
		if simple(t) == nil {
			return n, fmt.Errorf("type %s has no Avro type", t)
		}
	}
	return n, err
}

func perSecond(precision int) int64 {
	switch {
	case precision <= 3:
		return 1e3
	case precision <= 6:
		return 1e6
	}
	return 1e9
}

// identifier is a name that Avro takes.
func identifier(s string) string {
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, s)
	if out == "" || out[0] >= '0' && out[0] <= '9' {
		return "_" + out
	}
	return out
}

func distinct(ns []*node) error {
	seen := map[string]string{}
	for _, n := range ns {
		id := identifier(n.name)
		if other, ok := seen[id]; ok {
			return fmt.Errorf("the columns %q and %q would both be called %s in Avro: rename one", other, n.name, id)
		}
		seen[id] = n.name
	}
	return nil
}

// simple is the schema of a type that is no time and has no parts; nil: there is none.
func simple(t *changelog.Type) any {
	switch t.Root {
	case changelog.RootBoolean:
		return "boolean"
	case changelog.RootTinyInt, changelog.RootSmallInt, changelog.RootInt, changelog.RootIntervalYearMonth:
		return "int"
	case changelog.RootBigInt, changelog.RootIntervalDayTime:
		return "long"
	case changelog.RootFloat:
		return "float"
	case changelog.RootDouble:
		return "double"
	case changelog.RootDecimal:
		return map[string]any{"type": "bytes", "logicalType": "decimal", "precision": t.Precision, "scale": t.Scale}
	case changelog.RootChar, changelog.RootVarchar:
		return "string"
	case changelog.RootBinary, changelog.RootVarbinary:
		return "bytes"
	case changelog.RootDate:
		return map[string]any{"type": "int", "logicalType": "date"}
	}
	return nil
}

func (n *node) schema() any {
	var out any
	unit := map[int64]string{1e3: "millis", 1e6: "micros", 1e9: "nanos"}[n.per]
	logical := func(typ, name string) any { return map[string]any{"type": typ, "logicalType": name + unit} }
	switch n.typ.Root {
	case changelog.RootTime:
		out = logical("long", "time-")
		if n.per == 1e3 {
			out = logical("int", "time-")
		}
	case changelog.RootTimestamp:
		out = logical("long", "local-timestamp-")
	case changelog.RootTimestampLTZ:
		out = logical("long", "timestamp-")
	case changelog.RootArray:
		out = map[string]any{"type": "array", "items": n.children[0].schema()}
	case changelog.RootMap, changelog.RootMultiset:
		out = map[string]any{"type": "map", "values": n.children[0].schema()}
	case changelog.RootRow:
		fields := []any{}
		for _, c := range n.children {
			f := map[string]any{"name": identifier(c.name), "type": c.schema()}
			if identifier(c.name) != c.name {
				f["flinksink-name"] = c.name
			}
			if c.optional {
				f["default"] = nil
			}
			fields = append(fields, f)
		}
		out = map[string]any{"type": "record", "name": n.avro, "fields": fields}
	default:
		out = simple(n.typ)
	}
	if n.optional {
		return []any{"null", out}
	}
	return out
}

func (n *node) text() (string, error) {
	b, err := json.Marshal(n.schema())
	return string(b), err
}

// row appends the datum of a row.
func (n *node) row(dst []byte, row changelog.Row) ([]byte, *changelog.DataError) {
	for i, c := range n.children {
		var err *changelog.DataError
		if dst, err = c.append(dst, row[i]); err != nil {
			err.Field = c.name
			return nil, err
		}
	}
	return dst, nil
}

func bad(class changelog.DataClass, format string, a ...any) *changelog.DataError {
	return &changelog.DataError{Class: class, Reason: fmt.Sprintf(format, a...)}
}

func tooFine() *changelog.DataError {
	return bad(changelog.OutOfRange, "more digits of a second than the column's precision")
}

// append appends v, or says what is wrong with it.
func (n *node) append(dst []byte, v changelog.Value) ([]byte, *changelog.DataError) {
	if v.IsNull() {
		if !n.optional {
			return nil, bad(changelog.Missing, "NULL in a place that is NOT NULL")
		}
		return append(dst, 0), nil
	}
	if v.IsUnchanged() {
		return nil, bad(changelog.Missing, "the source did not send the value")
	}
	if v.Kind() != n.typ.Root.ValueKind() {
		return nil, bad(changelog.WrongType, "a value of another kind than %s", n.typ)
	}
	if n.optional {
		dst = append(dst, 2) // the second branch, zig-zag
	}
	switch n.typ.Root {
	case changelog.RootBoolean:
		if v.Bool() {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	case changelog.RootTinyInt, changelog.RootSmallInt, changelog.RootInt, changelog.RootIntervalYearMonth:
		if bits := n.bits(); v.Int()<<(64-bits)>>(64-bits) != v.Int() {
			return nil, bad(changelog.OutOfRange, "a number that its type does not hold")
		}
		return binary.AppendVarint(dst, v.Int()), nil
	case changelog.RootBigInt, changelog.RootIntervalDayTime:
		return binary.AppendVarint(dst, v.Int()), nil
	case changelog.RootFloat:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(v.Float())), nil
	case changelog.RootDouble:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Double())), nil
	case changelog.RootDecimal:
		return n.decimal(dst, v)
	case changelog.RootChar, changelog.RootVarchar:
		if !utf8.Valid(v.Bytes()) {
			return nil, bad(changelog.Malformed, "text that is not UTF-8")
		}
		return append(binary.AppendVarint(dst, int64(len(v.Bytes()))), v.Bytes()...), nil
	case changelog.RootBinary, changelog.RootVarbinary:
		return append(binary.AppendVarint(dst, int64(len(v.Bytes()))), v.Bytes()...), nil
	case changelog.RootDate:
		if v.Date() != int64(int32(v.Date())) {
			return nil, bad(changelog.OutOfRange, "a DATE beyond 32 bits of days")
		}
		return binary.AppendVarint(dst, v.Date()), nil
	case changelog.RootTime:
		if v.Time()%(1e9/n.per) != 0 {
			return nil, tooFine()
		}
		return binary.AppendVarint(dst, v.Time()/(1e9/n.per)), nil
	case changelog.RootTimestamp, changelog.RootTimestampLTZ:
		sec, nsec := v.Timestamp()
		if int64(nsec)%(1e9/n.per) != 0 {
			return nil, tooFine()
		}
		if limit := math.MaxInt64/n.per - 1; sec > limit || sec < -limit {
			return nil, bad(changelog.OutOfRange, "a time beyond the years that 64 bits of the column's unit hold: declare a precision of 6 or less")
		}
		return binary.AppendVarint(dst, sec*n.per+int64(nsec)/(1e9/n.per)), nil
	}
	return n.composite(dst, v)
}

// bits are those of the integer that a type is.
func (n *node) bits() int {
	switch n.typ.Root {
	case changelog.RootTinyInt:
		return 8
	case changelog.RootSmallInt:
		return 16
	}
	return 32
}

// decimal appends the shortest two's complement.
func (n *node) decimal(dst []byte, v changelog.Value) ([]byte, *changelog.DataError) {
	hi, lo, scale := v.Decimal()
	if scale != n.typ.Scale {
		return nil, bad(changelog.OutOfRange, "a DECIMAL of another scale than its column")
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(hi))
	binary.BigEndian.PutUint64(b[8:], lo)
	i := 0
	for i < 15 && (b[i] == 0 && b[i+1] < 0x80 || b[i] == 0xff && b[i+1] >= 0x80) {
		i++
	}
	return append(binary.AppendVarint(dst, int64(16-i)), b[i:]...), nil
}

func (n *node) composite(dst []byte, v changelog.Value) ([]byte, *changelog.DataError) {
	elems := v.Elems()
	var err *changelog.DataError
	if n.typ.Root == changelog.RootRow {
		if len(elems) != len(n.children) {
			return nil, bad(changelog.SchemaMismatch, "a ROW of %d fields for one of %d", len(elems), len(n.children))
		}
		for i, e := range elems {
			if dst, err = n.children[i].append(dst, e); err != nil {
				return nil, err
			}
		}
		return dst, nil
	}
	isMap := n.typ.Root != changelog.RootArray
	count := len(elems)
	if isMap {
		if count%2 != 0 {
			return nil, bad(changelog.Malformed, "a map whose last key has no value")
		}
		count /= 2
	}
	if count > 0 {
		dst = binary.AppendVarint(dst, int64(count))
	}
	for i, e := range elems {
		if isMap && i%2 == 0 {
			switch {
			case e.IsNull():
				return nil, bad(changelog.Missing, "a key of a map that is NULL")
			case e.Kind() != changelog.KindString:
				return nil, bad(changelog.WrongType, "a key of a map that is not text")
			case !utf8.Valid(e.Bytes()):
				return nil, bad(changelog.Malformed, "a key of a map that is not UTF-8")
			}
			dst = append(binary.AppendVarint(dst, int64(len(e.Bytes()))), e.Bytes()...)
			continue
		}
		if dst, err = n.children[0].append(dst, e); err != nil {
			return nil, err
		}
	}
	return append(dst, 0), nil
}

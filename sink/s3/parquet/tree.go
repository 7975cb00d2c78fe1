package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/flinksink/flinksink/changelog"
)

// tree is a schema with what it takes to cut a row into columns. It is used from one goroutine at a time.
type tree struct {
	fields  []*node
	columns [][]parquet.Value // of the row that is being cut, by leaf
	bytes   []byte            // of decimals, which have no memory of their own
	size    int
}

// node is one value of a row, at any depth.
type node struct {
	name     string
	typ      *changelog.Type
	optional bool
	column   int // of a leaf
	leaves   int // below this one, from column on
	children []*node
	depth    int // repetitions above the elements of a list or map
	leaf     parquet.Node
	value    func(t *tree, v changelog.Value) (parquet.Value, string) // of a leaf; the text says what is wrong
}

func compile(s *changelog.Schema) (*tree, error) {
	t := &tree{}
	var errs []error
	columns := 0
	for i := range s.Columns {
		c := &s.Columns[i]
		n, err := newNode(c.Name, &c.Type, &columns, 0)
		if err != nil {
			errs = append(errs, fmt.Errorf("column %q: %w", c.Name, err))
			continue
		}
		t.fields = append(t.fields, n)
	}
	t.columns = make([][]parquet.Value, columns)
	return t, errors.Join(errs...)
}

var countType = changelog.Type{Root: changelog.RootInt, NotNull: true}

func newNode(name string, t *changelog.Type, columns *int, depth int) (n *node, err error) {
	n = &node{name: name, typ: t, optional: !t.NotNull, column: *columns, depth: depth + 1}
	child := func(name string, t *changelog.Type, depth int) {
		if err != nil {
			return
		}
		var c *node
		if c, err = newNode(name, t, columns, depth); err == nil {
			n.children = append(n.children, c)
		}
	}
	switch t.Root {
	case changelog.RootArray:
		child("element", t.Elem, depth+1)
	case changelog.RootMap, changelog.RootMultiset:
		key, value := t.Key, t.Elem
		if t.Root == changelog.RootMultiset {
			key, value = t.Elem, &countType
		}
		required := *key
		required.NotNull = true
		child("key", &required, depth+1)
		child("value", value, depth+1)
	case changelog.RootRow:
		if len(t.Fields) == 0 {
			return nil, errors.New("a ROW without fields is no Parquet group")
		}
		for i := range t.Fields {
			child(t.Fields[i].Name, &t.Fields[i].Type, depth)
		}
	default:
		n.leaf, n.value, err = leafOf(t)
		*columns++
	}
	n.leaves = *columns - n.column
	return n, err
}

// node returns what parquet-go takes.
func (n *node) node() parquet.Node {
	var out parquet.Node
	switch n.typ.Root {
	case changelog.RootArray:
		out = parquet.List(n.children[0].node())
	case changelog.RootMap, changelog.RootMultiset:
		out = parquet.Map(n.children[0].node(), n.children[1].node())
	case changelog.RootRow:
		out = newGroup(n.children)
	default:
		out = n.leaf
	}
	if n.optional {
		return parquet.Optional(out)
	}
	return parquet.Required(out)
}

func (t *tree) group() parquet.Node { return newGroup(t.fields) }

// group keeps its fields in the order of the columns, where parquet.Group sorts them by name.
type group struct {
	parquet.Group
	order []parquet.Field
}

func newGroup(nodes []*node) parquet.Node {
	g := group{Group: parquet.Group{}}
	for _, n := range nodes {
		child := n.node()
		g.Group[n.name] = child
		g.order = append(g.order, field{child, n.name})
	}
	return g
}

func (g group) Fields() []parquet.Field { return g.order }

func (g group) GoType() reflect.Type { return g.Group.GoType() }

type field struct {
	parquet.Node
	name string
}

func (f field) Name() string { return f.name }

// Value is for writers of Go values, which this package is not.
func (f field) Value(base reflect.Value) reflect.Value { return base.MapIndex(reflect.ValueOf(f.name)) }

// row cuts a row into values with their levels, column by column, and tells how long they are.
func (t *tree) row(dst parquet.Row, row changelog.Row) (parquet.Row, int, *changelog.DataError) {
	for i := range t.columns {
		t.columns[i] = t.columns[i][:0]
	}
	t.bytes, t.size = t.bytes[:0], 0
	for i, n := range t.fields {
		if err := n.cut(t, row[i], 0, 0); err != nil {
			if err.Field == "" {
				err.Field = n.name
			} else {
				err.Field = n.name + "." + err.Field
			}
			return nil, 0, err
		}
	}
	for _, c := range t.columns {
		dst = append(dst, c...)
		t.size += 8 * len(c)
	}
	return dst, t.size, nil
}

// cut appends v with its levels: rep says at which repetition it is the next one, def how many optional and repeated places on its way are filled.
func (n *node) cut(t *tree, v changelog.Value, rep, def int) *changelog.DataError {
	if v.IsNull() {
		if !n.optional {
			return &changelog.DataError{Reason: "NULL in a place that is NOT NULL"}
		}
		n.empty(t, rep, def)
		return nil
	}
	if v.Kind() != n.typ.Root.ValueKind() {
		return &changelog.DataError{Reason: fmt.Sprintf("a value of another kind than %s", n.typ)}
	}
	if n.optional {
		def++
	}
	switch n.typ.Root {
	case changelog.RootArray, changelog.RootMap, changelog.RootMultiset:
		elems, width := v.Elems(), len(n.children)
		if len(elems) == 0 {
			n.empty(t, rep, def)
			return nil
		}
		if len(elems)%width != 0 {
			return &changelog.DataError{Reason: "a map whose last key has no value"}
		}
		for i, e := range elems {
			if i >= width {
				rep = n.depth
			}
			if err := n.children[i%width].cut(t, e, rep, def+1); err != nil {
				return err
			}
		}
		return nil
	case changelog.RootRow:
		elems := v.Elems()
		if len(elems) != len(n.children) {
			return &changelog.DataError{Reason: fmt.Sprintf("a ROW of %d fields for one of %d", len(elems), len(n.children))}
		}
		for i, e := range elems {
			if err := n.children[i].cut(t, e, rep, def); err != nil {
				return err
			}
		}
		return nil
	}
	p, wrong := n.value(t, v)
	if wrong != "" {
		return &changelog.DataError{Reason: wrong}
	}
	t.columns[n.column] = append(t.columns[n.column], p.Level(rep, def, n.column))
	return nil
}

// empty appends, to every leaf below n, that there is nothing from this level on.
func (n *node) empty(t *tree, rep, def int) {
	for c := n.column; c < n.column+n.leaves; c++ {
		t.columns[c] = append(t.columns[c], parquet.NullValue().Level(rep, def, c))
	}
}

// scaled returns 10^(unit digits) and the unit of a precision.
func scaled(precision int) (unit parquet.TimeUnit, perSecond int64) {
	switch {
	case precision <= 3:
		return parquet.Millisecond, 1e3
	case precision <= 6:
		return parquet.Microsecond, 1e6
	}
	return parquet.Nanosecond, 1e9
}

const tooFine = "more digits of a second than the column's precision"

func leafOf(t *changelog.Type) (parquet.Node, func(*tree, changelog.Value) (parquet.Value, string), error) {
	type value = func(*tree, changelog.Value) (parquet.Value, string)
	small := func(bits int) (parquet.Node, value, error) {
		return parquet.Int(bits), func(_ *tree, v changelog.Value) (parquet.Value, string) {
			if i := v.Int(); i<<(64-bits)>>(64-bits) != i {
				return parquet.Value{}, "a number that its type does not hold"
			}
			return parquet.Int32Value(int32(v.Int())), ""
		}, nil
	}
	long := func(_ *tree, v changelog.Value) (parquet.Value, string) { return parquet.Int64Value(v.Int()), "" }
	switch t.Root {
	case changelog.RootBoolean:
		return parquet.Leaf(parquet.BooleanType), func(_ *tree, v changelog.Value) (parquet.Value, string) { return parquet.BooleanValue(v.Bool()), "" }, nil
	case changelog.RootTinyInt:
		return small(8)
	case changelog.RootSmallInt:
		return small(16)
	case changelog.RootInt, changelog.RootIntervalYearMonth:
		return small(32)
	case changelog.RootBigInt, changelog.RootIntervalDayTime:
		return parquet.Int(64), long, nil
	case changelog.RootFloat:
		return parquet.Leaf(parquet.FloatType), func(_ *tree, v changelog.Value) (parquet.Value, string) { return parquet.FloatValue(v.Float()), "" }, nil
	case changelog.RootDouble:
		return parquet.Leaf(parquet.DoubleType), func(_ *tree, v changelog.Value) (parquet.Value, string) { return parquet.DoubleValue(v.Double()), "" }, nil
	case changelog.RootDecimal:
		return decimalLeaf(t)
	case changelog.RootChar, changelog.RootVarchar:
		return parquet.String(), func(t *tree, v changelog.Value) (parquet.Value, string) {
			b := v.Bytes()
			if !utf8.Valid(b) {
				return parquet.Value{}, "text that is not UTF-8"
			}
			t.size += len(b)
			return parquet.ByteArrayValue(b), ""
		}, nil
	case changelog.RootBinary, changelog.RootVarbinary:
		return parquet.Leaf(parquet.ByteArrayType), func(t *tree, v changelog.Value) (parquet.Value, string) {
			t.size += len(v.Bytes())
			return parquet.ByteArrayValue(v.Bytes()), ""
		}, nil
	case changelog.RootDate:
		return parquet.Date(), func(_ *tree, v changelog.Value) (parquet.Value, string) {
			if d := v.Date(); d < math.MinInt32 || d > math.MaxInt32 {
				return parquet.Value{}, "a DATE beyond 32 bits of days"
			}
			return parquet.Int32Value(int32(v.Date())), ""
		}, nil
	case changelog.RootTime:
		unit, per := scaled(t.Precision)
		return parquet.TimeAdjusted(unit, false), func(_ *tree, v changelog.Value) (parquet.Value, string) {
			n := v.Time()
			if n%(1e9/per) != 0 {
				return parquet.Value{}, tooFine
			}
			if per == 1e3 {
				return parquet.Int32Value(int32(n / 1e6)), ""
			}
			return parquet.Int64Value(n / (1e9 / per)), ""
		}, nil
	case changelog.RootTimestamp, changelog.RootTimestampLTZ:
		unit, per := scaled(t.Precision)
		return parquet.TimestampAdjusted(unit, t.Root == changelog.RootTimestampLTZ), func(_ *tree, v changelog.Value) (parquet.Value, string) {
			sec, nsec := v.Timestamp()
			if int64(nsec)%(1e9/per) != 0 {
				return parquet.Value{}, tooFine
			}
			if limit := math.MaxInt64/per - 1; sec > limit || sec < -limit {
				return parquet.Value{}, "a time beyond the years that 64 bits of the column's unit hold: declare a precision of 6 or less"
			}
			return parquet.Int64Value(sec*per + int64(nsec)/(1e9/per)), ""
		}, nil
	}
	return nil, nil, fmt.Errorf("type %s has no Parquet type", t)
}

func decimalLeaf(t *changelog.Type) (parquet.Node, func(*tree, changelog.Value) (parquet.Value, string), error) {
	const other = "a DECIMAL of another scale than its column, or with more digits"
	whole := func(v changelog.Value) (int64, bool) {
		hi, lo, scale := v.Decimal()
		return int64(lo), scale == t.Scale && hi == int64(lo)>>63
	}
	switch {
	case t.Precision <= 9:
		return parquet.Decimal(t.Scale, t.Precision, parquet.Int32Type), func(_ *tree, v changelog.Value) (parquet.Value, string) {
			i, ok := whole(v)
			if !ok || i != int64(int32(i)) {
				return parquet.Value{}, other
			}
			return parquet.Int32Value(int32(i)), ""
		}, nil
	case t.Precision <= 18:
		return parquet.Decimal(t.Scale, t.Precision, parquet.Int64Type), func(_ *tree, v changelog.Value) (parquet.Value, string) {
			i, ok := whole(v)
			if !ok {
				return parquet.Value{}, other
			}
			return parquet.Int64Value(i), ""
		}, nil
	}
	return parquet.Decimal(t.Scale, t.Precision, parquet.FixedLenByteArrayType(16)), func(tr *tree, v changelog.Value) (parquet.Value, string) {
		hi, lo, scale := v.Decimal()
		if scale != t.Scale {
			return parquet.Value{}, other
		}
		begin := len(tr.bytes)
		tr.bytes = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(tr.bytes, uint64(hi)), lo)
		tr.size += 16
		return parquet.FixedLenByteArrayValue(tr.bytes[begin:len(tr.bytes):len(tr.bytes)]), ""
	}, nil
}

package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/twmb/avro"
)

// given puts what the option 'schema' says into the plan of the table, whose types must be those of the schema, and returns the schema as it is
// registered. As in Flink the schema says what the table's types do not: names, aliases, defaults, enums and the order of unions.
func given(text string, p *flinkavro.Plan) (string, error) {
	ps := parser{types: map[string]*avro.SchemaNode{}}
	s, err := ps.parse(text)
	if err != nil {
		return "", fmt.Errorf("cannot be parsed: %w", err)
	}
	t, ok := s.typeOf(s.root, 0)
	want := *p.Type
	if t.NotNull = want.NotNull; !ok || !t.Equal(want) {
		return "", fmt.Errorf("must have the types of the table, in the same order: it has %s, and the table %s", t, want)
	}
	if err := s.overlay(s.root, p); err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(text)); err != nil {
		return "", fmt.Errorf("is no JSON: %w", err)
	}
	return out.String(), nil
}

// maxTypeDepth bounds types in types: Flink has none that hold themselves.
const maxTypeDepth = 64

// typeOf is AvroSchemaConverter.convertToDataType. It is not ok where Flink has no type, or none that can be read.
func (s *schema) typeOf(n *avro.SchemaNode, depth int) (t changelog.Type, ok bool) {
	if n = s.node(n); depth > maxTypeDepth {
		return t, false
	}
	t.NotNull = true
	switch n.Type {
	case "record", "error":
		t.Root = changelog.RootRow
		for i := range n.Fields {
			f, ok := s.typeOf(&n.Fields[i].Type, depth+1)
			if !ok {
				return t, false
			}
			t.Fields = append(t.Fields, changelog.Field{Name: n.Fields[i].Name, Type: f})
		}
		return t, true
	case "array", "map":
		t.Root = changelog.RootArray
		of := n.Items
		if n.Type == "map" {
			t.Root, of = changelog.RootMap, n.Values
			t.Key = &changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength, NotNull: true}
		}
		elem, ok := s.typeOf(of, depth+1)
		t.Elem = &elem
		return t, ok
	case "union":
		of, _ := nullable(n)
		if of == nil {
			return t, false
		}
		t, ok = s.typeOf(of, depth+1)
		t.NotNull = false
		return t, ok
	case "string", "enum":
		t.Root, t.Length = changelog.RootVarchar, changelog.MaxLength
	case "bytes", "fixed":
		t.Root, t.Length = changelog.RootVarbinary, changelog.MaxLength
		if n.Type == "fixed" {
			t.Length = n.Size
		}
		if n.LogicalType == "decimal" {
			t = changelog.Type{Root: changelog.RootDecimal, NotNull: true, Precision: n.Precision, Scale: n.Scale}
		}
	case "int":
		switch t.Root = changelog.RootInt; n.LogicalType {
		case "date":
			t.Root = changelog.RootDate
		case "time-millis":
			t.Root, t.Precision = changelog.RootTime, 3
		}
	case "long":
		switch t.Root = changelog.RootBigInt; n.LogicalType {
		case "timestamp-millis", "local-timestamp-millis":
			t.Root, t.Precision = changelog.RootTimestamp, 3
		case "timestamp-micros", "local-timestamp-micros", "time-micros":
			return t, false // Flink has types for them, and reads their values as milliseconds
		}
	case "float":
		t.Root = changelog.RootFloat
	case "double":
		t.Root = changelog.RootDouble
	case "boolean":
		t.Root = changelog.RootBoolean
	default:
		return t, false
	}
	return t, true
}

// nullable returns the other branch of a union of null and one more, nil for other unions.
func nullable(n *avro.SchemaNode) (of *avro.SchemaNode, nullLast bool) {
	if len(n.Branches) != 2 {
		return nil, false
	}
	switch {
	case n.Branches[0].Type == "null":
		return &n.Branches[1], false
	case n.Branches[1].Type == "null":
		return &n.Branches[0], true
	}
	return nil, false
}

// overlay puts into p what the schema n of its type says beyond the type.
func (s *schema) overlay(n *avro.SchemaNode, p *flinkavro.Plan) error {
	if n = s.node(n); n.Type == "union" {
		if p.Type.NotNull { // only the root: typeOf compared the others
			return errors.New("must be a record, and no union")
		}
		var of *avro.SchemaNode
		if of, p.NullLast = nullable(n); of == nil {
			return nil // which typeOf told
		}
		n = s.node(of)
	} else if !p.Type.NotNull {
		return errors.New("must be a union of null and a record")
	}
	switch n.Type {
	case "record", "error", "enum", "fixed":
		p.Record = fullName(n)
		for _, a := range n.Aliases {
			p.Names = append(p.Names, qualified(a, n.Namespace))
		}
	}
	switch n.Type {
	case "array":
		return s.overlay(n.Items, p.Elem)
	case "map":
		return s.overlay(n.Values, p.Elem)
	case "enum":
		p.Symbols = n.Symbols
		if n.HasEnumDefault {
			p.EnumDefault = n.EnumDefault
		}
	case "fixed":
		p.Fixed = n.Size
	case "record", "error":
		for i := range n.Fields {
			f, field := &p.Fields[i], &n.Fields[i]
			if err := s.overlay(&field.Type, f); err != nil {
				return err
			}
			f.Aliases, f.HasDefault = field.Aliases, field.HasDefault
			if field.HasDefault {
				v, ok := defaultValue(field.Default, f)
				if !ok {
					return fmt.Errorf("has a default for the field %s that is no value of %s", field.Name, f.Type)
				}
				f.Default = v
			}
		}
	}
	return nil
}

// defaultValue is the value of a default, which the parser has checked against its type.
func defaultValue(x any, p *flinkavro.Plan) (v changelog.Value, ok bool) {
	integer := func(n int64) (changelog.Value, bool) {
		f := flinkavro.Integer(p.Type, n, &v, flinkavro.Refuse)
		return v, f == nil
	}
	switch x := x.(type) {
	case nil:
		return changelog.Value{}, !p.Type.NotNull
	case bool:
		v = changelog.BoolValue(x)
	case int32:
		return integer(int64(x))
	case int64:
		return integer(x)
	case float32:
		v = changelog.FloatValue(x)
	case float64:
		v = changelog.DoubleValue(x)
	case string:
		v = changelog.StringValue(x)
	case []byte:
		if p.Type.Root != changelog.RootDecimal {
			v = changelog.BytesValue(x)
			break
		}
		f := flinkavro.Unscaled(x, p.Type, &v, flinkavro.Refuse)
		return v, f == nil
	case []any:
		if p.Elem == nil {
			return v, false
		}
		elems := make([]changelog.Value, len(x))
		for i := range x {
			if elems[i], ok = defaultValue(x[i], p.Elem); !ok {
				return v, false
			}
		}
		v = changelog.ArrayValue(elems)
	case map[string]any:
		return defaultOfObject(x, p)
	}
	return v, v.Kind() == p.Type.Root.ValueKind()
}

func defaultOfObject(x map[string]any, p *flinkavro.Plan) (changelog.Value, bool) {
	if p.Type.Root != changelog.RootRow {
		if p.Elem == nil || len(x) > math.MaxInt16 {
			return changelog.Value{}, false
		}
		pairs := make([]changelog.Value, 0, 2*len(x))
		for k, e := range x {
			v, ok := defaultValue(e, p.Elem)
			if !ok {
				return changelog.Value{}, false
			}
			pairs = append(pairs, changelog.StringValue(k), v)
		}
		return changelog.MapValue(pairs), true
	}
	fields := make([]changelog.Value, len(p.Fields))
	for i := range p.Fields {
		e, there := x[p.Type.Fields[i].Name]
		if !there {
			if fields[i] = p.Fields[i].Default; !p.Fields[i].HasDefault {
				return changelog.Value{}, false
			}
			continue
		}
		v, ok := defaultValue(e, &p.Fields[i])
		if !ok {
			return changelog.Value{}, false
		}
		fields[i] = v
	}
	return changelog.RowValue(fields), true
}

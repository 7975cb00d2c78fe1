package changelog

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

func sliceSetter(t reflect.Type, c *Type) (setter, error) {
	if t.Kind() != reflect.Slice {
		return nil, nil
	}
	elem, err := setterFor(t.Elem(), c.Elem)
	if err != nil {
		return nil, fmt.Errorf("elements: %w", err)
	}
	return func(dst reflect.Value, v Value) *DataError {
		elems := v.Elems()
		s := reflect.MakeSlice(t, len(elems), len(elems))
		for i := range elems {
			if err := elem(s.Index(i), elems[i]); err != nil {
				return err.in("[" + strconv.Itoa(i) + "]")
			}
		}
		dst.Set(s)
		return nil
	}, nil
}

// countType is the type of the counts of a MULTISET.
var countType = Type{Root: RootInt, NotNull: true}

// pairTypes returns the types of a MAP's keys and values, or of a MULTISET's elements and their counts.
func pairTypes(c *Type) (key, value *Type) {
	if c.Root == RootMultiset {
		return c.Elem, &countType
	}
	return c.Key, c.Elem
}

func mapSetter(t reflect.Type, c *Type) (setter, error) {
	if t.Kind() != reflect.Map {
		return nil, nil
	}
	keyType, valueType := pairTypes(c)
	if keyType == nil {
		return nil, errors.New("the type lacks a part")
	}
	if t.Key().Kind() == reflect.Pointer {
		return nil, fmt.Errorf("keys: pointers to equal keys are not equal: use a map of %s", t.Key().Elem())
	}
	if t.Key().Kind() == reflect.Interface && !goCompares(keyType) {
		return nil, fmt.Errorf("keys: Go cannot compare what an any holds of a %s: use a map whose keys are a struct, or any for the map as a whole", keyType)
	}
	key, err := setterFor(t.Key(), keyType)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	value, err := setterFor(t.Elem(), valueType)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	return func(dst reflect.Value, v Value) *DataError {
		pairs := v.Elems()
		m := reflect.MakeMapWithSize(t, len(pairs)/2)
		for i := 0; i+1 < len(pairs); i += 2 {
			k, e := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			if err := key(k, pairs[i]); err != nil {
				return err.in("[key " + strconv.Itoa(i/2) + "]")
			}
			if !k.Comparable() { // an any inside the key
				return (&DataError{Class: WrongType, Reason: "Go cannot compare what the key holds"}).in("[key " + strconv.Itoa(i/2) + "]")
			}
			if err := value(e, pairs[i+1]); err != nil {
				return err.in("[value " + strconv.Itoa(i/2) + "]")
			}
			m.SetMapIndex(k, e)
		}
		dst.Set(m)
		return nil
	}, nil
}

func structSetter(t reflect.Type, c *Type) (setter, error) {
	if t.Kind() != reflect.Struct || whole(t) {
		return nil, nil
	}
	fields, errs := matchFields(t, c.Fields, "ROW field")
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", t, errors.Join(errs...))
	}
	return func(dst reflect.Value, v Value) *DataError {
		elems := v.Elems()
		if len(elems) != len(c.Fields) {
			return &DataError{Class: SchemaMismatch, Reason: fmt.Sprintf("the ROW has %d values, and its type %d fields", len(elems), len(c.Fields))}
		}
		for i := range fields {
			f := &fields[i]
			if err := f.set(fieldOf(dst, f.index), elems[f.column]); err != nil {
				return err.in(f.name)
			}
		}
		return nil
	}, nil
}

// goCompares reports whether Go can compare what anyOf makes of values of the type.
func goCompares(c *Type) bool {
	if c == nil {
		return false
	}
	switch c.Root.ValueKind() {
	case KindBytes, KindArray, KindMap, KindRow:
		return false
	}
	return true
}

// anyOf returns a value as [As] describes for a field of type any; it owns its memory. nil is NULL.
func anyOf(c *Type, v Value) (any, *DataError) {
	if v.kind == KindNull {
		return nil, nil
	}
	if c == nil || v.kind != c.Root.ValueKind() {
		return nil, noValueOf(c)
	}
	switch v.kind {
	case KindBool:
		return v.Bool(), nil
	case KindInt:
		if c.Root == RootIntervalDayTime {
			if d, ok := durationOf(v); ok {
				return d, nil
			}
		}
		return v.Int(), nil
	case KindFloat:
		return v.Float(), nil
	case KindDouble:
		return v.Double(), nil
	case KindDecimal:
		return decimalOf(v), nil
	case KindString:
		return strings.Clone(v.Str()), nil
	case KindBytes:
		return append([]byte{}, v.Bytes()...), nil
	case KindDate, KindTimestamp, KindTimestampLTZ:
		return timeOf(v), nil
	case KindTime:
		return time.Duration(v.Time()), nil
	case KindArray:
		return anySlice(c, v.Elems())
	case KindMap:
		return anyMap(c, v.Elems())
	}
	return anyRow(c, v.Elems())
}

func noValueOf(c *Type) *DataError {
	if c == nil {
		c = &Type{}
	}
	return &DataError{Class: WrongType, Reason: fmt.Sprintf("the value is no %s", c)}
}

func anySlice(c *Type, elems []Value) (any, *DataError) {
	out := make([]any, len(elems))
	for i := range elems {
		var err *DataError
		if out[i], err = anyOf(c.Elem, elems[i]); err != nil {
			return nil, err.in("[" + strconv.Itoa(i) + "]")
		}
	}
	return out, nil
}

func anyRow(c *Type, elems []Value) (any, *DataError) {
	if len(elems) != len(c.Fields) {
		return nil, &DataError{Class: SchemaMismatch, Reason: fmt.Sprintf("the ROW has %d values, and its type %d fields", len(elems), len(c.Fields))}
	}
	out := make(map[string]any, len(elems))
	for i := range elems {
		f := &c.Fields[i]
		x, err := anyOf(&f.Type, elems[i])
		if err != nil {
			return nil, err.in(f.Name)
		}
		out[f.Name] = x
	}
	return out, nil
}

func anyMap(c *Type, pairs []Value) (any, *DataError) {
	keyType, valueType := pairTypes(c)
	list := make([][2]any, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		k, err := anyOf(keyType, pairs[i])
		if err != nil {
			return nil, err.in("[key " + strconv.Itoa(i/2) + "]")
		}
		e, err := anyOf(valueType, pairs[i+1])
		if err != nil {
			return nil, err.in("[value " + strconv.Itoa(i/2) + "]")
		}
		list = append(list, [2]any{k, e})
	}
	if !goCompares(keyType) {
		return list, nil
	}
	out := make(map[any]any, len(list))
	for _, p := range list {
		out[p[0]] = p[1]
	}
	return out, nil
}

package changelog

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"time"
)

// Go types that stand for one logical type each, whatever kind they are of.
var (
	goTime     = reflect.TypeFor[time.Time]()
	goDuration = reflect.TypeFor[time.Duration]()
	goDecimal  = reflect.TypeFor[Decimal]()
	goRat      = reflect.TypeFor[big.Rat]()
	goInt      = reflect.TypeFor[big.Int]()
	goScanner  = reflect.TypeFor[interface{ Scan(src any) error }]()
)

// whole reports a struct type that is one value: its fields are not columns.
func whole(t reflect.Type) bool {
	return t == goTime || t == goDecimal || t == goRat || t == goInt || reflect.PointerTo(t).Implements(goScanner)
}

// setterFor returns what puts a value of type c into a variable of Go type t.
func setterFor(t reflect.Type, c *Type) (setter, error) {
	if c == nil {
		return nil, errors.New("the type lacks a part")
	}
	kind := c.Root.ValueKind()
	if kind == KindNull {
		return nil, fmt.Errorf("no format reads the type %s", c)
	}
	set, err := nullableSetter(t, c, kind)
	if err != nil {
		return nil, err
	}
	if set == nil {
		return nil, fmt.Errorf("%s does not go into %s, but into %s", c, t, goTypes(c))
	}
	return set, nil
}

// nullableSetter wraps what fits in the rule for NULL.
func nullableSetter(t reflect.Type, c *Type, kind ValueKind) (setter, error) {
	if t.Kind() == reflect.Pointer {
		elem, err := setterFor(t.Elem(), c)
		if err != nil {
			return nil, err
		}
		return func(dst reflect.Value, v Value) *DataError {
			if v.kind == KindNull {
				dst.SetZero()
				return nil
			}
			p := reflect.New(t.Elem())
			if err := elem(p.Elem(), v); err != nil {
				return err
			}
			dst.Set(p)
			return nil
		}, nil
	}
	if kind < KindArray && reflect.PointerTo(t).Implements(goScanner) {
		return scanSetter(c, kind), nil
	}
	set, err := plainSetter(t, c)
	if set == nil || err != nil {
		return nil, err
	}
	nilable := t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Interface
	return func(dst reflect.Value, v Value) *DataError {
		switch {
		case v.kind == kind:
			return set(dst, v)
		case v.kind != KindNull:
			return noValueOf(c)
		case !nilable:
			return &DataError{Class: Missing, Reason: fmt.Sprintf("NULL, and the Go field is a %s: make it a *%s", t, t)}
		}
		dst.SetZero()
		return nil
	}, nil
}

// plainSetter returns what puts a value of c's kind into a t, nil if it does not go there.
func plainSetter(t reflect.Type, c *Type) (setter, error) {
	if t.Kind() == reflect.Interface {
		if t.NumMethod() > 0 {
			return nil, nil
		}
		return func(dst reflect.Value, v Value) *DataError {
			x, err := anyOf(c, v)
			if err == nil {
				dst.Set(reflect.ValueOf(x))
			}
			return err
		}, nil
	}
	switch c.Root {
	case RootBoolean:
		if t.Kind() == reflect.Bool {
			return func(dst reflect.Value, v Value) *DataError { dst.SetBool(v.Bool()); return nil }, nil
		}
	case RootTinyInt, RootSmallInt, RootInt, RootBigInt:
		return intSetter(t, func(v Value) (int64, bool) { return v.Int(), true }), nil
	case RootFloat:
		if t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64 {
			return func(dst reflect.Value, v Value) *DataError { dst.SetFloat(float64(v.Float())); return nil }, nil
		}
	case RootDouble:
		if t.Kind() == reflect.Float64 {
			return func(dst reflect.Value, v Value) *DataError { dst.SetFloat(v.Double()); return nil }, nil
		}
	case RootDecimal:
		return decimalSetter(t, c), nil
	case RootChar, RootVarchar:
		if t.Kind() == reflect.String {
			return func(dst reflect.Value, v Value) *DataError { dst.SetString(strings.Clone(v.Str())); return nil }, nil
		}
		return bytesSetter(t), nil
	case RootBinary, RootVarbinary:
		return bytesSetter(t), nil
	case RootDate, RootTime, RootTimestamp, RootTimestampLTZ, RootIntervalDayTime, RootIntervalYearMonth:
		return temporalSetter(t, c), nil
	case RootArray:
		return sliceSetter(t, c)
	case RootMap, RootMultiset:
		return mapSetter(t, c)
	case RootRow:
		return structSetter(t, c)
	}
	return nil, nil
}

func bytesSetter(t reflect.Type) setter {
	if t.Kind() != reflect.Slice || t.Elem().Kind() != reflect.Uint8 {
		return nil
	}
	return func(dst reflect.Value, v Value) *DataError {
		dst.SetBytes(append([]byte{}, v.Bytes()...)) // empty is not nil: that is NULL
		return nil
	}
}

func textSetter(t reflect.Type, c *Type) setter {
	if t.Kind() != reflect.String {
		return nil
	}
	return func(dst reflect.Value, v Value) *DataError {
		var buf [64]byte
		dst.SetString(string(AppendText(buf[:0], c, v)))
		return nil
	}
}

// intSetter is for what get makes an integer of, if it can.
func intSetter(t reflect.Type, get func(v Value) (int64, bool)) setter {
	beyond := func() *DataError {
		return &DataError{Class: OutOfRange, Reason: fmt.Sprintf("the number does not fit into the Go field, a %s", t)}
	}
	switch k := t.Kind(); {
	case t == goDuration:
		return nil // a number has no unit
	case k >= reflect.Int && k <= reflect.Int64:
		return func(dst reflect.Value, v Value) *DataError {
			i, ok := get(v)
			if !ok || dst.OverflowInt(i) {
				return beyond()
			}
			dst.SetInt(i)
			return nil
		}
	case k >= reflect.Uint && k <= reflect.Uint64:
		return func(dst reflect.Value, v Value) *DataError {
			i, ok := get(v)
			if !ok || i < 0 || dst.OverflowUint(uint64(i)) {
				return beyond()
			}
			dst.SetUint(uint64(i))
			return nil
		}
	}
	return nil
}

func decimalSetter(t reflect.Type, c *Type) setter {
	switch {
	case t == goDecimal:
		return func(dst reflect.Value, v Value) *DataError {
			*dst.Addr().Interface().(*Decimal) = decimalOf(v)
			return nil
		}
	case t == goRat:
		return func(dst reflect.Value, v Value) *DataError {
			dst.Addr().Interface().(*big.Rat).Set(decimalOf(v).Rat())
			return nil
		}
	case t.Kind() == reflect.String:
		return textSetter(t, c)
	case c.Scale != 0:
		return nil
	case t == goInt:
		return func(dst reflect.Value, v Value) *DataError {
			if v.scale != 0 {
				return noValueOf(c)
			}
			dst.Addr().Interface().(*big.Int).Set(decimalOf(v).Unscaled())
			return nil
		}
	}
	return intSetter(t, func(v Value) (int64, bool) { return int64(v.lo), v.scale == 0 && int64(v.hi) == int64(v.lo)>>63 })
}

func temporalSetter(t reflect.Type, c *Type) setter {
	if t.Kind() == reflect.String {
		return textSetter(t, c)
	}
	switch c.Root {
	case RootDate, RootTimestamp, RootTimestampLTZ:
		if t == goTime {
			return func(dst reflect.Value, v Value) *DataError {
				*dst.Addr().Interface().(*time.Time) = timeOf(v)
				return nil
			}
		}
	case RootTime:
		if t == goDuration {
			return func(dst reflect.Value, v Value) *DataError { dst.SetInt(v.Time()); return nil }
		}
	case RootIntervalDayTime:
		if t == goDuration {
			return func(dst reflect.Value, v Value) *DataError {
				d, ok := durationOf(v)
				if !ok {
					return &DataError{Class: OutOfRange, Reason: "the INTERVAL is longer than a time.Duration can be, 292 years"}
				}
				dst.SetInt(int64(d))
				return nil
			}
		}
	case RootIntervalYearMonth:
		return intSetter(t, func(v Value) (int64, bool) { return v.Int(), true })
	}
	return nil
}

// timeOf is for DATE, TIMESTAMP and TIMESTAMP_LTZ.
func timeOf(v Value) time.Time {
	if v.kind == KindDate {
		return time.Unix(v.Date()*secondsPerDay, 0).UTC()
	}
	sec, nsec := v.Timestamp()
	return time.Unix(sec, int64(nsec)).UTC()
}

func durationOf(v Value) (d time.Duration, ok bool) {
	const unit = int64(time.Millisecond)
	i := v.Int()
	return time.Duration(i * unit), i <= math.MaxInt64/unit && i >= math.MinInt64/unit
}

// scanSetter hands over what a driver of database/sql would.
func scanSetter(c *Type, kind ValueKind) setter {
	return func(dst reflect.Value, v Value) *DataError {
		var src any
		switch {
		case v.kind == KindNull:
		case v.kind != kind:
			return noValueOf(c)
		case kind == KindFloat:
			src = float64(v.Float())
		case kind == KindDecimal || kind == KindTime || c.Root == RootIntervalDayTime || c.Root == RootIntervalYearMonth:
			src = string(AppendText(nil, c, v))
		default:
			src, _ = anyOf(c, v) // v is of the kind
		}
		if dst.Addr().Interface().(interface{ Scan(src any) error }).Scan(src) != nil {
			// What Scan says may show the value.
			return &DataError{Class: WrongType, Reason: fmt.Sprintf("Scan of the Go field's type %s does not take the value, a %s", dst.Type(), c)}
		}
		return nil
	}
}

// goTypes names the Go types that a column may go into, for an error.
func goTypes(c *Type) string {
	const ints = "an integer type"
	switch c.Root {
	case RootBoolean:
		return "bool or any"
	case RootTinyInt, RootSmallInt, RootInt, RootBigInt:
		return ints + " or any"
	case RootFloat:
		return "float32, float64 or any"
	case RootDouble:
		return "float64 or any"
	case RootDecimal:
		if c.Scale == 0 {
			return "changelog.Decimal, big.Rat, big.Int, " + ints + ", string or any"
		}
		return "changelog.Decimal, big.Rat, string or any"
	case RootChar, RootVarchar:
		return "string, []byte or any"
	case RootBinary, RootVarbinary:
		return "[]byte or any"
	case RootDate, RootTimestamp, RootTimestampLTZ:
		return "time.Time, string or any"
	case RootTime, RootIntervalDayTime:
		return "time.Duration, string or any"
	case RootIntervalYearMonth:
		return ints + " (of months), string or any"
	case RootArray:
		return "a slice or any"
	case RootMap, RootMultiset:
		return "a map or any"
	}
	return "a struct or any"
}

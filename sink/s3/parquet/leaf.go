package parquet

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/flinksink/flinksink/changelog"
)

// toParquet makes the Parquet value of a value of its column's kind, or says why there is none. Bytes that it keeps are the block's.
type toParquet = func(b *block, v changelog.Value) (parquet.Value, *changelog.DataError)

func bad(class changelog.DataClass, format string, a ...any) *changelog.DataError {
	return &changelog.DataError{Class: class, Reason: fmt.Sprintf(format, a...)}
}

func tooFine() *changelog.DataError {
	return bad(changelog.OutOfRange, "more digits of a second than the column's precision")
}

// scaled returns the unit of a precision, and how many of it a second has.
func scaled(precision int) (unit parquet.TimeUnit, perSecond int64) {
	switch {
	case precision <= 3:
		return parquet.Millisecond, 1e3
	case precision <= 6:
		return parquet.Microsecond, 1e6
	}
	return parquet.Nanosecond, 1e9
}

func leafOf(t *changelog.Type) (parquet.Node, toParquet, error) {
	switch t.Root {
	case changelog.RootBoolean:
		return parquet.Leaf(parquet.BooleanType), func(_ *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
			return parquet.BooleanValue(v.Bool()), nil
		}, nil
	case changelog.RootTinyInt:
		return parquet.Int(8), small(8), nil
	case changelog.RootSmallInt:
		return parquet.Int(16), small(16), nil
	case changelog.RootInt, changelog.RootIntervalYearMonth:
		return parquet.Int(32), small(32), nil
	case changelog.RootBigInt, changelog.RootIntervalDayTime:
		return parquet.Int(64), func(_ *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
			return parquet.Int64Value(v.Int()), nil
		}, nil
	case changelog.RootFloat:
		return parquet.Leaf(parquet.FloatType), func(_ *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
			return parquet.FloatValue(v.Float()), nil
		}, nil
	case changelog.RootDouble:
		return parquet.Leaf(parquet.DoubleType), func(_ *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
			return parquet.DoubleValue(v.Double()), nil
		}, nil
	case changelog.RootDecimal:
		return decimalLeaf(t)
	case changelog.RootChar, changelog.RootVarchar:
		return parquet.String(), func(b *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
			if !utf8.Valid(v.Bytes()) {
				return parquet.Value{}, bad(changelog.Malformed, "text that is not UTF-8")
			}
			return parquet.ByteArrayValue(b.keep(v.Bytes())), nil
		}, nil
	case changelog.RootBinary, changelog.RootVarbinary:
		return parquet.Leaf(parquet.ByteArrayType), func(b *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
			return parquet.ByteArrayValue(b.keep(v.Bytes())), nil
		}, nil
	case changelog.RootDate:
		return parquet.Date(), func(_ *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
			if d := v.Date(); d != int64(int32(d)) {
				return parquet.Value{}, bad(changelog.OutOfRange, "a DATE beyond 32 bits of days")
			}
			return parquet.Int32Value(int32(v.Date())), nil
		}, nil
	case changelog.RootTime:
		unit, per := scaled(t.Precision)
		return parquet.TimeAdjusted(unit, false), func(_ *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
			n := v.Time()
			if n%(1e9/per) != 0 {
				return parquet.Value{}, tooFine()
			}
			if per == 1e3 {
				return parquet.Int32Value(int32(n / 1e6)), nil
			}
			return parquet.Int64Value(n / (1e9 / per)), nil
		}, nil
	case changelog.RootTimestamp, changelog.RootTimestampLTZ:
		unit, per := scaled(t.Precision)
		return parquet.TimestampAdjusted(unit, t.Root == changelog.RootTimestampLTZ), func(_ *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
			sec, nsec := v.Timestamp()
			if int64(nsec)%(1e9/per) != 0 {
				return parquet.Value{}, tooFine()
			}
			if limit := math.MaxInt64/per - 1; sec > limit || sec < -limit {
				return parquet.Value{}, bad(changelog.OutOfRange, "a time beyond the years that 64 bits of the column's unit hold: declare a precision of 6 or less")
			}
			return parquet.Int64Value(sec*per + int64(nsec)/(1e9/per)), nil
		}, nil
	}
	return nil, nil, fmt.Errorf("type %s has no Parquet type", t)
}

// small is of integers of up to 32 bits.
func small(bits int) toParquet {
	return func(_ *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
		if i := v.Int(); i<<(64-bits)>>(64-bits) != i {
			return parquet.Value{}, bad(changelog.OutOfRange, "a number that its type does not hold")
		}
		return parquet.Int32Value(int32(v.Int())), nil
	}
}

func decimalLeaf(t *changelog.Type) (parquet.Node, toParquet, error) {
	other := func() *changelog.DataError {
		return bad(changelog.OutOfRange, "a DECIMAL of another scale than its column, or with more digits")
	}
	whole := func(v changelog.Value) (int64, bool) {
		hi, lo, scale := v.Decimal()
		return int64(lo), scale == t.Scale && hi == int64(lo)>>63
	}
	switch {
	case t.Precision <= 9:
		return parquet.Decimal(t.Scale, t.Precision, parquet.Int32Type), func(_ *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
			i, ok := whole(v)
			if !ok || i != int64(int32(i)) {
				return parquet.Value{}, other()
			}
			return parquet.Int32Value(int32(i)), nil
		}, nil
	case t.Precision <= 18:
		return parquet.Decimal(t.Scale, t.Precision, parquet.Int64Type), func(_ *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
			i, ok := whole(v)
			if !ok {
				return parquet.Value{}, other()
			}
			return parquet.Int64Value(i), nil
		}, nil
	}
	return parquet.Decimal(t.Scale, t.Precision, parquet.FixedLenByteArrayType(16)), func(b *block, v changelog.Value) (parquet.Value, *changelog.DataError) {
		hi, lo, scale := v.Decimal()
		if scale != t.Scale {
			return parquet.Value{}, other()
		}
		var digits [16]byte
		binary.BigEndian.PutUint64(digits[:8], uint64(hi))
		binary.BigEndian.PutUint64(digits[8:], lo)
		return parquet.FixedLenByteArrayValue(b.keep(digits[:])), nil
	}, nil
}

package changelog

import (
	"math"
	"unsafe"
)

// ValueKind says what a [Value] holds. Several logical types share one: TINYINT to BIGINT and both INTERVALs are KindInt,
// CHAR to STRING KindString, BINARY to BYTES KindBytes, MAP and MULTISET KindMap.
type ValueKind uint8

const (
	KindNull         ValueKind = iota // SQL NULL; the zero Value
	KindUnchanged                     // the source did not send the column's value; it is what it was
	KindBool                          // BOOLEAN
	KindInt                           // TINYINT, SMALLINT, INT, BIGINT; INTERVAL in months or in milliseconds
	KindFloat                         // FLOAT
	KindDouble                        // DOUBLE
	KindDecimal                       // DECIMAL
	KindString                        // CHAR, VARCHAR, STRING; UTF-8 (see StringValue)
	KindBytes                         // BINARY, VARBINARY, BYTES
	KindDate                          // DATE
	KindTime                          // TIME
	KindTimestamp                     // TIMESTAMP
	KindTimestampLTZ                  // TIMESTAMP_LTZ
	KindArray                         // ARRAY
	KindMap                           // MAP, MULTISET
	KindRow                           // ROW
)

// ValueKind is the kind of the values of a type: what a row holds where a column of the type is not NULL. It is KindNull for types that no
// format reads or writes.
func (r Root) ValueKind() ValueKind {
	switch r {
	case RootBoolean:
		return KindBool
	case RootTinyInt, RootSmallInt, RootInt, RootBigInt,
		RootIntervalYearMonth, RootIntervalDayTime:
		return KindInt
	case RootFloat:
		return KindFloat
	case RootDouble:
		return KindDouble
	case RootDecimal:
		return KindDecimal
	case RootChar, RootVarchar:
		return KindString
	case RootBinary, RootVarbinary:
		return KindBytes
	case RootDate:
		return KindDate
	case RootTime:
		return KindTime
	case RootTimestamp:
		return KindTimestamp
	case RootTimestampLTZ:
		return KindTimestampLTZ
	case RootArray:
		return KindArray
	case RootMap, RootMultiset:
		return KindMap
	case RootRow:
		return KindRow
	}
	return KindNull
}

// Value is one value of a row: a tagged struct in the manner of log/slog.Value, 32 bytes. Scalars, strings and bytes cost no
// allocation; strings, bytes, arrays, maps and rows point to memory that whoever made the value owns (for a value in a [Batch]:
// valid until the batch is reset). The zero Value is NULL.
//
// A getter called on a value of another kind returns the zero of its result type; callers switch on Kind first.
type Value struct {
	ptr unsafe.Pointer // first byte of a string or bytes, first Value of a composite
	lo  uint64         // scalar; length of what ptr points to
	hi  uint64         // upper half of a DECIMAL, nanoseconds of a timestamp
	tag
}

// tag is one field of a Value, so that it has four: the compiler keeps structs of up to four fields in registers.
type tag struct {
	kind  ValueKind
	scale uint8 // of a DECIMAL
}

// Kind says what v holds.
func (v Value) Kind() ValueKind { return v.kind }

// IsNull reports whether v is SQL NULL.
func (v Value) IsNull() bool { return v.kind == KindNull }

// IsUnchanged reports whether the source did not send this value.
func (v Value) IsUnchanged() bool { return v.kind == KindUnchanged }

// UnchangedValue returns the value of a column whose content the source did not send.
func UnchangedValue() Value { return Value{tag: tag{kind: KindUnchanged}} }

// BoolValue returns a BOOLEAN.
func BoolValue(b bool) Value {
	v := Value{tag: tag{kind: KindBool}}
	if b {
		v.lo = 1
	}
	return v
}

// Bool returns the BOOLEAN that v holds.
func (v Value) Bool() bool { return v.kind == KindBool && v.lo != 0 }

// IntValue returns an integer or an INTERVAL (months, or milliseconds).
func IntValue(i int64) Value { return Value{tag: tag{kind: KindInt}, lo: uint64(i)} }

// Int returns the integer that v holds.
func (v Value) Int() int64 { return v.word(KindInt) }

// FloatValue returns a FLOAT.
func FloatValue(f float32) Value {
	return Value{tag: tag{kind: KindFloat}, lo: uint64(math.Float32bits(f))}
}

// Float returns the FLOAT that v holds.
func (v Value) Float() float32 { return math.Float32frombits(uint32(v.word(KindFloat))) }

// DoubleValue returns a DOUBLE.
func DoubleValue(f float64) Value { return Value{tag: tag{kind: KindDouble}, lo: math.Float64bits(f)} }

// Double returns the DOUBLE that v holds.
func (v Value) Double() float64 { return math.Float64frombits(uint64(v.word(KindDouble))) }

// DecimalValue returns unscaled * 10^-scale, where unscaled is the 128-bit two's complement number hi<<64 | lo.
// Flink's DECIMAL has at most 38 digits, which 128 bits hold.
func DecimalValue(hi int64, lo uint64, scale int) Value {
	return Value{tag: tag{KindDecimal, uint8(scale)}, lo: lo, hi: uint64(hi)}
}

// Decimal returns the unscaled 128 bits and the scale of the DECIMAL that v holds.
func (v Value) Decimal() (hi int64, lo uint64, scale int) {
	if v.kind != KindDecimal {
		return 0, 0, 0
	}
	return int64(v.hi), v.lo, int(v.scale)
}

// StringValue returns a string, which is not copied. It is UTF-8, but for lone surrogates, which Flink lets pass: they keep
// their three-byte form (ED A0 80 to ED BF BF).
func StringValue(s string) Value {
	return Value{tag: tag{kind: KindString}, ptr: unsafe.Pointer(unsafe.StringData(s)), lo: uint64(len(s))}
}

// StringBytesValue returns a string that shares b's memory.
func StringBytesValue(b []byte) Value {
	return Value{tag: tag{kind: KindString}, ptr: unsafe.Pointer(unsafe.SliceData(b)), lo: uint64(len(b))}
}

// Str returns the string that v holds; it shares v's memory. (String would make every Value a fmt.Stringer, and so print row
// values where only a kind was meant.)
func (v Value) Str() string {
	if v.kind != KindString {
		return ""
	}
	return unsafe.String((*byte)(v.ptr), int(v.lo))
}

// BytesValue returns bytes, which are not copied. A nil slice is an empty value, not NULL.
func BytesValue(b []byte) Value {
	return Value{tag: tag{kind: KindBytes}, ptr: unsafe.Pointer(unsafe.SliceData(b)), lo: uint64(len(b))}
}

// Bytes returns the bytes that v holds, also those of a string; they share v's memory and must not be written to.
func (v Value) Bytes() []byte {
	if v.kind != KindBytes && v.kind != KindString {
		return nil
	}
	if v.lo == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(v.ptr), int(v.lo))
}

// DateValue returns a DATE: days since 1970-01-01 in the proleptic Gregorian calendar.
func DateValue(days int64) Value { return Value{tag: tag{kind: KindDate}, lo: uint64(days)} }

// Date returns the days since 1970-01-01.
func (v Value) Date() int64 { return v.word(KindDate) }

// TimeValue returns a TIME: nanoseconds since midnight.
func TimeValue(nanos int64) Value { return Value{tag: tag{kind: KindTime}, lo: uint64(nanos)} }

// Time returns the nanoseconds since midnight.
func (v Value) Time() int64 { return v.word(KindTime) }

// TimestampValue returns a TIMESTAMP, a wall clock reading without a zone: the seconds since 1970-01-01 00:00:00 on that
// clock and nanoseconds in [0, 1e9).
func TimestampValue(sec int64, nsec int32) Value {
	return Value{tag: tag{kind: KindTimestamp}, lo: uint64(sec), hi: uint64(nsec)}
}

// TimestampLTZValue returns a TIMESTAMP_LTZ, an instant: seconds since the Unix epoch and nanoseconds in [0, 1e9).
func TimestampLTZValue(sec int64, nsec int32) Value {
	return Value{tag: tag{kind: KindTimestampLTZ}, lo: uint64(sec), hi: uint64(nsec)}
}

// Timestamp returns the seconds and nanoseconds of a TIMESTAMP or a TIMESTAMP_LTZ.
func (v Value) Timestamp() (sec int64, nsec int32) {
	if v.kind != KindTimestamp && v.kind != KindTimestampLTZ {
		return 0, 0
	}
	return int64(v.lo), int32(v.hi)
}

// ArrayValue returns an ARRAY; the slice is not copied.
func ArrayValue(elems []Value) Value { return composite(KindArray, elems) }

// MapValue returns a MAP or MULTISET of key, value, key, value ...; the slice is not copied. A MULTISET maps an element to its count.
func MapValue(pairs []Value) Value { return composite(KindMap, pairs) }

// RowValue returns a ROW of one value a field; the slice is not copied.
func RowValue(fields []Value) Value { return composite(KindRow, fields) }

// Elems returns the elements of an ARRAY, the alternating keys and values of a MAP, or the fields of a ROW. They share v's memory.
func (v Value) Elems() []Value {
	if v.kind < KindArray {
		return nil
	}
	return unsafe.Slice((*Value)(v.ptr), int(v.lo))
}

func composite(k ValueKind, vs []Value) Value {
	return Value{tag: tag{kind: k}, ptr: unsafe.Pointer(unsafe.SliceData(vs)), lo: uint64(len(vs))}
}

func (v Value) word(k ValueKind) int64 {
	if v.kind != k {
		return 0
	}
	return int64(v.lo)
}

package changelog

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
)

// The canonical form of a value is a byte for its kind and then
//
//	BOOLEAN            1 byte
//	integer, INTERVAL, DATE, TIME
//	                   8 bytes, big-endian, sign bit flipped
//	FLOAT, DOUBLE      4 or 8 bytes, big-endian; negative numbers inverted, others with the sign bit flipped
//	DECIMAL            16 bytes, unscaled at the column's scale, big-endian, sign bit flipped
//	TIMESTAMP(_LTZ)    8 bytes of seconds as an integer, 4 of nanoseconds
//	string, bytes      the bytes with 00 as 00 FF, then 00 01
//	ARRAY, ROW         01 and the element, for each; then 00
//	MAP, MULTISET      01, key and value for each entry, in ascending order of these bytes; then 00
//
// NULL and Unchanged are their byte alone. Document ids are made of this form, so it must never change: the bytes for kinds are
// fixed here and not taken from ValueKind.
const (
	keyNull         = 0x00 // sorts first
	keyUnchanged    = 0x01
	keyBool         = 0x02
	keyInt          = 0x03
	keyFloat        = 0x04
	keyDouble       = 0x05
	keyDecimal      = 0x06
	keyString       = 0x07
	keyBytes        = 0x08
	keyDate         = 0x09
	keyTime         = 0x0a
	keyTimestamp    = 0x0b
	keyTimestampLTZ = 0x0c
	keyArray        = 0x0d
	keyMap          = 0x0e
	keyRow          = 0x0f

	keyEnd   = 0x00 // of a composite
	keyEntry = 0x01 // another element follows
)

// AppendKey appends the canonical byte form of row's key, the columns s.Key in the order of the PRIMARY KEY clause.
//
// Two keys have the same form exactly if they are equal as typed values: a DECIMAL at its column's scale (rounded HALF_UP to it), -0
// equal to 0, NaN equal to NaN, NULL equal to NULL and different from empty. The bytes order as the values do, column by column:
// NULL first, numbers and times by size with NaN last, strings and bytes by their bytes (code points), arrays and rows element by
// element. No form is a prefix of another of the same columns. A TIMESTAMP counts with all nanoseconds that the value holds,
// whatever the precision of its column. Maps are equal whatever the order of their entries; their order means nothing.
//
// row should be as wide as s: a column that it lacks counts as NULL. Nothing is allocated, unless a key column is a MAP with more than 16 entries. A schema without a key
// gives the empty form for every row.
func AppendKey(dst []byte, s *Schema, row Row) []byte { return AppendKeyColumns(dst, s, s.Key, row) }

// AppendKeyColumns is [AppendKey] for any list of columns, which must be columns of s.
func AppendKeyColumns(dst []byte, s *Schema, cols []int, row Row) []byte {
	for _, c := range cols {
		if c >= len(row) {
			dst = append(dst, keyNull)
			continue
		}
		dst = appendKeyValue(dst, &s.Columns[c].Type, row[c])
	}
	return dst
}

const signBit = 1 << 63

// appendKeyValue appends the form of one value. t may be nil or not fit v: then only a DECIMAL's scale is not brought in line.
func appendKeyValue(dst []byte, t *Type, v Value) []byte {
	switch v.kind {
	case KindNull:
		return append(dst, keyNull)
	case KindUnchanged:
		return append(dst, keyUnchanged)
	case KindBool:
		return append(dst, keyBool, byte(v.lo))
	case KindInt:
		return appendKeyInt(dst, keyInt, v.lo)
	case KindFloat:
		return appendKeyFloat(dst, v.Float())
	case KindDouble:
		return appendKeyDouble(dst, v.Double())
	case KindDecimal:
		return appendKeyDecimal(dst, t, v)
	case KindString:
		return appendKeyBytes(dst, keyString, v.Bytes())
	case KindBytes:
		return appendKeyBytes(dst, keyBytes, v.Bytes())
	case KindDate:
		return appendKeyInt(dst, keyDate, v.lo)
	case KindTime:
		return appendKeyInt(dst, keyTime, v.lo)
	case KindTimestamp:
		return binary.BigEndian.AppendUint32(appendKeyInt(dst, keyTimestamp, v.lo), uint32(v.hi))
	case KindTimestampLTZ:
		return binary.BigEndian.AppendUint32(appendKeyInt(dst, keyTimestampLTZ, v.lo), uint32(v.hi))
	case KindArray:
		dst = append(dst, keyArray)
		for _, e := range v.Elems() {
			dst = appendKeyValue(append(dst, keyEntry), elemType(t), e)
		}
		return append(dst, keyEnd)
	case KindMap:
		return appendKeyMap(append(dst, keyMap), t, v.Elems())
	case KindRow:
		dst = append(dst, keyRow)
		for i, e := range v.Elems() {
			dst = appendKeyValue(append(dst, keyEntry), fieldType(t, i), e)
		}
		return append(dst, keyEnd)
	}
	return append(dst, keyNull)
}

func elemType(t *Type) *Type {
	if t == nil {
		return nil
	}
	return t.Elem
}

func mapKeyType(t *Type) *Type {
	switch {
	case t == nil:
		return nil
	case t.Root == RootMultiset:
		return t.Elem
	}
	return t.Key
}

func fieldType(t *Type, i int) *Type {
	if t == nil || i >= len(t.Fields) {
		return nil
	}
	return &t.Fields[i].Type
}

func appendKeyInt(dst []byte, tag byte, u uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tag), u^signBit)
}

func appendKeyFloat(dst []byte, f float32) []byte {
	u := math.Float32bits(f)
	switch {
	case f != f:
		u = math.MaxUint32
	case f < 0: // -0 is not: it gets the form of 0
		u = ^u
	default:
		u |= 1 << 31
	}
	return binary.BigEndian.AppendUint32(append(dst, keyFloat), u)
}

func appendKeyDouble(dst []byte, f float64) []byte {
	u := math.Float64bits(f)
	switch {
	case f != f:
		u = math.MaxUint64
	case f < 0: // -0 is not: it gets the form of 0
		u = ^u
	default:
		u |= signBit
	}
	return binary.BigEndian.AppendUint64(append(dst, keyDouble), u)
}

// appendKeyDecimal brings v to the scale of t. What then has more than 38 digits is no DECIMAL, but must still have a form of its own:
// one beyond all others, with the value as it is behind.
func appendKeyDecimal(dst []byte, t *Type, v Value) []byte {
	dst = append(dst, keyDecimal)
	u, negative := magnitude(v)
	ok := t != nil && t.Root == RootDecimal
	if ok {
		var scaled uint128
		scaled, ok = u.rescale(t.Scale - int(v.scale))
		if ok = ok && scaled.cmp(pow10[MaxPrecision]) < 0; ok {
			if negative {
				scaled = scaled.neg()
			}
			dst = binary.BigEndian.AppendUint64(dst, scaled.hi^signBit)
			return binary.BigEndian.AppendUint64(dst, scaled.lo)
		}
	}
	var edge uint64 = math.MaxUint64
	if negative {
		edge = 0
	}
	dst = binary.BigEndian.AppendUint64(dst, edge)
	dst = binary.BigEndian.AppendUint64(dst, edge)
	dst = binary.BigEndian.AppendUint64(dst, v.hi^signBit)
	dst = binary.BigEndian.AppendUint64(dst, v.lo)
	return append(dst, v.scale)
}

// appendKeyBytes ends with 00 01, which is below every byte that could follow (00 goes on as 00 FF), so that a shorter value sorts
// before a longer one and is never its prefix.
func appendKeyBytes(dst []byte, tag byte, b []byte) []byte {
	dst = append(dst, tag)
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			dst = append(dst, b...)
			return append(dst, 0x00, 0x01)
		}
		dst = append(dst, b[:i]...)
		dst = append(dst, 0x00, 0xff)
		b = b[i+1:]
	}
}

// appendKeyMap writes the entries where they come and then puts them in order by writing them once more behind, sorted.
func appendKeyMap(dst []byte, t *Type, pairs []Value) []byte {
	type span struct{ from, to int }
	var few [16]span
	entries := few[:0]
	start := len(dst)
	for i := 0; i+1 < len(pairs); i += 2 {
		from := len(dst)
		dst = append(dst, keyEntry)
		dst = appendKeyValue(dst, mapKeyType(t), pairs[i])
		dst = appendKeyValue(dst, mapValueType(t), pairs[i+1])
		entries = append(entries, span{from, len(dst)})
	}
	slices.SortFunc(entries, func(a, b span) int { return bytes.Compare(dst[a.from:a.to], dst[b.from:b.to]) })
	end := len(dst)
	for _, e := range entries {
		dst = append(dst, dst[e.from:e.to]...)
	}
	dst = dst[:start+copy(dst[start:], dst[end:])]
	return append(dst, keyEnd)
}

func mapValueType(t *Type) *Type {
	if t == nil || t.Root == RootMultiset {
		return nil
	}
	return t.Elem
}

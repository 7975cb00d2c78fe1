package avro

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// encoder follows AvroRowDataSerializationSchema and Avro's BinaryEncoder. It does not change after it was made.
type encoder struct {
	columns []column
	lenient bool
}

// AppendPayload implements [changelog.PayloadEncoder]. The payload is the row whatever the change's kind; it is never null.
func (e *encoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	out = dst
	for i := range e.columns {
		col := &e.columns[i]
		f := flinkjson.Misfit("the row does not have this column")
		if col.slot < len(c.Row) {
			out, f = e.value(out, &col.plan, c.Row[col.slot])
		}
		if f != nil {
			return dst, false, f.At(col.name).Err()
		}
	}
	return out, false, nil
}

// appendNumber appends an integer in zigzag and in groups of seven bits, which is the same for int and long.
func appendNumber(dst []byte, v int64) []byte { return binary.AppendVarint(dst, v) }

func (e *encoder) value(dst []byte, p *plan, v changelog.Value) ([]byte, *failure) {
	if f := fits(p, v); f != nil {
		return dst, f
	}
	if v.IsNull() {
		return append(dst, 0), nil
	}
	if !p.typ.NotNull {
		dst = append(dst, 2) // the second branch of the union
	}
	switch v.Kind() {
	case changelog.KindBool:
		if v.Bool() {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	case changelog.KindFloat:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(v.Float())), nil
	case changelog.KindDouble:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Double())), nil
	case changelog.KindDecimal:
		unscaled, f := unscaledBytes(p.typ, v)
		return append(appendNumber(dst, int64(len(unscaled))), unscaled...), f
	case changelog.KindString:
		return appendText(dst, v.Bytes())
	case changelog.KindBytes:
		return append(appendNumber(dst, int64(len(v.Bytes()))), v.Bytes()...), nil
	case changelog.KindArray:
		elems := v.Elems()
		if len(elems) > 0 {
			dst = appendNumber(dst, int64(len(elems)))
		}
		for i := range elems {
			var f *failure
			if dst, f = e.value(dst, p.elem, elems[i]); f != nil {
				return dst, f.AtElement(i)
			}
		}
		return append(dst, 0), nil
	case changelog.KindMap:
		return e.mapping(dst, p, v.Elems())
	case changelog.KindRow:
		fields := v.Elems()
		if len(fields) != len(p.fields) {
			return dst, flinkjson.Misfit("the ROW does not have the fields of " + p.typ.String())
		}
		for i := range fields {
			var f *failure
			if dst, f = e.value(dst, &p.fields[i], fields[i]); f != nil {
				return dst, f.At(p.typ.Fields[i].Name)
			}
		}
		return dst, nil
	}
	n, f := e.integer(v)
	return appendNumber(dst, n), f
}

// fits reports what v is that is no value of p's type.
func fits(p *plan, v changelog.Value) *failure {
	switch {
	case v.IsNull() && p.typ.NotNull:
		return flinkjson.Misfit("the value is NULL, and its type is " + p.typ.String())
	case v.IsUnchanged():
		return flinkjson.Misfit("the value was not sent by its source (Unchanged), and Avro has no word for that")
	case !v.IsNull() && v.Kind() != p.typ.Root.ValueKind():
		return flinkjson.Misfit("the row has a value of another type here; the column is " + p.typ.String())
	}
	return nil
}

// integer is what Avro has for the types that are an int or a long.
func (e *encoder) integer(v changelog.Value) (int64, *failure) {
	switch v.Kind() {
	case changelog.KindInt:
		return v.Int(), nil
	case changelog.KindDate:
		return v.Date(), nil
	case changelog.KindTime:
		if v.Time()%1e6 != 0 && !e.lenient {
			return 0, flinkjson.Misfit("a TIME with more than milliseconds, which Flink would cut off")
		}
		return v.Time() / 1e6, nil
	}
	sec, nanos := v.Timestamp()
	if nanos%1e6 != 0 && !e.lenient {
		return 0, flinkjson.Misfit("a time with more than milliseconds, which Flink would cut off")
	}
	hi, lo := bits.Mul64(uint64(max(sec, -sec)), 1000)
	if hi != 0 || lo > math.MaxInt64-1000 {
		return 0, flinkjson.Misfit("a time whose milliseconds 64 bits do not hold")
	}
	return sec*1000 + int64(nanos/1e6), nil
}

func appendText(dst, s []byte) ([]byte, *failure) {
	if !utf8.Valid(s) {
		return dst, flinkjson.Misfit("the text is not UTF-8, or has a lone surrogate, which Flink would write as a question mark")
	}
	return append(appendNumber(dst, int64(len(s))), s...), nil
}

// unscaledBytes is the unscaled number at the column's scale in the shortest two's complement, as BigInteger.toByteArray.
func unscaledBytes(t *changelog.Type, v changelog.Value) ([]byte, *failure) {
	v, f := flinkjson.InScale(v, t)
	if f != nil {
		return nil, f
	}
	hi, lo, _ := v.Decimal()
	var wide [16]byte
	binary.BigEndian.PutUint64(wide[:8], uint64(hi))
	binary.BigEndian.PutUint64(wide[8:], lo)
	s := wide[:]
	sign := byte(hi >> 63)
	for len(s) > 1 && s[0] == sign && s[1]>>7 == sign>>7 {
		s = s[1:]
	}
	return s, nil
}

func (e *encoder) mapping(dst []byte, p *plan, pairs []changelog.Value) ([]byte, *failure) {
	entries, f := inHashOrder(pairs)
	if f != nil {
		return dst, f
	}
	if len(entries) > 0 {
		dst = appendNumber(dst, int64(len(entries)))
	}
	for i := range entries {
		if dst, f = appendText(dst, []byte(entries[i].key)); f != nil {
			return dst, f
		}
		if dst, f = e.value(dst, p.elem, entries[i].value); f != nil {
			return dst, f.At("[*]")
		}
	}
	return append(dst, 0), nil
}

// inHashOrder returns the entries in the order in which Java's HashMap has them, since Flink puts them into one.
func inHashOrder(pairs []changelog.Value) ([]mapEntry, *failure) {
	if len(pairs)%2 != 0 {
		return nil, flinkjson.Misfit("the map has a key without a value")
	}
	entries := make([]mapEntry, 0, len(pairs)/2)
	at := make(map[string]int, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].Kind() != changelog.KindString {
			return nil, flinkjson.Misfit("a key of the map is NULL or no text")
		}
		key := pairs[i].Str()
		if k, ok := at[key]; ok {
			entries[k].value = pairs[i+1]
			continue
		}
		at[key] = len(entries)
		entries = append(entries, mapEntry{key, pairs[i+1], javaHash(key)})
	}
	mask := tableSize(len(pairs)/2) - 1
	slices.SortStableFunc(entries, func(a, b mapEntry) int { return int(a.hash&mask) - int(b.hash&mask) })
	return entries, nil
}

type mapEntry struct {
	key   string
	value changelog.Value
	hash  uint32
}

// javaHash is String.hashCode, spread as HashMap.hash does.
func javaHash(s string) uint32 {
	var h uint32
	for _, r := range s {
		if r > 0xFFFF {
			r -= 0x10000
			h = 31*h + uint32(0xD800+r>>10)
			r = 0xDC00 + r&0x3FF
		}
		h = 31*h + uint32(r)
	}
	return h ^ h>>16
}

// tableSize is the number of buckets of a HashMap that was made for n entries and holds them.
func tableSize(n int) uint32 {
	capacity := n + 1
	if n > 2 {
		capacity = (n*4 + 2) / 3 // n / 0.75, rounded up
	}
	size := uint32(1)
	for size < uint32(capacity) {
		size *= 2
	}
	return size
}

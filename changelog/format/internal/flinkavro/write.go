package flinkavro

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// appendNumber appends an integer in zigzag and in groups of seven bits, which is the same for int and long.
func appendNumber(dst []byte, v int64) []byte { return binary.AppendVarint(dst, v) }

// Writer writes values as Flink's converters and Avro's BinaryEncoder do.
type Writer struct {
	Lenient bool // a time with more than milliseconds is cut off
}

// Value appends a value of p's type; of a type that is nullable a union of null and it.
func (w Writer) Value(dst []byte, p *Plan, v changelog.Value) ([]byte, *Failure) {
	if f := Fits(p, v); f != nil {
		return dst, f
	}
	null, other := byte(0), byte(2) // the branches of the union, in zigzag
	if p.NullLast {
		null, other = 2, 0
	}
	if v.IsNull() {
		return append(dst, null), nil
	}
	if !p.Type.NotNull {
		dst = append(dst, other)
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
		var wide [16]byte
		n, f := unscaled(p.Type, v, &wide)
		if f != nil {
			return dst, f
		}
		return append(appendNumber(dst, int64(n)), wide[16-n:]...), nil
	case changelog.KindString:
		if p.Symbols != nil {
			return appendSymbol(dst, p, v.Str())
		}
		return appendText(dst, v.Bytes())
	case changelog.KindBytes:
		return append(appendNumber(dst, int64(len(v.Bytes()))), v.Bytes()...), nil
	case changelog.KindArray:
		elems := v.Elems()
		if len(elems) > 0 {
			dst = appendNumber(dst, int64(len(elems)))
		}
		for i := range elems {
			var f *Failure
			if dst, f = w.Value(dst, p.Elem, elems[i]); f != nil {
				return dst, f.AtElement(i)
			}
		}
		return append(dst, 0), nil
	case changelog.KindMap:
		return w.mapping(dst, p, v.Elems())
	case changelog.KindRow:
		fields := v.Elems()
		if len(fields) != len(p.Fields) {
			return dst, flinkjson.Misfit(changelog.SchemaMismatch, "the ROW does not have the fields of "+p.Type.String())
		}
		for i := range fields {
			var f *Failure
			if dst, f = w.Value(dst, &p.Fields[i], fields[i]); f != nil {
				return dst, f.At(p.Type.Fields[i].Name)
			}
		}
		return dst, nil
	}
	n, f := w.Integer(v)
	return appendNumber(dst, n), f
}

// Fits reports what v is that is no value of p's type.
func Fits(p *Plan, v changelog.Value) *Failure {
	switch {
	case v.IsNull() && p.Type.NotNull:
		return flinkjson.Misfit(changelog.Missing, "the value is NULL, and its type is "+p.Type.String())
	case v.IsUnchanged():
		return flinkjson.Misfit(changelog.Missing, "the value was not sent by its source (Unchanged), and Avro has no word for that")
	case !v.IsNull() && v.Kind() != p.Type.Root.ValueKind():
		return flinkjson.Misfit(changelog.WrongType, "the row has a value of another type here; the column is "+p.Type.String())
	}
	return nil
}

// Integer is what Avro has for the types that are an int or a long.
func (w Writer) Integer(v changelog.Value) (int64, *Failure) {
	switch v.Kind() {
	case changelog.KindInt:
		return v.Int(), nil
	case changelog.KindDate:
		return v.Date(), nil
	case changelog.KindTime:
		if v.Time()%1e6 != 0 && !w.Lenient {
			return 0, flinkjson.Misfit(changelog.OutOfRange, "a TIME with more than milliseconds, which Flink would cut off")
		}
		return v.Time() / 1e6, nil
	}
	sec, nanos := v.Timestamp()
	if nanos%1e6 != 0 && !w.Lenient {
		return 0, flinkjson.Misfit(changelog.OutOfRange, "a time with more than milliseconds, which Flink would cut off")
	}
	hi, lo := bits.Mul64(uint64(max(sec, -sec)), 1000)
	if hi != 0 || lo > math.MaxInt64-1000 {
		return 0, flinkjson.Misfit(changelog.OutOfRange, "a time whose milliseconds 64 bits do not hold")
	}
	return sec*1000 + int64(nanos/1e6), nil
}

// appendSymbol writes the number of an enum's symbol.
func appendSymbol(dst []byte, p *Plan, symbol string) ([]byte, *Failure) {
	i := slices.Index(p.Symbols, symbol)
	if i < 0 {
		return dst, flinkjson.Misfit(changelog.SchemaMismatch, "the text is none of the symbols that the enum of the option 'schema' has")
	}
	return appendNumber(dst, int64(i)), nil
}

func appendText(dst, s []byte) ([]byte, *Failure) {
	if !utf8.Valid(s) {
		return dst, flinkjson.Misfit(changelog.Malformed, "the text is not UTF-8, or has a lone surrogate, which Flink would write as a question mark")
	}
	return append(appendNumber(dst, int64(len(s))), s...), nil
}

// UnscaledBytes is the unscaled number at the column's scale in the shortest two's complement, as BigInteger.toByteArray.
func UnscaledBytes(t *changelog.Type, v changelog.Value) ([]byte, *Failure) {
	var wide [16]byte
	n, f := unscaled(t, v, &wide)
	if f != nil {
		return nil, f
	}
	return wide[16-n:], nil
}

// unscaled leaves the n bytes of that number at the end of wide.
func unscaled(t *changelog.Type, v changelog.Value, wide *[16]byte) (n int, f *Failure) {
	v, f = flinkjson.InScale(v, t)
	if f != nil {
		return 0, f
	}
	hi, lo, _ := v.Decimal()
	binary.BigEndian.PutUint64(wide[:8], uint64(hi))
	binary.BigEndian.PutUint64(wide[8:], lo)
	s := wide[:]
	sign := byte(hi >> 63)
	for len(s) > 1 && s[0] == sign && s[1]>>7 == sign>>7 {
		s = s[1:]
	}
	return len(s), nil
}

func (w Writer) mapping(dst []byte, p *Plan, pairs []changelog.Value) ([]byte, *Failure) {
	entries, f := InHashOrder(pairs)
	if f != nil {
		return dst, f
	}
	if len(entries) > 0 {
		dst = appendNumber(dst, int64(len(entries)))
	}
	for i := range entries {
		if dst, f = appendText(dst, []byte(entries[i].Key)); f != nil {
			return dst, f
		}
		if dst, f = w.Value(dst, p.Elem, entries[i].Value); f != nil {
			return dst, f.At("[*]")
		}
	}
	return append(dst, 0), nil
}

// InHashOrder returns the entries in the order in which Java's HashMap has them, since Flink puts them into one.
func InHashOrder(pairs []changelog.Value) ([]Entry, *Failure) {
	if len(pairs)%2 != 0 {
		return nil, flinkjson.Misfit(changelog.Malformed, "the map has a key without a value")
	}
	entries := make([]Entry, 0, len(pairs)/2)
	at := make(map[string]int, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].Kind() != changelog.KindString {
			return nil, flinkjson.Misfit(changelog.Missing, "a key of the map is NULL or no text")
		}
		key := pairs[i].Str()
		if k, ok := at[key]; ok {
			entries[k].Value = pairs[i+1]
			continue
		}
		at[key] = len(entries)
		entries = append(entries, Entry{key, pairs[i+1], javaHash(key)})
	}
	mask := tableSize(len(pairs)/2) - 1
	slices.SortStableFunc(entries, func(a, b Entry) int { return int(a.hash&mask) - int(b.hash&mask) })
	return entries, nil
}

// Entry is one of a MAP or MULTISET.
type Entry struct {
	Key   string
	Value changelog.Value
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

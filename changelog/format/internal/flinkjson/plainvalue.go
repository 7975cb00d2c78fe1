package flinkjson

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"unsafe"

	"github.com/flinksink/flinksink/changelog"
)

// value reads a value of p's type into dst.
func (r *plain) value(p *plan, dst *changelog.Value) bool {
	if r.i >= len(r.p) {
		return false
	}
	c := r.p[r.i]
	if c == 'n' {
		*dst = changelog.Value{}
		return r.word("null")
	}
	switch p.root {
	case changelog.RootChar, changelog.RootVarchar:
		return r.stringValue(c, dst)
	case changelog.RootTinyInt:
		return r.intValue(c, math.MinInt8, math.MaxInt8, dst)
	case changelog.RootSmallInt:
		return r.intValue(c, math.MinInt16, math.MaxInt16, dst)
	case changelog.RootInt, changelog.RootIntervalYearMonth:
		return r.intValue(c, math.MinInt32, math.MaxInt32, dst)
	case changelog.RootBigInt, changelog.RootIntervalDayTime:
		return r.intValue(c, math.MinInt64, math.MaxInt64, dst)
	case changelog.RootDecimal:
		text, ok := r.numeral(c)
		if !ok {
			return false
		}
		v, err := changelog.ParseDecimal(text, p.typ.Precision, p.typ.Scale)
		*dst = v
		r.more = r.more || finer(text, p.typ.Scale)
		return err == nil
	case changelog.RootDouble:
		f, ok := r.float(c, 64)
		*dst = changelog.DoubleValue(f)
		return ok
	case changelog.RootFloat:
		f, ok := r.float(c, 32)
		*dst = changelog.FloatValue(float32(f))
		return ok
	case changelog.RootBoolean:
		*dst = changelog.BoolValue(c == 't')
		if c == 't' {
			return r.word("true")
		}
		return r.word("false")
	case changelog.RootTimestamp, changelog.RootTimestampLTZ, changelog.RootDate, changelog.RootTime:
		if c != '"' {
			return false
		}
		s, ok := r.text()
		if !ok {
			return false
		}
		v, guess, ok := parseTemporal(p.root, r.iso, r.millis, s)
		*dst = v
		return ok && !guess
	case changelog.RootBinary, changelog.RootVarbinary:
		return r.bytesValue(c, dst)
	case changelog.RootArray:
		return r.arrayValue(c, p, dst)
	case changelog.RootMap, changelog.RootMultiset:
		return r.mapValue(c, p, dst)
	case changelog.RootRow:
		if c != '{' || !r.take(len(p.row.fields)) {
			return false
		}
		fields := r.b.NewValues(len(p.row.fields))
		*dst = changelog.RowValue(fields)
		return r.object(p.row, fields)
	}
	return false
}

// take counts n values against the bound.
func (r *plain) take(n int) bool {
	r.room -= n
	return r.room >= 0
}

func (r *plain) stringValue(c byte, dst *changelog.Value) bool {
	start := r.i
	var ok bool
	switch c {
	case '"':
		var s []byte
		if s, ok = r.text(); ok {
			*dst = changelog.StringBytesValue(s)
		}
		return ok
	case 't':
		ok = r.word("true")
	case 'f':
		ok = r.word("false")
	default:
		var float bool
		if _, float, ok = r.number(); r.tree && (float || c == '-') {
			return false // a tree has numbers, not their text
		}
	}
	*dst = changelog.StringBytesValue(r.p[start:r.i:r.i]) // Flink takes the source text
	return ok
}

// intValue reads an integer, also one in quotes.
func (r *plain) intValue(c byte, least, most int64, dst *changelog.Value) bool {
	p, i := r.p, r.i
	if c == '"' {
		i++
	}
	negative := i < len(p) && p[i] == '-'
	if negative {
		i++
	}
	first := i
	var u uint64
	for i < len(p) && p[i]-'0' <= 9 {
		u = u*10 + uint64(p[i]-'0')
		i++
	}
	// 19 digits do not overflow 64 bits without a sign; what is longer is seldom an integer that fits.
	if i == first || i-first > 19 {
		return false
	}
	if c == '"' {
		if i >= len(p) || p[i] != '"' {
			return false
		}
		i++
	} else if p[first] == '0' && i-first > 1 {
		return false
	}
	r.i = i
	var v int64
	if negative {
		if u > 1<<63 {
			return false
		}
		v = -int64(u)
	} else {
		if u > math.MaxInt64 {
			return false
		}
		v = int64(u)
	}
	*dst = changelog.IntValue(v)
	return v >= least && v <= most
}

// numeral reads the text of a number, also of one in quotes that is spelt as JSON spells numbers.
func (r *plain) numeral(c byte) ([]byte, bool) {
	if c != '"' {
		text, _, ok := r.number()
		return text, ok
	}
	r.i++
	text, _, ok := r.number()
	if !ok || r.i >= len(r.p) || r.p[r.i] != '"' {
		return nil, false
	}
	r.i++
	return text, true
}

// finer reports that a JSON number has digits beyond the scale, so that a DECIMAL of it is rounded. It also says so of zeros there.
func finer(text []byte, scale int) bool {
	places, exponent := 0, 0
	if at := bytes.IndexAny(text, "eE"); at >= 0 {
		n, err := strconv.Atoi(string(text[at+1:]))
		if err != nil || n > maxNumber || n < -maxNumber {
			return true
		}
		text, exponent = text[:at], n
	}
	if at := bytes.IndexByte(text, '.'); at >= 0 {
		places = len(text) - at - 1
	}
	return places-exponent > scale
}

func (r *plain) float(c byte, bits int) (float64, bool) {
	text, ok := r.numeral(c)
	if !ok {
		return 0, false
	}
	if r.tree && c != '"' {
		if !r.decimals && bytes.IndexByte(text, '.') >= 0 {
			bits = 64 // a DoubleNode, also where a FLOAT is read from it
		}
		f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), bits)
		return f, err == nil && (f != 0 || c != '-') // a BigDecimal has no negative zero, and neither have integers
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), bits)
	return f, err == nil
}

func (r *plain) bytesValue(c byte, dst *changelog.Value) bool {
	if c != '"' {
		return false
	}
	// The text ends at the first quote: base64 has no escapes, and whatever else is in it is left to the exact reader.
	start := r.i + 1
	n := bytes.IndexByte(r.p[start:], '"')
	if n < 0 {
		return false
	}
	s := r.p[start : start+n]
	if len(s) > maxString || bytes.IndexByte(s, '\n') >= 0 || bytes.IndexByte(s, '\r') >= 0 { // which the decoder would skip
		return false
	}
	out := r.b.NewBytes(base64.StdEncoding.DecodedLen(len(s)))
	m, err := base64.StdEncoding.Decode(out, s)
	if err != nil {
		return false
	}
	r.i = start + n + 1
	*dst = changelog.BytesValue(out[:m:m])
	return true
}

func (r *plain) arrayValue(c byte, p *plan, dst *changelog.Value) bool {
	if c != '[' {
		return false
	}
	if r.depth++; r.depth > maxDepth {
		return false
	}
	r.i++
	base, start := len(r.stack), r.i
	if r.space() == ']' {
		r.i++
	} else {
		var v changelog.Value // outside of the loop: it escapes
		for {
			v = changelog.Value{}
			r.space()
			if !r.value(p.elem, &v) {
				return false
			}
			r.stack = append(roomFor(r.stack, base, start, r.i, len(r.p)), v)
			sep := r.space()
			r.i++
			if sep == ']' {
				break
			}
			if sep != ',' {
				return false
			}
		}
	}
	r.depth--
	elems, ok := r.pop(base)
	*dst = changelog.ArrayValue(elems)
	return ok
}

func (r *plain) mapValue(c byte, p *plan, dst *changelog.Value) bool {
	if c != '{' {
		return false
	}
	if r.depth++; r.depth > maxDepth {
		return false
	}
	r.i++
	base, start := len(r.stack), r.i
	if r.space() == '}' {
		r.i++
	} else {
		var v changelog.Value // outside of the loop: it escapes
		for {
			if r.space() != '"' {
				return false
			}
			name, ok := r.text()
			if !ok || len(name) > maxName || r.space() != ':' {
				return false
			}
			r.i++
			r.space()
			r.stack = append(roomFor(r.stack, base, start, r.i, len(r.p)), changelog.StringBytesValue(name))
			v = changelog.Value{}
			if !r.value(p.elem, &v) {
				return false
			}
			r.stack = append(r.stack, v)
			sep := r.space()
			r.i++
			if sep == '}' {
				break
			}
			if sep != ',' {
				return false
			}
		}
	}
	r.depth--
	if !distinctKeys(r.stack[base:]) {
		return false
	}
	pairs, ok := r.pop(base)
	*dst = changelog.MapValue(pairs)
	return ok
}

// roomFor grows a full stack of many values by as many as the rest of the message holds, if it holds them as densely as the text from start to i,
// of the array or map whose values are those above base. Growing by a share of itself would take several times the memory on the way.
func roomFor(stack []changelog.Value, base, start, i, end int) []changelog.Value {
	if len(stack) < cap(stack) || len(stack) < 4096 || i <= start {
		return stack
	}
	more := min(1.01*float64(len(stack)-base)*float64(end-i)/float64(i-start), float64(end-i)) // a value has two bytes at least
	larger := make([]changelog.Value, len(stack), len(stack)+max(int(more), len(stack)/4))
	copy(larger, stack)
	return larger
}

// pop moves the values above base from the stack to the arena.
func (r *plain) pop(base int) ([]changelog.Value, bool) {
	from := r.stack[base:]
	if !r.take(len(from)) {
		return nil, false
	}
	to := r.b.NewValues(len(from))
	copy(to, from)
	clear(from)
	r.stack = r.stack[:base]
	return to, true
}

// distinctKeys reports whether no key of the pairs occurs twice.
func distinctKeys(pairs []changelog.Value) bool {
	if len(pairs) <= 2*16 {
		for i := 2; i < len(pairs); i += 2 {
			for j := 0; j < i; j += 2 {
				if pairs[i].Str() == pairs[j].Str() {
					return false
				}
			}
		}
		return true
	}
	met := make(map[string]struct{}, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		met[pairs[i].Str()] = struct{}{}
	}
	return len(met) == len(pairs)/2
}

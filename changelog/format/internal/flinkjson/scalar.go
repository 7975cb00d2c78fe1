package flinkjson

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// textKind says what token a text is of.
type textKind uint8

const (
	wordText textKind = iota // a literal, or a bracket where Flink took it for a scalar
	intText
	floatText
	stringText
)

// scalar reads a value of a scalar type other than text and bytes from a token's text.
func (x *exact) scalar(p *plan, s []byte, kind textKind, dst *changelog.Value) *Failure {
	misfit := func() *Failure { return misfitf("not a value of type " + p.typ.String()) }
	switch p.root {
	case changelog.RootBoolean:
		t := trim(s)
		*dst = changelog.BoolValue(bytes.EqualFold(t, []byte("true")))
		if !dst.Bool() && (!bytes.EqualFold(t, []byte("false")) || kind == intText || kind == floatText) {
			return x.guess("neither true nor false; Flink would read FALSE").As(changelog.WrongType)
		}
		return nil
	case changelog.RootTinyInt, changelog.RootSmallInt:
		v, ok := javaInt(trim(s))
		if limit := int64(1) << (bitsOf(p.root) - 1); !ok || v < -limit || v >= limit {
			return misfit().As(ClassOfNumber(s, p.root))
		}
		*dst = changelog.IntValue(v)
		return nil
	case changelog.RootInt, changelog.RootBigInt, changelog.RootIntervalYearMonth, changelog.RootIntervalDayTime:
		bits := bitsOf(p.root)
		var v int64
		var ok bool
		var f *Failure
		if kind == floatText {
			v, ok, f = x.integerOfFloat(s, bits)
		} else if v, ok = javaInt(trim(s)); ok && bits == 32 {
			ok = v == int64(int32(v))
		}
		if !ok {
			return misfit().As(ClassOfNumber(s, p.root))
		}
		*dst = changelog.IntValue(v)
		return f
	case changelog.RootDouble:
		v, beyond, ok := javaFloat(trim(s), 64)
		if !ok {
			return misfit()
		}
		*dst = changelog.DoubleValue(v)
		if beyond {
			return x.guess("beyond the range of DOUBLE; Flink would read an infinity")
		}
		return nil
	case changelog.RootFloat:
		v, beyond, ok := javaFloat(trim(s), 32)
		if !ok {
			return misfit()
		}
		if x.d.Tree && !x.d.decimals && kind == floatText {
			v, _, _ = javaFloat(s, 64) // a DoubleNode, rounded a second time
		}
		*dst = changelog.FloatValue(float32(v))
		if beyond {
			return x.guess("beyond the range of FLOAT; Flink would read an infinity")
		}
		return nil
	case changelog.RootDecimal:
		if !x.d.Tree {
			if kind == wordText {
				return misfit()
			}
			s = trim(s)
		}
		v, err := changelog.ParseDecimal(asciiDigits(s), p.typ.Precision, p.typ.Scale)
		switch {
		case errors.Is(err, changelog.ErrDecimalOverflow):
			return x.guess("more digits than " + p.typ.String() + " has; Flink would read NULL")
		case err != nil:
			return misfit()
		}
		*dst = v
		return nil
	case changelog.RootDate, changelog.RootTime, changelog.RootTimestamp, changelog.RootTimestampLTZ:
		v, guessed, ok := parseTemporal(p.root, x.d.ISO, x.d.flink.Since(changelog.Flink2_3), s)
		if !ok {
			return misfit()
		}
		*dst = v
		if guessed {
			return x.guess("not a day or time that " + p.typ.String() + " can say; Flink would change it")
		}
		return nil
	}
	return misfit()
}

// ClassOfNumber is the class of a text that is no integer of its type: a number that is too large for it, or something else.
func ClassOfNumber(s []byte, root changelog.Root) changelog.DataClass {
	if f, _, ok := javaFloat(trim(s), 64); ok && math.Abs(f) >= math.Ldexp(1, bitsOf(root)-1) {
		return changelog.OutOfRange
	}
	return changelog.WrongType
}

func bitsOf(root changelog.Root) int {
	switch root {
	case changelog.RootTinyInt:
		return 8
	case changelog.RootSmallInt:
		return 16
	case changelog.RootInt, changelog.RootIntervalYearMonth:
		return 32
	}
	return 64
}

// integerOfFloat is getIntValue and getLongValue of a number with a fraction or an exponent: through a double, cut towards zero. In a
// tree with BigDecimals it is exact.
func (x *exact) integerOfFloat(s []byte, bits int) (int64, bool, *Failure) {
	cut, whole, fits := truncate(s)
	if x.d.Tree && x.d.decimals {
		if !fits || bits == 32 && cut != int64(int32(cut)) {
			return 0, false, nil
		}
		return cut, true, x.unlessWhole(whole)
	}
	d, _, ok := javaFloat(s, 64)
	least, most := -float64(1<<63), float64(1<<63)
	if bits == 32 {
		least, most = math.MinInt32, math.MaxInt32
	}
	if !ok || !(d >= least && d <= most) {
		return 0, false, nil
	}
	v := int64(math.MaxInt64) // what Java makes of 2^63
	if d < 1<<63 {
		v = int64(d)
	}
	return v, true, x.unlessWhole(whole && fits && cut == v)
}

func (x *exact) unlessWhole(whole bool) *Failure {
	if whole {
		return nil
	}
	return x.guess("a number with a fraction or too many digits; Flink would read another integer")
}

// truncate returns the integer part of a JSON number, and whether that is all of it. It is not ok where 64 bits do not hold it.
func truncate(s []byte) (v int64, whole, ok bool) {
	negative := len(s) > 0 && s[0] == '-'
	if negative {
		s = s[1:]
	}
	mantissa, exponent := s, int64(0)
	if e := bytes.IndexAny(s, "eE"); e >= 0 {
		mantissa = s[:e]
		n, err := strconv.ParseInt(string(s[e+1:]), 10, 32)
		if err != nil {
			n = math.MaxInt32
			if len(s) > e+1 && s[e+1] == '-' {
				n = math.MinInt32
			}
		}
		exponent = n
	}
	point := bytes.IndexByte(mantissa, '.')
	if point < 0 {
		point = len(mantissa)
	}
	places := int64(point) + exponent // digits of the integer part
	var u uint64
	taken := int64(0)
	whole = true
	for _, c := range mantissa {
		if c == '.' {
			continue
		}
		if taken++; taken > places {
			whole = whole && c == '0'
			continue
		}
		if u > math.MaxInt64/10 {
			return 0, false, false
		}
		u = u*10 + uint64(c-'0')
	}
	if u != 0 {
		for ; taken < places; taken++ {
			if u > math.MaxInt64/10 {
				return 0, false, false
			}
			u *= 10
		}
	}
	if negative {
		return -int64(u), whole, u <= 1<<63
	}
	return int64(u), whole, u <= math.MaxInt64
}

// javaInt is Long.parseLong: a sign of either kind, decimal digits of any script in Unicode's basic plane.
func javaInt(s []byte) (int64, bool) {
	negative := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		s = s[1:]
	}
	s = asciiDigits(s)
	if len(s) == 0 {
		return 0, false
	}
	var u uint64
	for _, c := range s {
		if c-'0' > 9 || u > (1<<63)/10 {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	if negative {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u < 1<<63
}

// asciiDigits replaces the decimal digits of other scripts, which Java's Character.digit knows, by ASCII ones.
func asciiDigits(s []byte) []byte {
	plain := true
	for _, c := range s {
		plain = plain && c < utf8.RuneSelf
	}
	if plain {
		return s
	}
	out := make([]byte, 0, len(s))
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		if d, ok := digitOf(r); ok {
			out = append(out, '0'+byte(d))
		} else {
			out = append(out, s[:n]...)
		}
		s = s[n:]
	}
	return out
}

func digitOf(r rune) (int, bool) {
	if r < utf8.RuneSelf || r > 0xFFFF {
		return 0, false
	}
	for _, t := range unicode.Nd.R16 {
		if r >= rune(t.Lo) && r <= rune(t.Hi) {
			return int(r-rune(t.Lo)) % 10, true
		}
	}
	return 0, false
}

// javaFloat is Double.parseDouble and Float.parseFloat of a trimmed text. beyond reports a number whose size made it an infinity.
func javaFloat(s []byte, bits int) (f float64, beyond, ok bool) {
	body := s
	if len(body) > 0 && (body[0] == '-' || body[0] == '+') {
		body = body[1:]
	}
	if string(body) == "NaN" {
		return math.NaN(), false, true
	}
	if string(body) == "Infinity" {
		f, _ = strconv.ParseFloat(string(s), 64)
		return f, false, true
	}
	hex := len(body) > 2 && body[0] == '0' && body[1]|0x20 == 'x'
	if n := len(body); n > 1 {
		if c := body[n-1] | 0x20; c == 'd' || c == 'f' && (!hex || bytes.ContainsAny(body, "pP")) {
			s, body = s[:len(s)-1], body[:n-1]
		}
	}
	if hex {
		body = body[2:]
		if !bytes.ContainsAny(body, "pP") { // which Go can do without and Java cannot
			return 0, false, false
		}
	}
	for _, c := range body {
		switch {
		case c-'0' <= 9, c == '.', c == '+', c == '-', c|0x20 == 'e' && !hex:
		case hex && (hexDigit(c) >= 0 || c|0x20 == 'p'):
		default:
			return 0, false, false // an underscore, or a word that Go knows
		}
	}
	f, err := strconv.ParseFloat(string(s), bits)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false, false
	}
	return f, math.IsInf(f, 0), true
}

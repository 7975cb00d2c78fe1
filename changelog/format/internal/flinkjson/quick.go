package flinkjson

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// Values as nearly all messages have them, read in one pass: text without escapes, numbers of at most 18 digits without an exponent, timestamps
// with all of their parts. What is read here the general readers read too, and alike, in each of their modes; where something is longer or
// odd, nothing is taken, and they look.

// quick reads the value at i and returns where it ends, or 0 if it did not take it.
func (r *plain) quick(p *plan, i int, dst *changelog.Value) int {
	text := r.p
	if i >= len(text) {
		return 0
	}
	switch p.root {
	case changelog.RootChar, changelog.RootVarchar:
		s, end := quickText(text, i)
		if end > 0 {
			*dst = changelog.StringBytesValue(s)
		}
		return end
	case changelog.RootInt, changelog.RootBigInt:
		n, fraction, end := QuickNumber(text, i)
		v := n.Int()
		if end == 0 || fraction > 0 || p.root == changelog.RootInt && v != int64(int32(v)) {
			return 0
		}
		*dst = changelog.IntValue(v)
		return end
	case changelog.RootDecimal:
		n, fraction, end := QuickNumber(text, i)
		if end == 0 || !n.Decimal(p.typ, fraction, dst) {
			return 0
		}
		return end
	case changelog.RootDouble:
		n, fraction, end := QuickNumber(text, i)
		if end == 0 || n.Negative && n.Digits == 0 || !n.Double(fraction, dst) { // a tree has no negative zero
			return 0
		}
		return end
	case changelog.RootTimestamp, changelog.RootTimestampLTZ:
		s, end := quickText(text, i)
		if end == 0 {
			return 0
		}
		v, ok := quickTimestamp(p.root, r.iso, s)
		if !ok {
			return 0
		}
		*dst = v
		return end
	}
	return 0
}

// quickText reads a string without escapes.
func quickText(p []byte, i int) (s []byte, end int) {
	if p[i] != '"' {
		return nil, 0
	}
	at, high := scanText(p, i+1)
	if at >= len(p) || p[at] != '"' {
		return nil, 0
	}
	s = p[i+1 : at : at]
	if len(s) > maxString || high && !utf8.Valid(s) {
		return nil, 0
	}
	return s, at + 1
}

const (
	everyByte = 0x0101010101010101
	everyHigh = 0x8080808080808080
)

// scanText returns where the first quote or backslash is, from i on, or len(p). high reports bytes before it that are not ASCII.
func scanText(p []byte, i int) (at int, high bool) {
	var seen uint64
	for len(p)-i >= 8 {
		w := binary.LittleEndian.Uint64(p[i:])
		quote, escape := w^'"'*everyByte, w^'\\'*everyByte
		// The lowest bit that is left is of the first byte that is zero; bits above it may be wrong.
		if found := ((quote-everyByte)&^quote | (escape-everyByte)&^escape) & everyHigh; found != 0 {
			n := bits.TrailingZeros64(found) &^ 7
			seen |= w & (1<<n - 1)
			return i + n/8, seen&everyHigh != 0
		}
		seen |= w
		i += 8
	}
	for ; i < len(p); i++ {
		c := p[i]
		if c == '"' || c == '\\' {
			break
		}
		seen |= uint64(c)
	}
	return i, seen&everyHigh != 0
}

// Quick is a number of at most 18 digits, without its point.
type Quick struct {
	Digits   uint64
	Negative bool
}

// maxQuick is how many digits a [Quick] has at most: 10^18 fits 63 bits.
const maxQuick = 18

// QuickNumber reads a number as JSON spells it, without an exponent. fraction is how many of the digits stand behind the point; end is 0 if
// nothing is read.
func QuickNumber(p []byte, i int) (q Quick, fraction, end int) {
	if i < len(p) && p[i] == '-' {
		q.Negative = true
		i++
	}
	first := i
	var u uint64
	for i < len(p) && p[i]-'0' <= 9 {
		u = u*10 + uint64(p[i]-'0')
		i++
	}
	n := i - first
	if n == 0 || n > 1 && p[first] == '0' {
		return q, 0, 0
	}
	if i < len(p) && p[i] == '.' {
		i++
		point := i
		for i < len(p) && p[i]-'0' <= 9 {
			u = u*10 + uint64(p[i]-'0')
			i++
		}
		if fraction = i - point; fraction == 0 {
			return q, 0, 0
		}
		n += fraction
	}
	if n > maxQuick || i < len(p) && p[i]|0x20 == 'e' {
		return q, 0, 0
	}
	q.Digits = u
	return q, fraction, i
}

// Int is the number of digits without a fraction.
func (q Quick) Int() int64 {
	if q.Negative {
		return -int64(q.Digits)
	}
	return int64(q.Digits)
}

// Decimal makes a DECIMAL of type t, if no digit has to be rounded away and the digits fit.
func (q Quick) Decimal(t *changelog.Type, fraction int, dst *changelog.Value) bool {
	up := t.Scale - fraction
	if up < 0 || up > maxQuick || q.Digits >= tens[maxQuick-up] {
		return false
	}
	u := q.Digits * tens[up]
	if t.Precision < maxQuick && u >= tens[t.Precision] {
		return false
	}
	v := int64(u)
	if q.Negative {
		v = -v
	}
	*dst = changelog.DecimalValue(v>>63, uint64(v), t.Scale)
	return true
}

// Double makes the DOUBLE that is nearest: digits and power of ten are exact as float64, so that one division rounds once.
func (q Quick) Double(fraction int, dst *changelog.Value) bool {
	if q.Digits > 1<<53 {
		return false
	}
	f := float64(q.Digits) / float64(tens[fraction])
	if q.Negative {
		f = math.Copysign(f, -1)
	}
	*dst = changelog.DoubleValue(f)
	return true
}

// tens are powers of ten.
var tens = [maxQuick + 1]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// QuickTimestamp reads a TIMESTAMP or TIMESTAMP_LTZ in the form that Flink calls SQL.
func QuickTimestamp(root changelog.Root, s []byte) (v changelog.Value, ok bool) {
	return quickTimestamp(root, false, s)
}

// quickTimestamp reads yyyy-MM-dd HH:mm:ss and a fraction, if there is one, of a TIMESTAMP, or of a TIMESTAMP_LTZ with its Z.
func quickTimestamp(root changelog.Root, iso bool, s []byte) (v changelog.Value, ok bool) {
	between := byte(' ')
	if iso {
		between = 'T'
	}
	if root == changelog.RootTimestampLTZ {
		if len(s) == 0 || s[len(s)-1] != 'Z' {
			return v, false
		}
		s = s[:len(s)-1]
	}
	const whole = len("2006-01-02 15:04:05")
	if len(s) < whole || s[4] != '-' || s[7] != '-' || s[10] != between || s[13] != ':' || s[16] != ':' {
		return v, false
	}
	bad := 0 // negative once something is no digit
	two := func(i int) int {
		a, b := int(s[i]-'0'), int(s[i+1]-'0')
		bad |= (9 - a) | (9 - b)
		return a*10 + b
	}
	year, month, day := two(0)*100+two(2), two(5), two(8)
	hour, minute, second := two(11), two(14), two(17)
	if bad < 0 || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return v, false
	}
	if day > 28 && day > monthDays(int64(year), month) {
		return v, false
	}
	nanos := int32(0)
	if len(s) > whole {
		if s[whole] != '.' || len(s) > whole+10 {
			return v, false
		}
		left := 9
		for _, c := range s[whole+1:] {
			if c-'0' > 9 {
				return v, false
			}
			nanos = nanos*10 + int32(c-'0')
			left--
		}
		nanos *= int32(tens[left])
	}
	sec := changelog.DaysOf(int64(year), month, day)*86400 + int64(hour*3600+minute*60+second)
	if root == changelog.RootTimestampLTZ {
		return changelog.TimestampLTZValue(sec, nanos), true
	}
	return changelog.TimestampValue(sec, nanos), true
}

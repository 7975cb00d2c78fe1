package flinkjson

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// The other direction of quick.go: values as nearly all rows have them, written without a detour. Each writer here writes what the general one
// writes; where it says no, dst is as it was, and that one writes.

// quick appends a scalar that is of p's type and not odd.
func (e *Encoder) quick(dst []byte, p *plan, v *changelog.Value) ([]byte, bool) {
	kind := v.Kind()
	if kind != p.kind {
		return dst, false
	}
	switch kind {
	case changelog.KindInt:
		return strconv.AppendInt(dst, v.Int(), 10), true
	case changelog.KindString:
		s := v.Bytes()
		if plainText(s) < len(s) {
			return dst, false
		}
		return append(append(append(dst, '"'), s...), '"'), true
	case changelog.KindDouble:
		return AppendQuickDouble(dst, v.Double())
	case changelog.KindDecimal:
		if e.PlainDecimals {
			return dst, false
		}
		return appendQuickStripped(dst, v, p.typ.Scale)
	case changelog.KindTimestamp, changelog.KindTimestampLTZ:
		sec, nanos := v.Timestamp()
		between := byte(' ')
		if e.ISO {
			between = 'T'
		}
		out, ok := AppendQuickTimestamp(append(dst, '"'), sec, nanos, between)
		if !ok {
			return dst, false
		}
		if kind == changelog.KindTimestampLTZ {
			out = append(out, 'Z')
		}
		return append(out, '"'), true
	}
	return dst, false
}

// plainText returns how much of s, from its start, is ASCII that stands in a JSON string as it is.
func plainText(s []byte) int {
	i := 0
	for ; len(s)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		quote, escape := w^'"'*everyByte, w^'\\'*everyByte
		found := (quote-everyByte)&^quote | (escape-everyByte)&^escape | (w-' '*everyByte)&^w | w
		if found &= everyHigh; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// AppendQuickDouble is changelog.AppendJavaDouble for numbers of at most six digits behind the point, from a thousandth up to ten million: Java
// lays them out plainly. Numbers so far apart have no two such decimals in the space that is nearer to f than to its neighbours, so that
// these digits are the ones that Java's search ends with.
func AppendQuickDouble(dst []byte, f float64) ([]byte, bool) {
	a := math.Abs(f)
	if !(a >= 1e-3 && a < 1e7) {
		return dst, false
	}
	u := uint64(a*1e6 + 0.5)
	if float64(u)/1e6 != a {
		return dst, false
	}
	if f < 0 {
		dst = append(dst, '-')
	}
	dst = append(strconv.AppendUint(dst, u/1e6, 10), '.')
	fraction, width := u%1e6, 6
	for width > 1 && fraction%10 == 0 {
		fraction /= 10
		width--
	}
	return appendDigits(dst, fraction, width), true
}

// appendQuickStripped is appendStripped for a DECIMAL of its column's scale.
func appendQuickStripped(dst []byte, v *changelog.Value, columnScale int) ([]byte, bool) {
	hi, u, scale := v.Decimal()
	negative := false
	if scale != columnScale {
		return dst, false
	}
	if hi == -1 && u != 0 {
		hi, u = 0, -u
		negative = true
	}
	if hi != 0 || u >= tens[maxQuick] || scale > maxQuick {
		return dst, false
	}
	for scale > 0 && u%10 == 0 {
		u /= 10
		scale--
	}
	whole, fraction := u/tens[scale], u%tens[scale]
	if scale == 0 && u != 0 && u%10 == 0 || scale > 6 && u < tens[scale-6] {
		return dst, false // Java writes an exponent
	}
	if negative {
		dst = append(dst, '-')
	}
	dst = strconv.AppendUint(dst, whole, 10)
	if scale == 0 {
		return dst, true
	}
	return appendDigits(append(dst, '.'), fraction, scale), true
}

// appendDigits appends u in so many digits, at most 18.
func appendDigits(dst []byte, u uint64, width int) []byte {
	var buf [maxQuick]byte
	for i := width - 1; i >= 0; i-- {
		buf[i] = '0' + byte(u%10)
		u /= 10
	}
	return append(dst, buf[:width]...)
}

// AppendQuickTimestamp appends yyyy-MM-dd HH:mm:ss, with between in between, and as many digits of a fraction as there are, in the years 0 to
// 9999.
func AppendQuickTimestamp(dst []byte, sec int64, nanos int32, between byte) ([]byte, bool) {
	const firstSecond, lastSecond = -62_167_219_200, 253_402_300_799
	if sec < firstSecond || sec > lastSecond || nanos < 0 || nanos > 999_999_999 {
		return dst, false
	}
	days := sec / 86400
	clock := int(sec - days*86400)
	if clock < 0 {
		days--
		clock += 86400
	}
	year, month, day := changelog.CivilOf(days)
	buf := [len("2006-01-02 15:04:05.999999999")]byte{4: '-', 7: '-', 10: between, 13: ':', 16: ':', 19: '.'}
	two := func(i, n int) { buf[i], buf[i+1] = '0'+byte(n/10), '0'+byte(n%10) }
	two(0, int(year)/100)
	two(2, int(year)%100)
	two(5, month)
	two(8, day)
	two(11, clock/3600)
	two(14, clock/60%60)
	two(17, clock%60)
	n := len("2006-01-02 15:04:05")
	if nanos > 0 {
		width := 9
		for nanos%1000 == 0 {
			nanos /= 1000
			width -= 3
		}
		for nanos%10 == 0 {
			nanos /= 10
			width--
		}
		n += 1 + width
		for i := n - 1; i > 19; i-- {
			buf[i] = '0' + byte(nanos%10)
			nanos /= 10
		}
	}
	return append(dst, buf[:n]...), true
}

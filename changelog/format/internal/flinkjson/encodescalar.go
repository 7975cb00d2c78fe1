package flinkjson

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// scalar writes a value of a scalar type, which is not NULL and of the type's kind.
func (e *Encoder) scalar(dst []byte, p *plan, v changelog.Value) ([]byte, *Failure) {
	switch v.Kind() {
	case changelog.KindBool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case changelog.KindInt:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case changelog.KindFloat:
		if f := float64(v.Float()); math.IsNaN(f) || math.IsInf(f, 0) {
			return append(changelog.AppendJavaFloat(append(dst, '"'), v.Float()), '"'), nil
		}
		return changelog.AppendJavaFloat(dst, v.Float()), nil
	case changelog.KindDouble:
		if f := v.Double(); math.IsNaN(f) || math.IsInf(f, 0) {
			return append(changelog.AppendJavaDouble(append(dst, '"'), f), '"'), nil
		}
		return changelog.AppendJavaDouble(dst, v.Double()), nil
	case changelog.KindDecimal:
		v, f := inScale(v, p.typ)
		if f != nil {
			return dst, f
		}
		switch {
		case e.PlainDecimals && e.flink.Since(changelog.Flink2_0):
			return changelog.AppendDecimal(dst, v), nil
		case e.PlainDecimals:
			return trimDecimal(changelog.AppendDecimal(dst, v), len(dst)), nil
		}
		return appendStripped(dst, v), nil
	case changelog.KindString:
		dst, ok := appendText(dst, v.Bytes())
		if !ok {
			return dst, misfitf("the text is not UTF-8").As(changelog.Malformed)
		}
		return dst, nil
	case changelog.KindBytes:
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v.Bytes()), '"'), nil
	case changelog.KindDate:
		return append(changelog.AppendText(append(dst, '"'), p.typ, v), '"'), nil
	case changelog.KindTime:
		if e.flink.Since(changelog.Flink2_3) {
			return e.millis(dst, v)
		}
		if v.Time()%1e9 != 0 && !e.lenient {
			return dst, misfitf("a TIME with a fraction of a second, which Flink would cut off").As(changelog.OutOfRange)
		}
		return append(changelog.AppendText(append(dst, '"'), &wholeSeconds, v), '"'), nil
	case changelog.KindTimestamp, changelog.KindTimestampLTZ:
		return e.timestamp(dst, v), nil
	}
	return dst, misfitf("JSON has no type " + p.typ.String())
}

var (
	wholeSeconds = changelog.Type{Root: changelog.RootTime}
	milliseconds = changelog.Type{Root: changelog.RootTime, Precision: 3}
	nanoseconds  = changelog.Type{Root: changelog.RootTimestamp, Precision: 9}
)

// millis writes a TIME as Flink 2.3 does: with as many digits of its milliseconds as it has.
func (e *Encoder) millis(dst []byte, v changelog.Value) ([]byte, *Failure) {
	if v.Time()%1e6 != 0 && !e.lenient {
		return dst, misfitf("a TIME with a fraction of a millisecond, which Flink would cut off").As(changelog.OutOfRange)
	}
	start := len(dst)
	dst = changelog.AppendText(append(dst, '"'), &milliseconds, v)
	return append(trimDecimal(dst, start), '"'), nil
}

// trimDecimal takes the zeros off that end the fraction of the number or time that begins at start.
func trimDecimal(dst []byte, start int) []byte {
	if bytes.IndexByte(dst[start:], '.') < 0 {
		return dst
	}
	dst = bytes.TrimRight(dst, "0")
	if n := len(dst) - 1; dst[n] == '.' {
		dst = dst[:n]
	}
	return dst
}

// timestamp writes as many digits of the fraction as the value has, whatever the type's precision (TimeFormats).
func (e *Encoder) timestamp(dst []byte, v changelog.Value) []byte {
	dst = changelog.AppendText(append(dst, '"'), &nanoseconds, v)
	if e.ISO {
		dst[len(dst)-len(" 00:00:00.000000000")] = 'T'
	}
	dst = bytes.TrimRight(dst, "0")
	if n := len(dst) - 1; dst[n] == '.' {
		dst = dst[:n]
	}
	if v.Kind() == changelog.KindTimestampLTZ {
		dst = append(dst, 'Z')
	}
	return append(dst, '"')
}

// inScale gives a DECIMAL the scale of its column, as Flink's DECIMALs have it. Digits are never rounded away.
func inScale(v changelog.Value, t *changelog.Type) (changelog.Value, *Failure) {
	hi, lo, scale := v.Decimal()
	if scale == t.Scale {
		return v, nil
	}
	out, err := changelog.RescaleDecimal(v, t.Precision, t.Scale)
	if err == nil {
		var back changelog.Value
		if back, err = changelog.RescaleDecimal(out, changelog.MaxPrecision, scale); err == nil {
			if h, l, _ := back.Decimal(); h == hi && l == lo {
				return out, nil
			}
		}
	}
	return v, misfitf("the number has more digits than " + t.String() + " holds").As(changelog.OutOfRange)
}

// appendStripped is BigDecimal.stripTrailingZeros().toString(), which has an exponent where the number ends with zeros before the point or
// is less than a millionth.
func appendStripped(dst []byte, v changelog.Value) []byte {
	var buf [48]byte
	text := changelog.AppendDecimal(buf[:0], v)
	whole, fraction, _ := bytes.Cut(text, []byte("."))
	fraction = bytes.TrimRight(fraction, "0")
	zero := len(whole) == 1 && whole[0] == '0' || len(whole) == 2 && whole[0] == '-' && whole[1] == '0'
	switch {
	case len(fraction) > 0 && !(zero && bytes.HasPrefix(fraction, []byte("000000"))):
		return append(dst, text[:len(whole)+1+len(fraction)]...)
	case len(fraction) == 0 && (zero || whole[len(whole)-1] != '0'):
		return append(dst, whole...)
	}
	stripped, _ := bigDecimal(text) // always ok: there is no exponent
	return append(dst, stripped...)
}

// appendText appends s as Jackson's UTF8JsonGenerator writes strings and names: characters beyond U+FFFF, and lone surrogates, as escapes
// of their UTF-16. It is not ok where s is not UTF-8 (see changelog.StringValue).
func appendText(dst, s []byte) (out []byte, ok bool) {
	dst = append(dst, '"')
	start := 0 // of what is not written yet
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = appendEscaped(append(dst, s[start:i]...), c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRune(s[i:])
		switch {
		case n > 1 && r <= 0xFFFF:
			i += n
			continue
		case n > 1:
			r -= 0x10000
			dst = appendUnitEscape(append(dst, s[start:i]...), uint16(0xD800|r>>10))
			dst = appendUnitEscape(dst, uint16(0xDC00|r&0x3FF))
		case len(s)-i >= 3 && c == 0xED && s[i+1] >= 0xA0 && s[i+1] <= 0xBF && s[i+2] >= 0x80 && s[i+2] <= 0xBF:
			dst = appendUnitEscape(append(dst, s[start:i]...), 0xD000|uint16(s[i+1]&0x3F)<<6|uint16(s[i+2]&0x3F))
			n = 3
		default:
			return dst, false
		}
		i += n
		start = i
	}
	return append(append(dst, s[start:]...), '"'), true
}

func appendUnitEscape(dst []byte, u uint16) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}

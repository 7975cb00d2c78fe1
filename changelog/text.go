package changelog

import (
	"encoding/hex"
	"strconv"
)

// AppendText appends the text that Flink's CAST(x AS STRING) gives for a scalar v of type t, with a session in UTC:
//
//	BOOLEAN         TRUE, FALSE
//	FLOAT, DOUBLE   as Java prints them, see [AppendJavaDouble]
//	DECIMAL         plain digits, all of the scale
//	DATE            2024-02-29
//	TIME(p)         12:34:56, then up to p digits of the fraction, trailing zeros cut off
//	TIMESTAMP(p)    2024-02-29 12:34:56.789, always p digits of the fraction; what is finer is cut off
//	INTERVAL        +1-02 (years, months), +3 04:05:06.789 (days and milliseconds)
//	CHAR .. STRING  as they are
//	BINARY .. BYTES lower-case hex, which the cast itself does not do: it would read them as UTF-8
//
// t gives the precision and tells an INTERVAL from a number; the rest follows from the value. Years beyond 0 to 9999, which
// the cast prints wrongly, have the form of java.time: +12024-01-01, -0001-12-31.
//
// Nothing is appended for NULL and for Unchanged, which have no text, and for ARRAY, MAP, MULTISET and ROW.
func AppendText(dst []byte, t *Type, v Value) []byte {
	switch v.kind {
	case KindBool:
		if v.Bool() {
			return append(dst, "TRUE"...)
		}
		return append(dst, "FALSE"...)
	case KindInt:
		switch t.Root {
		case RootIntervalYearMonth:
			return appendMonths(dst, v.Int())
		case RootIntervalDayTime:
			return appendMillis(dst, v.Int())
		}
		return strconv.AppendInt(dst, v.Int(), 10)
	case KindFloat:
		return AppendJavaFloat(dst, v.Float())
	case KindDouble:
		return AppendJavaDouble(dst, v.Double())
	case KindDecimal:
		return AppendDecimal(dst, v)
	case KindString:
		return append(dst, v.Bytes()...)
	case KindBytes:
		return hex.AppendEncode(dst, v.Bytes())
	case KindDate:
		return appendDate(dst, v.Date())
	case KindTime:
		return appendTime(dst, v.Time(), t.Precision)
	case KindTimestamp, KindTimestampLTZ:
		sec, nsec := v.Timestamp()
		return appendTimestamp(dst, sec, nsec, t.Precision)
	}
	return dst
}

const (
	secondsPerDay = 86400
	nanosPerSec   = 1e9
)

func appendDate(dst []byte, days int64) []byte {
	year, month, day := CivilOf(days)
	switch {
	case year > 9999:
		dst = append(dst, '+')
		dst = strconv.AppendInt(dst, year, 10)
	case year < 0:
		dst = append(dst, '-')
		dst = appendPadded(dst, uint64(-year), 4)
	default:
		dst = appendPadded(dst, uint64(year), 4)
	}
	dst = append(dst, '-')
	dst = appendPadded(dst, uint64(month), 2)
	dst = append(dst, '-')
	return appendPadded(dst, uint64(day), 2)
}

func appendClock(dst []byte, secondOfDay int64) []byte {
	s := uint64(secondOfDay)
	dst = appendPadded(dst, s/3600, 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, s/60%60, 2)
	dst = append(dst, ':')
	return appendPadded(dst, s%60, 2)
}

// appendTime follows Flink's DateTimeUtils.formatTimeMillis: the fraction ends with its last digit that is not zero, but for the
// first one.
func appendTime(dst []byte, nanos int64, precision int) []byte {
	sec := floorDiv(nanos, nanosPerSec)
	nsec := nanos - sec*nanosPerSec
	dst = appendClock(dst, sec-floorDiv(sec, secondsPerDay)*secondsPerDay)
	if precision <= 0 {
		return dst
	}
	start := len(dst) + len(".0")
	dst = appendFraction(dst, nsec, precision)
	for len(dst) > start && dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

func appendTimestamp(dst []byte, sec int64, nsec int32, precision int) []byte {
	days := floorDiv(sec, secondsPerDay)
	dst = appendDate(dst, days)
	dst = append(dst, ' ')
	dst = appendClock(dst, sec-days*secondsPerDay)
	return appendFraction(dst, int64(nsec), precision)
}

// appendFraction appends the first digits of nanoseconds, and nothing for no digits.
func appendFraction(dst []byte, nanos int64, digits int) []byte {
	if digits <= 0 {
		return dst
	}
	digits = min(digits, 9)
	dst = append(dst, '.')
	return appendPadded(dst, uint64(nanos)/pow10[9-digits].lo, digits)
}

func appendMonths(dst []byte, months int64) []byte {
	dst, m := appendSign(dst, months)
	dst = strconv.AppendUint(dst, m/12, 10)
	dst = append(dst, '-')
	return appendPadded(dst, m%12, 2)
}

func appendMillis(dst []byte, millis int64) []byte {
	dst, m := appendSign(dst, millis)
	dst = strconv.AppendUint(dst, m/(secondsPerDay*1000), 10)
	dst = append(dst, ' ')
	dst = appendClock(dst, int64(m/1000%secondsPerDay))
	dst = append(dst, '.')
	return appendPadded(dst, m%1000, 3)
}

// appendSign appends + or - and returns the magnitude.
func appendSign(dst []byte, i int64) ([]byte, uint64) {
	if i < 0 {
		return append(dst, '-'), -uint64(i)
	}
	return append(dst, '+'), uint64(i)
}

func appendPadded(dst []byte, u uint64, width int) []byte {
	var buf [20]byte
	digits := strconv.AppendUint(buf[:0], u, 10)
	for i := len(digits); i < width; i++ {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

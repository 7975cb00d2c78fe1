package postgres

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// This file holds the binary forms of scalars, as the server's typreceive functions read them.

var (
	errKind    = errors.New("the value is of another type than the column was declared with")
	errRange   = errors.New("the number is out of the range of the column's type")
	errScale   = errors.New("the number has more digits after the point than the column keeps")
	errTooLong = errors.New("the text is longer than the column's length")
	errNUL     = errors.New("the text holds a NUL character, which Postgres cannot store")
	errUTF8    = errors.New("the text is not valid UTF-8 (half a surrogate pair), which Postgres cannot store")
	errDate    = errors.New("the date is out of Postgres' range, 4713 BC to 5874897 AD")
	errInstant = errors.New("the timestamp is out of Postgres' range, 4713 BC to 294276 AD")
	errTime    = errors.New("the time is not within a day")
	errFiner   = errors.New("the time has more digits of a second than the column keeps")
)

// The epoch of Postgres' dates and timestamps is 2000-01-01. Bounds from the server's datatype/timestamp.h.
const (
	epochDays    = 10957
	epochSeconds = epochDays * 86400
	minDate      = -2451545             // 4714-11-24 BC, from 2000-01-01
	endDate      = 2147483494 - 2451545 // 5874898-01-01
	minMicros    = -211813488000000000
	endMicros    = 9223371331200000000
)

func putBool(dst []byte, v changelog.Value) ([]byte, error) {
	if v.Kind() != changelog.KindBool {
		return dst, errKind
	}
	if v.Bool() {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

// putInt takes whole DECIMALs too.
func putInt(size int) encoder {
	return func(dst []byte, v changelog.Value) ([]byte, error) {
		n := v.Int()
		switch v.Kind() {
		case changelog.KindInt:
		case changelog.KindDecimal:
			hi, lo, scale := v.Decimal()
			if n = int64(lo); scale != 0 || hi != n>>63 {
				return dst, errRange
			}
		default:
			return dst, errKind
		}
		switch {
		case size == 2 && int64(int16(n)) == n:
			return binary.BigEndian.AppendUint16(dst, uint16(n)), nil
		case size == 4 && int64(int32(n)) == n:
			return binary.BigEndian.AppendUint32(dst, uint32(n)), nil
		case size == 8:
			return binary.BigEndian.AppendUint64(dst, uint64(n)), nil
		}
		return dst, errRange
	}
}

func putFloat4(dst []byte, v changelog.Value) ([]byte, error) {
	f := v.Float()
	switch v.Kind() {
	case changelog.KindFloat:
	case changelog.KindInt: // TINYINT, SMALLINT: exact
		f = float32(v.Int())
	default:
		return dst, errKind
	}
	return binary.BigEndian.AppendUint32(dst, math.Float32bits(f)), nil
}

func putFloat8(dst []byte, v changelog.Value) ([]byte, error) {
	f := v.Double()
	switch v.Kind() {
	case changelog.KindDouble:
	case changelog.KindFloat:
		f = float64(v.Float())
	case changelog.KindInt: // TINYINT to INT: exact
		f = float64(v.Int())
	default:
		return dst, errKind
	}
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(f)), nil
}

// putString writes text of at most limit characters; 0 is no limit.
func putString(limit int) encoder {
	return func(dst []byte, v changelog.Value) ([]byte, error) {
		if v.Kind() != changelog.KindString {
			return dst, errKind
		}
		s := v.Str()
		if err := checkText(s); err != nil {
			return dst, err
		}
		if limit > 0 && len(s) > limit && utf8.RuneCountInString(s) > limit {
			return dst, errTooLong
		}
		return append(dst, s...), nil
	}
}

func checkText(s string) error {
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return errNUL
	case !utf8.ValidString(s):
		return errUTF8
	}
	return nil
}

func putBytes(dst []byte, v changelog.Value) ([]byte, error) {
	if v.Kind() != changelog.KindBytes {
		return dst, errKind
	}
	return append(dst, v.Bytes()...), nil
}

func putDate(dst []byte, v changelog.Value) ([]byte, error) {
	d := v.Date() - epochDays
	switch {
	case v.Kind() != changelog.KindDate:
		return dst, errKind
	case d < minDate || d >= endDate:
		return dst, errDate
	}
	return binary.BigEndian.AppendUint32(dst, uint32(int32(d))), nil
}

func putTime(unit int64, truncate bool) encoder {
	return func(dst []byte, v changelog.Value) ([]byte, error) {
		n := v.Time()
		switch {
		case v.Kind() != changelog.KindTime:
			return dst, errKind
		case n < 0 || n >= 86400e9:
			return dst, errTime
		case n%unit != 0 && !truncate:
			return dst, errFiner
		}
		return binary.BigEndian.AppendUint64(dst, uint64((n-n%unit)/1000)), nil
	}
}

func putTimestamp(kind changelog.ValueKind, unit int64, truncate bool) encoder {
	return func(dst []byte, v changelog.Value) ([]byte, error) {
		sec, nsec := v.Timestamp()
		sub := int64(nsec)
		switch {
		case v.Kind() != kind:
			return dst, errKind
		case sec < minMicros/1000000+epochSeconds || sec >= endMicros/1000000+epochSeconds:
			return dst, errInstant
		case sub%unit != 0 && !truncate:
			return dst, errFiner
		}
		return binary.BigEndian.AppendUint64(dst, uint64((sec-epochSeconds)*1000000+(sub-sub%unit)/1000)), nil
	}
}

// putMonths writes a year-month INTERVAL.
func putMonths(dst []byte, v changelog.Value) ([]byte, error) {
	n := v.Int()
	switch {
	case v.Kind() != changelog.KindInt:
		return dst, errKind
	case int64(int32(n)) != n:
		return dst, errRange
	}
	return appendInterval(dst, 0, int32(n)), nil
}

// putMillis writes a day-time INTERVAL, which is a number of milliseconds. It stays a length of time: no days come of it, which in
// Postgres can have 23 or 25 hours. (justify_hours makes them.)
func putMillis(dst []byte, v changelog.Value) ([]byte, error) {
	n := v.Int()
	switch {
	case v.Kind() != changelog.KindInt:
		return dst, errKind
	case n > math.MaxInt64/1000 || n < math.MinInt64/1000:
		return dst, errRange
	}
	return appendInterval(dst, n*1000, 0), nil
}

func appendInterval(dst []byte, micros int64, months int32) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(micros))
	dst = binary.BigEndian.AppendUint32(dst, 0) // days
	return binary.BigEndian.AppendUint32(dst, uint32(months))
}

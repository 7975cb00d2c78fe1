package postgres

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
)

// putArray writes the text form of a one-dimensional Postgres array. Each element goes through its own encoder first, for its
// checks. asText: elements are stored as text.
func putArray(elem *changelog.Type, check encoder, asText bool) encoder {
	return func(dst []byte, v changelog.Value) ([]byte, error) {
		if v.Kind() != changelog.KindArray {
			return dst, errKind
		}
		dst = append(dst, '{')
		for i, e := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			switch e.Kind() {
			case changelog.KindNull:
				dst = append(dst, "NULL"...)
				continue
			case changelog.KindUnchanged:
				return dst, errUnchangedInside
			}
			checked, err := check(dst, e)
			if err != nil {
				return dst, err
			}
			dst = appendElement(checked[:len(dst)], elem, e, asText)
		}
		return append(dst, '}'), nil
	}
}

func appendElement(dst []byte, t *changelog.Type, v changelog.Value, asText bool) []byte {
	var text []byte
	switch {
	case v.Kind() == changelog.KindString:
		text = v.Bytes()
	case asText:
		text = changelog.AppendText(nil, t, v)
	default:
		text = appendInput(nil, t, v)
	}
	dst = append(dst, '"')
	for _, c := range text {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

// appendInput appends the text that Postgres' input function reads under every setting of DateStyle and the like.
func appendInput(dst []byte, t *changelog.Type, v changelog.Value) []byte {
	switch v.Kind() {
	case changelog.KindFloat:
		// The digits of the double that equals it: those of the float would be another number where elements are double precision.
		return appendFloatInput(dst, float64(v.Float()))
	case changelog.KindDouble:
		return appendFloatInput(dst, v.Double())
	case changelog.KindBytes:
		return hex.AppendEncode(append(dst, `\x`...), v.Bytes())
	case changelog.KindDate:
		return appendEra(dst, v.Date(), "")
	case changelog.KindTimestamp, changelog.KindTimestampLTZ:
		sec, nsec := v.Timestamp()
		days := (sec - ((sec%86400)+86400)%86400) / 86400
		clock := changelog.AppendText([]byte{' '}, &changelog.Type{Root: changelog.RootTime, Precision: min(t.Precision, 6)},
			changelog.TimeValue((sec-days*86400)*1e9+int64(nsec)))
		if v.Kind() == changelog.KindTimestampLTZ {
			clock = append(clock, "+00"...)
		}
		return appendEra(dst, days, string(clock))
	case changelog.KindTime:
		return changelog.AppendText(dst, &changelog.Type{Root: changelog.RootTime, Precision: min(t.Precision, 6)}, v)
	}
	return changelog.AppendText(dst, t, v)
}

func appendFloatInput(dst []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// appendEra appends a date with its clock, and the era where it is before year 1.
func appendEra(dst []byte, days int64, clock string) []byte {
	year, month, day := changelog.CivilOf(days)
	era := ""
	if year < 1 {
		year, era = 1-year, " BC"
	}
	return fmt.Appendf(dst, "%04d-%02d-%02d%s%s", year, month, day, clock, era)
}

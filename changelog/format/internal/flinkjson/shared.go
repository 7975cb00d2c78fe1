package flinkjson

import (
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
)

// What other formats of text share with JSON: Java's and Jackson's rules for what stands in it.

// UnknownOption says that a format does not have an option, and which of its own is the nearest.
func UnknownOption(format, name string, known []string) error {
	return fmt.Errorf("%s: unknown option '%s'; the nearest that the format has is '%s'", format, name, nearest(name, known))
}

// Trim is String.trim: blanks and control characters.
func Trim(s []byte) []byte {
	if len(s) > 0 && s[0] > ' ' && s[len(s)-1] > ' ' {
		return s
	}
	return trim(s)
}

// Integer is Long.parseLong.
func Integer(s []byte) (int64, bool) { return javaInt(s) }

// Float is Double.parseDouble and Float.parseFloat of a trimmed text. beyond reports a number whose size made it an infinity.
func Float(s []byte, bits int) (f float64, beyond, ok bool) { return javaFloat(s, bits) }

// Decimal is new BigDecimal and DecimalData.fromBigDecimal. beyond reports a number with more digits than t has, which Flink reads as NULL.
func Decimal(s []byte, t *changelog.Type) (v changelog.Value, beyond, ok bool) {
	v, err := changelog.ParseDecimal(asciiDigits(s), t.Precision, t.Scale)
	beyond = errors.Is(err, changelog.ErrDecimalOverflow)
	return v, beyond, err == nil || beyond
}

// Temporal reads a TIME, TIMESTAMP or TIMESTAMP_LTZ in the form that Flink calls SQL. guess reports that the value is not what the text says.
func Temporal(root changelog.Root, s []byte) (v changelog.Value, guess, ok bool) {
	return parseTemporal(root, false, false, s)
}

// TimeMillis is Temporal for a TIME that keeps its milliseconds.
func TimeMillis(s []byte) (v changelog.Value, guess, ok bool) {
	return parseTemporal(changelog.RootTime, false, true, s)
}

// Base64 is TextNode.getBinaryValue.
func Base64(s []byte) ([]byte, bool) {
	out, f := base64Text(s)
	return out, f == nil
}

// AppendUnit appends one unit of UTF-16 in UTF-8. A low surrogate joins the high one that dst ends with; a lone one keeps its three-byte form.
func AppendUnit(dst []byte, u uint16) []byte { return appendUnit(dst, u) }

// Transcode finds a byte order mark, or UTF-16 or UTF-32 by their zeros, as Jackson does, and returns the text in UTF-8 without the mark. wide
// reports that it was not UTF-8.
func Transcode(p []byte) (text []byte, wide bool, f *Failure) { return transcode(p) }

// InScale gives a DECIMAL the scale of its column, as Flink's DECIMALs have it. Digits are never rounded away.
func InScale(v changelog.Value, t *changelog.Type) (changelog.Value, *Failure) { return inScale(v, t) }

// AppendString appends s as a JSON string, as Jackson's UTF8JsonGenerator does. It is not ok where s is not UTF-8.
func AppendString(dst, s []byte) (out []byte, ok bool) { return appendText(dst, s) }

// Final reports that nothing hides f.
func (f *Failure) Final() bool { return f.kind == final }

// Err is what callers of a format see of f: a *changelog.DataError.
func (f *Failure) Err() error { return f.dataError() }

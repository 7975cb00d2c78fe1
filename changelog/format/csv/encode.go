package csv

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// encoder follows CsvRowDataSerializationSchema and Jackson's CsvEncoder. It does not change after it was made.
type encoder struct {
	options
	columns []column
	flink   changelog.FlinkVersion
	unsafe  rune // a text is quoted that has a character not above this one
	special rune // or this one: the escape character, or what Jackson would escape control characters with if it were told to
}

// AppendPayload implements [changelog.PayloadEncoder]. The payload is the row whatever the change's kind; it is never null.
func (e *encoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	out = dst
	for i := range e.columns {
		col := &e.columns[i]
		if i > 0 {
			out = append(out, e.delimiter...)
		}
		var f *failure
		if col.slot >= len(c.Row) {
			f = flinkjson.Misfit(changelog.SchemaMismatch, "the row does not have this column")
		} else if quick, ok := e.quick(out, col.typ, &c.Row[col.slot]); ok {
			out = quick
		} else {
			out, f = e.cell(out, col.typ, c.Row[col.slot])
		}
		if f != nil {
			return dst, false, f.At(col.name).Err()
		}
	}
	return out, false, nil
}

// cell appends a value as a cell.
func (e *encoder) cell(dst []byte, t *changelog.Type, v changelog.Value) ([]byte, *failure) {
	if v.IsNull() {
		return append(dst, e.null...), nil
	}
	if f := fits(t, v); f != nil {
		return dst, f
	}
	start, isText := len(dst), true
	var f *failure
	switch v.Kind() {
	case changelog.KindString:
		dst = append(dst, v.Bytes()...)
	case changelog.KindArray:
		for i, elem := range v.Elems() {
			if dst, f = e.element(dst, i, t.Elem, elem); f != nil {
				return dst, f.AtElement(i)
			}
		}
	case changelog.KindRow:
		fields := v.Elems()
		if len(fields) != len(t.Fields) {
			return dst, flinkjson.Misfit(changelog.SchemaMismatch, "the ROW does not have the fields of "+t.String())
		}
		for i, elem := range fields {
			if dst, f = e.element(dst, i, &t.Fields[i].Type, elem); f != nil {
				return dst, f.At(t.Fields[i].Name)
			}
		}
	default:
		dst, isText, f = e.scalar(dst, t, v)
	}
	if f != nil || !isText {
		return dst, f // numbers and booleans, which Jackson never quotes
	}
	return e.text(dst, start)
}

// element appends a value of an ARRAY or ROW. Whether there are quotes is up to the whole cell.
func (e *encoder) element(dst []byte, i int, t *changelog.Type, v changelog.Value) ([]byte, *failure) {
	if i > 0 {
		dst = append(dst, e.between...)
	}
	if v.IsNull() {
		return append(dst, e.null...), nil
	}
	if f := fits(t, v); f != nil {
		return dst, f
	}
	if v.Kind() == changelog.KindString {
		return append(dst, v.Bytes()...), nil
	}
	dst, _, f := e.scalar(dst, t, v)
	return dst, f
}

// scalar is the function of that name for the Flink that is followed: before 2.0 a DECIMAL has no zeros at its end, and before 2.1, whose
// Jackson is another, it has the quotes that a text would have.
func (e *encoder) scalar(dst []byte, t *changelog.Type, v changelog.Value) (out []byte, isText bool, f *failure) {
	out, isText, f = scalar(dst, t, v)
	if f != nil || v.Kind() != changelog.KindDecimal || e.flink.Since(changelog.Flink2_1) {
		return out, isText, f
	}
	if !e.flink.Since(changelog.Flink2_0) && bytes.IndexByte(out[len(dst):], '.') >= 0 {
		out = bytes.TrimSuffix(bytes.TrimRight(out, "0"), []byte("."))
	}
	return out, true, nil
}

// fits reports what v is that is no value of type t.
func fits(t *changelog.Type, v changelog.Value) *failure {
	switch {
	case v.IsUnchanged():
		return flinkjson.Misfit(changelog.Missing, "the value was not sent by its source (Unchanged), and CSV has no word for that")
	case v.Kind() != t.Root.ValueKind():
		return flinkjson.Misfit(changelog.WrongType, "the row has a value of another type here; the column is "+t.String())
	}
	return nil
}

var nanoseconds = changelog.Type{Root: changelog.RootTimestamp, Precision: 9}
var milliseconds = changelog.Type{Root: changelog.RootTime, Precision: 3}

// scalar appends the text of a value that is neither a text nor made of others. isText reports that Jackson takes it for a text.
func scalar(dst []byte, t *changelog.Type, v changelog.Value) (out []byte, isText bool, f *failure) {
	switch v.Kind() {
	case changelog.KindBool:
		return strconv.AppendBool(dst, v.Bool()), false, nil
	case changelog.KindInt:
		return strconv.AppendInt(dst, v.Int(), 10), false, nil
	case changelog.KindFloat:
		return changelog.AppendJavaFloat(dst, v.Float()), false, nil
	case changelog.KindDouble:
		return changelog.AppendJavaDouble(dst, v.Double()), false, nil
	case changelog.KindDecimal:
		v, f := flinkjson.InScale(v, t)
		if f != nil {
			return dst, false, f
		}
		return changelog.AppendDecimal(dst, v), false, nil
	case changelog.KindBytes:
		return base64.StdEncoding.AppendEncode(dst, v.Bytes()), true, nil
	case changelog.KindDate:
		return changelog.AppendText(dst, t, v), true, nil
	case changelog.KindTime:
		return trimFraction(changelog.AppendText(dst, &milliseconds, v)), true, nil
	case changelog.KindTimestamp:
		return trimFraction(changelog.AppendText(dst, &nanoseconds, v)), true, nil
	case changelog.KindTimestampLTZ:
		return append(trimFraction(changelog.AppendText(dst, &nanoseconds, v)), 'Z'), true, nil
	}
	return dst, false, flinkjson.Misfit(changelog.WrongType, "CSV has no type "+t.String())
}

// trimFraction takes from a text that ends with a fraction the zeros that it ends with.
func trimFraction(s []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimRight(s, "0"), []byte("."))
}

// text puts the text that begins at start in quotes if Jackson would.
func (e *encoder) text(dst []byte, start int) ([]byte, *failure) {
	s := dst[start:]
	if !utf8.Valid(s) {
		return dst, flinkjson.Misfit(changelog.Malformed, "the text is not UTF-8, or has a lone surrogate, which Flink cannot write")
	}
	if e.quote == "" || !e.needsQuotes(s) {
		return dst, nil
	}
	n := len(s)
	out := e.quoted(dst, s) // behind the text, which it then takes the place of
	return out[:start+copy(out[start:], out[start+n:])], nil
}

// quoted appends s in quotes, with quotes and escape characters doubled.
func (e *encoder) quoted(dst, s []byte) []byte {
	dst = append(dst, e.quote...)
	start := 0 // of what is not written yet
	quote, escape := e.quote[0], e.quote[0]
	if e.escape != "" {
		escape = e.escape[0]
	}
	for i, c := range s {
		if c != quote && c != escape {
			continue
		}
		for _, special := range [...]string{e.quote, e.escape} {
			if special != "" && bytes.HasPrefix(s[i:], []byte(special)) {
				dst = append(append(dst, s[start:i]...), special...)
				start = i // it is written once more
				break
			}
		}
	}
	return append(append(dst, s[start:]...), e.quote...)
}

// maxUnquoted is CsvEncoder.MAX_QUOTE_CHECK, in units of UTF-16.
const maxUnquoted = 24

// needsQuotes is CsvEncoder._mayNeedQuotes without STRICT_CHECK_FOR_QUOTING.
func (e *encoder) needsQuotes(s []byte) bool {
	if len(s) > 3*maxUnquoted {
		return true // no unit takes more than three bytes
	}
	units := 0
	for _, r := range string(s) {
		units++
		switch {
		case r <= e.unsafe || r == e.special:
			return true
		case r > 0xFFFF:
			units++
			// Jackson looks at the two surrogates, of which the first is the lesser.
			if 0xD800+(r-0x10000)>>10 <= e.unsafe {
				return true
			}
		}
	}
	return units > maxUnquoted
}

package avro

import (
	"math"
	"strconv"
	"sync/atomic"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// jsonEncoder writes Avro's JSON encoding. Flink keeps one of Avro's encoders for all messages, which puts a line feed before each but the
// first.
type jsonEncoder struct {
	encoder
	begun atomic.Bool
}

// AppendPayload implements [changelog.PayloadEncoder]. It is never null.
func (e *jsonEncoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	out = dst
	if e.begun.Load() {
		out = append(out, '\n')
	}
	for i := range e.columns {
		col := &e.columns[i]
		if i == 0 {
			out = append(out, '{')
		} else {
			out = append(out, ',')
		}
		out, _ = flinkjson.AppendString(out, []byte(col.field)) // a name of Avro is text
		out = append(out, ':')
		f := flinkjson.Misfit(changelog.SchemaMismatch, "the row does not have this column")
		if col.slot < len(c.Row) {
			out, f = e.json(out, &col.plan, c.Row[col.slot])
		}
		if f != nil {
			return dst, false, f.At(col.name).Err()
		}
	}
	e.begun.Store(true)
	return append(out, '}'), false, nil
}

// json writes a value, in the object of its branch where its type is nullable.
func (e *jsonEncoder) json(dst []byte, p *flinkavro.Plan, v changelog.Value) ([]byte, *failure) {
	if f := flinkavro.Fits(p, v); f != nil {
		return dst, f
	}
	if v.IsNull() {
		return append(dst, "null"...), nil
	}
	if p.Type.NotNull {
		return e.inner(dst, p, v)
	}
	dst = append(append(append(dst, '{', '"'), p.Branch()...), '"', ':')
	dst, f := e.inner(dst, p, v)
	return append(dst, '}'), f
}

func (e *jsonEncoder) inner(dst []byte, p *flinkavro.Plan, v changelog.Value) ([]byte, *failure) {
	switch v.Kind() {
	case changelog.KindBool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case changelog.KindFloat:
		if x := float64(v.Float()); math.IsNaN(x) || math.IsInf(x, 0) {
			return dst, noNumber()
		}
		return changelog.AppendJavaFloat(dst, v.Float()), nil
	case changelog.KindDouble:
		if x := v.Double(); math.IsNaN(x) || math.IsInf(x, 0) {
			return dst, noNumber()
		}
		return changelog.AppendJavaDouble(dst, v.Double()), nil
	case changelog.KindString:
		return appendJSONText(dst, v.Bytes())
	case changelog.KindBytes:
		return appendLatin(dst, v.Bytes())
	case changelog.KindDecimal:
		unscaled, f := flinkavro.UnscaledBytes(p.Type, v)
		if f != nil {
			return dst, f
		}
		return appendLatin(dst, unscaled)
	case changelog.KindArray:
		dst = append(dst, '[')
		for i, elem := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			var f *failure
			if dst, f = e.json(dst, p.Elem, elem); f != nil {
				return dst, f.AtElement(i)
			}
		}
		return append(dst, ']'), nil
	case changelog.KindMap:
		entries, f := flinkavro.InHashOrder(v.Elems())
		if f != nil {
			return dst, f
		}
		dst = append(dst, '{')
		for i := range entries {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, f = appendJSONText(dst, []byte(entries[i].Key)); f != nil {
				return dst, f
			}
			if dst, f = e.json(append(dst, ':'), p.Elem, entries[i].Value); f != nil {
				return dst, f.At("[*]")
			}
		}
		return append(dst, '}'), nil
	case changelog.KindRow:
		fields := v.Elems()
		if len(fields) != len(p.Fields) {
			return dst, flinkjson.Misfit(changelog.SchemaMismatch, "the ROW does not have the fields of "+p.Type.String())
		}
		dst = append(dst, '{')
		for i := range fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst, _ = flinkjson.AppendString(dst, []byte(p.Type.Fields[i].Name))
			var f *failure
			if dst, f = e.json(append(dst, ':'), &p.Fields[i], fields[i]); f != nil {
				return dst, f.At(p.Type.Fields[i].Name)
			}
		}
		return append(dst, '}'), nil
	}
	n, f := e.w.Integer(v)
	return strconv.AppendInt(dst, n, 10), f
}

// noNumber is the error for what Flink writes as text, and then fails to read.
func noNumber() *failure {
	return flinkjson.Misfit(changelog.OutOfRange, "not a number, or an infinity, which no reader of Avro's JSON encoding takes")
}

func appendJSONText(dst, s []byte) ([]byte, *failure) {
	out, ok := flinkjson.AppendString(dst, s)
	if !ok {
		return dst, flinkjson.Misfit(changelog.Malformed, "the text is not UTF-8")
	}
	return out, nil
}

// appendLatin writes bytes as the characters of ISO-8859-1 that they are.
func appendLatin(dst, s []byte) ([]byte, *failure) {
	text := make([]byte, 0, 2*len(s))
	for _, c := range s {
		if c < 0x80 {
			text = append(text, c)
		} else {
			text = append(text, 0xC0|c>>6, 0x80|c&0x3F)
		}
	}
	return appendJSONText(dst, text)
}

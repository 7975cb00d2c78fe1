package csv

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// Cells as nearly all lines have them, read and written in one pass. Each reader and writer here does what the general one does; where it
// says no, nothing has happened, and that one looks.

// canQuickly reports whether the options leave cells as simple as the quick reader takes them to be: a delimiter of one byte that is no
// part of a number, another quote of one byte or none, no escapes, and nothing of a cell that is passed over.
func (o *options) canQuickly() bool {
	return len(o.delimiter) == 1 && !strings.ContainsAny(o.delimiter, "0123456789+-.eE\r\n") && len(o.quote) <= 1 && o.quote != o.delimiter && o.escape == "" && !o.trim && !o.emptyNull
}

// quick reads the next cell into its place, if it is of a type that it knows and ends with a delimiter or with the message.
func (l *line) quick(c *column, dst *changelog.Value) bool {
	p, i := l.p, l.i
	if !l.d.quickly || i >= len(p) {
		return false
	}
	if q := l.d.quote; q != "" && p[i] == q[0] {
		switch c.typ.Root {
		case changelog.RootChar, changelog.RootVarchar, changelog.RootTimestamp, changelog.RootTimestampLTZ:
		default:
			return false
		}
		n := bytes.IndexByte(p[i+1:], q[0])
		if n < 0 {
			return false
		}
		end := i + 1 + n
		return l.cellEnds(end+1) && l.text(c, p[i+1:end:end], dst) && l.move(end+1)
	}
	switch c.typ.Root {
	case changelog.RootChar, changelog.RootVarchar, changelog.RootTimestamp, changelog.RootTimestampLTZ:
		end := i
		for end < len(p) && !l.d.special[p[end]] {
			end++
		}
		return l.cellEnds(end) && l.text(c, p[i:end:end], dst) && l.move(end)
	case changelog.RootInt, changelog.RootBigInt, changelog.RootDecimal, changelog.RootDouble:
		n, fraction, end := flinkjson.QuickNumber(p, i)
		if end == 0 || !l.cellEnds(end) || l.d.hasNull && string(p[i:end]) == l.d.null {
			return false
		}
		return number(c.typ, n, fraction, dst) && l.move(end)
	}
	return false
}

// number makes the value of a number's type.
func number(t *changelog.Type, n flinkjson.Quick, fraction int, dst *changelog.Value) bool {
	switch t.Root {
	case changelog.RootDecimal:
		return n.Decimal(t, fraction, dst)
	case changelog.RootDouble:
		return n.Double(fraction, dst)
	}
	v := n.Int()
	if fraction > 0 || t.Root == changelog.RootInt && v != int64(int32(v)) {
		return false
	}
	*dst = changelog.IntValue(v)
	return true
}

// text makes the value of a cell's text.
func (l *line) text(c *column, s []byte, dst *changelog.Value) bool {
	if l.d.hasNull && string(s) == l.d.null {
		return false
	}
	if c.typ.Root == changelog.RootChar || c.typ.Root == changelog.RootVarchar {
		*dst = changelog.StringBytesValue(s)
		return true
	}
	v, ok := flinkjson.QuickTimestamp(c.typ.Root, s)
	if ok {
		*dst = v
	}
	return ok
}

// cellEnds reports whether a cell that ends before i ends there by a delimiter or with the message.
func (l *line) cellEnds(i int) bool { return i >= len(l.p) || l.p[i] == l.d.delimiter[0] }

// move goes on after a cell that ends before i.
func (l *line) move(i int) bool {
	if l.ended = i >= len(l.p); !l.ended {
		i++
	}
	l.i = i
	return true
}

// quick appends a cell of a column's type that needs no second look.
func (e *encoder) quick(dst []byte, t *changelog.Type, v *changelog.Value) ([]byte, bool) {
	kind := v.Kind()
	if kind != t.Root.ValueKind() {
		return dst, false
	}
	switch kind {
	case changelog.KindString:
		return e.quickText(dst, v.Bytes())
	case changelog.KindDouble:
		return flinkjson.AppendQuickDouble(dst, v.Double())
	case changelog.KindTimestamp, changelog.KindTimestampLTZ:
		var buf [len("2006-01-02 15:04:05.999999999Z")]byte
		sec, nanos := v.Timestamp()
		s, ok := flinkjson.AppendQuickTimestamp(buf[:0], sec, nanos, ' ')
		if !ok {
			return dst, false
		}
		if kind == changelog.KindTimestampLTZ {
			s = append(s, 'Z')
		}
		return e.quickText(dst, s)
	}
	return dst, false
}

// quickText appends a text of ASCII that has nothing to double in it.
func (e *encoder) quickText(dst, s []byte) ([]byte, bool) {
	if len(e.quote) != 1 || e.escape != "" {
		return dst, false
	}
	quotes := len(s) > maxUnquoted
	for _, c := range s {
		if c >= utf8.RuneSelf || c == e.quote[0] {
			return dst, false
		}
		quotes = quotes || rune(c) <= e.unsafe || rune(c) == e.special
	}
	if !quotes {
		return append(dst, s...), true
	}
	return append(append(append(dst, e.quote[0]), s...), e.quote[0]), true
}

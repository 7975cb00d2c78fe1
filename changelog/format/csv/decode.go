package csv

import (
	"bytes"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// decoder follows CsvRowDataDeserializationSchema. It does not change after it was made.
type decoder struct {
	options
	columns []column
	lenient bool
	flink   changelog.FlinkVersion
	special [256]bool // the first bytes of what ends an unquoted cell or changes it
	quickly bool      // the options are as simple as nearly always
}

// failure is why a cell, a line or a message cannot be read.
type failure = flinkjson.Failure

// DecodePayload implements [changelog.PayloadDecoder].
func (d *decoder) DecodePayload(b *changelog.Batch, payload []byte, _ *changelog.Record) error {
	row := b.NewRow()
	f := d.message(b, payload, row)
	switch {
	case f == nil:
		b.Append(changelog.Change{Kind: changelog.Insert, Row: row})
		return nil
	case d.ignoreErrors && !f.Final():
		return nil
	}
	return f.Err()
}

// guess returns a failure that nothing hides, or nil when d is lenient.
func (d *decoder) guess(class changelog.DataClass, reason string) *failure {
	if d.lenient {
		return nil
	}
	return flinkjson.Refuse(class, reason)
}

func (d *decoder) message(b *changelog.Batch, p []byte, row changelog.Row) *failure {
	if len(p) == 0 {
		return flinkjson.Misfit(changelog.Missing, "the message is empty")
	}
	p, f := d.text(p)
	if f != nil {
		return f
	}
	l := line{d: d, b: b, p: p}
	if d.comments && !l.skipComments() {
		return flinkjson.Misfit(changelog.Missing, "the message has comments and blanks only")
	}
	n := 0
	for !l.ended {
		if n < len(d.columns) && l.quick(&d.columns[n], &row[d.columns[n].slot]) {
			n++
			continue
		}
		cell, f := l.cell()
		if f != nil {
			return f
		}
		if n == len(d.columns) {
			if l.ended && len(flinkjson.Trim(cell)) == 0 {
				break // Jackson's ALLOW_TRAILING_COMMA
			}
			if d.extra {
				continue
			}
			return flinkjson.Misfit(changelog.SchemaMismatch, "the line has more cells than the table has columns")
		}
		c := &d.columns[n]
		if c.typ.Root == changelog.RootBoolean && d.unreadNull(cell, l.raw) {
			row[c.slot] = changelog.BoolValue(false)
		} else if f := d.column(b, c, cell, row); f != nil {
			return f.At(c.name)
		}
		n++
	}
	if n < len(d.columns) && (d.whole || !d.ignoreErrors) {
		return flinkjson.Misfit(changelog.SchemaMismatch, "the line has fewer cells than the table has columns").At(d.columns[n].name)
	}
	if len(bytes.TrimSpace(p[l.i:])) > 0 {
		return d.guess(changelog.Malformed, "there is text after the first line; Flink would not read it")
	}
	return nil
}

// unreadNull reports a cell that is NULL for who wrote it and not for Flink: nothing, without 'null-literal', or a literal that holds an escape.
// In a BOOLEAN column Flink reads FALSE, and the topics of its own writer are full of such cells, so this is no guess that is reported.
func (d *decoder) unreadNull(cell, raw []byte) bool {
	if d.emptyNull && len(cell) == 0 {
		return false
	}
	if !d.hasNull {
		return len(cell) == 0
	}
	return string(raw) == d.null && string(cell) != d.null
}

// text returns the message in UTF-8, or with lone surrogates in their three-byte form.
func (d *decoder) text(p []byte) ([]byte, *failure) {
	const mark = "\xEF\xBB\xBF"
	if c := p[0]; c == 0 || len(p) > 1 && p[1] == 0 || c >= mark[0] {
		if len(p) == len(mark) && string(p) == mark {
			return p, nil // Jackson looks for marks in four bytes or more
		}
		text, wide, f := flinkjson.Transcode(p)
		if f == nil && wide {
			f = d.guess(changelog.Malformed, "the message is not UTF-8 but UTF-16 or UTF-32")
		}
		if f != nil {
			return nil, f
		}
		p = text
	}
	if utf8.Valid(p) {
		return p, nil
	}
	return d.sloppy(p)
}

// sloppy reads UTF-8 as Jackson's UTF8Reader does, which checks that bytes follow on, not what they make.
func (d *decoder) sloppy(p []byte) ([]byte, *failure) {
	out := make([]byte, 0, len(p))
	odd := false
	for i := 0; i < len(p); {
		c := p[i]
		if c < utf8.RuneSelf {
			out = append(out, c)
			i++
			continue
		}
		var n int
		var r int32
		switch {
		case c&0xE0 == 0xC0:
			n, r = 1, int32(c&0x1F)
		case c&0xF0 == 0xE0:
			n, r = 2, int32(c&0x0F)
		case c&0xF8 == 0xF0:
			n, r = 3, int32(c&0x0F)
		default:
			return nil, flinkjson.Misfit(changelog.Malformed, "the message is not UTF-8")
		}
		if len(p)-i <= n {
			return nil, flinkjson.Misfit(changelog.Malformed, "the message ends inside a character of UTF-8")
		}
		for _, c := range p[i+1 : i+1+n] {
			if c&0xC0 != 0x80 {
				return nil, flinkjson.Misfit(changelog.Malformed, "the message is not UTF-8")
			}
			r = r<<6 | int32(c&0x3F)
		}
		i += 1 + n
		odd = odd || r < [...]int32{1: 0x80, 2: 0x800, 3: 0x10000}[n] || r > utf8.MaxRune
		if n < 3 {
			out = flinkjson.AppendUnit(out, uint16(r))
			continue
		}
		r -= 0x10000
		out = flinkjson.AppendUnit(flinkjson.AppendUnit(out, uint16(0xD800+r>>10)), uint16(0xDC00|r&0x3FF))
	}
	if odd {
		return out, d.guess(changelog.Malformed, "the message has characters in a form that is not valid UTF-8")
	}
	return out, nil
}

package csv

import (
	"bytes"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// line reads the cells of one line, as Jackson's CsvDecoder does.
type line struct {
	d     *decoder
	b     *changelog.Batch // whose arena takes the cells that cannot be a part of the message
	p     []byte
	i     int
	raw   []byte // the last cell, without its quotes, as it stands in the message
	ended bool   // the last cell was the line's last
}

// skipComments skips lines that are empty or begin with #, and the blanks before the first cell. It reports whether anything is left.
func (l *line) skipComments() bool {
	for l.i < len(l.p) {
		switch l.p[l.i] {
		case '#':
			n := bytes.IndexAny(l.p[l.i:], "\r\n")
			if n < 0 {
				return false
			}
			l.i += n + 1
		case '\r', '\n', ' ':
			l.i++
		default:
			return true
		}
	}
	return false
}

// at reports whether c, which is not empty, stands at i.
func (l *line) at(i int, c string) bool {
	return l.p[i] == c[0] && len(l.p)-i >= len(c) && string(l.p[i:i+len(c)]) == c
}

// cell reads the next cell. An end of the message after a delimiter is an empty one.
func (l *line) cell() ([]byte, *failure) {
	if l.d.trim {
		l.skipBlanks()
	}
	if q := l.d.quote; q != "" && l.i < len(l.p) && l.at(l.i, q) {
		return l.quoted()
	}
	start, escaped := l.i, false
	for l.i < len(l.p) {
		c := l.p[l.i]
		if !l.d.special[c] {
			l.i++
			continue
		}
		end := l.i
		switch {
		case l.at(l.i, l.d.delimiter):
			l.i += len(l.d.delimiter)
			return l.unquoted(start, end, escaped), nil
		case c == '\r' || c == '\n':
			l.i++
			l.ended = true
			return l.unquoted(start, end, escaped), nil
		case l.d.escape != "" && l.at(l.i, l.d.escape):
			escaped = true
			if f := l.skipEscaped(); f != nil {
				return nil, f
			}
		default:
			l.i++
		}
	}
	l.ended = true
	return l.unquoted(start, l.i, escaped), nil
}

// skipBlanks skips blanks and control characters before a cell. A line's end and a delimiter that is one end the cell.
func (l *line) skipBlanks() {
	for l.i < len(l.p) && l.p[l.i] <= ' ' && l.p[l.i] != '\r' && l.p[l.i] != '\n' && !l.at(l.i, l.d.delimiter) {
		l.i++
	}
}

// unquoted returns a cell without quotes.
func (l *line) unquoted(start, end int, escaped bool) []byte {
	cell := l.unfold(start, end, escaped, "")
	if l.d.trim {
		cell = trimmed(cell)
	}
	return cell
}

// trimmed is java.lang.String.trim.
func trimmed(s []byte) []byte {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	return s
}

// quoted reads a cell that begins with a quote.
func (l *line) quoted() ([]byte, *failure) {
	quote, escape := l.d.quote, l.d.escape
	l.i += len(quote)
	start, folded := l.i, false
	for l.i < len(l.p) {
		if escape == "" {
			n := bytes.IndexByte(l.p[l.i:], quote[0])
			if n < 0 {
				break
			}
			l.i += n
		}
		switch {
		case l.at(l.i, quote):
			end := l.i
			l.i += len(quote)
			if l.i >= len(l.p) || !l.at(l.i, quote) {
				return l.unfold(start, end, folded, quote), l.afterQuote()
			}
			l.i += len(quote)
			folded = true
		case escape != "" && l.at(l.i, escape):
			folded = true
			if f := l.skipEscaped(); f != nil {
				return nil, f
			}
		default:
			l.i++
		}
	}
	return nil, flinkjson.Misfit(changelog.Malformed, "a quote is not closed")
}

// skipEscaped skips an escape and what it escapes. Of a character of several bytes the others follow as any would: none of them
// begins a character.
func (l *line) skipEscaped() *failure {
	l.i += len(l.d.escape)
	if l.i >= len(l.p) {
		return flinkjson.Misfit(changelog.Malformed, "the message ends after an escape character")
	}
	l.i++
	return nil
}

// unfold returns what the part of the message from start to end stands for. folded says that there are characters escaped in it, or quotes
// doubled; quote is "" where they are characters like others.
func (l *line) unfold(start, end int, folded bool, quote string) []byte {
	l.raw = l.p[start:end:end]
	if !folded {
		return l.raw
	}
	out := l.b.NewBytes(end - start)[:0] // it is never longer
	for i := start; i < end; {
		switch {
		case quote != "" && l.at(i, quote): // the first of two
			out = append(out, quote...)
			i += 2 * len(quote)
		case l.d.escape != "" && l.at(i, l.d.escape):
			i += len(l.d.escape)
			out = append(out, unescaped(l.p[i]))
			i++
		default:
			out = append(out, l.p[i])
			i++
		}
	}
	return out[:len(out):len(out)]
}

// unescaped is what a character after an escape stands for.
func unescaped(c byte) byte {
	switch c {
	case '0':
		return 0
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// afterQuote skips to the next cell. Jackson takes blanks and control characters for nothing.
func (l *line) afterQuote() *failure {
	for l.i < len(l.p) {
		c := l.p[l.i]
		switch {
		case l.at(l.i, l.d.delimiter):
			l.i += len(l.d.delimiter)
			return nil
		case c == '\r' || c == '\n':
			l.i++
			l.ended = true
			return nil
		case c > ' ':
			return flinkjson.Misfit(changelog.Malformed, "a quote is closed before the cell ends")
		}
		l.i++
	}
	l.ended = true
	return nil
}

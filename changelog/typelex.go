package changelog

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEnd    tokenKind = iota
	tokWord             // identifier without quotes
	tokQuoted           // identifier in back-quotes
	tokString           // in single quotes
	tokNumber           // decimal digits
	tokSign             // one of < > ( ) , .
	tokBad              // anything else
)

type typeToken struct {
	kind       tokenKind
	start, end int
	value      string // content, quotes taken off
	upper      string // a word in upper case
}

// describe names the token for an error.
func (t typeToken) describe(text string) string {
	switch t.kind {
	case tokEnd:
		return "the end"
	case tokBad:
		if t.value != "" {
			return t.value
		}
	}
	const limit = 40
	s := text[t.start:t.end]
	if len(s) > limit {
		n := limit
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "..."
	}
	if t.kind == tokSign || t.kind == tokBad {
		return "'" + s + "'"
	}
	return s
}

func quoteSign(c byte) string { return "'" + string(rune(c)) + "'" }

// typeLexer cuts the text of a type into tokens, by the rules of Flink's SQL parser (Calcite with back-quotes).
type typeLexer struct {
	text string
	pos  int
}

func (l *typeLexer) scan() typeToken {
	if bad, ok := l.skipBlanks(); !ok {
		return bad
	}
	start := l.pos
	t := typeToken{start: start, end: start}
	if start == len(l.text) {
		return t
	}
	switch c := l.text[start]; {
	case c == '`':
		return l.quoted('`', tokQuoted, "a name without closing back-quote")
	case c == '\'':
		return l.quoted('\'', tokString, "a string without closing quote")
	case strings.IndexByte("<>(),.", c) >= 0:
		t.kind = tokSign
		l.pos++
	case c >= '0' && c <= '9':
		t.kind = tokNumber
		for l.pos < len(l.text) && l.text[l.pos] >= '0' && l.text[l.pos] <= '9' {
			l.pos++
		}
	default:
		if n := identifierLen(l.text[start:]); n > 0 {
			t.kind = tokWord
			l.pos += n
		} else {
			t.kind = tokBad
			_, n := utf8.DecodeRuneInString(l.text[start:])
			l.pos += n
		}
	}
	t.end = l.pos
	if t.kind != tokBad {
		t.value = l.text[start:l.pos]
	}
	if t.kind == tokWord {
		t.upper = upperASCII(t.value)
	}
	return t
}

// upperASCII returns a word as keywords are spelt. Letters outside ASCII stay: some of them would turn into ASCII ones.
func upperASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}

// skipBlanks passes over white space and comments.
func (l *typeLexer) skipBlanks() (bad typeToken, ok bool) {
	for {
		rest := l.text[l.pos:]
		trimmed := strings.TrimLeftFunc(rest, unicode.IsSpace)
		l.pos += len(rest) - len(trimmed)
		switch {
		case strings.HasPrefix(trimmed, "--"), strings.HasPrefix(trimmed, "//"):
			end := strings.IndexByte(trimmed, '\n')
			if end < 0 {
				end = len(trimmed)
			}
			l.pos += end
		case strings.HasPrefix(trimmed, "/*"):
			end := strings.Index(trimmed[2:], "*/")
			if end < 0 {
				bad = typeToken{kind: tokBad, start: l.pos, end: len(l.text), value: "a comment without closing */"}
				l.pos = len(l.text)
				return bad, false
			}
			l.pos += 2 + end + 2
		default:
			return typeToken{}, true
		}
	}
}

// quoted reads up to the closing quote; a doubled quote stands for one.
func (l *typeLexer) quoted(quote byte, kind tokenKind, open string) typeToken {
	start := l.pos
	double := false
	for i := start + 1; i < len(l.text); i++ {
		if l.text[i] != quote {
			continue
		}
		if i+1 < len(l.text) && l.text[i+1] == quote {
			double = true
			i++
			continue
		}
		l.pos = i + 1
		value := l.text[start+1 : i]
		if double {
			q := string(rune(quote))
			value = strings.ReplaceAll(value, q+q, q)
		}
		return typeToken{kind: kind, start: start, end: l.pos, value: value}
	}
	l.pos = len(l.text)
	return typeToken{kind: tokBad, start: start, end: l.pos, value: open}
}

// identifierLen returns how many bytes of an identifier s begins with.
func identifierLen(s string) int {
	for i, r := range s {
		switch {
		case r == utf8.RuneError:
			return i // also keeps bytes that are no UTF-8 out of names
		case unicode.IsLetter(r) || r == '_' || r == '$':
		case i > 0 && unicode.IsDigit(r):
		default:
			return i
		}
	}
	return len(s)
}

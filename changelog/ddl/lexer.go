package ddl

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind tells tokens apart as far as statements need it.
type tokenKind uint8

const (
	tokenEnd    tokenKind = iota // the end of the text
	tokenWord                    // a keyword or a name without quotes
	tokenName                    // a name in back quotes
	tokenString                  // 'a string literal', with its prefix if it has one
	tokenNumber
	tokenMark // one character of punctuation
)

// token is text[start:end].
type token struct {
	kind       tokenKind
	start, end int
}

// lexer cuts a text without comments into tokens. It never fails: what Flink has no token for is a mark.
type lexer struct {
	text string
	pos  int
}

// next returns the next token.
func (l *lexer) next() token {
	for l.pos < len(l.text) {
		r, n := utf8.DecodeRuneInString(l.text[l.pos:])
		if !unicode.IsSpace(r) && r != '\ufeff' {
			break
		}
		l.pos += n
	}
	t := token{start: l.pos}
	rest := l.text[l.pos:]
	n := 0
	switch {
	case rest == "":
		t.kind = tokenEnd
	case rest[0] == '\'':
		t.kind = tokenString
		n, _ = quoted(rest, '\'')
	case rest[0] == '`':
		t.kind = tokenName
		n, _ = quoted(rest, '`')
	default:
		if p := stringPrefix(rest); p > 0 {
			t.kind = tokenString
			n, _ = quoted(rest[p:], '\'')
			n += p
			break
		}
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case wordStart(r):
			t.kind = tokenWord
			n = len(rest) - len(strings.TrimLeftFunc(rest, wordPart))
		case r >= '0' && r <= '9':
			t.kind = tokenNumber
			n = len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		default:
			t.kind, n = tokenMark, size
		}
	}
	l.pos += n
	t.end = l.pos
	return t
}

// quoted returns the length of the quoted text that s begins with; a doubled quote stands for one. Without a closing quote it is
// all of s.
func quoted(s string, quote byte) (n int, closed bool) {
	for i := 1; i < len(s); i++ {
		if s[i] != quote {
			continue
		}
		if i+1 == len(s) || s[i+1] != quote {
			return i + 1, true
		}
		i++
	}
	return len(s), false
}

// stringPrefix returns the length of what may stand directly before the quote of a string literal: N, E, X, U& and _charset.
func stringPrefix(s string) int {
	i := strings.IndexByte(s[:min(len(s), 32)], '\'')
	if i < 1 {
		return 0
	}
	p := s[:i]
	switch strings.ToUpper(p) {
	case "N", "E", "X", "U&":
		return i
	}
	if p[0] == '_' && i > 1 && strings.IndexFunc(p, func(r rune) bool { return !charsetPart(r) }) < 0 {
		return i
	}
	return 0
}

func charsetPart(r rune) bool {
	return r < utf8.RuneSelf && wordPart(r) || r == '-' || r == '.' || r == ':'
}

// wordStart and wordPart are the letters of Flink's names: letters of any script, _ and $; then digits too.
func wordStart(r rune) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) || r >= utf8.RuneSelf && unicode.Is(unicode.Nl, r)
}

func wordPart(r rune) bool {
	return wordStart(r) || unicode.IsDigit(r) || r >= utf8.RuneSelf && unicode.In(r, unicode.Mn, unicode.Mc, unicode.Pc)
}

// blankComments replaces comments (-- and // to the end of the line, /* */) by spaces, so that offsets stay what they are. Comment
// marks inside literals and quoted names are none. A literal, name or comment that is not closed is an error.
func blankComments(text string) (string, error) {
	var out []byte // made at the first comment
	blank := func(from, to int) {
		if out == nil {
			out = []byte(text)
		}
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	open := func(at int, what, end string) error {
		e := &Error{Expected: end, Found: "the end of the text: " + what + " that begins here is not closed"}
		e.Line, e.Column = place(text, at)
		return e
	}
	for i := 0; i < len(text); {
		rest := text[i:]
		switch {
		case rest[0] == '\'' || rest[0] == '`':
			n, closed := quoted(rest, rest[0])
			if !closed {
				if rest[0] == '`' {
					return "", open(i, "the name", "a closing back quote")
				}
				return "", open(i, "the string", "a closing single quote")
			}
			i += n
		case strings.HasPrefix(rest, "--") || strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			blank(i, i+n)
			i += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return "", open(i, "the comment", "*/")
			}
			blank(i, i+n+4)
			i += n + 4
		default:
			i++
		}
	}
	if out == nil {
		return text, nil
	}
	return string(out), nil
}

package ddl

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// unquote takes the quotes off a quoted name or string.
func unquote(s string) string {
	q := s[:1]
	return strings.ReplaceAll(s[1:len(s)-1], q+q, q)
}

// quoteName and quoteString do the opposite.
func quoteName(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

func quoteString(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// str reads a string literal: 'x', N'x', _charset'x', U&'\0041' [UESCAPE 'c'], and further literals that directly follow, which
// continue it.
func (p *parser) str(what string) (string, error) {
	if p.tok.kind != tokenString {
		return "", p.expected(what)
	}
	first := p.tok
	text := p.text(first)
	p.advance()
	quote := strings.IndexByte(text, '\'')
	prefix := strings.ToUpper(text[:quote])
	var joined strings.Builder
	joined.WriteString(unquote(text[quote:]))
	for p.tok.kind == tokenString && p.lex.text[p.tok.start] == '\'' {
		joined.WriteString(unquote(p.text(p.tok)))
		p.advance()
	}
	value := joined.String()
	switch prefix {
	case "E", "X":
		return "", p.mistake(first.start, "a string that begins with %s' is not supported here: write it as '...', with the characters themselves", prefix)
	case "U&":
		escape := `\`
		if p.accept("UESCAPE") {
			if p.tok.kind != tokenString || p.tok.end-p.tok.start != 3 {
				return "", p.expected("one character in single quotes")
			}
			escape = unquote(p.text(p.tok))
			p.advance()
		}
		v, ok := unescape(value, escape[0])
		if !ok {
			return "", p.mistake(first.start, "a string that begins with U&' holds a bad escape: expected %s and four hexadecimal digits", escape)
		}
		return v, nil
	}
	return value, nil
}

// unescape resolves the escapes of a U& string: four hexadecimal digits, or the escape character twice.
func unescape(s string, escape byte) (string, bool) {
	var b strings.Builder
	var units []uint16 // of one run of escapes
	flush := func() bool {
		ok := true
		for _, r := range utf16.Decode(units) {
			ok = ok && r != utf8.RuneError // a lone surrogate
			b.WriteRune(r)
		}
		units = units[:0]
		return ok
	}
	for i := 0; i < len(s); i++ {
		if s[i] == escape && i+4 < len(s) {
			if u, err := strconv.ParseUint(s[i+1:i+5], 16, 16); err == nil {
				units = append(units, uint16(u))
				i += 4
				continue
			}
		}
		if !flush() {
			return "", false
		}
		if s[i] == escape {
			if i+1 == len(s) || s[i+1] != escape {
				return "", false
			}
			i++
		}
		b.WriteByte(s[i])
	}
	ok := flush()
	return b.String(), ok
}

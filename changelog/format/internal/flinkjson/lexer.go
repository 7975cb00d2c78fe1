package flinkjson

import "github.com/flinksink/flinksink/changelog"

// lexer hands out the tokens that Jackson's UTF8StreamJsonParser would, in the same steps: a name comes with a look at the start of its
// value, a string is read only when its text is asked for and skipped otherwise, and after an error the place is where Jackson's
// is. Flink's decoder goes on after errors when 'ignore-parse-errors' is on, so all of this shows in its rows.
type lexer struct {
	p          []byte
	i          int
	tok        token
	pending    token  // of the value whose name is the current token
	incomplete bool   // the text of the current or pending string is not read yet
	bare       bool   // the last name or string that was read is a part of p
	odd        bool   // some text was in UTF-8 that no encoder writes (overlong, beyond U+10FFFF)
	name       []byte // a part of p or of nameBuf
	text       []byte // of a number (a part of p) or of a string (a part of p or of buf)
	buf        []byte
	nameBuf    []byte
	nest       []scope
}

type token uint8

const (
	noToken token = iota
	tokName
	tokString
	tokInt
	tokFloat
	tokTrue
	tokFalse
	tokNull
	tokObject
	tokObjectEnd
	tokArray
	tokArrayEnd
)

// scope is an object or an array that is open; none is open at the root.
type scope struct {
	object bool
	any    bool // it has an entry already, so a comma must come
}

func (l *lexer) reset(p []byte) {
	*l = lexer{p: p, nameBuf: l.nameBuf[:0], buf: l.buf[:0], nest: l.nest[:0]}
}

// next moves to the next token; noToken is the end of the text.
func (l *lexer) next() *Failure {
	if l.tok == tokName {
		t := l.pending
		l.pending, l.tok = noToken, noToken
		return l.enter(t)
	}
	if l.incomplete {
		if f := l.skipString(); f != nil {
			return f
		}
	}
	c, f := l.skipSpaceOrEnd()
	if f != nil {
		return f
	}
	if c < 0 {
		l.tok = noToken
		return nil
	}
	if c == ']' || c == '}' {
		top := len(l.nest) - 1
		if top < 0 || l.nest[top].object != (c == '}') {
			return brokenf("a closing bracket does not match")
		}
		l.nest = l.nest[:top]
		l.tok = tokArrayEnd
		if c == '}' {
			l.tok = tokObjectEnd
		}
		return nil
	}
	if top := len(l.nest) - 1; top >= 0 {
		s := &l.nest[top]
		comma := s.any
		s.any = true
		if comma {
			if c != ',' {
				return brokenf("a comma is missing between entries")
			}
			if c, f = l.skipSpace(); f != nil {
				return f
			}
		}
		if s.object {
			return l.readName(c)
		}
	}
	t, f := l.begin(c)
	if f != nil {
		return f
	}
	return l.enter(t)
}

// enter makes t the current token.
func (l *lexer) enter(t token) *Failure {
	if t == tokObject || t == tokArray {
		l.nest = append(l.nest, scope{object: t == tokObject})
		if len(l.nest) > maxDepth {
			return brokenf("nesting is deeper than 1000").As(changelog.OutOfRange)
		}
	}
	l.tok = t
	return nil
}

func (l *lexer) readName(c int) *Failure {
	if c != '"' {
		return brokenf("a member name is missing")
	}
	// The old name stays until the new one is whole, as Jackson's does.
	var f *Failure
	name, bare := l.bareString()
	if !bare {
		if l.buf, f = l.readString(l.buf[:0]); f != nil {
			return f
		}
		name = l.buf
	}
	if len(name) > maxName {
		return brokenf("a member name is longer than 50000 bytes").As(changelog.OutOfRange)
	}
	if !bare {
		l.nameBuf = append(l.nameBuf[:0], name...)
		name = l.nameBuf
	}
	l.name, l.bare = name, bare
	l.tok = tokName
	if c, f = l.skipSpaceOrEnd(); f != nil {
		return f
	}
	if c != ':' {
		return brokenf("a colon is missing after a member name")
	}
	if c, f = l.skipSpace(); f != nil {
		return f
	}
	l.pending, f = l.begin(c)
	return f
}

// begin looks at the start of a value: all of it for numbers and literals, the first byte for the others.
func (l *lexer) begin(c int) (token, *Failure) {
	switch {
	case c == '"':
		l.incomplete = true
		return tokString, nil
	case c == '-' || c >= '0' && c <= '9':
		return l.number()
	case c == '{':
		return tokObject, nil
	case c == '[':
		return tokArray, nil
	case c == 't':
		return tokTrue, l.word("true")
	case c == 'f':
		return tokFalse, l.word("false")
	case c == 'n':
		return tokNull, l.word("null")
	case identifier(byte(c)) && (c < '0' || c > '9'):
		l.skipIdentifier()
		return noToken, brokenf("a word is no JSON value")
	}
	return noToken, brokenf("a value is missing")
}

func (l *lexer) word(w string) *Failure {
	for i := 1; i < len(w); i++ {
		if l.i >= len(l.p) || l.p[l.i] != w[i] {
			l.skipIdentifier()
			return brokenf("a word is no JSON value")
		}
		l.i++
	}
	if l.i < len(l.p) && identifier(l.p[l.i]) {
		l.skipIdentifier()
		return brokenf("a word is no JSON value")
	}
	return nil
}

// skipIdentifier skips a word and the character after it.
func (l *lexer) skipIdentifier() {
	for l.i < len(l.p) {
		l.i++
		if !identifier(l.p[l.i-1]) {
			return
		}
	}
}

// identifier is Character.isJavaIdentifierPart for ASCII; beyond it, nearly all letters of a text are.
func identifier(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || c == '$' || c >= 0x80 || c <= 8 || c >= 14 && c <= 27 || c == 127
}

// number reads a number whose first byte is behind the place.
func (l *lexer) number() (token, *Failure) {
	start := l.i - 1
	if l.p[start] == '-' {
		if l.i >= len(l.p) {
			return noToken, brokenf("the message ends inside a number")
		}
		l.i++
		if l.p[l.i-1]-'0' > 9 {
			return noToken, brokenf("a minus has no digit after it")
		}
	}
	if l.p[l.i-1] == '0' && l.i < len(l.p) && l.p[l.i]-'0' <= 9 {
		return noToken, brokenf("a number has leading zeros")
	}
	l.digits()
	t := tokInt
	if l.i < len(l.p) && l.p[l.i] == '.' {
		t = tokFloat
		l.i++
		if l.digits() == 0 {
			l.i = min(l.i+1, len(l.p))
			return noToken, brokenf("a point has no digit after it")
		}
	}
	if l.i < len(l.p) && l.p[l.i]|0x20 == 'e' {
		t = tokFloat
		l.i++
		if l.i < len(l.p) && (l.p[l.i] == '+' || l.p[l.i] == '-') {
			l.i++
		}
		if l.digits() == 0 {
			l.i = min(l.i+1, len(l.p))
			return noToken, brokenf("an exponent has no digit")
		}
	}
	l.text = l.p[start:l.i:l.i]
	if len(l.text) > maxNumber {
		return noToken, brokenf("a number is longer than 1000 characters").As(changelog.OutOfRange)
	}
	return t, nil
}

func (l *lexer) digits() int {
	start := l.i
	for l.i < len(l.p) && l.p[l.i]-'0' <= 9 {
		l.i++
	}
	return l.i - start
}

// skipSpaceOrEnd returns the next byte that is no white space, or -1 at the end of a text in which nothing is open.
func (l *lexer) skipSpaceOrEnd() (int, *Failure) {
	for l.i < len(l.p) {
		c := l.p[l.i]
		l.i++
		switch {
		case c == '/':
			return 0, brokenf("a slash is no JSON; comments are not allowed")
		case c > ' ':
			return int(c), nil
		case c != ' ' && c != '\n' && c != '\r' && c != '\t':
			return 0, brokenf("a control character stands between tokens")
		}
	}
	if len(l.nest) > 0 {
		return 0, brokenf("the message ends inside an object or array")
	}
	return -1, nil
}

// skipSpace is skipSpaceOrEnd where the end is an error.
func (l *lexer) skipSpace() (int, *Failure) {
	c, f := l.skipSpaceOrEnd()
	if c < 0 {
		f = brokenf("the message ends inside an object or array")
	}
	return c, f
}

// str returns the text of the current token, as JsonParser.getText does: a bracket's is the bracket. It is valid until next is
// called, and not ok where Java's is null.
func (l *lexer) str() (s []byte, ok bool, f *Failure) {
	switch l.tok {
	case tokName:
		return l.name, true, nil
	case tokString:
		if l.incomplete {
			l.incomplete = false // also if reading fails: the rest of the string is then read as JSON
			if l.text, l.bare = l.bareString(); !l.bare {
				l.buf, f = l.readString(l.buf[:0])
				l.text = l.buf
			}
			if f == nil && len(l.text) > maxString && utf16Len(l.text) > maxString {
				f = brokenf("a string is longer than 20000000 characters").As(changelog.OutOfRange)
			}
		}
		return l.text, true, f
	case tokInt, tokFloat:
		return l.text, true, nil
	case noToken:
		return nil, false, nil
	}
	return tokenText[l.tok], true, nil
}

// utf16Len is String.length: a character beyond U+FFFF counts twice. A surrogate by itself is in its three-byte form.
func utf16Len(s []byte) (n int) {
	for _, c := range s {
		if c&0xC0 != 0x80 {
			n++
		}
		if c >= 0xF0 {
			n++
		}
	}
	return n
}

var tokenText = [...][]byte{
	tokTrue: []byte("true"), tokFalse: []byte("false"), tokNull: []byte("null"),
	tokObject: []byte("{"), tokObjectEnd: []byte("}"), tokArray: []byte("["), tokArrayEnd: []byte("]"),
}

// atEnd reports whether only white space is left.
func (l *lexer) atEnd() bool {
	for _, c := range l.p[l.i:] {
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return false
		}
	}
	return true
}

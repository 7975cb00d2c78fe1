package ddl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// parser reads statements from a text. Its methods return the first mistake; after one it is not used any more.
type parser struct {
	lex  lexer
	tok  token // the one to look at next
	last int   // end of the token before it

	depth  int      // of the item of a query that is being read
	others []string // kind of each statement that was skipped; "" for what is none of Flink's
	// hide is set from a WITH clause to the end of its statement. A quote too many or too few in an option makes the rest of a
	// secret look like tokens, so none of them may be shown in an error.
	hide bool
}

func newParser(text string) (*parser, error) {
	clean, err := blankComments(text)
	if err != nil {
		return nil, err
	}
	p := &parser{lex: lexer{text: clean}}
	p.tok = p.lex.next()
	return p, nil
}

func (p *parser) advance() {
	p.last = p.tok.end
	p.tok = p.lex.next()
}

func (p *parser) text(t token) string { return p.lex.text[t.start:t.end] }

// is reports whether the next token is the keyword.
func (p *parser) is(keyword string) bool {
	return p.tok.kind == tokenWord && strings.EqualFold(p.text(p.tok), keyword)
}

// accept goes past the keywords if all of them are next.
func (p *parser) accept(keywords ...string) bool {
	saved := *p
	for _, k := range keywords {
		if !p.is(k) {
			*p = saved
			return false
		}
		p.advance()
	}
	return true
}

// isMark reports whether the next token is the punctuation mark.
func (p *parser) isMark(c byte) bool {
	return p.tok.kind == tokenMark && p.lex.text[p.tok.start] == c
}

func (p *parser) acceptMark(c byte) bool {
	if !p.isMark(c) {
		return false
	}
	p.advance()
	return true
}

// expected says that what is next is not what could stand there.
func (p *parser) expected(what string) error {
	e := &Error{Expected: what, Found: p.found()}
	e.Line, e.Column = place(p.lex.text, p.tok.start)
	return e
}

// mistake says what is wrong with the token that begins at the offset.
func (p *parser) mistake(offset int, format string, args ...any) error {
	e := &Error{Reason: fmt.Sprintf(format, args...)}
	e.Line, e.Column = place(p.lex.text, offset)
	return e
}

// found describes the next token.
func (p *parser) found() string {
	switch p.tok.kind {
	case tokenEnd:
		return "the end of the text"
	case tokenString:
		return "a string"
	}
	text := p.text(p.tok)
	switch {
	case !p.hide:
		if r := []rune(text); len(r) > 40 {
			text = string(r[:40]) + "..."
		}
		return fmt.Sprintf("%q", text)
	case p.tok.kind == tokenMark && strings.Contains(",;()=.", text):
		return fmt.Sprintf("%q", text)
	case p.tok.kind == tokenMark:
		return "a character outside quotes"
	case p.tok.kind == tokenNumber:
		return "a number"
	}
	return "a word without quotes"
}

// name reads a name, in back quotes or a word that Flink does not keep for itself.
func (p *parser) name(what string) (string, error) {
	switch p.tok.kind {
	case tokenWord:
		n := p.text(p.tok)
		if changelog.ReservedWord(n) {
			return "", p.mistake(p.tok.start, "expected %s, found %q, a word that Flink's SQL keeps for itself; as a name it stands in back quotes: `%s`", what, n, n)
		}
		p.advance()
		return n, nil
	case tokenName:
		n := unquote(p.text(p.tok))
		if n == "" {
			return "", p.mistake(p.tok.start, "expected %s, found a name of no characters", what)
		}
		p.advance()
		return n, nil
	}
	return "", p.expected(what)
}

// names reads a list of names in parentheses, with where each begins.
func (p *parser) names(what string) (names []string, offsets []int, err error) {
	if !p.acceptMark('(') {
		return nil, nil, p.expected("'('")
	}
	for {
		at := p.tok.start
		n, err := p.name(what)
		if err != nil {
			return nil, nil, err
		}
		names, offsets = append(names, n), append(offsets, at)
		if p.acceptMark(')') {
			return names, offsets, nil
		}
		if !p.acceptMark(',') {
			return nil, nil, p.expected("',' or ')'")
		}
	}
}

// dataType reads a type with its NOT NULL, as Flink takes it from SQL, and as it stands there.
func (p *parser) dataType() (t, declared changelog.Type, err error) {
	t, n, err := changelog.ScanType(p.lex.text[p.tok.start:])
	if err != nil {
		var te *changelog.TypeError
		if !errors.As(err, &te) {
			return t, t, p.mistake(p.tok.start, "%v", err)
		}
		e := &Error{Expected: te.Expected, Found: te.Found, Err: te}
		e.Line, e.Column = place(p.lex.text, p.tok.start+te.Offset)
		return t, t, e
	}
	p.lex.pos = p.tok.start + n
	p.last = p.lex.pos
	p.tok = p.lex.next()
	return t.FromSQL(), t, nil
}

// expression goes past an expression: to the ',' or ')' that ends it, or to the COMMENT of its column. It returns its text.
func (p *parser) expression() (string, error) {
	start := p.tok.start
	var open []byte // closing brackets that are due
	for {
		switch p.tok.kind {
		case tokenEnd:
			return "", p.expected("the end of the expression, ',' or ')'")
		case tokenWord:
			if len(open) == 0 && p.is("COMMENT") && p.last > start {
				saved := *p
				p.advance()
				isComment := p.tok.kind == tokenString
				*p = saved
				if isComment {
					return p.between(start)
				}
			}
		case tokenMark:
			switch c := p.lex.text[p.tok.start]; c {
			case '(':
				open = append(open, ')')
			case '[':
				open = append(open, ']')
			case ';':
				return "", p.expected("the end of the expression, ',' or ')'")
			case ')', ']':
				if len(open) == 0 {
					if c == ']' {
						return "", p.expected("',' or ')'")
					}
					return p.between(start)
				}
				if open[len(open)-1] != c {
					return "", p.expected(fmt.Sprintf("'%c'", open[len(open)-1]))
				}
				open = open[:len(open)-1]
			case ',':
				if len(open) == 0 {
					return p.between(start)
				}
			}
		}
		p.advance()
	}
}

// between returns the text from the offset to the end of the last token that was read.
func (p *parser) between(start int) (string, error) {
	if p.last <= start {
		return "", p.expected("an expression")
	}
	return strings.TrimSpace(p.lex.text[start:p.last]), nil
}

// createTable goes past CREATE [OR REPLACE] [TEMPORARY] TABLE if that is next.
func (p *parser) createTable(t *Table) bool {
	saved := *p
	if p.accept("CREATE") {
		p.accept("OR", "REPLACE")
		t.Temporary = p.accept("TEMPORARY")
		if p.accept("TABLE") {
			return true
		}
	}
	*p = saved
	return false
}

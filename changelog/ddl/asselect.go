package ddl

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// asSelect reads the columns of CREATE TABLE ... AS SELECT where every item of the query says its type by itself: a literal, a CAST, or an
// ARRAY, MAP or ROW of those. It reports whether that is so; what is selected from plays no part. Any other item has a type that only
// Flink can tell.
func (p *parser) asSelect() (columns []Column, ok bool) {
	if !p.accept("AS", "SELECT") {
		return nil, false
	}
	for {
		c := Column{}
		if c.Type, ok = p.selected(); !ok {
			return nil, false
		}
		c.Name = fmt.Sprintf("EXPR$%d", len(columns))
		if p.accept("AS") {
			var err error
			if c.Name, err = p.name("a column name"); err != nil {
				return nil, false
			}
		}
		columns = append(columns, c)
		if !p.acceptMark(',') {
			break
		}
	}
	return columns, p.isMark(';') || p.tok.kind == tokenEnd || p.is("FROM")
}

// maxItemDepth is how deep an item may be nested: nobody writes more, and a parser's stack is not without end.
const maxItemDepth = 100

// selected reads one item and returns its type.
func (p *parser) selected() (t changelog.Type, ok bool) {
	if p.depth++; p.depth > maxItemDepth {
		return t, false
	}
	defer func() { p.depth-- }()
	if p.acceptMark('-') || p.acceptMark('+') {
		t, ok = p.selected()
		return t, ok && (t.Root == changelog.RootInt || t.Root == changelog.RootBigInt || t.Root == changelog.RootDecimal || t.Root == changelog.RootDouble ||
			t.Root == changelog.RootIntervalDayTime || t.Root == changelog.RootIntervalYearMonth)
	}
	switch {
	case p.tok.kind == tokenNumber || p.isMark('.'):
		return p.number()
	case p.tok.kind == tokenString:
		text := p.text(p.tok)
		p.advance()
		if strings.HasPrefix(strings.ToUpper(text), "X'") {
			return changelog.Type{Root: changelog.RootBinary, Length: (len(text) - len("x''")) / 2, NotNull: true}, true
		}
		return changelog.Type{Root: changelog.RootChar, Length: utf8.RuneCountInString(unquote(text[strings.IndexByte(text, '\''):])), NotNull: true}, true
	case p.accept("TRUE"), p.accept("FALSE"):
		return changelog.Type{Root: changelog.RootBoolean, NotNull: true}, true
	case p.accept("CAST"):
		return p.cast()
	case p.accept("INTERVAL"):
		return p.interval()
	case p.is("DATE"), p.is("TIME"), p.is("TIMESTAMP"):
		root := map[string]changelog.Root{"DATE": changelog.RootDate, "TIME": changelog.RootTime, "TIMESTAMP": changelog.RootTimestamp}[strings.ToUpper(p.text(p.tok))]
		p.advance()
		if p.tok.kind != tokenString {
			return t, false
		}
		t = changelog.Type{Root: root, NotNull: true}
		if _, fraction, found := strings.Cut(unquote(p.text(p.tok)), "."); found && root == changelog.RootTimestamp {
			t.Precision = min(len(fraction), 9)
		}
		p.advance()
		return t, true
	case p.accept("ARRAY"):
		items, ok := p.items('[', ']')
		if !ok || len(items) == 0 {
			return t, false
		}
		return changelog.Type{Root: changelog.RootArray, Elem: &items[0], NotNull: true}, alike(items)
	case p.accept("MAP"):
		items, ok := p.items('[', ']')
		if !ok || len(items) == 0 || len(items)%2 != 0 {
			return t, false
		}
		var keys, values []changelog.Type
		for i := 0; i < len(items); i += 2 {
			keys, values = append(keys, items[i]), append(values, items[i+1])
		}
		return changelog.Type{Root: changelog.RootMap, Key: &keys[0], Elem: &values[0], NotNull: true}, alike(keys) && alike(values)
	case p.accept("ROW"):
		items, ok := p.items('(', ')')
		if !ok || len(items) == 0 {
			return t, false
		}
		t = changelog.Type{Root: changelog.RootRow, NotNull: true}
		for i := range items {
			t.Fields = append(t.Fields, changelog.Field{Name: fmt.Sprintf("EXPR$%d", i), Type: items[i]})
		}
		return t, true
	}
	return t, false
}

// alike reports whether all types are the first one: Flink would look for one that they have in common.
func alike(types []changelog.Type) bool {
	for i := range types {
		if !types[i].Equal(types[0]) {
			return false
		}
	}
	return true
}

func (p *parser) items(open, end byte) (types []changelog.Type, ok bool) {
	if !p.acceptMark(open) {
		return nil, false
	}
	for {
		t, ok := p.selected()
		if !ok {
			return nil, false
		}
		types = append(types, t)
		if p.acceptMark(end) {
			return types, true
		}
		if !p.acceptMark(',') {
			return nil, false
		}
	}
}

// number reads a literal without a sign: an INT or BIGINT, a DECIMAL with a point, a DOUBLE with an exponent.
func (p *parser) number() (t changelog.Type, ok bool) {
	start := p.tok.start
	for end := start; p.tok.start == end && (p.tok.kind == tokenNumber || p.isMark('.') || p.tok.kind == tokenWord); {
		end = p.tok.end
		if p.tok.kind == tokenWord {
			if p.advance(); p.tok.start == end && (p.isMark('-') || p.isMark('+')) && strings.EqualFold(p.lex.text[end-1:end], "e") {
				end = p.tok.end
				p.advance()
			}
			continue
		}
		p.advance()
	}
	text := p.lex.text[start:p.last]
	if strings.ContainsAny(text, "eE") {
		return changelog.Type{Root: changelog.RootDouble, NotNull: true}, true
	}
	if whole, fraction, point := strings.Cut(text, "."); point {
		digits := max(len(strings.TrimLeft(whole, "0"))+len(fraction), 1)
		return changelog.Type{Root: changelog.RootDecimal, Precision: digits, Scale: len(fraction), NotNull: true}, digits <= changelog.MaxPrecision
	}
	root := changelog.RootInt
	if len(text) > 10 || len(text) == 10 && text > "2147483647" {
		root = changelog.RootBigInt
	}
	return changelog.Type{Root: root, NotNull: true}, len(text) < 19
}

// cast reads what follows CAST; it is NULL where its operand is.
func (p *parser) cast() (t changelog.Type, ok bool) {
	if !p.acceptMark('(') {
		return t, false
	}
	start := *p
	operand, known := p.selected()
	notNull := known && operand.NotNull && p.is("AS")
	*p = start
	for depth := 0; depth > 0 || !p.is("AS"); p.advance() {
		switch {
		case p.tok.kind == tokenEnd:
			return t, false
		case p.isMark('('):
			depth++
		case p.isMark(')'):
			if depth--; depth < 0 {
				return t, false
			}
		}
	}
	p.advance()
	t, _, err := p.dataType()
	t.NotNull = t.NotNull || notNull
	return t, err == nil && p.acceptMark(')')
}

// interval reads what follows INTERVAL. Whatever its resolution, the value is months or milliseconds.
func (p *parser) interval() (t changelog.Type, ok bool) {
	p.acceptMark('-')
	if p.tok.kind != tokenString {
		return t, false
	}
	p.advance()
	text := "INTERVAL SECOND(3)"
	if p.is("YEAR") || p.is("MONTH") || p.is("QUARTER") {
		text = "INTERVAL MONTH"
	} else if !p.is("DAY") && !p.is("HOUR") && !p.is("MINUTE") && !p.is("SECOND") && !p.is("WEEK") {
		return t, false
	}
	unit := func() {
		if p.advance(); p.acceptMark('(') {
			for p.tok.kind == tokenNumber || p.isMark(',') {
				p.advance()
			}
			p.acceptMark(')')
		}
	}
	unit()
	if p.accept("TO") && p.tok.kind == tokenWord {
		unit()
	}
	t, err := changelog.ParseType(text)
	t.NotNull = true
	return t, err == nil
}

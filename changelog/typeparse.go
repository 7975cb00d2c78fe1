package changelog

import (
	"fmt"
	"strings"
)

// TypeError says where the text of a type stops making sense.
type TypeError struct {
	Offset   int    // in bytes, of what was found
	Expected string // in words, e.g. "a precision from 1 to 38"
	Found    string // in words or as a piece of the text, e.g. "')'", "the end"
}

// Error returns one line.
func (e *TypeError) Error() string {
	return fmt.Sprintf("changelog: type: at byte %d: expected %s, found %s", e.Offset, e.Expected, e.Found)
}

// maxTypeDepth bounds how deep types may nest, so that no text can exhaust the stack of whoever walks the type.
const maxTypeDepth = 100

// ParseType reads a type in the text of a CREATE TABLE, of SHOW CREATE TABLE, or of Flink's own serialised or summary form
// (https://nightlies.apache.org/flink/flink-docs-stable/docs/sql/reference/data-types/), with all synonyms. Blanks and SQL comments may
// stand between words; words are read in any case. A name that is no type of Flink's is a user-defined type ([RootStructured]).
//
// The type is what the text says; Flink's SQL makes less of some, see [Type.FromSQL]. An error is a *TypeError.
func ParseType(s string) (Type, error) {
	p := typeParser{lexer: typeLexer{text: s}}
	p.next()
	t, err := p.typ(1)
	if err != nil {
		return Type{}, err
	}
	if p.tok.kind != tokEnd {
		return Type{}, p.fail("the end of the type")
	}
	return t, nil
}

// ScanType reads the type of a column at the start of s, as [ParseType] does, and ignores what comes after it. n is how many bytes it took:
// leading blanks and comments, the type, and its NULL or NOT NULL; not what comes between it and the next word.
//
// A name that is no type of Flink's, at any depth, is an error here, which says what was likely meant: in a CREATE TABLE it is
// far more often a slip (INTT) or another system's type (TEXT) than a user-defined type, which no format reads. So is the name of a field that is a
// [ReservedWord] without back quotes, which Flink refuses.
func ScanType(s string) (t Type, n int, err error) {
	p := typeParser{lexer: typeLexer{text: s}, builtin: true}
	p.next()
	if t, err = p.typ(1); err != nil {
		return Type{}, 0, err
	}
	return t, p.end, nil
}

type typeParser struct {
	lexer typeLexer
	tok   typeToken // not yet taken
	end   int       // of the last token taken

	builtin bool // names of user-defined types are refused, and reserved words as names
}

// next takes the token and reads another.
func (p *typeParser) next() {
	p.end = p.tok.end
	p.tok = p.lexer.scan()
}

func (p *typeParser) fail(expected string) error {
	return &TypeError{p.tok.start, expected, p.tok.describe(p.lexer.text)}
}

// word reports whether the token is the unquoted word w.
func (p *typeParser) word(w string) bool { return p.tok.kind == tokWord && p.tok.upper == w }

func (p *typeParser) sign(c byte) bool {
	return p.tok.kind == tokSign && p.lexer.text[p.tok.start] == c
}

// takeWord and takeSign take the token if it is the one that is asked for.
func (p *typeParser) takeWord(w string) bool {
	ok := p.word(w)
	if ok {
		p.next()
	}
	return ok
}

func (p *typeParser) takeSign(c byte) bool {
	ok := p.sign(c)
	if ok {
		p.next()
	}
	return ok
}

func (p *typeParser) needWords(words ...string) error {
	for _, w := range words {
		if !p.takeWord(w) {
			return p.fail(w)
		}
	}
	return nil
}

func (p *typeParser) needSign(c byte) error {
	if !p.takeSign(c) {
		return p.fail(quoteSign(c))
	}
	return nil
}

// typ reads a type, whether it is NOT NULL, and the postfixes ARRAY and MULTISET.
func (p *typeParser) typ(depth int) (Type, error) {
	t, err := p.bare(depth)
	if err != nil {
		return t, err
	}
	for {
		if t.NotNull, err = p.nullability(); err != nil {
			return t, err
		}
		root := RootInvalid
		switch {
		case p.word("ARRAY"):
			root = RootArray
		case p.word("MULTISET"):
			root = RootMultiset
		default:
			return t, nil
		}
		// Each postfix is a level of its own, whatever it wraps.
		if depth++; depth > maxTypeDepth {
			return t, p.tooDeep()
		}
		p.next()
		elem := t
		t = Type{Root: root, Elem: &elem}
	}
}

func (p *typeParser) tooDeep() error {
	return p.fail(fmt.Sprintf("at most %d types inside one another", maxTypeDepth))
}

// nullability reads NULL or NOT NULL. A NOT that is followed by something else (NOT ENFORCED in a table) is not ours.
func (p *typeParser) nullability() (notNull bool, err error) {
	if p.takeWord("NULL") {
		return false, nil
	}
	if !p.word("NOT") {
		return false, nil
	}
	ahead := *p
	ahead.next()
	if !ahead.takeWord("NULL") {
		return false, nil
	}
	*p = ahead
	return true, nil
}

func (p *typeParser) bare(depth int) (Type, error) {
	if depth > maxTypeDepth {
		return Type{}, p.tooDeep()
	}
	if p.tok.kind == tokQuoted {
		return p.named()
	}
	if p.tok.kind != tokWord {
		return Type{}, p.unknown()
	}
	word := p.tok.upper
	if root := plainType(word); root != RootInvalid {
		p.next()
		if root == RootDouble {
			p.takeWord("PRECISION")
		}
		return Type{Root: root}, nil
	}
	switch word {
	case "CHAR", "CHARACTER", "VARCHAR", "BINARY", "VARBINARY":
		return p.sized(word)
	case "STRING":
		p.next()
		return Type{Root: RootVarchar, Length: MaxLength}, nil
	case "BYTES":
		p.next()
		return Type{Root: RootVarbinary, Length: MaxLength}, nil
	case "DECIMAL", "DEC", "NUMERIC":
		return p.decimal()
	case "TIME", "TIMESTAMP", "TIMESTAMP_LTZ":
		return p.temporal(word)
	case "INTERVAL":
		return p.interval()
	case "ARRAY", "MULTISET", "MAP":
		return p.collection(word, depth)
	case "ROW":
		return p.row(depth)
	case "STRUCTURED":
		return p.structured(depth)
	case "RAW":
		return p.raw()
	case "DESCRIPTOR":
		return Type{}, p.fail("a type that a column can have (DESCRIPTOR is of arguments of table functions only)")
	}
	if reserved(word) {
		return Type{}, p.unknown()
	}
	return p.named()
}

// plainType returns the root of a type that takes no parameters.
func plainType(word string) Root {
	switch word {
	case "BOOLEAN":
		return RootBoolean
	case "TINYINT":
		return RootTinyInt
	case "SMALLINT":
		return RootSmallInt
	case "INT", "INTEGER":
		return RootInt
	case "BIGINT":
		return RootBigInt
	case "FLOAT":
		return RootFloat
	case "DOUBLE":
		return RootDouble
	case "DATE":
		return RootDate
	case "NULL":
		return RootNull
	case "VARIANT":
		return RootVariant
	case "BITMAP":
		return RootBitmap
	}
	return RootInvalid
}

func (p *typeParser) collection(word string, depth int) (t Type, err error) {
	p.next()
	switch word {
	case "ARRAY":
		t.Root = RootArray
	case "MULTISET":
		t.Root = RootMultiset
	default:
		t.Root = RootMap
	}
	if err = p.needSign('<'); err != nil {
		return t, err
	}
	if t.Root == RootMap {
		key, err := p.typ(depth + 1)
		if err != nil {
			return t, err
		}
		t.Key = &key
		if err = p.needSign(','); err != nil {
			return t, err
		}
	}
	elem, err := p.typ(depth + 1)
	if err != nil {
		return t, err
	}
	t.Elem = &elem
	return t, p.needSign('>')
}

func (p *typeParser) row(depth int) (t Type, err error) {
	t.Root = RootRow
	p.next()
	closing := byte('>')
	if p.sign('(') {
		closing = ')'
	} else if !p.sign('<') {
		return t, p.fail("'<' or '('")
	}
	p.next()
	t.Fields, err = p.fields(closing, depth)
	return t, err
}

// fields reads "name type 'comment', ..." up to and with the closing sign.
func (p *typeParser) fields(closing byte, depth int) ([]Field, error) {
	var fields []Field
	seen := make(map[string]bool)
	for !p.takeSign(closing) {
		if len(fields) > 0 {
			if !p.takeSign(',') {
				return nil, p.fail("',' or " + quoteSign(closing))
			}
		}
		if p.tok.kind != tokWord && p.tok.kind != tokQuoted {
			return nil, p.fail("the name of a field")
		}
		if p.builtin && p.tok.kind == tokWord && ReservedWord(p.tok.value) {
			return nil, p.fail("the name of a field (a word that Flink's SQL keeps for itself is one in back quotes only: `" + p.tok.value + "`)")
		}
		f := Field{Name: p.tok.value}
		if strings.TrimSpace(f.Name) == "" || seen[f.Name] {
			return nil, p.fail("a name that no other field has")
		}
		seen[f.Name] = true
		p.next()
		var err error
		if f.Type, err = p.typ(depth + 1); err != nil {
			return nil, err
		}
		if p.tok.kind == tokString {
			f.Comment = p.tok.value
			p.next()
		}
		fields = append(fields, f)
	}
	return fields, nil
}

func (p *typeParser) structured(depth int) (t Type, err error) {
	t.Root = RootStructured
	p.next()
	if err = p.needSign('<'); err != nil {
		return t, err
	}
	if t.Name, err = p.str("the name of a class"); err != nil {
		return t, err
	}
	if p.takeSign(',') {
		t.Fields, err = p.fields('>', depth)
		return t, err
	}
	return t, p.needSign('>')
}

func (p *typeParser) raw() (t Type, err error) {
	t.Root = RootRaw
	p.next()
	if err = p.needSign('('); err != nil {
		return t, err
	}
	if t.Name, err = p.str("the name of a class"); err != nil {
		return t, err
	}
	if err = p.needSign(','); err != nil {
		return t, err
	}
	if t.Snapshot, err = p.str("a serializer snapshot"); err != nil {
		return t, err
	}
	return t, p.needSign(')')
}

// named reads the name of a user-defined type, of up to three parts.
func (p *typeParser) named() (Type, error) {
	if p.builtin {
		return Type{}, p.unknown()
	}
	var name strings.Builder
	for part := 1; ; part++ {
		if p.tok.kind != tokWord && p.tok.kind != tokQuoted || strings.TrimSpace(p.tok.value) == "" {
			return Type{}, p.fail("the name of a type")
		}
		appendQuoted(&name, p.tok.value)
		p.next()
		if part == 3 || !p.takeSign('.') {
			return Type{Root: RootStructured, Name: name.String()}, nil
		}
		name.WriteByte('.')
	}
}

// str reads a string in single quotes that is not empty.
func (p *typeParser) str(what string) (string, error) {
	if p.tok.kind != tokString || p.tok.value == "" {
		return "", p.fail(what + " in single quotes")
	}
	s := p.tok.value
	p.next()
	return s, nil
}

package flinkjson

import (
	"bytes"
	"math"

	"github.com/flinksink/flinksink/changelog"
)

// exact reads as Flink does (JsonParserRowDataDeserializationSchema and JsonParserToRowDataConverters of Flink 2.2), and unless it is
// lenient it stops with a final failure where Flink would guess.
type exact struct {
	d    *Decoder
	b    *changelog.Batch
	l    lexer
	tree treeMemory
	room int // values that rows may still take

	outline *Outline    // of a message that is read as a tree, or nil
	bounded *RowsMember // what the array is that comes next, or nil
	double  []byte      // scratch of floatNode
	out     []byte      // scratch of containerText
}

func (x *exact) message(d *Decoder, b *changelog.Batch, p []byte) *Failure {
	if d.Tree {
		return x.read(d, b, p, (*exact).treeRows)
	}
	return x.read(d, b, p, (*exact).rows)
}

// read calls rows with the lexer at the start of p, and settles what its failure means.
func (x *exact) read(d *Decoder, b *changelog.Batch, p []byte, rows func(*exact) *Failure) *Failure {
	x.d, x.b = d, b
	x.room, x.tree.left = room(len(p)), d.nodes
	defer func() {
		x.b, x.outline, x.bounded = nil, nil, nil
		if cap(x.out) > keptScratch {
			x.out = nil
		}
		if cap(x.l.buf) > keptScratch {
			x.l = lexer{} // one huge message must not hold its memory for ever
		}
		x.l.reset(nil)
		x.tree.reset()
	}()
	if len(p) == 0 {
		return x.guess("the message is empty; Flink would drop it").As(changelog.Missing)
	}
	text, wide, f := transcode(p)
	if f == nil && wide {
		f = x.guess("the message is not UTF-8 but UTF-16 or UTF-32").As(changelog.Malformed)
	}
	if f == nil {
		if uint64(len(text)) > math.MaxUint32 {
			return finalf("the message is longer than 4 GiB")
		}
		x.l.reset(text)
		f = rows(x)
	}
	if f == nil && x.l.odd {
		f = x.guess("the message has characters in a form that is not valid UTF-8").As(changelog.Malformed)
	}
	if f != nil && f.kind != final && d.IgnoreErrors {
		return nil
	}
	return f
}

// guess returns a final failure, or nil when d is lenient.
func (x *exact) guess(reason string) *Failure {
	if x.d.lenient {
		return nil
	}
	return finalf(reason)
}

func (x *exact) rows() *Failure {
	if f := x.l.next(); f != nil {
		return f
	}
	switch x.l.tok {
	case tokObject:
		if f := x.topRow(); f != nil {
			return f
		}
		if n := x.b.Len(); x.b.Changes[n-1].Row == nil {
			return nil // broken off; what is left of the text means nothing
		}
	case tokArray:
		if !x.d.arrays {
			return brokenf(noArray)
		}
		for i := 0; ; i++ {
			if f := x.l.next(); f != nil {
				return x.lost(f)
			}
			if x.l.tok == tokArrayEnd {
				break
			}
			if f := x.topRow(); f != nil {
				return f.element(i)
			}
		}
	default:
		return brokenf("the message is neither a JSON object nor an array of objects")
	}
	if !x.l.atEnd() {
		return x.guess("there is text after the end of the JSON value").As(changelog.Malformed)
	}
	return nil
}

const noArray = "the message is an array, which is no message before Flink 2.1"

// lost makes an error final that leaves Flink at a place inside a token, from where it reads on. It does so only with 'ignore-parse-errors'.
func (x *exact) lost(f *Failure) *Failure {
	if x.d.IgnoreErrors && !x.d.lenient {
		f.kind = final
		f.reason += "; Flink would lose its place in the rest of the message"
	}
	return f
}

// topRow appends the row that the current token begins.
func (x *exact) topRow() *Failure {
	single := len(x.l.nest) == 1 // the message is one object, not an array of them
	if x.l.tok == tokNull || x.l.tok == noToken {
		if f := x.guess("an array of rows has a null in it").As(changelog.Missing); f != nil {
			return f
		}
		x.b.Append(changelog.Change{Kind: changelog.Insert})
		return nil
	}
	if f := x.take(x.d.width); f != nil {
		return f
	}
	row := x.b.NewRow()
	f := x.object(&x.d.row, row)
	if f == nil {
		x.b.Append(changelog.Change{Kind: changelog.Insert, Row: row})
		return nil
	}
	if f.kind == final || !x.d.IgnoreErrors || !x.d.arrays {
		return f
	}
	if !single || f.kind == misfit {
		if f = x.lost(f); f.kind == final {
			return f
		}
	}
	x.b.Append(changelog.Change{Kind: changelog.Insert})
	return nil
}

// object is createRowConverter: the current token should be its brace. Once it has counted as many members as there are fields it
// skips the rest, so a member that comes twice hides another one.
func (x *exact) object(rp *rowPlan, out []changelog.Value) *Failure {
	if x.l.tok != tokObject {
		return misfitf("not a JSON object")
	}
	met := make([]bool, len(rp.fields))
	found := 0
	if f := x.l.next(); f != nil {
		return f
	}
	for x.l.tok != tokObjectEnd {
		if found >= len(rp.fields) {
			if x.l.tok == tokName {
				if k, ok := rp.index[string(x.l.name)]; ok {
					if f := x.guess("the member is there twice").As(changelog.Malformed); f != nil {
						return f.at(rp.fields[k].name)
					}
				}
			}
			if f := x.skip(); f != nil {
				return f
			}
			continue
		}
		name, ok, f := x.l.str()
		if f != nil {
			return f
		}
		k := -1
		if ok {
			if i, found := rp.index[string(name)]; found {
				k = i
			}
		}
		if f := x.l.next(); f != nil {
			return f
		}
		if k < 0 {
			if f := x.skip(); f != nil {
				return f
			}
			continue
		}
		fd := &rp.fields[k]
		if met[k] {
			if f := x.guess("the member is there twice").As(changelog.Malformed); f != nil {
				return f.at(fd.name)
			}
		}
		met[k] = true
		if f := x.value(&fd.plan, &out[fd.slot]); f != nil {
			return f.at(fd.name)
		}
		if f := x.l.next(); f != nil {
			return f
		}
		found++
	}
	if found < len(rp.fields) && x.d.FailMissing {
		return x.missing(rp, met)
	}
	return nil
}

func (x *exact) missing(rp *rowPlan, met []bool) *Failure {
	for k := range met {
		if !met[k] {
			return misfitf("the member is missing, and 'fail-on-missing-field' is on").As(changelog.Missing).at(rp.fields[k].name)
		}
	}
	return misfitf("a member is missing, and 'fail-on-missing-field' is on").As(changelog.Missing)
}

// skip is skipToNextField.
func (x *exact) skip() *Failure {
	switch x.l.tok {
	case noToken:
		return brokenf("the message ends too early") // a NullPointerException in Flink
	case tokObject, tokArray:
		for open := 1; open > 0; {
			if f := x.l.next(); f != nil {
				return f
			}
			switch x.l.tok {
			case tokObject, tokArray:
				open++
			case tokObjectEnd, tokArrayEnd:
				open--
			case noToken:
				return finalf("Flink would never return from this message").As(changelog.Malformed)
			}
		}
	}
	return x.l.next()
}

// value is wrapIntoNullableConverter: what cannot be read is NULL with 'ignore-parse-errors'. Only where the token was whole and no
// bracket, reading then goes on at the right place.
func (x *exact) value(p *plan, dst *changelog.Value) *Failure {
	*dst = changelog.Value{}
	if x.l.tok == noToken || x.l.tok == tokNull {
		return nil
	}
	bracket := x.l.tok == tokObject || x.l.tok == tokArray
	f := x.notNull(p, dst)
	if f == nil || f.kind == final || !x.d.IgnoreErrors {
		return f
	}
	if bracket || f.kind == broken {
		if f = x.lost(f); f.kind == final {
			return f
		}
	}
	*dst = changelog.Value{}
	return nil
}

func (x *exact) notNull(p *plan, dst *changelog.Value) *Failure {
	switch p.root {
	case changelog.RootNull:
		return nil
	case changelog.RootArray:
		return x.array(p, dst)
	case changelog.RootMap, changelog.RootMultiset:
		return x.mapping(p, dst)
	case changelog.RootRow:
		if f := x.take(len(p.row.fields)); f != nil {
			return f
		}
		fields := x.b.NewValues(len(p.row.fields))
		*dst = changelog.RowValue(fields)
		return x.object(p.row, fields)
	case changelog.RootBinary, changelog.RootVarbinary:
		raw, f := x.l.binary()
		*dst = changelog.BytesValue(x.keep(raw))
		return f
	case changelog.RootChar, changelog.RootVarchar:
		if x.l.tok == tokObject || x.l.tok == tokArray {
			return x.containerText(dst)
		}
		s, _, f := x.l.str()
		*dst = changelog.StringBytesValue(x.keep(s))
		return f
	}
	s, _, f := x.l.str()
	if f != nil {
		return f
	}
	kind := wordText
	switch x.l.tok {
	case tokInt:
		kind = intText
	case tokFloat:
		kind = floatText
	case tokString:
		kind = stringText
	}
	return x.scalar(p, s, kind, dst)
}

func (x *exact) array(p *plan, dst *changelog.Value) *Failure {
	if x.l.tok != tokArray {
		return misfitf("not a JSON array")
	}
	var elems []changelog.Value
	var v changelog.Value // outside of the loop: it escapes
	start := x.l.i
	for i := 0; ; i++ {
		if f := x.l.next(); f != nil {
			return f
		}
		if x.l.tok == tokArrayEnd {
			break
		}
		if x.l.tok == noToken {
			return finalf("Flink would never return from this message").As(changelog.Malformed)
		}
		if f := x.take(1); f != nil {
			return f
		}
		v = changelog.Value{}
		if f := x.value(p.elem, &v); f != nil {
			return f.element(i)
		}
		elems = append(roomFor(elems, 0, start, x.l.i, len(x.l.p)), v)
	}
	*dst = changelog.ArrayValue(x.keepValues(elems))
	return nil
}

func (x *exact) mapping(p *plan, dst *changelog.Value) *Failure {
	if x.l.tok != tokObject {
		return misfitf("not a JSON object")
	}
	m := pairs{at: map[string]int{}}
	for {
		if f := x.l.next(); f != nil {
			return f
		}
		if x.l.tok == tokObjectEnd {
			break
		}
		key, ok, f := x.l.str()
		if f != nil {
			return f
		}
		if !ok {
			return finalf("Flink would never return from this message").As(changelog.Malformed)
		}
		if f := x.take(2); f != nil {
			return f
		}
		k := m.put(x.keep(key))
		if m.twice {
			if f := x.guess("a map has a key twice").As(changelog.Malformed); f != nil {
				return f
			}
		}
		if f := x.l.next(); f != nil {
			return f
		}
		var v changelog.Value
		if f := x.value(p.elem, &v); f != nil {
			return f.entry()
		}
		m.list[k+1] = v
	}
	*dst = changelog.MapValue(x.keepValues(m.list))
	return nil
}

// pairs is a map in the making: a later value takes the place of an earlier one.
type pairs struct {
	list  []changelog.Value
	at    map[string]int
	twice bool
}

func (m *pairs) put(key []byte) int {
	if k, ok := m.at[string(key)]; ok {
		m.twice = true
		return k
	}
	k := len(m.list)
	m.list = append(m.list, changelog.StringBytesValue(key), changelog.Value{})
	m.at[m.list[k].Str()] = k
	return k
}

// take counts n values against the bound.
func (x *exact) take(n int) *Failure {
	if x.room -= n; x.room < 0 {
		return finalf(tooLarge)
	}
	return nil
}

// keep copies text to the arena.
func (x *exact) keep(s []byte) []byte {
	out := x.b.NewBytes(len(s))
	copy(out, s)
	return out
}

// keepValues copies values to the arena.
func (x *exact) keepValues(vs []changelog.Value) []changelog.Value {
	out := x.b.NewValues(len(vs))
	copy(out, vs)
	return out
}

// trim is String.trim: blanks and control characters.
func trim(s []byte) []byte { return bytes.TrimFunc(s, func(r rune) bool { return r <= ' ' }) }

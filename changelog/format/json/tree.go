package json

import (
	"errors"
	"math"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
)

// node is a JsonNode.
type node struct {
	tok   token  // tokObject, tokArray, tokString, tokInt, tokFloat, tokTrue, tokFalse, tokNull; noToken: a MissingNode
	text  []byte // asText
	lossy bool   // of a number: a double does not hold what stood in the message
	kids  []node
	names []string       // of an object's kids
	at    map[string]int // of an object: name to kid
	twice bool           // a member came twice; the last one stands, at the first one's place
}

// readTree reads the value that the current token begins; its last token is then the current one.
func (x *exact) readTree() (n node, f *failure) {
	if f := x.take(2); f != nil { // a node is about as large as two values
		return n, f
	}
	n.tok = x.l.tok
	switch n.tok {
	case tokObject:
		n.at = map[string]int{}
		for {
			if f := x.l.next(); f != nil {
				return n, f
			}
			if x.l.tok == tokObjectEnd {
				return n, nil
			}
			name := string(x.l.name)
			if f := x.l.next(); f != nil {
				return n, f
			}
			kid, f := x.readTree()
			if f != nil {
				return n, f
			}
			if k, ok := n.at[name]; ok {
				n.twice = true
				n.kids[k] = kid
				continue
			}
			n.at[name] = len(n.kids)
			n.names = append(n.names, name)
			n.kids = append(n.kids, kid)
		}
	case tokArray:
		for {
			if f := x.l.next(); f != nil {
				return n, f
			}
			if x.l.tok == tokArrayEnd {
				return n, nil
			}
			kid, f := x.readTree()
			if f != nil {
				return n, f
			}
			n.kids = append(n.kids, kid)
		}
	case tokString:
		s, _, f := x.l.str()
		n.text = x.keep(s)
		return n, f
	case tokInt:
		n.text = x.l.text
		if string(n.text) == "-0" {
			n.text = n.text[1:]
		}
		return n, nil
	case tokFloat:
		return n, x.floatNode(&n, x.l.text)
	case tokTrue, tokFalse, tokNull:
		n.text = tokenText[n.tok]
		return n, nil
	}
	return n, brokenf("a value is missing")
}

// floatNode makes a DoubleNode, or where the table has a DECIMAL a DecimalNode without trailing zeros.
func (x *exact) floatNode(n *node, s []byte) *failure {
	if x.d.decimals {
		text, ok := bigDecimal(s)
		if !ok {
			return brokenf("a number has an exponent beyond 32 bits")
		}
		n.text = text
		return nil
	}
	d, err := strconv.ParseFloat(string(s), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return brokenf("a number is none")
	}
	switch {
	case math.IsInf(d, 1):
		n.text = []byte("Infinity")
	case math.IsInf(d, -1):
		n.text = []byte("-Infinity")
	default:
		n.text = changelog.AppendJavaDouble(nil, d)
	}
	n.lossy = !sameNumber(n.text, s)
	return nil
}

func (x *exact) treeRows() *failure {
	if f := x.l.next(); f != nil {
		return f
	}
	if x.l.tok == noToken || x.l.tok == tokNull {
		return x.guess("the message has no JSON value, or null; Flink would drop it")
	}
	n, f := x.readTree()
	if f != nil {
		return f
	}
	if !x.l.atEnd() {
		if f := x.guess("there is text after the end of the JSON value"); f != nil {
			return f
		}
	}
	if n.tok != tokArray {
		return x.treeRow(&n)
	}
	for i := range n.kids {
		if n.kids[i].tok == tokNull {
			if f := x.guess("an array of rows has a null in it; Flink would drop it"); f != nil {
				return f.element(i)
			}
			continue
		}
		if f := x.treeRow(&n.kids[i]); f != nil {
			return f.element(i)
		}
	}
	return nil
}

func (x *exact) treeRow(n *node) *failure {
	if f := x.take(x.d.width); f != nil {
		return f
	}
	row := x.b.NewRow()
	f := x.treeObject(&x.d.row, n, row)
	switch {
	case f == nil:
		x.b.Append(changelog.Change{Kind: changelog.Insert, Row: row})
	case f.kind != final && x.d.ignoreErrors:
		f = nil // the row is skipped
	}
	return f
}

// treeObject is createRowConverter of JsonToRowDataConverters.
func (x *exact) treeObject(rp *rowPlan, n *node, out []changelog.Value) *failure {
	if n.tok != tokObject {
		return misfitf("not a JSON object")
	}
	if n.twice {
		if f := x.guess("a member is there twice"); f != nil {
			return f
		}
	}
	for i := range rp.fields {
		fd := &rp.fields[i]
		k, ok := n.at[fd.name]
		if !ok {
			if x.d.failMissing {
				return misfitf("the member is missing, and 'fail-on-missing-field' is on").at(fd.name)
			}
			continue
		}
		if f := x.treeValue(&fd.plan, &n.kids[k], &out[fd.slot]); f != nil {
			return f.at(fd.name)
		}
	}
	return nil
}

func (x *exact) treeValue(p *plan, n *node, dst *changelog.Value) *failure {
	*dst = changelog.Value{}
	if n.tok == tokNull {
		return nil
	}
	f := x.treeNotNull(p, n, dst)
	if f != nil && f.kind != final && x.d.ignoreErrors {
		*dst = changelog.Value{}
		f = nil
	}
	return f
}

func (x *exact) treeNotNull(p *plan, n *node, dst *changelog.Value) *failure {
	switch p.root {
	case changelog.RootNull:
		return nil
	case changelog.RootArray:
		if n.tok != tokArray {
			return misfitf("not a JSON array")
		}
		if f := x.take(len(n.kids)); f != nil {
			return f
		}
		elems := x.b.NewValues(len(n.kids))
		for i := range n.kids {
			if f := x.treeValue(p.elem, &n.kids[i], &elems[i]); f != nil {
				return f.element(i)
			}
		}
		*dst = changelog.ArrayValue(elems)
		return nil
	case changelog.RootMap, changelog.RootMultiset:
		if n.tok != tokObject {
			if f := x.guess("not a JSON object; Flink would read an empty map"); f != nil {
				return f
			}
			*dst = changelog.MapValue(nil)
			return nil
		}
		if n.twice {
			if f := x.guess("a map has a key twice"); f != nil {
				return f
			}
		}
		if f := x.take(2 * len(n.kids)); f != nil {
			return f
		}
		list := x.b.NewValues(2 * len(n.kids))
		for i := range n.kids {
			list[2*i] = changelog.StringValue(n.names[i])
			if f := x.treeValue(p.elem, &n.kids[i], &list[2*i+1]); f != nil {
				return f.entry()
			}
		}
		*dst = changelog.MapValue(list)
		return nil
	case changelog.RootRow:
		if f := x.take(len(p.row.fields)); f != nil {
			return f
		}
		fields := x.b.NewValues(len(p.row.fields))
		*dst = changelog.RowValue(fields)
		return x.treeObject(p.row, n, fields)
	case changelog.RootBinary, changelog.RootVarbinary:
		if n.tok != tokString {
			return x.guess("not a string in base64; Flink would read NULL")
		}
		raw, f := base64Text(n.text)
		*dst = changelog.BytesValue(x.keep(raw))
		return f
	case changelog.RootChar, changelog.RootVarchar:
		if n.tok == tokObject || n.tok == tokArray {
			return x.treeText(*n, dst)
		}
		if n.lossy {
			if f := x.guess("a number that a double does not hold; Flink would read another one"); f != nil {
				return f
			}
		}
		*dst = changelog.StringBytesValue(x.keep(n.text))
		return nil
	}
	kind := wordText
	switch n.tok {
	case tokInt:
		kind = intText
	case tokFloat:
		kind = floatText
	case tokString:
		kind = stringText
	}
	return x.scalar(p, n.text, kind, dst)
}

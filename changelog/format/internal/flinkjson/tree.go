package flinkjson

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
)

// Node is a JsonNode. Its text and its name live as long as the batch and the payload do, its kids as long as the message is read.
type Node struct {
	tok   token // tokObject, tokArray, tokString, tokInt, tokFloat, tokTrue, tokFalse, tokNull; noToken: a MissingNode
	lossy bool  // of a number: a double does not hold what stood in the message
	twice bool  // of an object: a member came twice; the last one stands, at the first one's place
	text  []byte
	name  []byte // of a member of an object
	kids  []Node
	at    map[string]int // of an object of many members: name to kid
}

// fewMembers is how many members are looked through one by one.
const fewMembers = 16

// readTree reads the value that the current token begins; its last token is then the current one.
func (x *exact) readTree() (n Node, f *Failure) {
	if f := x.take(3); f != nil { // a node is about as large as three values
		return n, f
	}
	n.tok = x.l.tok
	switch n.tok {
	case tokObject:
		base := len(x.tree.stack)
		for {
			if f := x.l.next(); f != nil {
				return n, f
			}
			if x.l.tok == tokObjectEnd {
				n.kids = x.tree.pop(base)
				return n, nil
			}
			name := x.l.name
			if !x.l.bare {
				name = x.keep(name)
			}
			if f := x.l.next(); f != nil {
				return n, f
			}
			kid, f := x.readTree()
			if f != nil {
				return n, f
			}
			kid.name = name
			members := x.tree.stack[base:]
			if len(members) == fewMembers {
				n.at = make(map[string]int, 2*fewMembers)
				for i := range members {
					n.at[string(members[i].name)] = i
				}
			}
			if k, ok := find(members, n.at, name); ok {
				n.twice = true
				members[k] = kid
				continue
			}
			if n.at != nil {
				n.at[string(name)] = len(members)
			}
			x.tree.stack = append(x.tree.stack, kid)
		}
	case tokArray:
		base := len(x.tree.stack)
		for {
			if f := x.l.next(); f != nil {
				return n, f
			}
			if x.l.tok == tokArrayEnd {
				n.kids = x.tree.pop(base)
				return n, nil
			}
			kid, f := x.readTree()
			if f != nil {
				return n, f
			}
			x.tree.stack = append(x.tree.stack, kid)
		}
	case tokString:
		s, _, f := x.l.str()
		if n.text = s; !x.l.bare {
			n.text = x.keep(s)
		}
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
func (x *exact) floatNode(n *Node, s []byte) *Failure {
	if x.d.decimals {
		if strippedDecimal(s) {
			n.text = s
			return nil
		}
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
	n.lossy = !bytes.Equal(n.text, s) && !sameNumber(n.text, s)
	return nil
}

// find returns which of the members has the name.
func find[T string | []byte](members []Node, at map[string]int, name T) (int, bool) {
	if at != nil {
		k, ok := at[string(name)]
		return k, ok
	}
	for i := range members {
		if string(members[i].name) == string(name) {
			return i, true
		}
	}
	return 0, false
}

// member returns the member called name of an object, or nil. likely is where it is if the writer keeps the table's order.
func (n *Node) member(name string, likely int) *Node {
	if likely < len(n.kids) && string(n.kids[likely].name) == name {
		return &n.kids[likely]
	}
	if k, ok := find(n.kids, n.at, name); ok {
		return &n.kids[k]
	}
	return nil
}

// treeMemory is where the nodes of one message are.
type treeMemory struct {
	stack []Node // of the arrays and objects that are being read
	chunk []Node
	used  int // of chunk
}

const (
	nodeChunk = 128
	keptNodes = 1024
)

// pop moves the nodes above base from the stack to a place where they stay.
func (m *treeMemory) pop(base int) []Node {
	n := len(m.stack) - base
	if m.used+n > len(m.chunk) {
		m.chunk, m.used = make([]Node, max(n, nodeChunk)), 0 // the old chunk lives on through its nodes
	}
	to := m.chunk[m.used : m.used+n : m.used+n]
	m.used += n
	copy(to, m.stack[base:])
	clear(m.stack[base:])
	m.stack = m.stack[:base]
	return to
}

func (m *treeMemory) reset() {
	clear(m.stack)
	m.stack = m.stack[:0]
	if cap(m.stack) > keptNodes {
		m.stack = nil // one huge message must not hold its memory for ever
	}
	if len(m.chunk) > keptNodes {
		m.chunk = nil
	}
	clear(m.chunk[:min(m.used, len(m.chunk))])
	m.used = 0
}

func (x *exact) treeRows() *Failure {
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
	if !x.d.arrays {
		return misfitf(noArray)
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

func (x *exact) treeRow(n *Node) *Failure {
	if f := x.take(x.d.width); f != nil {
		return f
	}
	row := x.b.NewRow()
	f := x.treeObject(&x.d.row, n, row)
	switch {
	case f == nil:
		x.b.Append(changelog.Change{Kind: changelog.Insert, Row: row})
	case f.kind != final && x.d.IgnoreErrors:
		f = nil // the row is skipped
	}
	return f
}

// treeObject is createRowConverter of JsonToRowDataConverters.
func (x *exact) treeObject(rp *rowPlan, n *Node, out []changelog.Value) *Failure {
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
		kid := n.member(fd.name, i)
		if kid == nil {
			if x.d.FailMissing {
				return misfitf("the member is missing, and 'fail-on-missing-field' is on").at(fd.name)
			}
			continue
		}
		if f := x.treeValue(&fd.plan, kid, &out[fd.slot]); f != nil {
			return f.at(fd.name)
		}
	}
	return nil
}

func (x *exact) treeValue(p *plan, n *Node, dst *changelog.Value) *Failure {
	*dst = changelog.Value{}
	if n.tok == tokNull {
		return nil
	}
	f := x.treeNotNull(p, n, dst)
	if f != nil && f.kind != final && x.d.IgnoreErrors {
		*dst = changelog.Value{}
		f = nil
	}
	return f
}

func (x *exact) treeNotNull(p *plan, n *Node, dst *changelog.Value) *Failure {
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
			list[2*i] = changelog.StringBytesValue(n.kids[i].name)
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
		*dst = changelog.StringBytesValue(n.text)
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

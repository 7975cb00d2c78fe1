package flinkjson

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"unsafe"

	"github.com/flinksink/flinksink/changelog"
)

// fewMembers is how many members are looked through one by one.
const fewMembers = 16

// maxNodes is how many values, counting those inside others, a message may have that is read as a tree: one for every two bytes of 16 MiB,
// which is beyond what brokers let pass unless they are told to (message.max.bytes is 1 MiB). Their nodes take 400 MB at most.
const maxNodes = 8 << 20

const tooManyNodes = "the message holds more than 8388608 JSON values, counting those inside others, which is the most for a message that has to be read as a tree"

// readTree reads the value that the current token begins; its last token is then the current one.
func (x *exact) readTree() (n Node, f *Failure) {
	if x.tree.left--; x.tree.left < 0 {
		return n, finalf(tooManyNodes)
	}
	n.tok = x.l.tok
	switch n.tok {
	case tokObject:
		f = x.readMembers(&n)
		return n, f
	case tokArray:
		f = x.readElements(&n)
		return n, f
	case tokString:
		s, _, f := x.l.str()
		if !x.l.bare {
			s = x.keep(s)
		}
		n.setText(s)
		return n, f
	case tokInt:
		n.setText(intNode(x.l.text))
		return n, nil
	case tokFloat:
		text, inexact, f := x.floatNode(x.l.text)
		n.setText(x.keepOther(text, x.l.text))
		if inexact {
			n.flags |= nodeLossy
		}
		return n, f
	case tokTrue, tokFalse, tokNull:
		n.setText(tokenText[n.tok])
		return n, nil
	}
	return n, brokenf("a value is missing")
}

func (x *exact) readMembers(n *Node) *Failure {
	base := x.tree.stack.n
	x.bounded = nil
	var at map[string]int // once there are many
	root := len(x.l.nest) == 1
	for {
		if f := x.l.next(); f != nil {
			return f
		}
		if x.l.tok == tokObjectEnd {
			n.setKids(x.tree.pop(base), at)
			return nil
		}
		name := x.l.name
		if !x.l.bare {
			name = x.keep(name)
		}
		if root && x.outline != nil {
			x.bounded = x.outline.bounded(name)
		}
		if f := x.l.next(); f != nil {
			return f
		}
		kid, f := x.readTree()
		if f != nil {
			return x.inMember(f, name)
		}
		kid.setName(name)
		count := x.tree.stack.n - base
		if at == nil && count == fewMembers {
			at = make(map[string]int, 2*fewMembers)
			for i := range count {
				at[string(x.tree.stack.at(base+i).Name())] = i
			}
		}
		if k, ok := x.find(base, at, name); ok {
			n.flags |= nodeTwice
			*x.tree.stack.at(base + k) = kid
			continue
		}
		if at != nil {
			at[string(name)] = count
		}
		x.tree.stack.push(kid)
	}
}

// find returns which of the members above base has the name.
func (x *exact) find(base int, at map[string]int, name []byte) (int, bool) {
	if at != nil {
		k, ok := at[string(name)]
		return k, ok
	}
	for i := base; i < x.tree.stack.n; i++ {
		if string(x.tree.stack.at(i).Name()) == string(name) {
			return i - base, true
		}
	}
	return 0, false
}

func (x *exact) readElements(n *Node) *Failure {
	base := x.tree.stack.n
	rows := x.bounded // of the message, if they are bounded
	x.bounded = nil
	for i := 0; ; i++ {
		if f := x.l.next(); f != nil {
			return f
		}
		if x.l.tok == tokArrayEnd {
			n.setKids(x.tree.pop(base), nil)
			return nil
		}
		if rows != nil && i == rows.Max {
			return finalf(rows.TooMany).at(rows.Name)
		}
		kid, f := x.readTree()
		if f != nil {
			return f
		}
		x.tree.stack.push(kid)
	}
}

// inMember says in f, if it is about the bound of nodes, in which member the message went beyond it. Only names that the table or the envelope
// has are told: others may be data, the keys of a map.
func (x *exact) inMember(f *Failure, name []byte) *Failure {
	if f.reason == tooManyNodes && x.d.knows(name) {
		return f.at(string(name))
	}
	return f
}

// knows reports whether the table or the envelope has a member of the name.
func (d *Decoder) knows(name []byte) bool {
	switch string(name) {
	case "payload", "schema", "before", "after", "data", "old", "source":
		return true
	}
	if _, ok := d.row.index[string(name)]; ok {
		return true
	}
	for _, o := range d.objects {
		if _, ok := o.row.index[string(name)]; ok {
			return true
		}
	}
	return false
}

// intNode is the text of an IntNode, LongNode or BigIntegerNode that is read from s.
func intNode(s []byte) []byte {
	if string(s) == "-0" {
		return s[1:]
	}
	return s
}

// keepOther returns s if it equals text, which needs no copy then, or else a copy of text.
func (x *exact) keepOther(text, s []byte) []byte {
	if bytes.Equal(text, s) {
		return s
	}
	return x.keep(text)
}

// floatNode is the text of the DoubleNode that is read from s, or where the table has a DECIMAL of the DecimalNode without trailing zeros. It
// is valid until the next call. inexact reports that a double does not hold s.
func (x *exact) floatNode(s []byte) (text []byte, inexact bool, f *Failure) {
	if x.d.decimals {
		if strippedDecimal(s) {
			return s, false, nil
		}
		text, ok := bigDecimal(s)
		if !ok {
			return nil, false, brokenf("a number has an exponent beyond 32 bits").As(changelog.OutOfRange)
		}
		return text, false, nil
	}
	d, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(s), len(s)), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, false, brokenf("a number is none")
	}
	switch {
	case math.IsInf(d, 1):
		text = []byte("Infinity")
	case math.IsInf(d, -1):
		text = []byte("-Infinity")
	default:
		x.double = changelog.AppendJavaDouble(x.double[:0], d)
		text = x.double
	}
	return text, !bytes.Equal(text, s) && !sameNumber(text, s), nil
}

func (x *exact) treeRows() *Failure {
	if f := x.l.next(); f != nil {
		return f
	}
	if x.l.tok == noToken || x.l.tok == tokNull {
		return x.guess("the message has no JSON value, or null; Flink would drop it").As(changelog.Missing)
	}
	n, f := x.readTree()
	if f != nil {
		return f
	}
	if !x.l.atEnd() {
		if f := x.guess("there is text after the end of the JSON value").As(changelog.Malformed); f != nil {
			return f
		}
	}
	if n.tok != tokArray {
		return x.treeRow(&n)
	}
	if !x.d.arrays {
		return misfitf(noArray).As(changelog.Malformed)
	}
	kids := n.Kids()
	for i := range kids {
		if kids[i].tok == tokNull {
			if f := x.guess("an array of rows has a null in it; Flink would drop it").As(changelog.Missing); f != nil {
				return f.element(i)
			}
			continue
		}
		if f := x.treeRow(&kids[i]); f != nil {
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
	if n.flags&nodeTwice != 0 {
		if f := x.guess("a member is there twice").As(changelog.Malformed); f != nil {
			return f
		}
	}
	for i := range rp.fields {
		fd := &rp.fields[i]
		kid := n.member(fd.name, i)
		if kid == nil {
			if x.d.FailMissing {
				return misfitf("the member is missing, and 'fail-on-missing-field' is on").As(changelog.Missing).at(fd.name)
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
		kids := n.Kids()
		if f := x.take(len(kids)); f != nil {
			return f
		}
		elems := x.b.NewValues(len(kids))
		for i := range kids {
			if f := x.treeValue(p.elem, &kids[i], &elems[i]); f != nil {
				return f.element(i)
			}
		}
		*dst = changelog.ArrayValue(elems)
		return nil
	case changelog.RootMap, changelog.RootMultiset:
		if n.tok != tokObject {
			if f := x.guess("not a JSON object; Flink would read an empty map").As(changelog.WrongType); f != nil {
				return f
			}
			*dst = changelog.MapValue(nil)
			return nil
		}
		if n.flags&nodeTwice != 0 {
			if f := x.guess("a map has a key twice").As(changelog.Malformed); f != nil {
				return f
			}
		}
		kids := n.Kids()
		if f := x.take(2 * len(kids)); f != nil {
			return f
		}
		list := x.b.NewValues(2 * len(kids))
		for i := range kids {
			list[2*i] = changelog.StringBytesValue(kids[i].Name())
			if f := x.treeValue(p.elem, &kids[i], &list[2*i+1]); f != nil {
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
			return x.guess("not a string in base64; Flink would read NULL").As(changelog.WrongType)
		}
		raw, f := base64Text(n.Text())
		*dst = changelog.BytesValue(x.keep(raw))
		return f
	case changelog.RootChar, changelog.RootVarchar:
		if n.holds() {
			return x.treeText(n, dst)
		}
		if n.flags&nodeLossy != 0 {
			if f := x.guess("a number that a double does not hold; Flink would read another one"); f != nil {
				return f
			}
		}
		*dst = changelog.StringBytesValue(n.Text())
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
	return x.scalar(p, n.Text(), kind, dst)
}

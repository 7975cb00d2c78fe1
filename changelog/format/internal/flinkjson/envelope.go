package flinkjson

import (
	"errors"
	"fmt"
	"sync"

	"github.com/flinksink/flinksink/changelog"
)

// Envelope reads messages that hold rows at some depth, of the formats that wrap JSON rows. It follows the rules of Flink's tree decoder
// (JsonRowDataDeserializationSchema over the envelope's own row type). It is safe for use by several goroutines.
type Envelope struct {
	// NoArrays refuses an array of one message, as the formats do that take the tree apart themselves.
	NoArrays bool

	d        *Decoder
	work     sync.Pool // of *exact
	outlines sync.Pool // of *outlineWork
}

// NewEnvelope makes a reader of messages whose rows have columns of the given objects.
func NewEnvelope(o Options, lenient bool, objects ...*Object) *Envelope {
	o.Tree, o.FailMissing = true, false
	d := &Decoder{Options: o, lenient: lenient, nodes: maxNodes, objects: objects}
	for _, obj := range objects {
		d.decimals = d.decimals || obj.decimals
		d.width = max(d.width, obj.width)
		d.flink, d.arrays = obj.flink, obj.flink.Since(changelog.Flink2_1)
	}
	return &Envelope{d: d}
}

// Object is a JSON object that is a row of a table.
type Object struct {
	row      rowPlan
	width    int // of the table's rows
	decimals bool
	flink    changelog.FlinkVersion
}

// NewObject makes the object of p's columns, or says which of them JSON cannot hold. format is what errors begin with.
func NewObject(format string, p changelog.Payload) (*Object, error) {
	d, err := NewDecoder(format, p, Options{})
	if err != nil {
		return nil, err
	}
	return &Object{row: d.row, width: d.width, decimals: d.decimals, flink: d.flink}, nil
}

// Field is one member of an envelope that is no row.
type Field struct {
	name string
	plan plan
}

// NewField makes a member of type t, as [changelog.ParseType] reads it.
func NewField(name, t string) (*Field, error) {
	typ, err := changelog.ParseType(t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p, err := newPlan(&typ)
	return &Field{name, p}, err
}

// Tree is a message while it is read. It is valid in the call that it was handed to.
type Tree exact

// Read hands the message's root to one, which appends the changes it finds, or none when it fails. An error is a *changelog.DataError.
// What is not an error: what one hands back and 'ignore-parse-errors' lets pass, and what Flink drops while the reader is lenient.
func (e *Envelope) Read(b *changelog.Batch, payload []byte, one func(t *Tree, root *Node) *Failure) error {
	return e.read(b, payload, nil, one)
}

// read is Read. o, if not nil, bounds the rows of the message while they are read.
func (e *Envelope) read(b *changelog.Batch, payload []byte, o *Outline, one func(t *Tree, root *Node) *Failure) error {
	x, _ := e.work.Get().(*exact)
	if x == nil {
		x = new(exact)
	}
	defer e.work.Put(x)
	start := b.Len()
	x.outline = o
	f := x.read(e.d, b, payload, func(x *exact) *Failure {
		root, f := x.root(e.NoArrays)
		if f != nil {
			return f
		}
		return one((*Tree)(x), &root)
	})
	if f != nil {
		b.Truncate(start)
		return f.dataError()
	}
	return nil
}

// root reads the one value of the message. An array of one stands for what is in it.
func (x *exact) root(noArrays bool) (n Node, f *Failure) {
	if f := x.l.next(); f != nil {
		return n, f
	}
	if x.l.tok == noToken || x.l.tok == tokNull {
		return n, misfitf("the message has no JSON value, or null").As(changelog.Missing)
	}
	if n, f = x.readTree(); f != nil {
		return n, f
	}
	if !x.l.atEnd() {
		if f := x.guess("there is text after the end of the JSON value").As(changelog.Malformed); f != nil {
			return n, f
		}
	}
	if n.tok != tokArray || noArrays || !x.d.arrays {
		return n, nil
	}
	var rows []Node // at most two: what matters is whether there is one
	kids := n.Kids()
	for i := range kids {
		if kids[i].tok != tokNull {
			if len(rows) < 2 {
				rows = append(rows, kids[i])
			}
		} else if f := x.guess("an array of rows has a null in it; Flink would drop it").As(changelog.Missing); f != nil {
			return n, f
		}
	}
	if len(rows) != 1 {
		return n, misfitf("the message is an array that does not hold one object; a message of this format is one").As(changelog.Malformed)
	}
	return rows[0], nil
}

// Guess returns a failure that 'ignore-parse-errors' does not hide, or nil when the reader is lenient: for what Flink guesses.
func (t *Tree) Guess(class changelog.DataClass, reason string) *Failure {
	return (*exact)(t).guess(reason).As(class)
}

// Misfit returns a failure that 'ignore-parse-errors' hides: for what Flink refuses too.
func Misfit(class changelog.DataClass, reason string) *Failure { return misfitf(reason).As(class) }

// Refuse returns a failure that nothing hides.
func Refuse(class changelog.DataClass, reason string) *Failure { return finalf(reason).As(class) }

// Again is what a message of an [Outline] is answered with that is to be read as a tree, since the outline does not say all that an answer takes.
func Again() *Failure { return &Failure{kind: again} }

// At puts f inside the member called name.
func (f *Failure) At(name string) *Failure { return f.at(name) }

// AtElement puts f inside element i of an array.
func (f *Failure) AtElement(i int) *Failure { return f.element(i) }

// Object reports what n is not: an object that has each member once.
func (t *Tree) Object(n *Node) *Failure {
	if n.tok != tokObject {
		return misfitf("not a JSON object")
	}
	if n.Twice() {
		return t.Guess(changelog.Malformed, "a member is there twice")
	}
	return nil
}

// Row reads a row from n, which may be nil; it is nil where n is, or null. each, if not nil, is called for each column that the object has,
// with its number in the payload and its node, or nil where the member is missing; when it returns true it has set the value.
func (t *Tree) Row(o *Object, n *Node, each func(column int, n *Node, dst *changelog.Value) bool) (changelog.Row, *Failure) {
	if n.IsNull() {
		return nil, nil
	}
	x := (*exact)(t)
	f := x.take(o.width)
	if f == nil {
		row := x.b.NewRow()
		if f = t.row(o, n, row, each); f == nil {
			return row, nil
		}
	}
	if f.kind != final && x.d.IgnoreErrors {
		f = nil
	}
	return nil, f
}

func (t *Tree) row(o *Object, n *Node, row changelog.Row, each func(int, *Node, *changelog.Value) bool) *Failure {
	if f := t.Object(n); f != nil {
		return f
	}
	for i := range o.row.fields {
		fd := &o.row.fields[i]
		kid := n.member(fd.name, i)
		if each != nil && each(i, kid, &row[fd.slot]) || kid == nil {
			continue
		}
		if f := (*exact)(t).treeValue(&fd.plan, kid, &row[fd.slot]); f != nil {
			return f.at(fd.name)
		}
	}
	return nil
}

// Value reads a member of the object n; it is NULL where the member is missing or null.
func (t *Tree) Value(fd *Field, n *Node) (v changelog.Value, f *Failure) {
	kid := n.Member(fd.name)
	if kid == nil {
		return v, nil
	}
	if f = (*exact)(t).treeValue(&fd.plan, kid, &v); f != nil {
		f = f.at(fd.name)
	}
	return v, f
}

// IsNull reports whether n is nil, or JSON's null.
func (n *Node) IsNull() bool { return n == nil || n.tok == tokNull }

// Member returns the member called name of an object, or nil.
func (n *Node) Member(name string) *Node {
	if n.tok != tokObject {
		return nil
	}
	return n.member(name, 0)
}

// IsText reports whether n is the string s.
func (n *Node) IsText(s string) bool { return n.tok == tokString && string(n.Text()) == s }

// IsInteger reports whether n is the integer that s spells.
func (n *Node) IsInteger(s string) bool { return n.tok == tokInt && string(n.Text()) == s }

// Elems returns the elements of an array; nil for anything else.
func (n *Node) Elems() []Node {
	if n.tok != tokArray {
		return nil
	}
	return n.Kids()
}

// Only returns the member of an object that has one, with its name.
func (n *Node) Only() (name string, kid *Node, ok bool) {
	kids := n.Kids()
	if n.tok != tokObject || len(kids) != 1 {
		return "", nil, false
	}
	return string(kids[0].Name()), &kids[0], true
}

// ParseLong is Java's Long.parseLong.
func ParseLong(s string) (int64, error) {
	v, ok := javaInt([]byte(s))
	if !ok {
		return 0, errors.New("not an integer of 64 bits")
	}
	return v, nil
}

package parquet

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/parquet-go/parquet-go"

	"github.com/flinksink/flinksink/changelog"
)

// tree is a schema with what it takes to cut a row into columns.
type tree struct {
	fields  []*node
	columns int // leaves
}

// node is one value of a row, at any depth.
type node struct {
	name     string
	typ      *changelog.Type
	kind     changelog.ValueKind // of its values
	optional bool
	column   int // of a leaf
	leaves   int // below this one, from column on
	children []*node
	depth    int // repetitions above the elements of a list or map
	leaf     parquet.Node
	value    toParquet // of a leaf
}

func compile(s *changelog.Schema) (*tree, error) {
	t := &tree{}
	var errs []error
	for i := range s.Columns {
		c := &s.Columns[i]
		n, err := newNode(c.Name, &c.Type, &t.columns, 0)
		if err != nil {
			errs = append(errs, fmt.Errorf("column %q: %w", c.Name, err))
			continue
		}
		t.fields = append(t.fields, n)
	}
	return t, errors.Join(errs...)
}

var countType = changelog.Type{Root: changelog.RootInt, NotNull: true}

func newNode(name string, t *changelog.Type, columns *int, depth int) (n *node, err error) {
	n = &node{name: name, typ: t, kind: t.Root.ValueKind(), optional: !t.NotNull, column: *columns, depth: depth + 1}
	child := func(name string, t *changelog.Type, depth int) {
		if err != nil {
			return
		}
		var c *node
		if c, err = newNode(name, t, columns, depth); err == nil {
			n.children = append(n.children, c)
		}
	}
	switch t.Root {
	case changelog.RootArray:
		child("element", t.Elem, depth+1)
	case changelog.RootMap, changelog.RootMultiset:
		key, value := t.Key, t.Elem
		if t.Root == changelog.RootMultiset {
			key, value = t.Elem, &countType
		}
		required := *key
		required.NotNull = true
		child("key", &required, depth+1)
		child("value", value, depth+1)
	case changelog.RootRow:
		if len(t.Fields) == 0 {
			return nil, errors.New("a ROW without fields is no Parquet group")
		}
		for i := range t.Fields {
			child(t.Fields[i].Name, &t.Fields[i].Type, depth)
		}
	default:
		n.leaf, n.value, err = leafOf(t)
		*columns++
	}
	n.leaves = *columns - n.column
	return n, err
}

// node returns what parquet-go takes.
func (n *node) node() parquet.Node {
	var out parquet.Node
	switch n.typ.Root {
	case changelog.RootArray:
		out = parquet.List(n.children[0].node())
	case changelog.RootMap, changelog.RootMultiset:
		out = parquet.Map(n.children[0].node(), n.children[1].node())
	case changelog.RootRow:
		out = newGroup(n.children)
	default:
		out = n.leaf
	}
	if n.optional {
		return parquet.Optional(out)
	}
	return parquet.Required(out)
}

func (t *tree) group() parquet.Node { return newGroup(t.fields) }

// group keeps its fields in the order of the columns, where parquet.Group sorts them by name.
type group struct {
	parquet.Group
	order []parquet.Field
}

func newGroup(nodes []*node) parquet.Node {
	g := group{Group: parquet.Group{}}
	for _, n := range nodes {
		child := n.node()
		g.Group[n.name] = child
		g.order = append(g.order, field{child, n.name})
	}
	return g
}

func (g group) Fields() []parquet.Field { return g.order }

func (g group) GoType() reflect.Type { return g.Group.GoType() }

type field struct {
	parquet.Node
	name string
}

func (f field) Name() string { return f.name }

// Value is for writers of Go values, which this package is not.
func (f field) Value(base reflect.Value) reflect.Value { return base.MapIndex(reflect.ValueOf(f.name)) }

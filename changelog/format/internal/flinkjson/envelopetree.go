package flinkjson

import "github.com/flinksink/flinksink/changelog"

// Message reads the members of o from root, by the rules of trees.
func (t *Tree) Message(o *Outline, root *Node) (m *Message, f *Failure) {
	if f := t.Object(root); f != nil {
		return nil, f
	}
	m = &Message{Rows: make([][]Image, len(o.rows)), Values: make([]changelog.Value, len(o.fields)), o: o}
	for i, name := range o.names {
		if i < 64 && root.Member(name) != nil {
			m.met |= 1 << i
		}
	}
	for i := range o.rows {
		if m.Rows[i], f = t.images(&o.rows[i], root.Member(o.rows[i].Name)); f != nil {
			return nil, f.at(o.rows[i].Name)
		}
	}
	for i := range o.fields {
		if m.Values[i], f = t.Value(o.fields[i], root); f != nil {
			return nil, f
		}
	}
	return m, nil
}

// images reads a member that holds rows. With 'ignore-parse-errors' what is no array is NULL, and what is no row is one that is null.
func (t *Tree) images(rm *RowsMember, n *Node) ([]Image, *Failure) {
	if n.IsNull() {
		return nil, nil
	}
	if !rm.Many {
		img, f := t.image(rm.Object, n)
		if f != nil || img.Row == nil {
			return nil, f
		}
		return []Image{img}, nil
	}
	if n.tok != tokArray {
		if t.d.IgnoreErrors {
			return nil, nil
		}
		return nil, misfitf("not a JSON array")
	}
	kids := n.Kids()
	if rm.Max > 0 && len(kids) > rm.Max {
		return nil, finalf(rm.TooMany)
	}
	images := make([]Image, len(kids))
	for i := range kids {
		var f *Failure
		if images[i], f = t.image(rm.Object, &kids[i]); f != nil {
			return nil, f.element(i)
		}
	}
	return images, nil
}

func (t *Tree) image(o *Object, n *Node) (img Image, f *Failure) {
	img.Has = make([]bool, len(o.row.fields))
	img.Row, f = t.Row(o, n, func(column int, n *Node, _ *changelog.Value) bool {
		img.Has[column] = n != nil
		return false
	})
	return img, f
}

// Named notes in found, by number, the columns of o whose name some object in n has as a member, at whatever depth: JsonNode.findValue.
func (o *Object) Named(n *Node, found []bool) {
	if n == nil {
		return
	}
	kids := n.Kids()
	for i := range kids {
		if n.tok == tokObject {
			if k, ok := o.row.index[string(kids[i].Name())]; ok {
				found[k] = true
			}
		}
		o.Named(&kids[i], found)
	}
}

// AsText is JsonNode.asText: the text of a scalar, nothing for an object or an array. It is not ok where n is nil.
func (n *Node) AsText() (string, bool) {
	if n == nil {
		return "", false
	}
	if n.holds() {
		return "", true
	}
	return string(n.Text()), true
}

package flinkjson

import (
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// Outline says which members of a message a format reads: members that are rows or arrays of rows, and members that are values of their
// own. Members of other names are skipped.
type Outline struct {
	// Inside names the member of the message that has them all; "" where the message itself has. Members beside it are skipped.
	Inside string

	rows   []RowsMember
	fields []*Field
	index  map[string]int // of rows; of fields, after them
	names  []string
}

// RowsMember is a member that holds rows.
type RowsMember struct {
	Name   string
	Object *Object
	Many   bool // an array of rows, rather than one
	Flat   bool // whatever the rows hold that is an object or an array is left to the reader of trees

	// Odd, if not nil, reports that a value is left to the reader of trees. It is called for texts, objects and arrays that are a column's, with
	// the message from the value's first byte on.
	Odd func(text []byte) bool

	Max     int    // of the rows in an array; 0: no bound
	TooMany string // the reason that is told for more
}

// NewOutline makes an outline. A name that comes twice is read once.
func NewOutline(rows []RowsMember, fields []*Field) *Outline {
	o := &Outline{rows: rows, index: map[string]int{}}
	for i := range rows {
		o.index[rows[i].Name] = i
		o.names = append(o.names, rows[i].Name)
	}
	for _, f := range fields {
		if _, ok := o.index[f.name]; !ok {
			o.index[f.name] = len(o.names)
			o.names = append(o.names, f.name)
			o.fields = append(o.fields, f)
		}
	}
	return o
}

// Message is what an [Outline] finds in a message. Its slices are valid in the call that it was handed to; rows and values live as long as
// the batch.
type Message struct {
	Rows   [][]Image         // of each of the outline's rows; nil where the member is missing or null
	Values []changelog.Value // of each of the outline's fields; NULL where the member is missing or null
	o      *Outline
	met    uint64
}

// Has reports whether the message has the member, of the outline, whatever its value.
func (m *Message) Has(name string) bool {
	i, ok := m.o.index[name]
	return ok && m.met&(1<<i) != 0
}

// Value returns what the message has of a field of the outline.
func (m *Message) Value(name string) changelog.Value {
	for i, f := range m.o.fields {
		if f.name == name {
			return m.Values[i]
		}
	}
	return changelog.Value{}
}

// Image is one row of a message.
type Image struct {
	Row changelog.Row // nil where the message has null, or with 'ignore-parse-errors' something that is no object
	Has []bool        // by column of the payload: the object has a member of this name
}

// ReadOutline reads a message with o. A message that is clean JSON and fits its types is handed to one in a single pass; every other, and what one
// answers with [Again], is handed to odd as a tree. Both answer as in [Envelope.Read].
func (e *Envelope) ReadOutline(b *changelog.Batch, payload []byte, o *Outline, one func(m *Message) *Failure, odd func(t *Tree, root *Node) *Failure) error {
	_, err := e.ReadWhole(b, payload, o, one, odd)
	return err
}

// ReadWhole is ReadOutline. whole says that the message was read in a single pass, that each of its rows became a change, and that it holds no more than those,
// at any depth, but for the one value that says which kind of change it is.
func (e *Envelope) ReadWhole(b *changelog.Batch, payload []byte, o *Outline, one func(m *Message) *Failure, odd func(t *Tree, root *Node) *Failure) (whole bool, err error) {
	w, _ := e.outlines.Get().(*outlineWork)
	if w == nil {
		w = new(outlineWork)
	}
	start := b.Len()
	took := w.read(e, b, payload, o)
	f := w.tooMany
	if took {
		if f = one(&w.m); f != nil && f.kind == again {
			took, f = false, nil
		}
		whole = took && f == nil && !w.more && w.m.says(b.Len()-start)
	}
	w.reset()
	e.outlines.Put(w)
	switch {
	case !took && f == nil:
		b.Truncate(start)
		return false, e.read(b, payload, o, odd)
	case f == nil, f.kind != final && e.d.IgnoreErrors:
		return whole, nil
	}
	b.Truncate(start)
	return false, f.dataError()
}

// says reports whether the message holds so many rows, and one value beside them.
func (m *Message) says(rows int) bool {
	values := 0
	for i := range m.Values {
		if !m.Values[i].IsNull() {
			values++
		}
	}
	for _, images := range m.Rows {
		rows -= len(images)
	}
	return rows == 0 && values == 1
}

// outlineWork is the scratch memory of one message.
type outlineWork struct {
	plain
	m      Message
	images []Image
	has    []bool

	tooMany *Failure // more rows than RowsMember.Max, in a message that was clean so far
}

func (w *outlineWork) reset() {
	w.b, w.p, w.tooMany = nil, nil, nil
	clear(w.stack)
	w.stack = w.stack[:0]
	clear(w.images)
	w.images = w.images[:0]
	w.has = w.has[:0]
	clear(w.names)
	w.names = w.names[:0]
	clear(w.m.Rows)
	clear(w.m.Values)
	// One huge message must not hold its memory for ever.
	if cap(w.stack) > keptScratch/32 {
		w.stack = nil
	}
	if cap(w.images) > keptScratch/48 || cap(w.has) > keptScratch {
		w.images, w.has = nil, nil
	}
}

// read reads a message as [plain] does: it takes nothing that the reader of trees reads otherwise.
func (w *outlineWork) read(e *Envelope, b *changelog.Batch, p []byte, o *Outline) bool {
	w.b, w.p, w.i, w.depth, w.more = b, p, 0, 1, false
	w.room = room(len(p))
	w.iso, w.missing, w.millis = e.d.ISO, false, e.d.flink.Since(changelog.Flink2_3)
	w.tree, w.decimals = true, e.d.decimals
	w.m.o, w.m.met = o, 0
	w.m.Rows = slices.Grow(w.m.Rows[:0], len(o.rows))[:len(o.rows)]
	w.m.Values = slices.Grow(w.m.Values[:0], len(o.fields))[:len(o.fields)] // both are empty since reset
	if w.space() != '{' {
		return false
	}
	w.i++
	switch {
	case o.Inside != "":
		if !w.inside(o) {
			return false
		}
	case w.space() == '}':
		w.i++
	case !w.members(o):
		return false
	}
	w.space()
	return w.i == len(p)
}

// inside reads the members of a message one of which has what is read.
func (w *outlineWork) inside(o *Outline) bool {
	found := false
	for {
		if w.space() != '"' {
			return false
		}
		name, ok := w.text()
		if !ok || len(name) > maxName || w.space() != ':' {
			return false
		}
		w.i++
		c := w.space()
		switch {
		case string(name) != o.Inside:
			w.more = true
			if !w.fresh(name, 0) || !w.skip() {
				return false
			}
		case found || c != '{':
			return false
		default:
			found = true
			w.depth++
			w.i++
			if w.space() == '}' {
				w.i++
			} else if !w.members(o) {
				return false
			}
			w.depth--
		}
		c = w.space()
		w.i++
		if c != ',' {
			return c == '}' && found
		}
	}
}

// members reads the members of the object that has what is read, from the first name on, and its closing brace.
func (w *outlineWork) members(o *Outline) bool {
	next, unread := 0, len(w.names)
	for {
		if w.space() != '"' {
			return false
		}
		k := -1
		if end := w.i + 1 + len(o.names[next]); end < len(w.p) && w.p[end] == '"' && string(w.p[w.i+1:end]) == o.names[next] {
			k = next
			w.i = end + 1
		} else {
			name, ok := w.text()
			if !ok || len(name) > maxName {
				return false
			}
			if k = o.find(name); k < 0 && !w.fresh(name, unread) {
				return false
			}
		}
		if w.space() != ':' {
			return false
		}
		w.i++
		c := w.space()
		switch {
		case k < 0:
			w.more = true
			if !w.skip() {
				return false
			}
		case k > 63 || w.m.met&(1<<k) != 0:
			return false
		default:
			w.m.met |= 1 << k
			if next = k + 1; next == len(o.names) {
				next = 0
			}
			if k >= len(o.rows) {
				if !w.value(&o.fields[k-len(o.rows)].plan, &w.m.Values[k-len(o.rows)]) {
					return false
				}
			} else if !w.rowsOf(&o.rows[k], c, &w.m.Rows[k]) {
				return false
			}
		}
		c = w.space()
		w.i++
		if c != ',' {
			w.names = w.names[:unread]
			return c == '}'
		}
	}
}

// find returns the number of a member of the outline, or -1. Most have few, which are compared sooner than hashed.
func (o *Outline) find(name []byte) int {
	if len(o.names) <= 8 {
		for i, n := range o.names {
			if string(name) == n {
				return i
			}
		}
		return -1
	}
	if i, ok := o.index[string(name)]; ok {
		return i
	}
	return -1
}

// bounded returns the member called name if it is an array of rows whose number is bounded.
func (o *Outline) bounded(name []byte) *RowsMember {
	if k := o.find(name); o.Inside == "" && k >= 0 && k < len(o.rows) && o.rows[k].Many && o.rows[k].Max > 0 {
		return &o.rows[k]
	}
	return nil
}

// rowsOf reads a member that holds rows. A null among them is left to the reader of trees.
func (w *outlineWork) rowsOf(rm *RowsMember, c byte, dst *[]Image) bool {
	if c == 'n' {
		return w.word("null")
	}
	start := len(w.images)
	if !rm.Many {
		if c != '{' || !w.image(rm) {
			return false
		}
		*dst = w.images[start:]
		return true
	}
	if c != '[' {
		return false
	}
	w.depth++
	w.i++
	if w.space() == ']' {
		w.i++
	} else {
		for {
			if rm.Max > 0 && len(w.images)-start >= rm.Max {
				w.tooMany = finalf(rm.TooMany).at(rm.Name)
				return false
			}
			if w.space() != '{' || !w.image(rm) {
				return false
			}
			c := w.space()
			w.i++
			if c == ']' {
				break
			}
			if c != ',' {
				return false
			}
		}
	}
	w.depth--
	*dst = w.images[start:len(w.images):len(w.images)]
	if *dst == nil {
		*dst = []Image{}
	}
	return true
}

// image reads one row.
func (w *outlineWork) image(rm *RowsMember) bool {
	o := rm.Object
	if !w.take(o.width) {
		return false
	}
	row := w.b.NewRow()
	n := len(o.row.fields)
	if cap(w.has)-len(w.has) < n {
		w.has = make([]bool, 0, max(2*cap(w.has), n, 256)) // images keep what they have of the old one
	}
	w.has = w.has[:len(w.has)+n]
	has := w.has[len(w.has)-n:]
	clear(has)
	w.images = append(w.images, Image{row, has[:n:n]})
	return w.objectWith(&o.row, row, has, rm.Flat, rm.Odd)
}

// fresh notes a name that nobody reads, and reports whether it is the first of its object, whose names are in w.names from base on. The
// reader of trees takes a member that comes twice for a guess.
func (r *plain) fresh(name []byte, base int) bool {
	if len(r.names)-base >= maxUnread {
		return false
	}
	for _, n := range r.names[base:] {
		if string(n) == string(name) {
			return false
		}
	}
	r.names = append(r.names, name)
	return true
}

// maxUnread is how many members that nobody reads an object may have before it is left to the reader of trees: each is compared with each.
const maxUnread = 64

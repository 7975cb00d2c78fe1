package protobuf

import (
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// decoder follows PbRowDataDeserializationSchema and what protobuf-java's generated code parses. It does not change after it was made.
type decoder struct {
	root         *message
	ignoreErrors bool
	lenient      bool
}

// Values that a row may take beyond the size of its message: an empty message is two bytes, and a ROW of its defaults may be many values.
const (
	roomFloor   = 1 << 20
	roomPerByte = 8
)

// DecodePayload implements [changelog.PayloadDecoder].
func (d *decoder) DecodePayload(b *changelog.Batch, payload []byte, _ *changelog.Record) error {
	r := reader{b: b, lenient: d.lenient, room: roomFloor + roomPerByte*len(payload)}
	row := b.NewRow()
	switch f := r.message(d.root, payload, row, 0, true); {
	case f == nil:
		b.Append(changelog.Change{Kind: changelog.Insert, Row: row})
		return nil
	case d.ignoreErrors && !f.Final():
		return nil
	default:
		return f.Err()
	}
}

// DecodeNull says what becomes of Kafka's null, which Flink tries to parse: see format.NullDecoder.
func (d *decoder) DecodeNull(*changelog.Batch, *changelog.Record) error {
	if d.ignoreErrors {
		return nil
	}
	return &changelog.DataError{Reason: "a null, where a message has to be; if it is a delete, the table is one for 'upsert-kafka'"}
}

// reader reads one message and those inside of it.
type reader struct {
	b       *changelog.Batch
	room    int    // values that the row may still take
	marks   []mark // a stack: those of the message that is read, on those of the messages around it
	lenient bool
	dropped bool // the entry of a map had an enum's number that proto2 puts aside with its entry
}

// mark is what is known of a column while its message is read.
type mark struct {
	n    int    // occurrences of a field; of a list or map, how many elements it may have at most
	body []byte // the last occurrence of a message
	gone bool   // another member of its oneof came after it
}

// guess returns a failure, or nil when lenient.
func (r *reader) guess(reason string) *failure {
	if r.lenient {
		return nil
	}
	return flinkjson.Refuse(reason)
}

// take counts n values against the bound.
func (r *reader) take(n int) *failure {
	if r.room -= n; r.room < 0 {
		return flinkjson.Refuse("the row would take far more memory than the message; is it meant for this table?")
	}
	return nil
}

// message reads m from p into dst, in two passes: the first keeps scalars, since the last one counts, and finds how often everything else is there; the
// second fills lists and maps, whose elements may lie anywhere. Messages of one field are merged by reading them as one after the
// other, which is what merging means. whole says that required fields have to be there.
func (r *reader) message(m *message, p []byte, dst []changelog.Value, depth int, whole bool) *failure {
	base := len(r.marks)
	r.marks = append(r.marks, make([]mark, len(m.columns))...)
	defer func() { r.marks = r.marks[:base] }()
	var met []bool // required fields, by their place among them
	if len(m.required) > 0 {
		met = make([]bool, len(m.required))
	}
	lists := false
	for n := 0; n < len(p); {
		num, wire, size, f := tag(p[n:])
		if f != nil {
			return f
		}
		n += size
		fd := m.field(num)
		body, size, f := content(p[n:], num, wire, depth)
		if f != nil {
			return f
		}
		n += size
		if fd == nil {
			continue
		}
		packed := fd.repeated && wire == protowire.BytesType && packable(fd.wire)
		if wire != fd.wire && !packed {
			if fd.column >= 0 && m.columns[fd.column].slot >= 0 {
				if f := r.guess("the field has another type in the message than in its .proto; Flink would read the row as if the field were absent"); f != nil {
					return f.At(m.columns[fd.column].name)
				}
			}
			continue
		}
		if k := slices.Index(m.required, num); k >= 0 {
			met[k] = true
		}
		list, f := r.first(m, fd, base, body, packed, dst, depth)
		if f != nil {
			return f.At(string(fd.desc.Name()))
		}
		lists = lists || list
	}
	if whole {
		for k, num := range m.required {
			if !met[k] {
				return flinkjson.Misfit("the required field is absent").At(string(m.fields[num].desc.Name()))
			}
		}
	}
	for i := range m.columns {
		if f := r.settle(&m.columns[i], base+i, p, dst, depth, whole); f != nil {
			return f.At(m.columns[i].name)
		}
	}
	if lists {
		return r.fill(m, base, p, dst, depth)
	}
	return nil
}

// field returns the field of a number, or nil.
func (m *message) field(num protowire.Number) *field {
	if int(num) < len(m.dense) {
		return m.dense[num]
	}
	return m.fields[num]
}

func packable(wire protowire.Type) bool {
	return wire == protowire.VarintType || wire == protowire.Fixed32Type || wire == protowire.Fixed64Type
}

// first is what the first pass does with a field. It reports whether it is of a column that the second pass fills.
func (r *reader) first(m *message, fd *field, base int, body []byte, packed bool, dst []changelog.Value, depth int) (list bool, f *failure) {
	if fd.column < 0 {
		if f := r.check(fd, body, packed, depth); f != nil {
			return false, f
		}
		return false, r.clear(fd, base, dst, m, depth)
	}
	c, mk := &m.columns[fd.column], &r.marks[base+fd.column]
	switch {
	case packed:
		n, f := packedCount(fd.wire, body)
		mk.n += n
		return true, f
	case fd.repeated:
		mk.n++
		return true, nil
	case fd.inner != nil:
		// One occurrence is read when it is settled. Of several, each has to be a message by itself; which fields they have is seen then.
		if mk.n == 1 {
			f = r.check(fd, mk.body, false, depth)
		}
		if mk.n > 0 && f == nil {
			f = r.check(fd, body, false, depth)
		}
		if f != nil {
			return false, f
		}
		mk = &r.marks[base+fd.column] // the stack may have moved
		if mk.gone {
			// Generated code keeps the builder of a member that was overtaken, and goes on with it.
			if f := r.guess("a message of a oneof is there again after another member; Flink would merge both"); f != nil {
				return false, f
			}
		}
		mk.n++
		mk.body, mk.gone = body, false
	default:
		v, ok, f := r.scalar(fd, c.typ, body)
		if f != nil || !ok {
			return false, f
		}
		mk.n++
		dst[c.slot] = v
	}
	return false, r.clear(fd, base, dst, m, depth)
}

// clear empties the other columns of a field's oneof. A message that was not read yet has to be one all the same.
func (r *reader) clear(fd *field, base int, dst []changelog.Value, m *message, depth int) *failure {
	for _, i := range fd.others {
		c := &m.columns[i]
		if mk := r.marks[base+i]; mk.n == 1 && c.inner != nil {
			if f := r.check(c.field, mk.body, false, depth); f != nil {
				return f
			}
		}
		if c.inner != nil {
			r.marks[base+i].gone = r.marks[base+i].n > 0
			continue
		}
		r.marks[base+i] = mark{}
		if c.slot >= 0 {
			dst[c.slot] = changelog.Value{}
		}
	}
	return nil
}

// check looks at a field of which nothing is read, for what makes protobuf-java refuse the message.
func (r *reader) check(fd *field, body []byte, packed bool, depth int) *failure {
	switch {
	case packed:
		_, f := packedCount(fd.wire, body)
		return f
	case fd.inner != nil:
		if depth >= maxDepth {
			return tooDeep()
		}
		if fd.column >= 0 { // what is read of it is read later
			return r.skim(fd.inner, body, depth+1)
		}
		return r.message(fd.inner, body, nil, depth+1, fd.repeated)
	case fd.strict && !utf8.Valid(body):
		return flinkjson.Misfit("the text is not UTF-8")
	}
	return nil
}

// skim checks a message of which something is read elsewhere.
func (r *reader) skim(m *message, p []byte, depth int) *failure {
	for n := 0; n < len(p); {
		num, wire, size, f := tag(p[n:])
		if f != nil {
			return f
		}
		n += size
		body, size, f := content(p[n:], num, wire, depth)
		if f != nil {
			return f
		}
		n += size
		fd := m.field(num)
		if fd == nil {
			continue
		}
		packed := fd.repeated && wire == protowire.BytesType && packable(fd.wire)
		if wire != fd.wire && !packed {
			continue
		}
		if fd.inner == nil || packed {
			f = r.check(fd, body, packed, depth)
		} else if depth >= maxDepth {
			f = tooDeep()
		} else {
			f = r.skim(fd.inner, body, depth+1)
		}
		if f != nil {
			return f.At(string(fd.desc.Name()))
		}
	}
	return nil
}

// packedCount is how many values body packs.
func packedCount(wire protowire.Type, body []byte) (n int, f *failure) {
	switch wire {
	case protowire.Fixed32Type, protowire.Fixed64Type:
		size := 4
		if wire == protowire.Fixed64Type {
			size = 8
		}
		if len(body)%size != 0 {
			return 0, cut()
		}
		return len(body) / size, nil
	}
	for i := 0; i < len(body); n++ {
		_, size, f := varint(body[i:])
		if f != nil {
			return 0, f
		}
		i += size
	}
	return n, nil
}

// settle gives a column the value that it has after the first pass.
func (r *reader) settle(c *column, at int, p []byte, dst []changelog.Value, depth int, whole bool) *failure {
	mk := &r.marks[at]
	switch {
	case mk.n == 0 || mk.gone:
		switch {
		case c.slot >= 0:
			return r.nothing(c, &dst[c.slot], depth)
		case c.absent == isWhole:
			return r.message(c.inner, nil, nil, depth+1, true)
		}
		return nil
	case c.repeated:
		n := mk.n
		if c.key != nil {
			n *= 2
		}
		if f := r.take(n); f != nil {
			return f
		}
		mk.n, mk.body = 0, nil
		elems := r.b.NewValues(n)
		if c.key != nil {
			dst[c.slot] = changelog.MapValue(elems)
		} else {
			dst[c.slot] = changelog.ArrayValue(elems)
		}
		return nil
	case c.inner == nil:
		return nil
	}
	body := mk.body
	if mk.n > 1 {
		body = gather(p, c.field)
	}
	if c.slot < 0 {
		if depth >= maxDepth {
			return tooDeep()
		}
		return r.message(c.inner, body, nil, depth+1, whole)
	}
	return r.row(c.inner, body, &dst[c.slot], depth, whole)
}

// gather returns all occurrences of a message in what is left of the message that it is in, one after the other. They were read before, so that
// they are whole.
func gather(p []byte, fd *field) (all []byte) {
	for n := 0; n < len(p); {
		num, wire, size, f := tag(p[n:])
		if f != nil {
			return all
		}
		n += size
		body, size, f := content(p[n:], num, wire, 0)
		if f != nil {
			return all
		}
		n += size
		if num == fd.desc.Number() && wire == fd.wire {
			all = append(all, body...)
		}
	}
	return all
}

// row reads a ROW.
func (r *reader) row(m *message, body []byte, dst *changelog.Value, depth int, whole bool) *failure {
	if depth >= maxDepth {
		return tooDeep()
	}
	n := 0
	for i := range m.columns {
		if m.columns[i].slot >= 0 {
			n++
		}
	}
	if f := r.take(n); f != nil {
		return f
	}
	fields := r.b.NewValues(n)
	*dst = changelog.RowValue(fields)
	return r.message(m, body, fields, depth+1, whole)
}

// nothing is what a column is whose field is absent.
func (r *reader) nothing(c *column, dst *changelog.Value, depth int) *failure {
	switch c.absent {
	case isDefault:
		*dst = c.def
	case isEmpty:
		if *dst = changelog.ArrayValue(nil); c.key != nil {
			*dst = changelog.MapValue(nil)
		}
	case isRow, isWhole:
		return r.row(c.inner, nil, dst, depth, c.absent == isWhole)
	}
	return nil
}

// fill is the second pass.
func (r *reader) fill(m *message, base int, p []byte, dst []changelog.Value, depth int) *failure {
	for n := 0; n < len(p); {
		num, wire, size, f := tag(p[n:])
		if f != nil {
			return f
		}
		n += size
		body, size, f := content(p[n:], num, wire, depth)
		if f != nil {
			return f
		}
		n += size
		fd := m.field(num)
		if fd == nil || !fd.repeated || fd.column < 0 {
			continue
		}
		c := &m.columns[fd.column]
		packed := wire == protowire.BytesType && packable(fd.wire)
		if wire != fd.wire && !packed {
			continue
		}
		elems := dst[c.slot].Elems()
		at := r.marks[base+fd.column].n
		switch {
		case packed:
			for len(body) > 0 {
				v, size := one(fd.wire, body)
				value, ok, f := r.scalar(fd, c.typ.Elem, v)
				if f != nil {
					return f.AtElement(at).At(c.name)
				}
				body = body[size:]
				if ok {
					elems[at] = value
					at++
				}
			}
		case c.key != nil:
			if depth >= maxDepth {
				return tooDeep()
			}
			r.dropped = false
			if f := r.message(fd.inner, body, elems[at:at+2], depth+1, true); f != nil {
				return f.At("[*]").At(c.name)
			}
			if !r.dropped {
				at += 2
			}
		case fd.inner != nil:
			if f := r.row(fd.inner, body, &elems[at], depth, true); f != nil {
				return f.AtElement(at).At(c.name)
			}
			at++
		default:
			value, ok, f := r.scalar(fd, c.typ.Elem, body)
			if f != nil {
				return f.AtElement(at).At(c.name)
			}
			if ok {
				elems[at] = value
				at++
			}
		}
		r.marks[base+fd.column].n = at
	}
	for i := range m.columns {
		c := &m.columns[i]
		if !c.repeated || c.slot < 0 || dst[c.slot].IsNull() {
			continue
		}
		elems := dst[c.slot].Elems()
		if n := r.marks[base+i].n; n < len(elems) {
			elems = elems[:n]
		}
		switch {
		case len(elems) == 0 && c.absent == isNull:
			dst[c.slot] = changelog.Value{}
		case c.key == nil:
			dst[c.slot] = changelog.ArrayValue(elems)
		default:
			pairs, f := r.distinct(elems)
			if f != nil {
				return f.At(c.name)
			}
			dst[c.slot] = changelog.MapValue(pairs)
		}
	}
	return nil
}

// one cuts the first of packed values, which were counted before, off.
func one(wire protowire.Type, body []byte) (v []byte, n int) {
	switch wire {
	case protowire.Fixed32Type:
		n = 4
	case protowire.Fixed64Type:
		n = 8
	default:
		for n = 1; body[n-1] >= 0x80; n++ {
		}
	}
	return body[:n], n
}

// distinct puts a later entry of one key in an earlier one's place.
func (r *reader) distinct(pairs []changelog.Value) ([]changelog.Value, *failure) {
	type key struct {
		n int64
		s string
	}
	at := make(map[key]int, len(pairs)/2)
	kept := pairs[:0]
	for i := 0; i < len(pairs); i += 2 {
		k := key{n: pairs[i].Int(), s: pairs[i].Str()}
		if pairs[i].Bool() {
			k.n = 1
		}
		if old, ok := at[k]; ok {
			if f := r.guess("a map has a key twice; Flink would take the last one"); f != nil {
				return nil, f
			}
			kept[old+1] = pairs[i+1]
			continue
		}
		at[k] = len(kept)
		kept = append(kept, pairs[i], pairs[i+1])
	}
	return kept, nil
}

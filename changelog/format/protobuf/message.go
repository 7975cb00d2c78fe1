package protobuf

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

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
				if f := r.guess(changelog.SchemaMismatch, "the field has another type in the message than in its .proto; Flink would read the row as if the field were absent"); f != nil {
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
				return flinkjson.Misfit(changelog.Missing, "the required field is absent").At(string(m.fields[num].desc.Name()))
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
			if f := r.guess(changelog.Malformed, "a message of a oneof is there again after another member; Flink would merge both"); f != nil {
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

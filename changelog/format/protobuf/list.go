package protobuf

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flinksink/flinksink/changelog"
)

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
			if f := r.guess(changelog.Malformed, "a map has a key twice; Flink would take the last one"); f != nil {
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

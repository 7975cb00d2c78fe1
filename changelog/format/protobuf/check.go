package protobuf

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

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
		return flinkjson.Misfit(changelog.Malformed, "the text is not UTF-8")
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

package flinkjson

import (
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// containerText reads the array or object that the current token begins into a STRING, as readTree and treeText would, and without a
// node: nobody asks for what is inside.
func (x *exact) containerText(dst *changelog.Value) *Failure {
	start := x.l
	s := textStream{x: x}
	x.out = x.out[:0]
	if f := s.value(); f != nil {
		return f
	}
	if s.lossy || s.twice {
		if f := x.guess(lossyInside); f != nil {
			return f
		}
	}
	if s.twice {
		// The last of the members of one name stands at the place of the first: written already, so only a tree tells what comes there.
		x.rewind(start)
		n, f := x.readTree()
		if f != nil {
			return f
		}
		return x.treeText(&n, dst)
	}
	*dst = changelog.StringBytesValue(x.keep(x.out))
	return nil
}

// rewind puts the lexer back to where it was at the start of an array or object.
func (x *exact) rewind(start lexer) {
	start.buf, start.nameBuf = x.l.buf, x.l.nameBuf
	start.nest[len(start.nest)-1].any = false
	x.l = start
}

// textStream writes JSON while it is read.
type textStream struct {
	x     *exact
	names []span // in x.out, of the members of the objects that are open
	lossy bool   // a double does not hold a number
	twice bool   // a member came twice
}

// span is where in a text a name is, as it was written: names that are the same are written alike.
type span struct{ from, to int }

// value writes the value that the current token begins; its last token is then the current one.
func (s *textStream) value() *Failure {
	x := s.x
	switch x.l.tok {
	case tokObject:
		return s.members()
	case tokArray:
		x.out = append(x.out, '[')
		for i := 0; ; i++ {
			if f := x.l.next(); f != nil {
				return f
			}
			if x.l.tok == tokArrayEnd {
				x.out = append(x.out, ']')
				return nil
			}
			if i > 0 {
				x.out = append(x.out, ',')
			}
			if f := s.value(); f != nil {
				return f
			}
		}
	case tokFloat:
		text, inexact, f := x.floatNode(x.l.text)
		s.lossy = s.lossy || inexact
		x.out = appendScalar(x.out, tokFloat, text)
		return f
	case tokInt:
		x.out = append(x.out, intNode(x.l.text)...)
		return nil
	case tokString, tokTrue, tokFalse, tokNull:
		text, _, f := x.l.str()
		x.out = appendScalar(x.out, x.l.tok, text)
		return f
	}
	return brokenf("a value is missing")
}

func (s *textStream) members() *Failure {
	x, base := s.x, len(s.names)
	var met map[string]struct{} // once there are many
	x.out = append(x.out, '{')
	for {
		if f := x.l.next(); f != nil {
			return f
		}
		if x.l.tok == tokObjectEnd {
			x.out = append(x.out, '}')
			s.names = s.names[:base]
			return nil
		}
		count := len(s.names) - base
		if count > 0 {
			x.out = append(x.out, ',')
		}
		from := len(x.out)
		x.out = appendQuoted(x.out, x.l.name)
		name := span{from, len(x.out)}
		if met == nil && count == fewMembers {
			met = make(map[string]struct{}, 2*fewMembers)
			for _, n := range s.names[base:] {
				met[string(x.out[n.from:n.to])] = struct{}{}
			}
		}
		if met != nil {
			_, found := met[string(x.out[name.from:name.to])]
			s.twice = s.twice || found
			met[string(x.out[name.from:name.to])] = struct{}{}
		} else {
			s.twice = s.twice || slices.ContainsFunc(s.names[base:], func(n span) bool {
				return string(x.out[n.from:n.to]) == string(x.out[name.from:name.to])
			})
		}
		s.names = append(s.names, name)
		x.out = append(x.out, ':')
		if f := x.l.next(); f != nil {
			return f
		}
		if f := s.value(); f != nil {
			return f
		}
	}
}

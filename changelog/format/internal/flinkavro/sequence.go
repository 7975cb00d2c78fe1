package flinkavro

import (
	"slices"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// sequence reads the elements of an array, or if keyed the keys and values of a map, in blocks that an empty one ends. With a step
// it is the step that reads an element.
func (r *Reader) sequence(elem *Plan, step *Step, keyed bool) ([]changelog.Value, *Failure) {
	base := len(r.stack)
	for index := 0; ; {
		n, f := r.number(64)
		if f != nil {
			return nil, f
		}
		if n == 0 {
			break
		}
		if n < 0 { // the block's size in bytes follows, for who wants to skip it
			if _, f := r.number(64); f != nil {
				return nil, f
			}
			n = -n
		}
		if n < 0 || n > int64(r.room) {
			n = int64(r.room) + 1
		}
		if f := r.Take(int(n)); f != nil {
			return nil, f
		}
		// Growing element by element would take several times the memory. The block says how many come, but may lie about it.
		if keyed {
			r.stack = slices.Grow(r.stack, 2*min(int(n), len(r.p)/2))
		} else {
			r.stack = slices.Grow(r.stack, min(int(n), len(r.p)))
		}
		for end := index + int(n); index < end; index++ {
			if keyed {
				if f := r.key(base); f != nil {
					return nil, f
				}
			}
			var v changelog.Value
			var f *Failure
			if step != nil {
				f = r.step(step, &v)
			} else {
				f = r.Value(elem, &v)
			}
			if f != nil {
				if keyed {
					return nil, f.At("[*]")
				}
				return nil, f.AtElement(index)
			}
			r.stack = append(r.stack, v)
		}
	}
	out := r.b.NewValues(len(r.stack) - base)
	copy(out, r.stack[base:])
	r.stack = r.stack[:base]
	if keyed {
		return r.distinct(out)
	}
	return out, nil
}

// key reads the key of a map's entry.
func (r *Reader) key(base int) *Failure {
	s, f := r.text()
	if f == nil {
		r.stack = append(r.stack, changelog.StringBytesValue(s))
	}
	return f
}

// distinct puts a later entry of one key in an earlier one's place, as Java's HashMap does.
func (r *Reader) distinct(pairs []changelog.Value) ([]changelog.Value, *Failure) {
	at := make(map[string]int, len(pairs)/2)
	kept := pairs[:0]
	for i := 0; i < len(pairs); i += 2 {
		if k, ok := at[pairs[i].Str()]; ok {
			if f := r.Guess(changelog.Malformed, "a map has a key twice"); f != nil {
				return nil, f
			}
			kept[k+1] = pairs[i+1]
			continue
		}
		at[pairs[i].Str()] = len(kept)
		kept = append(kept, pairs[i], pairs[i+1])
	}
	return kept, nil
}

// text reads a string.
func (r *Reader) text() ([]byte, *Failure) {
	s, f := r.data()
	if f != nil || utf8.Valid(s) {
		return s, f
	}
	return replaceInvalid(s), r.Guess(changelog.Malformed, "a text is not UTF-8; Flink would put U+FFFD there")
}

// replaceInvalid puts one U+FFFD where Java's decoder does: for each longest run of bytes that could begin a character, and one for each other
// byte.
func replaceInvalid(s []byte) []byte {
	out := make([]byte, 0, len(s)+8)
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		if r == utf8.RuneError && n == 1 {
			n = beginning(s)
		}
		out = utf8.AppendRune(out, r)
		s = s[n:]
	}
	return out
}

// beginning returns how many bytes of s, at least one, are the longest beginning of a character that s breaks off.
func beginning(s []byte) int {
	if len(s) > 2 && s[0] == 0xED && s[1]&0xE0 == 0xA0 && s[2]&0xC0 == 0x80 {
		return 3 // a surrogate, which Java takes for one
	}
	for n := min(3, len(s)); n > 1; n-- {
		// What is cut off of a character is not full; what cannot be one is.
		if !utf8.FullRune(s[:n]) {
			return n
		}
	}
	return 1
}

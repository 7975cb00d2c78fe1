package flinkjson

import (
	"bytes"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// plain reads messages that are clean JSON and fit their types. It reports nothing: where something is odd, it says no, and the
// exact reader looks at the message anew. So every method returns whether it took what it met; after a no its state means nothing.
//
// It must take nothing that the exact reader reads otherwise, in whichever of its modes: what it takes has no guess in it and
// does not depend on 'ignore-parse-errors'.
type plain struct {
	b       *changelog.Batch
	p       []byte
	i       int // place in p
	depth   int
	room    int // values that rows may still take
	iso     bool
	missing bool              // fail-on-missing-field
	stack   []changelog.Value // elements of the arrays and maps that are being read

	// Of [Outline]: what is read by the rules of trees.
	tree     bool
	decimals bool     // as in Decoder
	names    [][]byte // members of the open objects that nobody reads
}

const (
	maxDepth  = 1000   // StreamReadConstraints.DEFAULT_MAX_DEPTH
	maxNumber = 1000   // StreamReadConstraints.DEFAULT_MAX_NUM_LEN
	maxName   = 50_000 // StreamReadConstraints.DEFAULT_MAX_NAME_LEN
	maxString = 20_000_000
)

func (r *plain) message(d *Decoder, b *changelog.Batch, p []byte) bool {
	r.b, r.p, r.i, r.depth = b, p, 0, 0
	r.room = roomFloor + roomPerByte*len(p)
	r.iso, r.missing = d.ISO, d.FailMissing
	ok := r.rows(d)
	r.b, r.p = nil, nil
	clear(r.stack)
	r.stack = r.stack[:0]
	if cap(r.stack) > keptScratch/32 {
		r.stack = nil // one huge message must not hold its memory for ever
	}
	return ok
}

func (r *plain) rows(d *Decoder) bool {
	switch r.space() {
	case '{':
		if !r.topRow(d) {
			return false
		}
	case '[':
		r.i++
		r.depth++
		if r.space() == ']' {
			r.i++
			break
		}
		for {
			if r.space() != '{' || !r.topRow(d) {
				return false
			}
			c := r.space()
			r.i++
			if c == ']' {
				break
			}
			if c != ',' {
				return false
			}
		}
	default:
		return false
	}
	r.space()
	return r.i == len(r.p)
}

func (r *plain) topRow(d *Decoder) bool {
	if r.room -= d.width; r.room < 0 {
		return false
	}
	row := r.b.NewRow()
	if !r.object(&d.row, row) {
		return false
	}
	r.b.Append(changelog.Change{Kind: changelog.Insert, Row: row})
	return true
}

// space skips white space and returns the byte it stopped at, 0 at the end. No JSON text has a 0 where space is called.
func (r *plain) space() byte {
	for r.i < len(r.p) {
		switch c := r.p[r.i]; c {
		case ' ', '\n', '\r', '\t':
			r.i++
		default:
			return c
		}
	}
	return 0
}

// object reads an object, from its brace on, into out.
func (r *plain) object(rp *rowPlan, out []changelog.Value) bool {
	return r.objectWith(rp, out, nil, false)
}

// objectWith tells in has, if it is not nil, which fields the object has. A flat object holds scalars only.
func (r *plain) objectWith(rp *rowPlan, out []changelog.Value, has []bool, flat bool) bool {
	if r.depth++; r.depth > maxDepth {
		return false
	}
	r.i++
	fields := rp.fields
	next, found := 0, 0
	var few [4]uint64 // members met
	met := few[:]
	if len(fields) > 64*len(few) {
		met = make([]uint64, (len(fields)+63)/64)
	}
	unread := len(r.names)
	if r.space() == '}' {
		r.i++
		r.depth--
		return !r.missing || len(fields) == 0
	}
	for {
		k := -1
		if r.space() != '"' {
			return false
		}
		// Writers keep an order, and Flink keeps the table's: the next field is the likely one.
		if next < len(fields) {
			f := &fields[next]
			if end := r.i + 1 + len(f.name); end < len(r.p) && r.p[end] == '"' && f.bare && string(r.p[r.i+1:end]) == f.name {
				k = next
				r.i = end + 1
			}
		}
		if k < 0 {
			name, ok := r.text()
			if !ok || len(name) > maxName {
				return false
			}
			if i, ok := rp.index[string(name)]; ok {
				k = i
			} else if r.tree && !r.fresh(name, unread) {
				return false
			}
		}
		if r.i < len(r.p) && r.p[r.i] == ':' {
			r.i++
		} else {
			if r.space() != ':' {
				return false
			}
			r.i++
		}
		if c := r.space(); flat && (c == '{' || c == '[') {
			return false
		}
		if k < 0 {
			if !r.skip() {
				return false
			}
		} else {
			if met[k>>6]&(1<<(k&63)) != 0 {
				return false
			}
			met[k>>6] |= 1 << (k & 63)
			found++
			next = k + 1
			if has != nil {
				has[k] = true
			}
			if !r.value(&fields[k].plan, &out[fields[k].slot]) {
				return false
			}
		}
		c := r.space()
		r.i++
		if c == ',' {
			continue
		}
		r.depth--
		r.names = r.names[:unread]
		return c == '}' && (!r.missing || found == len(fields))
	}
}

// text reads a string, from its quote on. Without escapes it is a part of the message, else it is in the batch's arena.
func (r *plain) text() ([]byte, bool) {
	p := r.p
	start := r.i + 1
	var high byte
	for i := start; i < len(p); i++ {
		c := p[i]
		if c == '"' {
			r.i = i + 1
			s := p[start:i:i]
			return s, len(s) <= maxString && (high < utf8.RuneSelf || utf8.Valid(s))
		}
		if c == '\\' {
			return r.escaped(start, i)
		}
		high |= c
	}
	return nil, false
}

// escaped reads a string that begins at start and has its first escape at i.
func (r *plain) escaped(start, i int) ([]byte, bool) {
	p := r.p
	end := i
	for end < len(p) && p[end] != '"' {
		if p[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(p) || end-start > maxString || !utf8.Valid(p[start:end]) {
		return nil, false
	}
	out := append(r.b.NewBytes(end - start)[:0], p[start:i]...) // an escape is never shorter than what it stands for
	for i < end {
		c := p[i]
		if c != '\\' {
			out = append(out, c)
			i++
			continue
		}
		c = p[i+1]
		i += 2
		switch c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			u, ok := hex4(p[i:end])
			if !ok {
				return nil, false
			}
			i += 4
			switch {
			case u < 0xD800 || u > 0xDFFF:
				out = utf8.AppendRune(out, rune(u))
			case u < 0xDC00 && end-i >= 6 && p[i] == '\\' && p[i+1] == 'u':
				low, ok := hex4(p[i+2 : end])
				if !ok || low < 0xDC00 || low > 0xDFFF {
					return nil, false
				}
				i += 6
				out = utf8.AppendRune(out, rune(u-0xD800)<<10+rune(low-0xDC00)+0x10000)
			default:
				return nil, false // a lone surrogate
			}
		default:
			return nil, false
		}
	}
	r.i = end + 1
	return out[:len(out):len(out)], true
}

func hex4(p []byte) (u uint32, ok bool) {
	if len(p) < 4 {
		return 0, false
	}
	for _, c := range p[:4] {
		d := hexDigit(c)
		if d < 0 {
			return 0, false
		}
		u = u<<4 | uint32(d)
	}
	return u, true
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// number reads a JSON number and returns where it lies and whether it has a fraction or an exponent.
func (r *plain) number() (text []byte, float, ok bool) {
	p, start := r.p, r.i
	i := start
	if i < len(p) && p[i] == '-' {
		i++
	}
	digits := func() bool {
		from := i
		for i < len(p) && p[i]-'0' <= 9 {
			i++
		}
		return i > from
	}
	if i < len(p) && p[i] == '0' {
		i++
	} else if !digits() {
		return nil, false, false
	}
	if i < len(p) && p[i] == '.' {
		float = true
		i++
		if !digits() {
			return nil, false, false
		}
	}
	if i < len(p) && p[i]|0x20 == 'e' {
		if r.tree {
			return nil, false, false // a BigDecimal has no exponent beyond 32 bits
		}
		float = true
		i++
		if i < len(p) && (p[i] == '+' || p[i] == '-') {
			i++
		}
		if !digits() {
			return nil, false, false
		}
	}
	r.i = i
	return p[start:i:i], float, i-start <= maxNumber
}

// word reads a literal. What follows it is looked at by whoever expects a comma or an end there.
func (r *plain) word(w string) bool {
	if len(r.p)-r.i < len(w) || string(r.p[r.i:r.i+len(w)]) != w {
		return false
	}
	r.i += len(w)
	return true
}

// skip reads a value that no column wants. It looks at all of it: a message that is broken anywhere is broken.
func (r *plain) skip() bool {
	if r.i >= len(r.p) {
		return false
	}
	switch c := r.p[r.i]; c {
	case '"':
		return r.skipText()
	case 't':
		return r.word("true")
	case 'f':
		return r.word("false")
	case 'n':
		return r.word("null")
	case '{', '[':
		if r.depth++; r.depth > maxDepth {
			return false
		}
		r.i++
		end := c + 2 // of both pairs in ASCII
		if r.space() == end {
			r.i++
			r.depth--
			return true
		}
		for {
			if c == '{' {
				if r.space() != '"' {
					return false
				}
				name := r.i
				if !r.skipText() || r.i-name > maxName || r.space() != ':' {
					return false
				}
				r.i++
			}
			r.space()
			if !r.skip() {
				return false
			}
			sep := r.space()
			r.i++
			if sep != ',' {
				r.depth--
				return sep == end
			}
		}
	}
	_, _, ok := r.number()
	return ok
}

// skipText skips a string and looks at its escapes and its encoding.
func (r *plain) skipText() bool {
	start := r.i + 1
	end := bytes.IndexByte(r.p[start:], '"')
	if end < 0 {
		return false
	}
	if s := r.p[start : start+end]; bytes.IndexByte(s, '\\') < 0 {
		r.i = start + end + 1
		return len(s) <= maxString && utf8.Valid(s)
	}
	_, ok := r.text()
	return ok
}

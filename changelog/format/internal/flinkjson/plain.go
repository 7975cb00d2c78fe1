package flinkjson

import "github.com/flinksink/flinksink/changelog"

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
	millis  bool              // a TIME has them: Flink 2.3
	more    bool              // the message says more than its rows: a member that nobody reads, digits that a DECIMAL rounds away
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
	r.b, r.p, r.i, r.depth, r.more = b, p, 0, 0, false
	r.room = room(len(p))
	r.iso, r.missing, r.millis = d.ISO, d.FailMissing, d.flink.Since(changelog.Flink2_3)
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
		if !d.arrays {
			return false
		}
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
	if r.i = skipSpace(r.p, r.i); r.i < len(r.p) {
		return r.p[r.i]
	}
	return 0
}

// skipSpace returns the place of the first byte from i on that is no white space.
func skipSpace(p []byte, i int) int {
	for i < len(p) && p[i] <= ' ' && (p[i] == ' ' || p[i] == '\n' || p[i] == '\r' || p[i] == '\t') {
		i++
	}
	return i
}

// object reads an object, from its brace on, into out.
func (r *plain) object(rp *rowPlan, out []changelog.Value) bool {
	return r.objectWith(rp, out, nil, false, nil)
}

// objectWith tells in has, if it is not nil, which fields the object has. flat and odd are as in [RowsMember].
func (r *plain) objectWith(rp *rowPlan, out []changelog.Value, has []bool, flat bool, odd func([]byte) bool) bool {
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
	// i is the place in the message, rather than r.i, as long as nothing is called that needs it there.
	p, i := r.p, r.i
	for {
		if i >= len(p) || p[i] != '"' {
			if i = skipSpace(p, i); i >= len(p) || p[i] != '"' {
				return false
			}
		}
		k := -1
		// Writers keep an order, and Flink keeps the table's: the next field is the likely one.
		if next < len(fields) {
			if q := fields[next].quoted; q != "" && len(p)-i > len(q) && string(p[i:i+len(q)]) == q {
				k = next
				i += len(q)
			}
		}
		if k < 0 {
			r.i = i
			name, ok := r.text()
			if !ok || len(name) > maxName {
				return false
			}
			if at, ok := rp.index[string(name)]; ok {
				k = at
			} else if r.tree && !r.fresh(name, unread) {
				return false
			}
			if r.space() != ':' {
				return false
			}
			i = r.i + 1
		}
		if i = skipSpace(p, i); i >= len(p) {
			return false
		}
		c := p[i]
		if flat && (c == '{' || c == '[') {
			return false
		}
		if k < 0 {
			r.i, r.more = i, true
			if !r.skip() {
				return false
			}
			i = r.i
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
			f := &fields[k]
			if odd != nil && (c == '"' || c == '[' || c == '{') && odd(p[i:]) {
				return false
			}
			if end := r.quick(&f.plan, i, &out[f.slot]); end > 0 {
				i = end
			} else {
				r.i = i
				if !r.value(&f.plan, &out[f.slot]) {
					return false
				}
				i = r.i
			}
		}
		if i >= len(p) || p[i] != ',' {
			if i = skipSpace(p, i); i >= len(p) {
				return false
			}
			if p[i] != ',' {
				r.i = i + 1
				r.depth--
				r.names = r.names[:unread]
				return p[i] == '}' && (!r.missing || found == len(fields))
			}
		}
		i++
	}
}

// number reads a JSON number and returns where it lies and whether it has a fraction or an exponent.
func (r *plain) number() (text []byte, float, ok bool) {
	p, start := r.p, r.i
	i := start
	if i < len(p) && p[i] == '-' {
		i++
	}
	first := i
	if i = digits(p, i); i == first {
		return nil, false, false
	}
	if p[first] == '0' {
		i = first + 1 // what follows it is no part of the number
	}
	if i < len(p) && p[i] == '.' {
		float = true
		first = i + 1
		if i = digits(p, first); i == first {
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
		first = i
		if i = digits(p, first); i == first {
			return nil, false, false
		}
	}
	r.i = i
	return p[start:i:i], float, i-start <= maxNumber
}

// digits returns where the digits end that begin at i.
func digits(p []byte, i int) int {
	for i < len(p) && p[i]-'0' <= 9 {
		i++
	}
	return i
}

// word reads a literal. What follows it is looked at by whoever expects a comma or an end there.
func (r *plain) word(w string) bool {
	if len(r.p)-r.i < len(w) || string(r.p[r.i:r.i+len(w)]) != w {
		return false
	}
	r.i += len(w)
	return true
}

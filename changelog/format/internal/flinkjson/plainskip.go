package flinkjson

import "unicode/utf8"

// skip reads a value that no column wants. It looks at all of it: a message that is broken anywhere is broken.
func (r *plain) skip() bool {
	end := r.skipFrom(r.i)
	r.i = end
	return end > 0
}

// skipFrom returns where the value ends that begins at i, or 0 where it is left to the exact reader.
func (r *plain) skipFrom(i int) int {
	p := r.p
	if i >= len(p) {
		return 0
	}
	c := p[i]
	switch c {
	case '"':
		return r.skipText(i)
	case 't', 'f', 'n':
		r.i = i
		if !r.word(words[c]) {
			return 0
		}
		return r.i
	case '{', '[':
	default:
		r.i = i
		if _, _, ok := r.number(); !ok {
			return 0
		}
		return r.i
	}
	if r.depth++; r.depth > maxDepth {
		return 0
	}
	bracket := c + 2 // the other one of both pairs, in ASCII
	if i = skipSpace(p, i+1); i < len(p) && p[i] == bracket {
		r.depth--
		return i + 1
	}
	for {
		if c == '{' {
			name := i
			if i >= len(p) || p[i] != '"' {
				return 0
			}
			if i = r.skipText(i); i == 0 || i-name > maxName {
				return 0
			}
			if i = skipSpace(p, i); i >= len(p) || p[i] != ':' {
				return 0
			}
			i = skipSpace(p, i+1)
		}
		if i = r.skipFrom(i); i == 0 {
			return 0
		}
		if i = skipSpace(p, i); i >= len(p) {
			return 0
		}
		if p[i] != ',' {
			r.depth--
			if p[i] != bracket {
				return 0
			}
			return i + 1
		}
		i = skipSpace(p, i+1)
	}
}

// words are the literals, by their first byte.
var words = [...]string{'t': "true", 'f': "false", 'n': "null"}

// skipText skips a string, whose quote is at i, and looks at its escapes and its encoding.
func (r *plain) skipText(i int) int {
	p, start := r.p, i+1
	i, high := scanText(p, start)
	switch {
	case i >= len(p):
		return 0
	case p[i] == '\\':
		return r.skipEscaped(start, i)
	case i-start > maxString || high && !utf8.Valid(p[start:i]):
		return 0
	}
	return i + 1
}

// skipEscaped skips a string that begins at start and has its first escape at i.
func (r *plain) skipEscaped(start, i int) int {
	end, ok := r.escapedEnd(start, i)
	if !ok {
		return 0
	}
	for p := r.p[:end]; i < end; {
		if p[i] != '\\' {
			i++
			continue
		}
		_, n := unescape(p[i:])
		if n == 0 {
			return 0
		}
		i += n
	}
	return end + 1
}

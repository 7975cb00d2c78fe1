package flinkjson

import "unicode/utf8"

// text reads a string, from its quote on. Without escapes it is a part of the message, else it is in the batch's arena.
func (r *plain) text() ([]byte, bool) {
	p, start := r.p, r.i+1
	i, high := scanText(p, start)
	switch {
	case i >= len(p):
		return nil, false
	case p[i] == '\\':
		return r.escaped(start, i)
	}
	r.i = i + 1
	s := p[start:i:i]
	return s, len(s) <= maxString && (!high || utf8.Valid(s))
}

// escaped reads a string that begins at start and has its first escape at i.
func (r *plain) escaped(start, i int) ([]byte, bool) {
	end, ok := r.escapedEnd(start, i)
	if !ok {
		return nil, false
	}
	p := r.p[:end]
	out := append(r.b.NewBytes(end - start)[:0], p[start:i]...) // an escape is never shorter than what it stands for
	for i < end {
		if p[i] != '\\' {
			out = append(out, p[i])
			i++
			continue
		}
		c, n := unescape(p[i:])
		if n == 0 {
			return nil, false
		}
		out = utf8.AppendRune(out, c)
		i += n
	}
	r.i = end + 1
	return out[:len(out):len(out)], true
}

// escapedEnd returns where the closing quote of such a string is.
func (r *plain) escapedEnd(start, i int) (end int, ok bool) {
	p := r.p
	end = i
	for end < len(p) && p[end] != '"' {
		if p[end] == '\\' {
			end++
		}
		end++
	}
	return end, end < len(p) && end-start <= maxString && utf8.Valid(p[start:end])
}

// unescape returns the character of the escape that p begins with, and its length; 0 where there is none, or a lone surrogate.
func unescape(p []byte) (c rune, n int) {
	if len(p) < 2 {
		return 0, 0
	}
	switch p[1] {
	case '"', '\\', '/':
		return rune(p[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		u, ok := hex4(p[2:])
		switch {
		case !ok:
			return 0, 0
		case u < 0xD800 || u > 0xDFFF:
			return rune(u), 6
		case u < 0xDC00 && len(p) >= 12 && p[6] == '\\' && p[7] == 'u':
			low, ok := hex4(p[8:])
			if ok && low >= 0xDC00 && low <= 0xDFFF {
				return rune(u-0xD800)<<10 + rune(low-0xDC00) + 0x10000, 12
			}
		}
	}
	return 0, 0
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

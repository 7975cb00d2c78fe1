package flinkjson

import (
	"encoding/binary"
	"unicode/utf8"
)

// Java strings are UTF-16 and may hold lone surrogates. Here they are in UTF-8 with each lone surrogate in its three-byte form, as
// changelog.StringValue has it; a pair that arrives in two halves becomes one character, as it would in Java.

// readString appends the string whose opening quote is behind the place to dst.
func (l *lexer) readString(dst []byte) ([]byte, *Failure) {
	for l.i < len(l.p) {
		c := l.p[l.i]
		l.i++
		switch {
		case c == '"':
			return dst, nil
		case c == '\\':
			u, f := l.escape()
			if f != nil {
				return dst, f
			}
			dst = appendUnit(dst, u)
		case c < utf8.RuneSelf:
			dst = append(dst, c) // control characters too: Flink allows them
		default:
			u, f := l.multibyte(c)
			if f != nil {
				return dst, f
			}
			if u[0] >= 0xD800 {
				dst = appendUnit(dst, u[0])
				if u[1] != 0 {
					dst = appendUnit(dst, u[1])
				}
			} else {
				dst = utf8.AppendRune(dst, rune(u[0]))
			}
		}
	}
	return dst, brokenf("the message ends inside a string")
}

// bareString reads the string whose opening quote is behind the place if it is a part of the text as it stands: ASCII without escapes.
// Otherwise the place stays.
func (l *lexer) bareString() ([]byte, bool) {
	for i := l.i; i < len(l.p); i++ {
		switch c := l.p[i]; {
		case c == '"':
			s := l.p[l.i:i:i]
			l.i = i + 1
			return s, true
		case c == '\\' || c >= utf8.RuneSelf:
			return nil, false
		}
	}
	return nil, false
}

// skipString skips the string that the place is in, with the checks that Jackson makes then.
func (l *lexer) skipString() *Failure {
	l.incomplete = false
	for l.i < len(l.p) {
		c := l.p[l.i]
		l.i++
		switch {
		case c == '"':
			return nil
		case c == '\\':
			if _, f := l.escape(); f != nil {
				return f
			}
		case c >= utf8.RuneSelf:
			odd := l.odd
			if _, f := l.multibyte(c); f != nil {
				return f
			}
			l.odd = odd // nobody sees this text
		}
	}
	return brokenf("the message ends inside a string")
}

// escape reads what follows a backslash.
func (l *lexer) escape() (uint16, *Failure) {
	if l.i >= len(l.p) {
		return 0, brokenf("the message ends inside a string")
	}
	c := l.p[l.i]
	l.i++
	switch c {
	case '"', '\\', '/':
		return uint16(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		var u uint16
		for range 4 {
			if l.i >= len(l.p) {
				return 0, brokenf("the message ends inside a string")
			}
			d := hexDigit(l.p[l.i])
			l.i++
			if d < 0 {
				return 0, brokenf("an escape \\u has no four hexadecimal digits")
			}
			u = u<<4 | uint16(d)
		}
		return u, nil
	}
	return 0, brokenf("a string has an escape that JSON does not know")
}

// multibyte reads a character of two to four bytes that begins with c, as one or two units of UTF-16. Like Jackson it checks that bytes
// follow on, not what they make.
func (l *lexer) multibyte(c byte) (u [2]uint16, f *Failure) {
	var n int
	var r int32
	switch {
	case c&0xE0 == 0xC0:
		n, r = 1, int32(c&0x1F)
	case c&0xF0 == 0xE0:
		n, r = 2, int32(c&0x0F)
	case c&0xF8 == 0xF0:
		n, r = 3, int32(c&0x07)
	default:
		return u, brokenf("the message is not UTF-8")
	}
	for range n {
		if l.i >= len(l.p) {
			return u, brokenf("the message ends inside a string")
		}
		d := l.p[l.i]
		l.i++
		if d&0xC0 != 0x80 {
			return u, brokenf("the message is not UTF-8")
		}
		r = r<<6 | int32(d&0x3F)
	}
	if r < [...]int32{1: 0x80, 2: 0x800, 3: 0x10000}[n] || r > utf8.MaxRune {
		l.odd = true
	}
	if n < 3 {
		return [2]uint16{uint16(r)}, nil
	}
	r -= 0x10000
	return [2]uint16{uint16(0xD800 | r>>10), uint16(0xDC00 | r&0x3FF)}, nil
}

// appendUnit appends one unit of UTF-16. A low surrogate joins the high one that dst ends with.
func appendUnit(dst []byte, u uint16) []byte {
	if n := len(dst); u >= 0xDC00 && u <= 0xDFFF && n >= 3 && dst[n-3] == 0xED && dst[n-2] >= 0xA0 && dst[n-2] < 0xB0 {
		high := rune(dst[n-2]&0x0F)<<6 | rune(dst[n-1]&0x3F)
		return utf8.AppendRune(dst[:n-3], 0x10000+high<<10+rune(u-0xDC00))
	}
	if u >= 0xD800 && u <= 0xDFFF {
		return append(dst, 0xED, 0x80|byte(u>>6)&0x3F, 0x80|byte(u)&0x3F)
	}
	return utf8.AppendRune(dst, rune(u))
}

// transcode finds a byte order mark or the zeros of UTF-16 and UTF-32 as Jackson's ByteSourceJsonBootstrapper does, and returns the text
// in UTF-8 without the mark. wide reports that it was not UTF-8.
func transcode(p []byte) (text []byte, wide bool, f *Failure) {
	if len(p) >= 3 && p[0] == 0xEF && p[1] == 0xBB && p[2] == 0xBF {
		return p[3:], false, nil
	}
	if len(p) >= 4 {
		switch q := binary.BigEndian.Uint32(p); {
		case q == 0xFEFF:
			return fromUTF32(p[4:], binary.BigEndian)
		case q == 0xFFFE0000:
			return fromUTF32(p[4:], binary.LittleEndian)
		case q == 0xFFFE || q == 0xFEFF0000:
			return nil, true, brokenf("the message is UTF-32 in an unusual byte order")
		case q>>16 == 0xFEFF:
			return fromUTF16(p[2:], binary.BigEndian), true, nil
		case q>>16 == 0xFFFE:
			return fromUTF16(p[2:], binary.LittleEndian), true, nil
		case q>>8 == 0:
			return fromUTF32(p, binary.BigEndian)
		case q&0x00FFFFFF == 0:
			return fromUTF32(p, binary.LittleEndian)
		case q&^0x00FF0000 == 0 || q&^0x0000FF00 == 0:
			return nil, true, brokenf("the message is UTF-32 in an unusual byte order")
		}
	}
	if len(p) >= 2 {
		switch {
		case p[0] == 0:
			return fromUTF16(p, binary.BigEndian), true, nil
		case p[1] == 0:
			return fromUTF16(p, binary.LittleEndian), true, nil
		}
	}
	return p, false, nil
}

func fromUTF16(p []byte, order binary.ByteOrder) []byte {
	out := make([]byte, 0, len(p))
	for len(p) >= 2 {
		u := order.Uint16(p)
		p = p[2:]
		if u >= 0xD800 && u <= 0xDBFF && len(p) >= 2 {
			if low := order.Uint16(p); low >= 0xDC00 && low <= 0xDFFF {
				out = appendUnit(appendUnit(out, u), low)
				p = p[2:]
				continue
			}
		}
		if u >= 0xD800 && u <= 0xDFFF {
			u = utf8.RuneError
		}
		out = utf8.AppendRune(out, rune(u))
	}
	if len(p) > 0 {
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	return out
}

func fromUTF32(p []byte, order binary.ByteOrder) ([]byte, bool, *Failure) {
	out := make([]byte, 0, len(p))
	for len(p) >= 4 {
		u := order.Uint32(p)
		p = p[4:]
		if u > utf8.MaxRune {
			return nil, true, brokenf("the message is UTF-32 with characters beyond U+10FFFF")
		}
		out = utf8.AppendRune(out, rune(u))
	}
	if len(p) > 0 {
		return nil, true, brokenf("the message is UTF-32 and its length is no multiple of four")
	}
	return out, true, nil
}

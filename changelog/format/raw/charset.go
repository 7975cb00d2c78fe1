package raw

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// coding is how text is in bytes.
type coding interface {
	// String returns Java's name.
	String() string
	// decode returns p in UTF-8, as java.lang.String decodes it: what is no text becomes U+FFFD, and clean is false. Text that is clean and the same in UTF-8
	// is not copied.
	decode(b *changelog.Batch, p []byte) (s []byte, clean bool)
	// encode appends s, as java.lang.String encodes it: what the charset does not have becomes a question mark or what else Java has for it, and
	// clean is false. s is UTF-8 with lone surrogates in their three-byte form, which no charset has; other bytes that are no UTF-8 count as
	// such characters too, one a byte.
	encode(dst, s []byte) (out []byte, clean bool)
}

// codingOf knows Java's charsets by their names and aliases, in any case; nil for one that is not known.
func codingOf(name string) (coding, error) {
	if c := charsetOf(name); c != noCharset {
		return c, nil
	}
	if u := utf32Of(name); u != nil {
		return u, nil
	}
	t, err := tableOf(name)
	if t == nil {
		return nil, err
	}
	return t, nil
}

// charset is one that needs no table.
type charset uint8

const (
	utf8Charset charset = iota
	utf16Charset
	utf16BE
	utf16LE
	latin1
	ascii
	noCharset
)

var charsetNames = [...]string{"UTF-8", "UTF-16", "UTF-16BE", "UTF-16LE", "ISO-8859-1", "US-ASCII", ""}

func (c charset) String() string { return charsetNames[c] }

// charsetOf knows Java's names and its usual aliases, in any case.
func charsetOf(name string) charset {
	switch strings.ToUpper(name) {
	case "UTF-8", "UTF8", "UNICODE-1-1-UTF-8":
		return utf8Charset
	case "UTF-16", "UTF16", "UTF_16", "UNICODE":
		return utf16Charset
	case "UTF-16BE", "UTF_16BE", "X-UTF-16BE", "UNICODEBIGUNMARKED":
		return utf16BE
	case "UTF-16LE", "UTF_16LE", "X-UTF-16LE", "UNICODELITTLEUNMARKED":
		return utf16LE
	case "ISO-8859-1", "ISO8859-1", "ISO8859_1", "ISO_8859-1", "ISO_8859_1", "8859_1", "LATIN1", "L1", "IBM819", "CP819":
		return latin1
	case "US-ASCII", "ASCII", "ASCII7", "ISO646-US", "646":
		return ascii
	}
	return noCharset
}

// decode implements coding.
func (c charset) decode(b *changelog.Batch, p []byte) (s []byte, clean bool) {
	switch c {
	case utf8Charset:
		if utf8.Valid(p) {
			return p, true
		}
		return replaceInvalid(b, p), false
	case latin1, ascii:
		high := 0
		for _, x := range p {
			if x >= utf8.RuneSelf {
				high++
			}
		}
		if high == 0 {
			return p, true
		}
		s = b.NewBytes(len(p) + 2*high)[:0]
		for _, x := range p {
			r := rune(x)
			if c == ascii && x >= utf8.RuneSelf {
				r = utf8.RuneError
			}
			s = utf8.AppendRune(s, r)
		}
		return s, c == latin1
	}
	order := binary.ByteOrder(binary.BigEndian)
	if c == utf16LE {
		order = binary.LittleEndian
	}
	if c == utf16Charset && len(p) >= 2 {
		switch binary.BigEndian.Uint16(p) {
		case 0xFEFF:
			p = p[2:]
		case 0xFFFE:
			p, order = p[2:], binary.LittleEndian
		}
	}
	return decodeUTF16(b, p, order)
}

func decodeUTF16(b *changelog.Batch, p []byte, order binary.ByteOrder) (s []byte, clean bool) {
	clean = true
	s = b.NewBytes(len(p)/2*3 + 3)[:0]
	for len(p) >= 2 {
		r := rune(order.Uint16(p))
		p = p[2:]
		if r >= 0xD800 && r <= 0xDFFF {
			low := rune(0)
			if len(p) >= 2 {
				low = rune(order.Uint16(p))
			}
			if r < 0xDC00 && low >= 0xDC00 && low <= 0xDFFF {
				r = 0x10000 + (r-0xD800)<<10 + low - 0xDC00
				p = p[2:]
			} else {
				r, clean = utf8.RuneError, false
			}
		}
		s = utf8.AppendRune(s, r)
	}
	if len(p) > 0 {
		s, clean = utf8.AppendRune(s, utf8.RuneError), false
	}
	return s, clean
}

// replaceInvalid puts one U+FFFD where Java's UTF-8 decoder does: for each longest run of bytes that could begin a character, and one for
// an encoded surrogate.
func replaceInvalid(b *changelog.Batch, p []byte) []byte {
	s := b.NewBytes(3 * len(p))[:0]
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n <= 1 {
			n = malformed(p)
			s = utf8.AppendRune(s, utf8.RuneError)
		} else {
			s = append(s, p[:n]...)
		}
		p = p[n:]
	}
	return s
}

// malformed returns how many bytes Java takes for one malformed character.
func malformed(p []byte) int {
	cont := func(i int) bool { return i < len(p) && p[i]&0xC0 == 0x80 }
	switch c := p[0]; {
	case c >= 0xE0 && c <= 0xEF:
		switch {
		case !cont(1), c == 0xE0 && p[1] < 0xA0:
			return 1
		case c == 0xED && p[1] >= 0xA0 && cont(2):
			return 3
		}
		return 2
	case c >= 0xF0 && c <= 0xF4:
		switch {
		case !cont(1), c == 0xF0 && p[1] < 0x90, c == 0xF4 && p[1] >= 0x90:
			return 1
		case !cont(2):
			return 2
		}
		return 3
	}
	return 1
}

// encode implements coding. In UTF-16 it is U+FFFD that stands for what is no character.
func (c charset) encode(dst, s []byte) (out []byte, clean bool) {
	if c == utf8Charset && utf8.Valid(s) {
		return append(dst, s...), true
	}
	if c == utf16Charset && len(s) > 0 {
		dst = append(dst, 0xFE, 0xFF)
	}
	clean = true
	for len(s) > 0 {
		r, n, known := character(s)
		switch c {
		case latin1:
			known = known && r <= 0xFF
		case ascii:
			known = known && r < utf8.RuneSelf
		}
		clean = clean && known
		switch {
		case c == utf16Charset || c == utf16BE || c == utf16LE:
			dst = c.appendUTF16(dst, r) // r is U+FFFD where it is not known
		case !known:
			dst = append(dst, '?')
		case c == utf8Charset:
			dst = append(dst, s[:n]...)
		default:
			dst = append(dst, byte(r))
		}
		s = s[n:]
	}
	return dst, clean
}

// character returns the first character of s, which is U+FFFD and not known for a lone surrogate or what else is no UTF-8.
func character(s []byte) (r rune, n int, known bool) {
	r, n = utf8.DecodeRune(s)
	known = r != utf8.RuneError || n > 1
	if !known && len(s) >= 3 && s[0] == 0xED && s[1]&0xE0 == 0xA0 && s[2]&0xC0 == 0x80 {
		n = 3
	}
	return r, n, known
}

func (c charset) appendUTF16(dst []byte, r rune) []byte {
	order := binary.AppendByteOrder(binary.BigEndian)
	if c == utf16LE {
		order = binary.LittleEndian
	}
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return order.AppendUint16(order.AppendUint16(dst, uint16(high)), uint16(low))
	}
	return order.AppendUint16(dst, uint16(r))
}

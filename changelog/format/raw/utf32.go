package raw

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// utf32 is one of the charsets of four bytes a character.
type utf32 struct {
	name  string
	order byteOrder
	any   bool // a mark of the other order is followed too; a mark of the own one is never text
}

// utf32Of returns nil for a name that is none of them.
func utf32Of(name string) *utf32 {
	switch strings.ToUpper(name) {
	case "UTF-32", "UTF32", "UTF_32", "ISO-10646-UCS-4":
		return &utf32{"UTF-32", binary.BigEndian, true}
	case "UTF-32BE", "UTF_32BE", "X-UTF-32BE":
		return &utf32{"UTF-32BE", binary.BigEndian, false}
	case "UTF-32LE", "UTF_32LE", "X-UTF-32LE":
		return &utf32{"UTF-32LE", binary.LittleEndian, false}
	}
	return nil
}

// String implements coding.
func (u *utf32) String() string { return u.name }

// decode implements coding.
func (u *utf32) decode(b *changelog.Batch, p []byte) (s []byte, clean bool) {
	order := u.order
	if len(p) >= 4 {
		switch mark := order.Uint32(p); {
		case mark == 0xFEFF:
			p = p[4:]
		case mark == 0xFFFE0000 && u.any:
			p, order = p[4:], binary.LittleEndian
		}
	}
	clean = true
	s = b.NewBytes(len(p) + 4)[:0]
	for len(p) >= 4 {
		c := order.Uint32(p)
		p = p[4:]
		r := rune(c)
		if c > utf8.MaxRune || !utf8.ValidRune(r) {
			r, clean = utf8.RuneError, false
		}
		s = utf8.AppendRune(s, r)
	}
	if len(p) > 0 {
		s, clean = utf8.AppendRune(s, utf8.RuneError), false
	}
	return s, clean
}

// encode implements coding.
func (u *utf32) encode(dst, s []byte) (out []byte, clean bool) {
	clean = true
	for len(s) > 0 {
		r, n, known := character(s)
		s = s[n:]
		clean = clean && known
		dst = u.order.AppendUint32(dst, uint32(r))
	}
	return dst, clean
}

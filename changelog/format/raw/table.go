package raw

import (
	"archive/zip"
	"bytes"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// files has charsets.zip, what Java 17 reads and writes in its charsets of one and two bytes a character: see testdata/Charsets.java.
//
//go:embed charsets.zip
var files embed.FS

const (
	noCharacter = 0xFFFF
	maxTable    = 1 << 20 // bytes of one charset
)

// table is a charset of one and two bytes a character. All of its characters are of the first 65,536.
type table struct {
	name        string
	replacement []byte
	one         [256]uint16
	two         []uint16        // by two bytes; nil where every character is of one
	leads       [256]bool       // that begin two bytes
	codes       map[uint16]code // of the characters that are written
}

// tableOf reads the table of a charset; nil where there is none of that name.
func tableOf(name string) (*table, error) {
	packed, err := files.ReadFile("charsets.zip")
	if err != nil {
		return nil, fmt.Errorf("the tables of charsets: %w", err)
	}
	z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, fmt.Errorf("the tables of charsets: %w", err)
	}
	for _, f := range z.File {
		for _, n := range append(strings.Fields(f.Comment), f.Name) {
			if !strings.EqualFold(n, name) {
				continue
			}
			r, err := f.Open()
			if err != nil {
				return nil, fmt.Errorf("the table of charset %s: %w", f.Name, err)
			}
			defer r.Close()
			data, err := io.ReadAll(io.LimitReader(r, maxTable))
			if err != nil {
				return nil, fmt.Errorf("the table of charset %s: %w", f.Name, err)
			}
			return newTable(f.Name, data)
		}
	}
	return nil, nil
}

func newTable(name string, data []byte) (*table, error) {
	t := &table{name: name, codes: map[uint16]code{}}
	w := words{data: data}
	t.replacement = w.bytes(int(w.bytes(1)[0]))
	for i := range t.one {
		if t.one[i] = w.next(); t.one[i] != noCharacter {
			t.write(t.one[i], code{uint16(i), 1})
		}
	}
	pairs := make([]uint16, w.next())
	for i, last := 0, uint16(0); i < len(pairs); i++ {
		last += w.next()
		pairs[i] = last
	}
	if len(pairs) > 0 {
		t.two = slices.Repeat([]uint16{noCharacter}, 1<<16)
	}
	for i, last := 0, uint16(0); i < len(pairs); i++ {
		last += w.next()
		t.two[pairs[i]] = last
		t.leads[pairs[i]>>8] = true
		t.write(last, code{pairs[i], 2})
	}
	for range w.next() {
		char, n, as := w.next(), w.next(), w.next()
		if n == 0 {
			delete(t.codes, char)
		} else {
			t.codes[char] = code{as, int(n)}
		}
	}
	if w.short || len(w.data) > 0 {
		return nil, errors.New("the table of charset " + name + " is not whole")
	}
	return t, nil
}

// code is one or two bytes.
type code struct {
	bytes uint16
	n     int
}

// write notes the first code of a character.
func (t *table) write(char uint16, as code) {
	if _, ok := t.codes[char]; !ok {
		t.codes[char] = as
	}
}

// words reads what Charsets.java wrote. It never fails: what is missing is zero, and short is set.
type words struct {
	data  []byte
	short bool
}

func (w *words) bytes(n int) []byte {
	if n > len(w.data) {
		w.short = true
		return make([]byte, n)
	}
	out := w.data[:n]
	w.data = w.data[n:]
	return out
}

func (w *words) next() uint16 { return binary.BigEndian.Uint16(w.bytes(2)) }

// String implements coding.
func (t *table) String() string { return t.name }

// decode implements coding. Of two bytes that are no character Java takes both for one only if the first begins others, and the second neither is a character nor
// begins one.
func (t *table) decode(b *changelog.Batch, p []byte) (s []byte, clean bool) {
	clean = true
	s = b.NewBytes(3 * len(p))[:0]
	for len(p) > 0 {
		if c := t.one[p[0]]; c != noCharacter {
			s = utf8.AppendRune(s, rune(c))
			p = p[1:]
			continue
		}
		n := 1
		if len(p) > 1 && t.two != nil {
			if c := t.two[binary.BigEndian.Uint16(p)]; c != noCharacter {
				s = utf8.AppendRune(s, rune(c))
				p = p[2:]
				continue
			}
			if t.leads[p[0]] && !t.leads[p[1]] && t.one[p[1]] == noCharacter {
				n = 2
			}
		}
		s, clean = utf8.AppendRune(s, utf8.RuneError), false
		p = p[n:]
	}
	return s, clean
}

// encode implements coding.
func (t *table) encode(dst, s []byte) (out []byte, clean bool) {
	clean = true
	for len(s) > 0 {
		r, n, known := character(s)
		s = s[n:]
		c, ok := t.codes[uint16(r)]
		switch {
		case !known || r > 0xFFFF || !ok:
			dst, clean = append(dst, t.replacement...), false
		case c.n == 1:
			dst = append(dst, byte(c.bytes))
		default:
			dst = binary.BigEndian.AppendUint16(dst, c.bytes)
		}
	}
	return dst, clean
}

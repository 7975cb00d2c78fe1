package postgres

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func array(elems ...[]byte) []byte {
	out := make([]byte, arrayHeader)
	for _, e := range elems {
		if e == nil {
			out = append(out, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(e))), e...)
	}
	return out
}

// The format is that of the manual: COPY, "Binary Format".
func TestAppendRows(t *testing.T) {
	rows, ok := appendRows([]byte(copyHeader), [][]byte{array([]byte("a"), nil), array([]byte{}, []byte("xyz"))}, 2)
	got := append(rows, 0xff, 0xff)
	want := "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x00" + "\x00\x02\xff\xff\xff\xff\x00\x00\x00\x03xyz" + "\xff\xff"
	if !ok || string(got) != want {
		t.Errorf("%q, expected %q", got, want)
	}
	whole := array([]byte("abc"))
	for n := range whole {
		if _, ok := appendRows(nil, [][]byte{whole[:n]}, 1); ok {
			t.Errorf("an array cut off at %d is taken", n)
		}
	}
	for _, bad := range [][]byte{bytes.Clone(append(whole, 0)), array([]byte("a"), []byte("b")), array()} {
		if _, ok := appendRows(nil, [][]byte{bad}, 1); ok {
			t.Errorf("%q is taken for one element", bad)
		}
	}
}

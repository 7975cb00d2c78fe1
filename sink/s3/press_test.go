package s3

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// What goes in comes out, in files of no chunk, of a part of one, and of many, with a row that is longer than a chunk; one compressor makes all of them, also after a file that
// was dropped in the middle.
func TestPress(t *testing.T) {
	for _, c := range []Compression{Gzip, Zstd} {
		var cs compressors
		for n, lines := range []int{0, 1, 10, 5_000, 3, 20_000} {
			dropped, err := newPress(&cs, c, 3, sha256.New())
			if err != nil {
				t.Fatal(err)
			}
			for range lines {
				if _, err := dropped.Write([]byte("a file that nobody wants\n")); err != nil {
					t.Fatal(err)
				}
			}
			dropped.drop(&cs)
			h := sha256.New()
			p, err := newPress(&cs, c, 3, h)
			if err != nil {
				t.Fatal(err)
			}
			var want, got bytes.Buffer
			for i := range lines {
				line := fmt.Appendf(nil, "%d: %d\n", n, i)
				if i%2_000 == 7 {
					line = append(bytes.Repeat([]byte("long"), chunkBytes), '\n')
				}
				want.Write(line)
				if _, err := p.Write(line); err != nil {
					t.Fatal(err)
				}
				if p.some {
					p.take(func(b []byte) { got.Write(b) })
				}
				clear(line) // the caller's again
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			p.take(func(b []byte) { got.Write(b) })
			if sha256.Sum256(got.Bytes()) != [32]byte(h.Sum(nil)) {
				t.Errorf("compression %d, %d lines: the hash is not that of the file", c, lines)
			}
			p.drop(&cs)
			r, end, err := decompressed(c, &got)
			if err != nil {
				t.Fatal(err)
			}
			out, err := io.ReadAll(r)
			end()
			if err != nil || !bytes.Equal(out, want.Bytes()) {
				t.Errorf("compression %d, %d lines: %d bytes came out, and %d went in, %v", c, lines, len(out), want.Len(), err)
			}
		}
		if len(cs.free) != 1 {
			t.Errorf("compression %d: %d compressors were made", c, len(cs.free))
		}
	}
}

type broken struct{ error }

func (b broken) Write([]byte) (int, error) { return 0, b.error }
func (b broken) Close() error              { return b.error }
func (broken) Reset(io.Writer)             {}

// A compressor that fails ends the file, and holds up nobody.
func TestPress_Fails(t *testing.T) {
	failed := errors.New("failed")
	cs := compressors{free: []compressor{broken{failed}}}
	p, err := newPress(&cs, Gzip, 1, sha256.New())
	if err != nil {
		t.Fatal(err)
	}
	row := []byte(strings.Repeat("x", chunkBytes))
	for range 20 {
		_, err = p.Write(row)
	}
	if cerr := p.Close(); !errors.Is(err, failed) || !errors.Is(cerr, failed) {
		t.Errorf("Write says %v, Close %v", err, cerr)
	}
	p.drop(&cs)
}

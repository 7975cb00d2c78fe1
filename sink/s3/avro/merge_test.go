package avro_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro/ocf"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/avro"
	"github.com/flinksink/flinksink/sink/s3/internal/filetest"
)

func merge(files ...[]byte) ([]byte, error) {
	var out bytes.Buffer
	err := avro.New(nil).Merge(&out, func() (io.ReadCloser, error) {
		if len(files) == 0 {
			return nil, io.EOF
		}
		f := files[0]
		files = files[1:]
		return io.NopCloser(bytes.NewReader(f)), nil
	})
	return out.Bytes(), err
}

// rowsOf reads with the library's reader, which knows nothing of Merge.
func rowsOf(t *testing.T, b []byte) (rows []any) {
	t.Helper()
	r, err := ocf.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		var v any
		if err := r.Decode(&v); err == io.EOF {
			return rows
		} else if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, v)
	}
}

func TestMerge(t *testing.T) {
	tb := filetest.Table(t, "a BIGINT", "b STRING")
	for _, codec := range []avro.Codec{avro.Snappy, avro.Zstd, avro.Deflate, avro.Uncompressed} {
		var files [][]byte
		var want []any
		for i := range int64(3) {
			var rows []changelog.Row
			for j := range int64(50) {
				rows = append(rows, changelog.Row{changelog.IntValue(i*50 + j), changelog.StringValue("some text")})
			}
			f := filetest.Write(t, avro.New(&avro.Options{Codec: codec, BlockBytes: 100}), tb, rows...)
			files, want = append(files, f), append(want, rowsOf(t, f)...)
		}
		out, err := merge(files...)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, rowsOf(t, out)); d != "" || len(want) != 150 {
			t.Errorf("codec %d: %d rows: %s", codec, len(want), d)
		}
		for i := range len(files[1]) { // cut off anywhere: an error, or whole blocks
			if out, err := merge(files[0], files[1][:i]); err == nil && len(rowsOf(t, out))%2 != 0 && len(rowsOf(t, out)) < 50 {
				t.Errorf("codec %d, cut off at %d", codec, i)
			}
		}
	}
}

func TestMerge_Unlike(t *testing.T) {
	a := filetest.Write(t, avro.New(nil), filetest.Table(t, "a BIGINT"), changelog.Row{changelog.IntValue(1)})
	b := filetest.Write(t, avro.New(nil), filetest.Table(t, "b BIGINT"), changelog.Row{changelog.IntValue(1)})
	c := filetest.Write(t, avro.New(&avro.Options{Codec: avro.Zstd}), filetest.Table(t, "a BIGINT"), changelog.Row{changelog.IntValue(1)})
	for _, f := range [][]byte{b, c} {
		if _, err := merge(a, f); !errors.Is(err, s3.ErrUnlike) {
			t.Errorf("%v", err)
		}
	}
	broken := bytes.Clone(a)
	broken[len(broken)-1] ^= 1
	for _, f := range [][]byte{nil, []byte("no avro"), a[:20], broken} {
		if _, err := merge(a, f); err == nil || errors.Is(err, s3.ErrUnlike) {
			t.Errorf("%v", err)
		}
	}
}

// No bytes make it panic or take memory without bound.
func FuzzMerge(f *testing.F) {
	f.Add([]byte("Obj\x01\x00"))
	f.Add([]byte("Obj\x01\x01\x02\x02a\x02b\x000123456789abcdef\x02\x02x0123456789abcdef"))
	f.Fuzz(func(t *testing.T, b []byte) { merge(b, b) })
}

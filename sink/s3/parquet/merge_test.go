package parquet_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	pq "github.com/parquet-go/parquet-go"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/internal/filetest"
	"github.com/flinksink/flinksink/sink/s3/parquet"
)

func merge(o *parquet.Options, files ...[]byte) ([]byte, error) {
	var out bytes.Buffer
	err := parquet.New(o).Merge(&out, func() (io.ReadCloser, error) {
		if len(files) == 0 {
			return nil, io.EOF
		}
		f := files[0]
		files = files[1:]
		return io.NopCloser(bytes.NewReader(f)), nil
	})
	return out.Bytes(), err
}

func rowsOf(t *testing.T, b []byte) (schema string, groups int, rows []string) {
	t.Helper()
	f, err := pq.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range f.RowGroups() {
		r := g.Rows()
		buf := make([]pq.Row, 1)
		for {
			n, err := r.ReadRows(buf)
			if n == 1 {
				text := ""
				buf[0].Range(func(column int, vs []pq.Value) bool {
					for _, v := range vs {
						text += v.GoString() + ";"
					}
					return true
				})
				rows = append(rows, text)
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		r.Close()
	}
	return f.Schema().String(), len(f.RowGroups()), rows
}

// Rows of all types come through, in order, whatever the files' row groups were.
func TestMerge(t *testing.T) {
	tb, rows, _ := everything(t)
	var files [][]byte
	for _, r := range rows {
		files = append(files, filetest.Write(t, parquet.New(nil), tb, r, r))
	}
	out, err := merge(nil, files...)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	schema := ""
	for _, f := range files {
		s, _, rs := rowsOf(t, f)
		schema, want = s, append(want, rs...)
	}
	s, groups, got := rowsOf(t, out)
	if d := cmp.Diff(want, got); d != "" || s != schema || groups != 1 || len(got) != 2*len(rows) {
		t.Errorf("%d row groups, schema %s: %s", groups, s, d)
	}
	if out, err = merge(&parquet.Options{RowGroupRows: 2}, files...); err != nil {
		t.Fatal(err)
	}
	if _, groups, _ = rowsOf(t, out); groups != len(files) {
		t.Errorf("%d row groups", groups)
	}
}

func TestMerge_Unlike(t *testing.T) {
	a := filetest.Write(t, parquet.New(nil), filetest.Table(t, "a BIGINT"), changelog.Row{changelog.IntValue(1)})
	b := filetest.Write(t, parquet.New(nil), filetest.Table(t, "a BIGINT", "b INT"), changelog.Row{changelog.IntValue(1), null})
	if _, err := merge(nil, a, b); !errors.Is(err, s3.ErrUnlike) {
		t.Errorf("%v", err)
	}
	if _, err := merge(nil, a, []byte("no parquet")); err == nil {
		t.Error("no error")
	}
}

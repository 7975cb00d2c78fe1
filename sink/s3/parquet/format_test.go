package parquet_test

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pq "github.com/parquet-go/parquet-go"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/s3/internal/filetest"
	"github.com/flinksink/flinksink/sink/s3/parquet"
)

var null changelog.Value

func everything(t testing.TB) (*changelog.Table, []changelog.Row, []map[string]any) {
	return filetest.Everything(t, func(pairs ...any) any {
		var out []any
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, []any{pairs[i], pairs[i+1]})
		}
		return out
	})
}

// Another program than the one that wrote them reads each type as it was: pyarrow.
func TestFormat_ReadByPyarrow(t *testing.T) {
	python := filetest.Python(t, "pyarrow.parquet", "pyarrow")
	tb, rows, want := everything(t)
	for _, codec := range []parquet.Codec{parquet.Snappy, parquet.Zstd, parquet.Gzip, parquet.Uncompressed} {
		got := filetest.Print(t, python, filetest.Write(t, parquet.New(&parquet.Options{Codec: codec, RowGroupRows: 2}), tb, rows...))
		if d := cmp.Diff(filetest.Names(tb), got.Columns); d != "" {
			t.Errorf("codec %d: columns %s", codec, d)
		}
		if got.RowGroups != 2 {
			t.Errorf("codec %d: %d row groups", codec, got.RowGroups)
		}
		if d := cmp.Diff(want, got.Rows); d != "" {
			t.Errorf("codec %d: %s", codec, d)
		}
	}
}

// Rows of all types, in numbers that lie around those that are handed on together, are read by pyarrow in their order; so no row group, page or block ends within
// a row, or before it.
func TestFormat_ManyRowsReadByPyarrow(t *testing.T) {
	python := filetest.Python(t, "pyarrow.parquet", "pyarrow")
	tb, rows, want := everything(t)
	for _, n := range []int{127, 128, 129, 1000} {
		var in []changelog.Row
		var out []map[string]any
		dice := rand.New(rand.NewPCG(uint64(n), 1))
		for range n {
			i := dice.IntN(2)
			in, out = append(in, rows[i]), append(out, want[i])
		}
		got := filetest.Print(t, python, filetest.Write(t, parquet.New(&parquet.Options{RowGroupRows: 300}), tb, in...))
		if d := cmp.Diff(out, got.Rows); d != "" {
			t.Errorf("%d rows: %.2000s", n, d)
		}
	}
}

// Without Python: the library that wrote it reads the same levels back, which is less of a proof, and there are statistics and bounded row groups.
func TestFormat_RowGroups(t *testing.T) {
	tb := filetest.Table(t, "id BIGINT NOT NULL", "v STRING")
	var rows []changelog.Row
	for i := range int64(1000) {
		rows = append(rows, changelog.Row{changelog.IntValue(i), changelog.StringValue(strings.Repeat("x", 100))})
	}
	b := filetest.Write(t, parquet.New(&parquet.Options{RowGroupBytes: 10_000}), tb, rows...)
	f, err := pq.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.RowGroups()); n < 9 || n > 13 {
		t.Errorf("%d row groups of 1,000 rows of 116 bytes, at 10,000 bytes each", n)
	}
	if f.NumRows() != 1000 {
		t.Errorf("%d rows", f.NumRows())
	}
	stats := f.Metadata().RowGroups[0].Columns[0].MetaData.Statistics
	if hex.EncodeToString(stats.MinValue) != "0000000000000000" {
		t.Errorf("the least id of the first row group is %x in its statistics", stats.MinValue)
	}
}

// A row's memory is the caller's again when WriteRow returns, also where the row waits for others; a value that is longer than what waits together comes through
// too. What waits is told as buffered, and Flush ends the row group with it.
func TestFormat_KeepsNoMemoryOfTheCaller(t *testing.T) {
	tb := filetest.Table(t, "id BIGINT NOT NULL", "v BYTES", "l ARRAY<STRING>")
	tf, err := parquet.New(nil).Table(tb)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	f, err := tf.NewFile(&out)
	if err != nil {
		t.Fatal(err)
	}
	content := func(i int) []byte {
		n := 10
		if i%50 == 0 {
			n = 100_000
		}
		return bytes.Repeat([]byte{byte('a' + i%26)}, n)
	}
	const n = 501
	for i := range n {
		b := content(i)
		row := changelog.Row{changelog.IntValue(int64(i)), changelog.BytesValue(b), changelog.ArrayValue([]changelog.Value{changelog.StringValue("s"), null, changelog.StringValue("t")})}
		if err := f.WriteRow(&changelog.Change{Row: row}); err != nil {
			t.Fatal(err)
		}
		clear(b)
		clear(row)
		if f.Buffered() == 0 {
			t.Fatal("a row waits, and nothing is told to be buffered")
		}
		if i == 299 {
			if err := f.Flush(); err != nil || f.Buffered() != 0 {
				t.Fatalf("%d bytes are buffered after Flush, %v", f.Buffered(), err)
			}
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	_, groups, rows := rowsOf(t, out.Bytes())
	if groups != 2 || len(rows) != n {
		t.Fatalf("%d row groups, %d rows", groups, len(rows))
	}
	for i, r := range rows {
		if want := `"` + string(content(i)) + `"`; !strings.Contains(r, want) {
			t.Errorf("row %d is not what was written: %.200s", i, r)
		}
	}
}

func TestFormat_Refuses(t *testing.T) {
	refuse := filetest.Refuse
	filetest.Refuses(t, parquet.New(nil),
		refuse("STRING NOT NULL", null, changelog.Missing, "NOT NULL"),
		refuse("STRING", changelog.StringValue("\xff"), changelog.Malformed, "UTF-8"),
		refuse("TINYINT", changelog.IntValue(128), changelog.OutOfRange, "does not hold"),
		refuse("STRING", changelog.IntValue(1), changelog.WrongType, "another kind"),
		refuse("STRING", changelog.UnchangedValue(), changelog.Missing, "did not send"),
		refuse("DATE", changelog.DateValue(1<<31), changelog.OutOfRange, "32 bits"),
		refuse("TIMESTAMP(9)", changelog.TimestampValue(changelog.DaysOf(9999, 1, 1)*86400, 0), changelog.OutOfRange, "precision of 6"),
		refuse("TIMESTAMP(3)", changelog.TimestampValue(0, 1), changelog.OutOfRange, "more digits"),
		refuse("TIME(3)", changelog.TimeValue(1), changelog.OutOfRange, "more digits"),
		refuse("MAP<STRING, INT>", changelog.MapValue([]changelog.Value{null, changelog.IntValue(1)}), changelog.Missing, "NOT NULL"),
		refuse("MAP<STRING, INT>", changelog.MapValue([]changelog.Value{changelog.StringValue("k")}), changelog.Malformed, "no value"),
		refuse("ROW<a INT, b INT>", changelog.RowValue([]changelog.Value{null}), changelog.SchemaMismatch, "1 fields"),
		refuse("DECIMAL(4, 2)", changelog.DecimalValue(0, 1, 3), changelog.OutOfRange, "another scale"),
		refuse("DECIMAL(18, 2)", changelog.DecimalValue(1, 1, 2), changelog.OutOfRange, "more digits"),
		refuse("DECIMAL(38, 2)", changelog.DecimalValue(0, 1, 3), changelog.OutOfRange, "another scale"),
	)
}

package parquet_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pq "github.com/parquet-go/parquet-go"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/s3/parquet"
)

const pythonVariable = "FLINKSINK_PYTHON"

func table(t testing.TB, columns ...string) *changelog.Table {
	t.Helper()
	tb := &changelog.Table{Name: "orders", Mode: changelog.Append, Schema: &changelog.Schema{}}
	for _, c := range columns {
		name, typ, _ := strings.Cut(c, " ")
		parsed, err := changelog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		tb.Schema.Columns = append(tb.Schema.Columns, changelog.Column{Name: name, Type: parsed})
	}
	return tb
}

func write(t testing.TB, o *parquet.Options, tb *changelog.Table, rows ...changelog.Row) []byte {
	t.Helper()
	tf, err := parquet.New(o).Table(tb)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	f, err := tf.NewFile(&out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := f.WriteRow(&changelog.Change{Row: r}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func decimal(t testing.TB, s string, precision, scale int) changelog.Value {
	t.Helper()
	v, err := changelog.ParseDecimal([]byte(s), precision, scale)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var null changelog.Value

// everything is a table of each type, rows of it, and what another program must print of them.
func everything(t testing.TB) (*changelog.Table, []changelog.Row, []map[string]any) {
	num, str := changelog.IntValue, changelog.StringValue
	nines := strings.Repeat("9", 38)
	last := changelog.DaysOf(9999, 12, 31)
	type column struct {
		sql  string
		v    changelog.Value
		want any
	}
	columns := []column{
		{"BOOLEAN", changelog.BoolValue(true), true},
		{"TINYINT", num(-128), "-128"},
		{"SMALLINT", num(32767), "32767"},
		{"INT", num(math.MinInt32), "-2147483648"},
		{"BIGINT", num(math.MaxInt64), "9223372036854775807"},
		{"FLOAT", changelog.FloatValue(0.5), "0.5"},
		{"DOUBLE", changelog.DoubleValue(0.1), "0.1"},
		{"DECIMAL(9, 2)", decimal(t, "-1234567.89", 9, 2), "-1234567.89"},
		{"DECIMAL(18, 3)", decimal(t, "123456789012345.678", 18, 3), "123456789012345.678"},
		{"DECIMAL(38, 0)", decimal(t, "-"+nines, 38, 0), "-" + nines},
		{"DECIMAL(38, 38)", decimal(t, "0."+nines, 38, 38), "0." + nines},
		{"CHAR(3)", str("ab "), "ab "},
		{"STRING", str("zürich \x00 \n"), "zürich \x00 \n"},
		{"BYTES", changelog.BytesValue([]byte{0, 255}), "hex:00ff"},
		{"DATE", changelog.DateValue(changelog.DaysOf(2024, 2, 29)), "2024-02-29"},
		{"TIME(0)", changelog.TimeValue(3661e9), "01:01:01"},
		{"TIME(3)", changelog.TimeValue(3661e9 + 1e6), "01:01:01.001000"},
		{"TIME(6)", changelog.TimeValue(3661e9 + 1e3), "01:01:01.000001"},
		{"TIMESTAMP(0)", changelog.TimestampValue(last*86400, 0), "9999-12-31T00:00:00"},
		{"TIMESTAMP(3)", changelog.TimestampValue(-1, 999e6), "1969-12-31T23:59:59.999000"},
		{"TIMESTAMP(6)", changelog.TimestampValue(0, 1000), "1970-01-01T00:00:00.000001"},
		{"TIMESTAMP_LTZ(3)", changelog.TimestampLTZValue(0, 1e6), "1970-01-01T00:00:00.001000+00:00"},
		{"INTERVAL YEAR(4) TO MONTH", num(-13), "-13"},
		{"INTERVAL DAY(6) TO SECOND(3)", num(86_400_001), "86400001"},
		{"ARRAY<INT>", changelog.ArrayValue([]changelog.Value{num(1), null, num(-2)}), []any{"1", nil, "-2"}},
		{"ARRAY<STRING>", changelog.ArrayValue(nil), []any{}},
		{"MAP<STRING, INT>", changelog.MapValue([]changelog.Value{str("a"), num(1), str(""), null}), []any{[]any{"a", "1"}, []any{"", nil}}},
		{"MULTISET<STRING>", changelog.MapValue([]changelog.Value{str("a"), num(2)}), []any{[]any{"a", "2"}}},
		{"ROW<b INT, a ARRAY<ROW<y STRING, x INT>>>", changelog.RowValue([]changelog.Value{num(1), changelog.ArrayValue([]changelog.Value{
			changelog.RowValue([]changelog.Value{str("s"), null}), null, changelog.RowValue([]changelog.Value{null, num(7)})})}),
			map[string]any{"b": "1", "a": []any{map[string]any{"y": "s", "x": nil}, nil, map[string]any{"y": nil, "x": "7"}}}},
		{"ARRAY<ARRAY<INT NOT NULL>>", changelog.ArrayValue([]changelog.Value{changelog.ArrayValue([]changelog.Value{num(1), num(2)}), changelog.ArrayValue(nil), null}), []any{[]any{"1", "2"}, []any{}, nil}},
	}
	var sql []string
	row, none := changelog.Row{}, changelog.Row{}
	want, wantNone := map[string]any{}, map[string]any{}
	for i, c := range columns {
		name := fmt.Sprintf("c%02d", len(columns)-i) // not in the order of the names
		sql = append(sql, name+" "+c.sql)
		row, none = append(row, c.v), append(none, null)
		want[name], wantNone[name] = c.want, nil
	}
	return table(t, sql...), []changelog.Row{row, none, row}, []map[string]any{want, wantNone, want}
}

// Another program than the one that wrote them reads each type as it was: pyarrow.
func TestFormat_ReadByPyarrow(t *testing.T) {
	python := os.Getenv(pythonVariable)
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import pyarrow.parquet").CombinedOutput(); err != nil {
		t.Skipf("needs Python with pyarrow (pip install pyarrow); %s names the interpreter: %v %s", pythonVariable, err, out)
	}
	tb, rows, want := everything(t)
	for _, codec := range []parquet.Codec{parquet.Snappy, parquet.Zstd, parquet.Gzip, parquet.Uncompressed} {
		path := filepath.Join(t.TempDir(), "f.parquet")
		if err := os.WriteFile(path, write(t, &parquet.Options{Codec: codec, RowGroupRows: 2}, tb, rows...), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(python, "testdata/print.py", path)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Columns   []string
			RowGroups int
			Rows      []map[string]any
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		var names []string
		for _, c := range tb.Schema.Columns {
			names = append(names, c.Name)
		}
		if d := cmp.Diff(names, got.Columns); d != "" {
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

// Without Python: the library that wrote it reads the same levels back, which is less of a proof, and there are statistics and bounded row groups.
func TestFormat_RowGroups(t *testing.T) {
	tb := table(t, "id BIGINT NOT NULL", "v STRING")
	var rows []changelog.Row
	for i := range int64(1000) {
		rows = append(rows, changelog.Row{changelog.IntValue(i), changelog.StringValue(strings.Repeat("x", 100))})
	}
	b := write(t, &parquet.Options{RowGroupBytes: 10_000}, tb, rows...)
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

func TestFormat_Refuses(t *testing.T) {
	for _, c := range []struct {
		sql    string
		v      changelog.Value
		reason string
	}{
		{"STRING NOT NULL", null, "NOT NULL"},
		{"STRING", changelog.StringValue("\xff"), "UTF-8"},
		{"TINYINT", changelog.IntValue(128), "does not hold"},
		{"STRING", changelog.IntValue(1), "another kind"},
		{"STRING", changelog.UnchangedValue(), "another kind"},
		{"TIMESTAMP(9)", changelog.TimestampValue(changelog.DaysOf(9999, 1, 1)*86400, 0), "precision of 6"},
		{"TIMESTAMP(3)", changelog.TimestampValue(0, 1), "more digits"},
		{"TIME(3)", changelog.TimeValue(1), "more digits"},
		{"MAP<STRING, INT>", changelog.MapValue([]changelog.Value{null, changelog.IntValue(1)}), "NOT NULL"},
		{"MAP<STRING, INT>", changelog.MapValue([]changelog.Value{changelog.StringValue("k")}), "no value"},
		{"ROW<a INT, b INT>", changelog.RowValue([]changelog.Value{null}), "1 fields"},
		{"DECIMAL(4, 2)", changelog.DecimalValue(0, 1, 3), "another scale"},
	} {
		tf, err := parquet.New(nil).Table(table(t, "v "+c.sql))
		if err != nil {
			t.Fatal(err)
		}
		f, err := tf.NewFile(&bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		err = f.WriteRow(&changelog.Change{Row: changelog.Row{c.v}})
		if d, ok := err.(*changelog.DataError); !ok || !strings.Contains(d.Reason, c.reason) || d.Field != "v" {
			t.Errorf("%s: %v, expected %q", c.sql, err, c.reason)
		}
	}
}

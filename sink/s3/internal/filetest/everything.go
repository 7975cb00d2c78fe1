package filetest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// Everything is a table of each type, rows of it, and what another program must print of them: numbers as text, bytes as hex, and maps as object makes them of
// the names and values that alternate.
func Everything(t testing.TB, object func(pairs ...any) any) (*changelog.Table, []changelog.Row, []map[string]any) {
	t.Helper()
	var null changelog.Value
	num, str := changelog.IntValue, changelog.StringValue
	decimal := func(s string, precision, scale int) changelog.Value {
		v, err := changelog.ParseDecimal([]byte(s), precision, scale)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	nines := strings.Repeat("9", 38)
	last := changelog.DaysOf(9999, 12, 31)
	columns := []struct {
		sql  string
		v    changelog.Value
		want any
	}{
		{"BOOLEAN", changelog.BoolValue(true), true},
		{"TINYINT", num(-128), "-128"},
		{"SMALLINT", num(32767), "32767"},
		{"INT", num(math.MinInt32), "-2147483648"},
		{"BIGINT", num(math.MaxInt64), "9223372036854775807"},
		{"FLOAT", changelog.FloatValue(0.5), "0.5"},
		{"DOUBLE", changelog.DoubleValue(0.1), "0.1"},
		{"DECIMAL(9, 2)", decimal("-1234567.89", 9, 2), "-1234567.89"},
		{"DECIMAL(18, 3)", decimal("123456789012345.678", 18, 3), "123456789012345.678"},
		{"DECIMAL(38, 0)", decimal("-"+nines, 38, 0), "-" + nines},
		{"DECIMAL(38, 38)", decimal("0."+nines, 38, 38), "0." + nines},
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
		{"MAP<STRING, INT>", changelog.MapValue([]changelog.Value{str("a"), num(1), str(""), null}), object("a", "1", "", nil)},
		{"MULTISET<STRING>", changelog.MapValue([]changelog.Value{str("a"), num(2)}), object("a", "2")},
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
	return Table(t, sql...), []changelog.Row{row, none, row}, []map[string]any{want, wantNone, want}
}

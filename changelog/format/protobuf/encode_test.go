package protobuf

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flinksink/flinksink/changelog"
)

// Flink 2.2 wrote these rows: testdata/flink/protobuf_types and protobuf_read_defaults have the messages.
func TestEncode_AsFlinkWrote(t *testing.T) {
	i, s, null := changelog.IntValue, changelog.StringValue, changelog.Value{}
	row := func(v ...changelog.Value) changelog.Value { return changelog.RowValue(v) }
	list := func(v ...changelog.Value) changelog.Value { return changelog.ArrayValue(v) }
	pairs := func(v ...changelog.Value) changelog.Value { return changelog.MapValue(v) }
	rows := []changelog.Row{
		{i(1), i(-1), changelog.FloatValue(1.5), changelog.DoubleValue(0), changelog.BoolValue(true), s("ann"), changelog.BytesValue([]byte{0, 0xFF}), s("RED"), i(5), row(i(7), s("in")),
			list(i(1), i(-2), i(300)), list(s("x"), s("")), list(row(i(1), s("p")), row(i(2), s("q"))), pairs(s("k"), i(1)), pairs(i(3), row(i(4), s("m"))), i(-5), i(9), s("set"), i(3), s("both set")},
		make(changelog.Row, 20),
		{i(0), i(0), changelog.FloatValue(0), changelog.DoubleValue(0), changelog.BoolValue(false), s(""), changelog.BytesValue(nil), s("UNKNOWN"), i(0), row(null, null),
			list(null, i(0)), list(null, s("b")), null, pairs(s("z"), null), null, i(0), i(0), s(""), i(0), null},
		{i(1<<31 - 1), i(1<<63 - 1), null, null, null, s("😀"), null, s("NOPE"), i(77), null, list(), null, null, null, null, null, null, s("m"), null, s("only right")},
		{i(-1 << 31), i(-1 << 63), null, changelog.DoubleValue(1e300), null, null, null, s("GREEN"), i(1), row(i(-1), s("")), null, null, null, null, null, i(-1 << 63), i(-1), null, null, null},
	}
	f := Format{Files: testFiles(t)}
	for name, options := range map[string]map[string]string{
		"protobuf_types":         with(itemClass),
		"protobuf_read_defaults": with(itemClass, "read-default-values", "true", "write-null-string-literal", "<null>"),
	} {
		p := payloadOf(t, options, itemColumns...)
		p.Lenient = true // NOPE and 77 are none of the enum's
		e, err := f.NewEncoder(p)
		if err != nil {
			t.Fatal(err)
		}
		for k, want := range captured(t, name) {
			got, null, err := e.AppendPayload([]byte("x"), &changelog.Change{Row: rows[k]})
			if err != nil || null || string(got) != "x"+string(want) {
				t.Errorf("%s %d: %x, null %v, %v\nFlink %x", name, k, got[1:], null, err, want)
			}
		}
	}
	p := payloadOf(t, with(itemClass), itemColumns...)
	e, err := f.NewEncoder(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.AppendPayload(nil, &changelog.Change{Row: rows[3]}); err == nil || !strings.Contains(err.Error(), "field color: the enum flinksink.testbed.Color has no such value") || strings.Contains(err.Error(), "NOPE") {
		t.Errorf("an unknown name: %v", err)
	}
}

// Java's HashMap, by what OpenJDK 17 printed of maps that were filled in these orders.
func TestEncode_MapsInHashOrder(t *testing.T) {
	multiples := ""
	for k := range 40 {
		multiples += fmt.Sprintf(" %d", k*37)
	}
	f := Format{Files: testFiles(t)}
	for _, c := range []struct{ class, column, keys, want string }{
		{itemClass, "counts MAP<STRING, INT>", "banana apple cherry date elderberry fig grape 😀 Zürich l m n o p q r s t", "banana date cherry fig grape elderberry l m n o p apple q r s t Zürich 😀"},
		{itemClass, "by_no MAP<INT, ROW<a INT>>", "100000 -1 17 1 33 65537 16 -70000 7", "-1 65537 16 100000 17 1 33 7 -70000"},
		{itemClass, "by_no MAP<INT, ROW<a INT>>", multiples, "0 962 259 1221 518 777 74 1036 333 1295 592 851 148 1110 407 1369 666 925 222 1184 481 1443 740 37 999 296 1258 555 814 111 1073 370 1332 629 888 185 1147 444 1406 703"},
		{"wide.Wide", "by_long MAP<BIGINT, DOUBLE>", "100000 -1 17 8589934592 1 33 65537 16 -70000 7 -1099511627776", "-1 65537 16 100000 17 1 33 8589934592 7 -70000 -1099511627776"},
		{"wide.Wide", "by_flag MAP<BOOLEAN, BYTES>", "true false", "false true"},
	} {
		p := payloadOf(t, with(c.class), c.column)
		e, err := f.NewEncoder(p)
		if err != nil {
			t.Fatal(err)
		}
		var pairs []changelog.Value
		for _, k := range strings.Fields(c.keys) {
			key := changelog.StringValue(k)
			switch n, err := strconv.ParseInt(k, 10, 64); {
			case err == nil:
				key = changelog.IntValue(n)
			case k == "true" || k == "false":
				key = changelog.BoolValue(k == "true")
			}
			pairs = append(pairs, key, changelog.Value{})
		}
		out, _, err := e.AppendPayload(nil, &changelog.Change{Row: changelog.Row{changelog.MapValue(pairs)}})
		if err != nil {
			t.Fatal(err)
		}
		// The text of a map is sorted by key, so the entries are read one by one.
		var order []string
		for len(out) > 0 {
			_, _, n := protowire.ConsumeTag(out)
			_, m := protowire.ConsumeBytes(out[n:])
			var row map[string][][]any
			if err := json.Unmarshal([]byte(decodeText(t, f, p, out[:n+m])), &row); err != nil {
				t.Fatal(err)
			}
			for _, m := range row {
				order = append(order, strings.ToLower(fmt.Sprint(m[0][0])))
			}
			out = out[n+m:]
		}
		if got := strings.Join(order, " "); got != strings.ToLower(c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.column, got, c.want)
		}
	}
}

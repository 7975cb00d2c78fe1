package rowtext

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

func TestAppendChange(t *testing.T) {
	s := &changelog.Schema{}
	for _, c := range [][2]string{
		{"id", "BIGINT"}, {"s", "STRING"}, {"y", "BYTES"}, {"b", "BOOLEAN"}, {"a", "ARRAY<STRING>"}, {"m", "MAP<STRING, ROW<x INT>>"},
		{"ms", "MULTISET<STRING>"}, {"gone", "INT"}, {"n", "INT"},
	} {
		ty, err := changelog.ParseType(c[1])
		if err != nil {
			t.Fatal(err)
		}
		s.Columns = append(s.Columns, changelog.Column{Name: c[0], Type: ty})
	}
	str, num := changelog.StringValue, changelog.IntValue
	c := changelog.Change{
		Partition: changelog.Partition{Topic: "t", Partition: 2}, Offset: 9, Kind: changelog.UpdateAfter,
		Row: changelog.Row{
			num(-5), str("a\"\\/\b\u0001\u007f\u2028é😀\xED\xA0\xBD\xFF"), changelog.BytesValue([]byte{0, 255}), changelog.BoolValue(true),
			changelog.ArrayValue([]changelog.Value{str("x"), {}}),
			changelog.MapValue([]changelog.Value{
				str("\uFFFF"), {}, str("😀"), changelog.RowValue([]changelog.Value{num(1)}), str("a"), changelog.RowValue([]changelog.Value{{}}),
			}),
			changelog.MapValue([]changelog.Value{str("b"), num(2), str("a"), num(1)}), changelog.UnchangedValue(), {},
		},
	}
	want := `{"op":"+U","partition":2,"offset":9,"row":{"id":"-5","s":"a\"\\/\b\u0001` + "\u007f\u2028é😀" + `\uD83D` + "\uFFFD" +
		`","y":"00ff","b":"TRUE","a":["x",null],"m":[["a",{"x":null}],["😀",{"x":"1"}],["` + "\uFFFF" + `",null]],"ms":[["a","1"],["b","2"]],"n":null}}`
	got := string(AppendChange(nil, &changelog.Table{Schema: s}, &c))
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !json.Valid([]byte(got)) {
		t.Error("no JSON")
	}
	want = strings.Replace(want, `"partition"`, `"topic":"t","partition"`, 1)
	if got := string(AppendChangeOfTopic(nil, &changelog.Table{Schema: s}, &c)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// What Flink 2.2 printed for years beyond 0 to 9999.
func TestAppendValue_Years(t *testing.T) {
	date := changelog.Type{Root: changelog.RootDate}
	for _, c := range []struct {
		year int64
		want string
	}{{0, "0000"}, {9999, "9999"}, {10000, "0000"}, {12024, "2024"}, {-1, "000/"}, {-44, "00,,"}} {
		days := changelog.DaysOf(c.year, 3, 15)
		if got, want := string(AppendValue(nil, &date, changelog.DateValue(days))), `"`+c.want+`-03-15"`; got != want {
			t.Errorf("DATE of year %d: %s, want %s", c.year, got, want)
		}
		want := `"` + c.want + `-03-15 23:59:59.123"`
		for _, typ := range []changelog.Type{{Root: changelog.RootTimestamp, Precision: 3}, {Root: changelog.RootTimestampLTZ, Precision: 3}} {
			v := changelog.TimestampValue(days*86400+86399, 123e6)
			if typ.Root == changelog.RootTimestampLTZ {
				v = changelog.TimestampLTZValue(days*86400+86399, 123e6)
			}
			if got := string(AppendValue(nil, &typ, v)); got != want {
				t.Errorf("%s of year %d: %s, want %s", typ, c.year, got, want)
			}
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", "\x00\x1f", "\xED\xB0\x80", "\xED", "\xF0\x9F\x98\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := AppendString(nil, s)
		var back string
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
	})
}

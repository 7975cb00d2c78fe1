package rowtext

import (
	"encoding/json"
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

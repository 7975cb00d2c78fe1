package elastic_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/elastic"
	"pgregory.net/rapid"
)

func newSink(t testing.TB, o *elastic.Options) *elastic.Sink {
	t.Helper()
	client, err := elastictransport.New(elastictransport.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := elastic.New(client, "target", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Ids are stored with the documents for ever: these must never change.
func TestID_Golden(t *testing.T) {
	upsert := mode(t, "[I,UA,D]")
	text := table(t, "t", upsert, 1, "k STRING")
	number := table(t, "t", upsert, 1, "k BIGINT")
	two := table(t, "t", upsert, 2, "a BIGINT", "b STRING")
	dec := table(t, "t", upsert, 1, "k DECIMAL(10, 2)")
	raw := table(t, "t", upsert, 1, "k BYTES")
	app := table(t, "t", changelog.Append, 0, "k STRING")
	for _, c := range []struct {
		table *changelog.Table
		o     elastic.Options
		row   []any
		want  string
	}{
		{text, elastic.Options{}, []any{"abc"}, "abc"},
		{text, elastic.Options{}, []any{"a/b c\n\u00e9"}, "a/b c\n\u00e9"},
		{text, elastic.Options{}, []any{""}, "~BwAB"},
		{text, elastic.Options{}, []any{changelog.Value{}}, "~AA"},
		{text, elastic.Options{}, []any{"~abc"}, "~B35hYmMAAQ"},
		{text, elastic.Options{}, []any{strings.Repeat("x", 512)}, strings.Repeat("x", 512)},
		{text, elastic.Options{}, []any{strings.Repeat("x", 513)}, "~~gOyt3B6Ho1IycASn2Rli1jL4SHiZgdzUTJXOFFemmnw"},
		{text, elastic.Options{}, []any{"\xed\xa0\x80"}, "~B-2ggAAB"},
		{text, elastic.Options{HashIDs: true}, []any{"abc"}, "~~oo0bP3VngnGah9NpfEJ8-X56_-RhLfV0LIzIpplk17k"},
		{text, elastic.Options{IDPrefix: "v2-"}, []any{"abc"}, "v2-abc"},
		{number, elastic.Options{}, []any{-7}, "-7"},
		{two, elastic.Options{}, []any{1, "b"}, "~A4AAAAAAAAABB2IAAQ"},
		{dec, elastic.Options{}, []any{changelog.DecimalValue(0, 150, 2)}, "~BoAAAAAAAAAAAAAAAAAAAJY"},
		{raw, elastic.Options{}, []any{[]byte{0, 1}}, "~CAD_AQAB"},
		{app, elastic.Options{}, []any{"abc"}, "~orders/0/42/0"},
	} {
		ch := at(42, ins, c.row...)
		if got := newSink(t, &c.o).ID(c.table, &ch); got != c.want {
			t.Errorf("id of %v: %q, expected %q", c.row, got, c.want)
		}
	}
}

// Ids of different keys differ, fit, and are UTF-8; equal keys have equal ids.
func TestID_Injective(t *testing.T) {
	upsert := mode(t, "[I,UA,D]")
	tables := []*changelog.Table{
		table(t, "t", upsert, 1, "k STRING"),
		table(t, "t", upsert, 1, "k BYTES"),
		table(t, "t", upsert, 2, "a STRING", "b STRING"),
	}
	rapid.Check(t, func(t *rapid.T) {
		tab := rapid.SampledFrom(tables).Draw(t, "table")
		s := newSink(nil2(t), &elastic.Options{IDPrefix: rapid.SampledFrom([]string{"", "p", strings.Repeat("p", 64)}).Draw(t, "prefix")})
		draw := func(name string) changelog.Row {
			row := make(changelog.Row, len(tab.Schema.Columns))
			for i := range row {
				b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', '~', '/', 0xc3, 0xa9, 0xff}), 0, rapid.SampledFrom([]int{3, 600}).Draw(t, "most")).Draw(t, name)
				if tab.Schema.Columns[i].Type.Root == changelog.RootVarchar {
					row[i] = changelog.StringValue(strings.ToValidUTF8(string(b), "?"))
				} else {
					row[i] = changelog.BytesValue(b)
				}
			}
			return row
		}
		a, b := changelog.Change{Row: draw("a")}, changelog.Change{Row: draw("b")}
		equal := bytes.Equal(changelog.AppendKey(nil, tab.Schema, a.Row), changelog.AppendKey(nil, tab.Schema, b.Row))
		x, y := s.ID(tab, &a), s.ID(tab, &b)
		if equal != (x == y) {
			t.Fatalf("keys equal: %t, ids equal: %t (%q, %q)", equal, x == y, x, y)
		}
		for _, id := range []string{x, y} {
			if id == "" || len(id) > 512 {
				t.Fatalf("id of %d bytes", len(id))
			}
		}
	})
}

// nil2 lets a helper that wants a testing.TB take rapid's.
func nil2(t *rapid.T) testing.TB { return tb{rapid: t} }

type tb struct {
	testing.TB
	rapid *rapid.T
}

func (t tb) Helper()           {}
func (t tb) Fatal(args ...any) { t.rapid.Fatal(fmt.Sprint(args...)) }

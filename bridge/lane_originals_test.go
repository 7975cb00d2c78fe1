package bridge

import (
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
)

// altering is a decoder of a user's own. It embeds one that fills originals, and does not say that it alters rows.
type altering struct{ *format.Decoder }

// Values may be handed on only if the decoder gives what came.
func TestLane_AsCame(t *testing.T) {
	table, err := ddl.Find("CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', 'properties.bootstrap.servers' = 'x')", "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := format.New(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		decoder changelog.Decoder
		want    bool
	}{
		"a table's":             {d, true},
		"behind a promise":      {&promise{Decoder: d}, true},
		"behind others' filter": {&judged{Decoder: d}, true},
		"filtered":              {&transform{from: d, table: d.Table()}, false},
		"filtered, and judged":  {&judged{Decoder: &transform{from: d, table: d.Table()}}, false},
		"embedded":              {altering{d}, false},
		"wrapped":               {struct{ changelog.Decoder }{d}, false},
		"another's":             {newRows(), false},
	} {
		if got := asCame(c.decoder); got != c.want {
			t.Errorf("%s: what it gives is what came: %t", name, got)
		}
	}
}

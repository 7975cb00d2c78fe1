package bridge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// A bridge with both: the sink holds the other table, positions pass what was dropped, and every change is accounted for.
func TestRun_FilterAndMap(t *testing.T) {
	k := newCluster(t, 2)
	k.put(0, numbered("a", 0, 50)...)
	k.put(1, numbered("b", 0, 50)...)
	g := newTarget()
	o := options(g)
	o.UntilEnd, o.Lanes = true, 2
	o.Filter = &Filter{Keep: func(r changelog.Row) bool { return strings.HasSuffix(r[1].Str(), "7") }}
	cols := sinktest.Appended().Schema.Columns
	o.Map = &Mapping{Schema: &changelog.Schema{Columns: []changelog.Column{{Name: "at", Type: cols[0].Type}, {Name: "v", Type: cols[1].Type}}}, From: map[string]string{"at": cols[0].Name},
		Row: func(b *changelog.Batch, in, out changelog.Row) error {
			p := b.NewBytes(len(in[1].Bytes()) + 1)
			copy(p[copy(p, "<"):], in[1].Bytes())
			out[1] = changelog.StringBytesValue(p)
			return nil
		}}
	b := k.bridge(g, o)
	if err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"<a00007", "<a00017", "<a00027", "<a00037", "<a00047", "<b00007", "<b00017", "<b00027", "<b00037", "<b00047"}
	if got := g.values(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if p := g.positions(t, "test"); p[0] != 50 || p[1] != 50 {
		t.Errorf("positions %v", p)
	}
	if n := b.Status().Counters; n.Records != 100 || n.Read != 100 || n.Applied != 10 || n.Skipped != 90 || !n.Balanced() {
		t.Errorf("%+v", n)
	}
}

// signed decodes "+v" and "-v" into an insert and a delete of a row (0, v).
type signed struct{ texts }

func (d signed) Decode(b *changelog.Batch, r *changelog.Record) error {
	if err := d.texts.Decode(b, r); err != nil {
		return err
	}
	c := &b.Changes[b.Len()-1]
	if r.Value[0] == '-' {
		c.Kind = changelog.Delete
	}
	c.Row[0], c.Row[1] = changelog.IntValue(0), changelog.StringBytesValue(r.Value[1:])
	return nil
}

// Deletes that are held back are decoded twice, and what the filter drops of them is counted once.
func TestRun_FilterCountsHeldRetractionsOnce(t *testing.T) {
	k := newCluster(t, 1)
	var put []string
	for i := range 40 {
		put = append(put, fmt.Sprintf("+keep%d", i), fmt.Sprintf("+drop%d", i), fmt.Sprintf("-keep%d", i), fmt.Sprintf("-drop%d", i), fmt.Sprintf("+keep%d'", i))
	}
	put = append(put, "-keep0'", "-drop0'") // nothing follows: they are held to the end
	g := newTarget()
	o := options(g)
	o.Filter = &Filter{Keep: func(r changelog.Row) bool { return strings.HasPrefix(r[1].Str(), "keep") }}
	in := k.input()
	table := *sinktest.Appended()
	table.Mode = changelog.Retract
	in.Decoder = signed{texts{&table}}
	b, err := New("test", in, g, o)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, b)
	for len(put) > 0 { // in pieces, so that runs of deletes are cut in many places
		n := min(3, len(put))
		k.put(0, put[:n]...)
		put = put[n:]
	}
	until(t, "all of it", func() bool { return g.positions(t, "test")[0] == 202 }, r)
	r.end()
	if n := b.Status().Counters; n.Records != 202 || n.Read != 202 || n.Skipped != 81 || n.Applied+n.Superseded != 121 || !n.Balanced() {
		t.Errorf("%+v", n)
	}
	if got := g.values(); len(got) != 39 || slices.ContainsFunc(got, func(v string) bool { return !strings.HasSuffix(v, "'") }) {
		t.Errorf("%q", got)
	}
}

package bridge

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// Each sink holds the rows that pass its filter: a row that moves from one to the other is deleted where it was.
func TestMany_Filters(t *testing.T) {
	k := twoTopics(t, 1)
	g, h := newTarget(), newTarget()
	starts := func(with string) map[string]*Filter {
		return map[string]*Filter{"rows": {Keep: func(row changelog.Row) bool { return strings.HasPrefix(row[1].Str(), with) }}}
	}
	k.putTo("rows", 0, "+I 1 a1", "+I 2 b1", "+I 3 c1", "-U 1 a1, +U 1 b2", "-U 2 b1, +U 2 b3", "-U 3 c1, +U 3 a3", "-D 2 b3", "+I 2 a4")
	o := options(g)
	o.UntilEnd = true
	r := k.many([]Output{{Name: "a", Sink: g, Topics: []string{"rows"}, Filters: starts("a")}, {Name: "b", Sink: h, Topics: []string{"rows"}, Filters: starts("b")}}, o, nil)
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	wantRows(t, "a", g.table("rows"), "2 a4", "3 a3")
	wantRows(t, "b", h.table("rows"), "1 b2")
	if n := r.b.Status().Counters; !n.Balanced() || n.Read != 11 {
		t.Errorf("counted %+v", n)
	}
}

// What a filter looks at never changes: nobody is given deletes of rows that were never his, and what nobody takes is skipped.
func TestMany_FixedFilters(t *testing.T) {
	k := twoTopics(t, 1)
	g, h := newTarget(), newTarget()
	below := func(n, m int64) map[string]*Filter {
		return map[string]*Filter{"rows": {Reads: []string{"id"}, Keep: func(row changelog.Row) bool { return row[0].Int() >= n && row[0].Int() < m }}}
	}
	k.putTo("rows", 0, "+I 1 a", "+I 11 b", "+I 21 c", "-U 1 a, +U 1 d", "-D 21 c", "-D 11 b")
	o := options(g)
	o.UntilEnd = true
	r := k.many([]Output{{Name: "a", Sink: g, Filters: below(0, 10), Topics: []string{"rows"}}, {Name: "b", Sink: h, Filters: below(10, 20), Topics: []string{"rows"}}}, o, nil)
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	wantRows(t, "a", g.table("rows"), "1 d")
	wantRows(t, "b", h.table("rows"))
	if n := r.b.Status().Counters; !n.Balanced() || n.Read != 7 || n.Applied != 5 || n.Skipped != 2 {
		t.Errorf("counted %+v", n)
	}
	var given []int64
	for _, s := range r.b.Status().Lanes[0].Sinks {
		given = append(given, s.Given)
	}
	if !slices.Equal(given, []int64{3, 2}) {
		t.Errorf("given %v", given)
	}
}

// Each input has its own filter and mapping; what its filter drops is skipped.
func TestMany_TransformsOfInputs(t *testing.T) {
	k := twoTopics(t, 1)
	g := newTarget()
	k.put(0, "keep", "drop")
	k.putTo("rows", 0, "+I 1 a", "+I 2 b")
	o := options(g)
	o.UntilEnd = true
	r := k.many([]Output{{Name: "sink", Sink: g}}, o, func(ins []Input) {
		ins[0].Filter = &Filter{Keep: func(row changelog.Row) bool { return row[1].Str() == "keep" }}
		ins[1].Map = &Mapping{Name: "mapped", Schema: newRows().table.Schema, From: map[string]string{"id": "id"}}
	})
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	wantRows(t, "texts", g.values(), "keep")
	wantRows(t, "mapped", g.table("mapped"), "1 a", "2 b")
	if n := r.b.Status().Counters; !n.Balanced() || n.Read != 4 || n.Skipped != 1 {
		t.Errorf("counted %+v", n)
	}
}

// Behind the filter of an input, an output may have its own: what the first drops is skipped, what no output takes is too.
func TestMany_FilterBehindFilter(t *testing.T) {
	k := twoTopics(t, 1)
	g, h := newTarget(), newTarget()
	k.put(0, "a1", "b1", "c1", "a2", "d")
	o := options(g)
	o.UntilEnd = true
	in := k.input()
	in.Filter = &Filter{Keep: func(row changelog.Row) bool { return row[1].Str() != "a2" }}
	starts := func(with string) map[string]*Filter {
		return map[string]*Filter{sinktest.AppendTable: {Keep: func(row changelog.Row) bool { return strings.HasPrefix(row[1].Str(), with) }}}
	}
	b, err := NewMany("test", []Input{in}, []Output{{Name: "a", Sink: g, Filters: starts("a")}, {Name: "b", Sink: h, Filters: starts("b")}}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	wantRows(t, "a", g.values(), "a1")
	wantRows(t, "b", h.values(), "b1")
	if n := b.Status().Counters; !n.Balanced() || n.Read != 5 || n.Applied != 2 || n.Skipped != 3 {
		t.Errorf("counted %+v", n)
	}
}

// A row that an output's filter could only guess about is a data error of its message, found when it is decoded, before any sink is given it; where
// another topic is meant, or the filter's columns are there, it is not.
func TestMany_FilterCannotJudge(t *testing.T) {
	table := newRows().table
	whole := func(kind changelog.Kind, v changelog.Value) changelog.Change {
		return changelog.Change{Partition: changelog.Partition{Topic: "rows"}, Offset: 7, Kind: kind, Row: changelog.Row{changelog.IntValue(1), v}}
	}
	a, unsent := changelog.StringValue("a"), changelog.UnchangedValue()
	byText := &Filter{Keep: func(row changelog.Row) bool { return row[1].Str() == "a" }}
	byKey := &Filter{Reads: []string{"id"}, Keep: func(row changelog.Row) bool { return row[0].Int() == 1 }}
	for name, c := range map[string]struct {
		filter  *Filter
		topics  []string
		changes []changelog.Change
		bad     bool
		share   sink.Share // of the last change
	}{
		"the filter's column was not sent":       {byText, nil, []changelog.Change{whole(changelog.UpdateAfter, unsent)}, true, 0},
		"by key, which is there":                 {byKey, nil, []changelog.Change{whole(changelog.UpdateAfter, unsent)}, false, sink.ShareAll},
		"of a topic that the output leaves out":  {byText, []string{"other"}, []changelog.Change{whole(changelog.UpdateAfter, unsent)}, false, sink.ShareNone},
		"a row that passes":                      {byText, nil, []changelog.Change{whole(changelog.Insert, a)}, false, sink.ShareAll},
		"a row that does not":                    {byText, nil, []changelog.Change{whole(changelog.Insert, changelog.StringValue("b"))}, false, sink.ShareDelete},
		"a delete of a row that may have passed": {byText, nil, []changelog.Change{whole(changelog.Delete, changelog.StringValue("b"))}, false, sink.ShareAll},
		"a row too narrow":                       {byText, nil, []changelog.Change{{Partition: changelog.Partition{Topic: "rows"}, Offset: 7, Row: changelog.Row{a}}}, true, 0},
	} {
		topics := []string{"rows", "other"}
		in := Input{Topics: topics, Decoder: messages{table, map[int64][]changelog.Change{7: c.changes}}}
		b, err := NewMany("test", []Input{in}, []Output{{Name: "some", Sink: newTarget(), Topics: c.topics, Filters: map[string]*Filter{"rows": c.filter}}}, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		batch := changelog.NewBatch(table)
		err = b.ins[0].Decoder.Decode(batch, &changelog.Record{Partition: changelog.Partition{Topic: "rows"}, Offset: 7})
		var de *changelog.DataError
		switch {
		case c.bad && !errors.As(err, &de):
			t.Errorf("%s: got %v", name, err)
		case c.bad && batch.Len() > 0:
			t.Errorf("%s: %d changes are left in the batch", name, batch.Len())
		case c.bad:
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			if got := b.sinks[0].Share(batch, batch.Len()-1); got != c.share {
				t.Errorf("%s: share %d, want %d", name, got, c.share)
			}
		}
	}
}

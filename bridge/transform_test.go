package bridge

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"pgregory.net/rapid"
)

// The sink holds the rows of the table that pass, mapped or not, wherever batches are cut; if a row cannot be judged, decoding ends there, and
// it holds what it held before.
func TestTransform_KeyedLaw(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		for _, partial := range []bool{false, true} {
			t.Run(fmt.Sprintf("mapped=%v partial=%v", mapped, partial), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					mode, fixed := changelog.Upsert, rapid.Bool().Draw(t, "fixed")
					retract := rapid.Bool().Draw(t, "retract")
					if retract {
						mode = changelog.Retract
					}
					of, states := history(t, retract, partial, fixed)
					keep := live
					o := &Options{Filter: &Filter{Keep: live, Reads: []string{"tag"}, Fixed: fixed}}
					switch {
					case !partial && rapid.Bool().Draw(t, "reads anything"):
						o.Filter.Reads = nil
					case rapid.Bool().Draw(t, "by key"):
						keep = func(r changelog.Row) bool { return r[0].Int()%2 == 0 }
						o.Filter = &Filter{Keep: keep, Reads: []string{"id"}}
					}
					want := shownAs
					if mapped {
						o.Map, want = shownKeyed(), selected
					}
					s := keyedSink{t, make(map[string]changelog.Row)}
					d := newTransform(t, messages{docs(mode, 0), of}, o)
					_, end, err := through(d, 0, int64(len(of)), func() bool { return rapid.Bool().Draw(t, "cut") }, s.apply)
					var de *changelog.DataError
					if err != nil && (!partial || !errors.As(err, &de)) {
						t.Fatal(err)
					}
					var rows []string
					for _, r := range states[end] {
						if keep(r) {
							rows = append(rows, want(r))
						}
					}
					slices.Sort(rows)
					if got := s.texts(); !slices.Equal(got, rows) {
						t.Fatalf("after %d messages: %q, want %q", end, got, rows)
					}
				})
			})
		}
	}
}

// Without a key both sides of a row are dropped, so that no delete misses its row; every change is applied or counted.
func TestTransform_MultisetLaw(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		t.Run(fmt.Sprintf("mapped=%v", mapped), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				of := make(map[int64][]changelog.Change)
				var rows []changelog.Row
				changes := int64(0)
				steps := rapid.Int64Range(1, 40).Draw(t, "steps")
				for o := range steps {
					var cs []changelog.Change
					row := doc(rapid.Int64Range(0, 2).Draw(t, "id"), rapid.SampledFrom([]string{"live", "draft"}).Draw(t, "tag"), 0, "a")
					kind := changelog.Insert
					if len(rows) > 0 {
						switch i := rapid.IntRange(0, len(rows)-1).Draw(t, "old"); rapid.IntRange(0, 2).Draw(t, "what") {
						case 0:
							cs = append(cs, changelog.Change{Kind: changelog.Delete, Row: rows[i]})
							rows = slices.Delete(rows, i, i+1)
							row = nil
						case 1:
							cs = append(cs, changelog.Change{Kind: changelog.UpdateBefore, Row: rows[i]})
							rows = slices.Delete(rows, i, i+1)
							kind = changelog.UpdateAfter
						}
					}
					if row != nil {
						cs = append(cs, changelog.Change{Kind: kind, Row: row})
						rows = append(rows, row)
					}
					of[o] = cs
					changes += int64(len(cs))
				}
				o, want := &Options{Filter: &Filter{Keep: live}}, shownAs
				if mapped {
					o.Map, want = shown(), selected
				}
				s := bag{t, make(map[string]int)}
				applied := int64(0)
				dropped, _, err := through(newTransform(t, messages{docs(changelog.Retract), of}, o), 0, steps,
					func() bool { return rapid.Bool().Draw(t, "cut") }, func(b *changelog.Batch) { applied += int64(b.Len()); s.apply(b) })
				if err != nil {
					t.Fatal(err)
				}
				if applied+dropped != changes {
					t.Fatalf("%d applied and %d dropped of %d changes", applied, dropped, changes)
				}
				left := make(map[string]int)
				for _, r := range rows {
					if live(r) {
						left[want(r)]++
					}
				}
				maps.DeleteFunc(s.rows, func(_ string, n int) bool { return n == 0 })
				if !maps.Equal(s.rows, left) {
					t.Fatalf("%v, want %v", s.rows, left)
				}
			})
		})
	}
}

// What Flink's planner does with WHERE, change by change.
func TestTransform_Changes(t *testing.T) {
	all := []changelog.Change{
		{Kind: changelog.Insert, Row: doc(1, "live", 1, "a")},
		{Kind: changelog.Insert, Row: doc(2, "draft", 1, "a")},
		{Kind: changelog.UpdateBefore, Row: doc(1, "live", 1, "a")},
		{Kind: changelog.UpdateAfter, Row: doc(1, "draft", 2, "a")},
		{Kind: changelog.Delete, Row: doc(2, "draft", 1, "a")},
		{Kind: changelog.Delete, KeyOnly: true, Row: changelog.Row{changelog.IntValue(3), {}, {}, {}}},
	}
	for _, c := range []struct {
		name  string
		table *changelog.Table
		in    []changelog.Change
		o     *Options
		want  string
		drops int64
	}{
		{"keyed", docs(changelog.Retract, 0), all, &Options{Filter: &Filter{Keep: live}},
			`+I 1|"live"|1|"a"| -D 2|0?|0?|0?| key -U 1|"live"|1|"a"| -D 1|0?|0?|0?| key -D 2|"draft"|1|"a"| -D 3|0?|0?|0?| key`, 0},
		{"mapped", docs(changelog.Retract, 0), all, &Options{Map: shownKeyed()},
			`+I "live-1"|"a"|1| +I "draft-1"|"a"|2| -U "live-1"|"a"|1| +U "draft-2"|"a"|1| -D "draft-1"|"a"|2| -D 0?|0?|3| key`, 0},
		{"both", docs(changelog.Retract, 0), all, &Options{Filter: &Filter{Keep: live}, Map: shownKeyed()},
			`+I "live-1"|"a"|1| -D 0?|0?|2| key -U "live-1"|"a"|1| -D 0?|0?|1| key -D "draft-1"|"a"|2| -D 0?|0?|3| key`, 0},
		{"without a key", docs(changelog.Retract), all[:5], &Options{Filter: &Filter{Keep: live}}, `+I 1|"live"|1|"a"| -U 1|"live"|1|"a"|`, 3},
		{"inserts only", docs(changelog.Append), all[:2], &Options{Filter: &Filter{Keep: live}}, `+I 1|"live"|1|"a"|`, 1},
		{"inserts only, with a key", docs(changelog.Append, 0), all[:2], &Options{Filter: &Filter{Keep: live}}, `+I 1|"live"|1|"a"|`, 1},
		{"a projection", docs(changelog.Retract, 0), all[:2], &Options{Map: &Mapping{From: map[string]string{"doc": "id"},
			Schema: &changelog.Schema{Columns: []changelog.Column{{Name: "n", Type: docs(0).Schema.Columns[2].Type}, {Name: "doc", Type: docs(0).Schema.Columns[0].Type}}, Key: []int{1}}}},
			`+I 1|1| +I 1|2|`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			drops, _, err := through(newTransform(t, messages{c.table, map[int64][]changelog.Change{0: c.in}}, c.o), 0, 1, func() bool { return false }, func(b *changelog.Batch) {
				for i := range b.Changes {
					c := &b.Changes[i]
					if !b.Table.Mode.Contains(c.Kind) {
						t.Errorf("%s in mode %s", c.Kind, b.Table.Mode)
					}
					line := c.Kind.String() + " " + shownAs(c.Row)
					if c.KeyOnly {
						line += " key"
					}
					got = append(got, line)
				}
			})
			if err != nil || strings.Join(got, " ") != c.want || drops != c.drops {
				t.Errorf("%v, %d dropped:\n%s\nwant\n%s", err, drops, strings.Join(got, " "), c.want)
			}
		})
	}
}

// A filter can make deletes of a table that had none.
func TestTransform_Mode(t *testing.T) {
	in := changelog.Append | 1<<changelog.UpdateAfter
	d := newTransform(t, messages{docs(in, 0), nil}, &Options{Filter: &Filter{Keep: live}, Map: shownKeyed()})
	if got := d.Table(); got.Mode != changelog.Upsert || got.Name != "shown" {
		t.Errorf("%s %s", got.Name, got.Mode)
	}
	if m := newTransform(t, messages{docs(in, 0), nil}, &Options{Map: shownKeyed()}).Table().Mode; m != in {
		t.Errorf("a mapping alone: %s", m)
	}
}

// What cannot be judged is an error that names the column, and nothing of the message is left in the batch.
func TestTransform_DataErrors(t *testing.T) {
	same := changelog.UnchangedValue()
	row := func(tag, n, body changelog.Value) changelog.Row {
		return changelog.Row{changelog.IntValue(1), tag, n, body}
	}
	put := func(kind changelog.Kind, r changelog.Row) changelog.Change {
		return changelog.Change{Kind: kind, Row: r}
	}
	str, num := changelog.StringValue, changelog.IntValue
	filter := func(reads []string, fixed bool) *Options {
		return &Options{Filter: &Filter{Keep: live, Reads: reads, Fixed: fixed}}
	}
	fills := func(v changelog.Value, notNull bool) *Options {
		m := shownKeyed()
		m.Schema.Columns[0].Type.NotNull = notNull
		m.Row = func(_ *changelog.Batch, _, out changelog.Row) error { out[0] = v; return nil }
		return &Options{Map: m}
	}
	refuses := shownKeyed()
	refuses.Row = func(*changelog.Batch, changelog.Row, changelog.Row) error { return errors.New("no such rate") }
	adds := shownKeyed()
	adds.Row = func(b *changelog.Batch, _, _ changelog.Row) error { b.Append(changelog.Change{}); return nil }
	for _, c := range []struct {
		name  string
		table *changelog.Table
		in    []changelog.Change
		o     *Options
		want  string // "": no error
	}{
		{"any column, not sent", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.UpdateAfter, row(str("live"), num(1), same))}, filter(nil, true), "field body: the filter looks"},
		{"looked at, not sent", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.UpdateAfter, row(same, num(1), str("")))}, filter([]string{"tag"}, true), "field tag: the filter looks"},
		{"perhaps new", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.UpdateAfter, row(str("live"), num(1), same))}, filter([]string{"tag"}, false), "field body: the source did not send this value, and the row passes the filter now"},
		{"fixed", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.UpdateAfter, row(str("live"), num(1), same))}, filter([]string{"tag"}, true), ""},
		{"does not pass", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.UpdateAfter, row(str("draft"), num(1), same))}, filter([]string{"tag"}, false), ""},
		{"passed before", docs(changelog.Retract, 0), []changelog.Change{put(changelog.UpdateBefore, row(str("live"), num(1), same)), put(changelog.UpdateAfter, row(str("live"), num(2), same))}, filter([]string{"tag"}, false), ""},
		{"did not pass before", docs(changelog.Retract, 0), []changelog.Change{put(changelog.UpdateBefore, row(str("draft"), num(1), same)), put(changelog.UpdateAfter, row(str("live"), num(2), same))}, filter([]string{"tag"}, false), "field body: the source"},
		{"not known before", docs(changelog.Retract, 0), []changelog.Change{put(changelog.UpdateBefore, row(same, num(1), same)), put(changelog.UpdateAfter, row(str("live"), num(2), same))}, filter([]string{"tag"}, false), "field body: the source"},
		{"a delete, not sent whole", docs(changelog.Retract), []changelog.Change{put(changelog.Delete, row(same, num(1), str("")))}, filter([]string{"tag"}, false), "field tag: the filter looks"},
		{"a key without a key", docs(changelog.Retract), []changelog.Change{{Kind: changelog.Delete, KeyOnly: true, Row: row(str("live"), num(1), str(""))}}, filter([]string{"tag"}, false), "knows its key only"},
		{"a key without a key, mapped", docs(changelog.Retract), []changelog.Change{{Kind: changelog.Delete, KeyOnly: true, Row: row(str("live"), num(1), str(""))}}, &Options{Map: shown()}, "knows its key only"},
		{"mapped, not sent", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.UpdateAfter, row(same, num(1), str("")))}, &Options{Map: shownKeyed()}, "field tag: the mapping looks"},
		{"mapped, a delete not sent whole", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.Delete, row(same, num(1), str("")))}, &Options{Map: shownKeyed()}, ""},
		{"mapped, a delete not sent whole, without a key", docs(changelog.Retract), []changelog.Change{put(changelog.Delete, row(same, num(1), str("")))}, &Options{Map: shown()}, "field tag: the mapping looks"},
		{"copied, not sent", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.UpdateAfter, row(str("live"), num(1), same))}, &Options{Map: shownKeyed()}, ""},
		{"refused", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.Insert, row(str("live"), num(1), str("")))}, &Options{Map: refuses}, "does not take this row: no such rate"},
		{"another kind of value", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.Insert, row(str("live"), num(1), str("")))}, fills(num(1), false), "field label: the mapping gave a value that is no STRING"},
		{"NULL", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.Insert, row(str("live"), num(1), str("")))}, fills(changelog.Value{}, true), "field label: the mapping gave NULL"},
		{"NULL of a delete", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.Delete, row(str("live"), num(1), str("")))}, fills(changelog.Value{}, true), ""},
		{"a change of its own", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.Insert, row(str("live"), num(1), str("")))}, &Options{Map: adds}, "added a change"},
		{"a narrow row", docs(changelog.Upsert, 0), []changelog.Change{put(changelog.Insert, changelog.Row{num(1)})}, filter(nil, false), "a row of 1 values"},
		{"an unknown kind", docs(changelog.Upsert, 0), []changelog.Change{put(9, row(str("live"), num(1), str("")))}, filter(nil, false), "unknown kind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newTransform(t, messages{c.table, map[int64][]changelog.Change{1: c.in}}, c.o)
			b := changelog.NewBatch(d.Table())
			err := d.Decode(b, &changelog.Record{Offset: 1})
			if c.want == "" {
				if err != nil || b.Len() != len(c.in) {
					t.Errorf("%v, %d changes", err, b.Len())
				}
				return
			}
			var de *changelog.DataError
			if !errors.As(err, &de) || !strings.Contains(err.Error(), c.want) || b.Len() != 0 || b.Table != d.Table() {
				t.Errorf("%v, %d changes, want %q", err, b.Len(), c.want)
			}
		})
	}
}

func TestNew_RefusesTransforms(t *testing.T) {
	metadata := docs(changelog.Retract)
	metadata.Schema.Columns[3].Metadata = "offset"
	keyed := docs(changelog.Upsert, 0, 2)
	with := func(f func(m *Mapping)) *Options {
		m := shownKeyed()
		m.Schema.Key = nil
		f(m)
		return &Options{Map: m}
	}
	for _, c := range []struct {
		table *changelog.Table
		o     *Options
		want  []string
	}{
		{docs(changelog.Upsert, 0), &Options{Filter: &Filter{Reads: []string{"x"}}}, []string{"Filter.Keep is missing"}},
		{docs(changelog.Upsert, 0), &Options{Filter: &Filter{Keep: live, Reads: []string{"x", "tag", "y"}}}, []string{"no column x", "no column y"}},
		{metadata, &Options{Filter: &Filter{Keep: live}}, []string{"Filter.Reads", "METADATA column body", "no key"}},
		{docs(changelog.Upsert, 0), &Options{Map: &Mapping{}}, []string{"Map.Schema is missing"}},
		{docs(changelog.Upsert, 0), with(func(m *Mapping) {}), []string{"lacks a copy of id"}},
		{keyed, with(func(m *Mapping) { m.Schema.Key = []int{2} }), []string{"lacks a copy of n"}},
		{docs(changelog.Upsert, 0), with(func(m *Mapping) { m.Schema.Key = []int{2, 0} }), []string{"column label is in the key"}},
		{docs(changelog.Retract), with(func(m *Mapping) { m.Schema.Key = []int{2} }), []string{"column doc is in the key"}},
		{docs(changelog.Upsert, 0), with(func(m *Mapping) {
			m.Schema.Key, m.From = []int{2}, map[string]string{"doc": "tag", "z": "id", "label": "none"}
			m.Reads = []string{"q"}
		}),
			[]string{"column doc is INT and cannot be a copy of tag, which is STRING", "From names z", "label is to be a copy of none", "Map.Reads: the table has no column q"}},
		{docs(changelog.Upsert, 0), with(func(m *Mapping) { m.Schema.Key, m.Row = []int{2}, nil }), []string{"column label is no copy"}},
		{docs(changelog.Upsert, 0), with(func(m *Mapping) { m.Schema.Columns[0].Name = "doc" }), []string{"two columns are called"}},
		{docs(changelog.Upsert, 0), &Options{Filter: &Filter{}, Map: &Mapping{}}, []string{"Filter.Keep", "Map.Schema"}},
	} {
		_, err := New("test", Input{Topics: []string{"docs"}, Decoder: messages{c.table, nil}}, newTarget(), c.o)
		if !errors.Is(err, sink.ErrConfig) {
			t.Errorf("%v is no ErrConfig, want %q", err, c.want)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v\nlacks %q", err, w)
			}
		}
	}
}

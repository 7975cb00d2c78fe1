package bridge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"pgregory.net/rapid"
)

// messages decodes each record into the changes that are given for its offset.
type messages struct {
	table *changelog.Table
	of    map[int64][]changelog.Change
}

func (m messages) Table() *changelog.Table { return m.table }

func (m messages) Decode(b *changelog.Batch, r *changelog.Record) error {
	for i, c := range m.of[r.Offset] {
		row := b.NewRow() // panics if the batch is not of the table that the decoder decodes
		copy(row, c.Row)
		if len(c.Row) != len(row) {
			row = row[:len(c.Row)]
		}
		c.Row, c.Partition, c.Offset, c.Index = row, r.Partition, r.Offset, int32(i)
		b.Append(c)
	}
	return nil
}

// docs is a table of (id, tag, n, body), where body is a value that the source leaves out where it did not change.
func docs(mode changelog.Mode, key ...int) *changelog.Table {
	typ := func(s string) changelog.Type {
		t, err := changelog.ParseType(s)
		if err != nil {
			panic(err)
		}
		return t
	}
	return &changelog.Table{Name: "docs", Mode: mode, Schema: &changelog.Schema{Key: key, Columns: []changelog.Column{
		{Name: "id", Type: typ("INT")}, {Name: "tag", Type: typ("STRING")}, {Name: "n", Type: typ("INT")}, {Name: "body", Type: typ("STRING")}}}}
}

func doc(id int64, tag string, n int64, body string) changelog.Row {
	return changelog.Row{changelog.IntValue(id), changelog.StringValue(tag), changelog.IntValue(n), changelog.StringValue(body)}
}

func live(r changelog.Row) bool { return r[1].Str() == "live" }

// shown is a SELECT that renames the key, drops a column, copies one and computes one.
func shown() *Mapping {
	t := docs(changelog.Upsert)
	cols := []changelog.Column{{Name: "label", Type: t.Schema.Columns[1].Type}, {Name: "body", Type: t.Schema.Columns[3].Type}, {Name: "doc", Type: t.Schema.Columns[0].Type}}
	return &Mapping{Name: "shown", Schema: &changelog.Schema{Columns: cols}, From: map[string]string{"doc": "id"}, Reads: []string{"tag", "n"},
		Row: func(b *changelog.Batch, in, out changelog.Row) error {
			text := fmt.Appendf(nil, "%s-%d", in[1].Str(), in[2].Int())
			p := b.NewBytes(len(text))
			copy(p, text)
			out[0] = changelog.StringBytesValue(p)
			return nil
		}}
}

func shownKeyed() *Mapping {
	m := shown()
	m.Schema.Key = []int{2}
	row := m.Row
	m.Row = func(b *changelog.Batch, in, out changelog.Row) error {
		out[2] = changelog.IntValue(99) // the key is not the mapping's affair
		return row(b, in, out)
	}
	return m
}

// selected is what shown makes of a row, said another way.
func selected(r changelog.Row) string {
	return shownAs(changelog.Row{changelog.StringValue(fmt.Sprintf("%s-%d", r[1].Str(), r[2].Int())), r[3], r[0]})
}

func shownAs(r changelog.Row) string {
	var b strings.Builder
	for _, v := range r {
		switch v.Kind() {
		case changelog.KindInt:
			fmt.Fprintf(&b, "%d|", v.Int())
		case changelog.KindString:
			fmt.Fprintf(&b, "%q|", v.Str())
		default:
			fmt.Fprintf(&b, "%d?|", v.Kind())
		}
	}
	return b.String()
}

func newTransform(t interface{ Fatal(...any) }, d changelog.Decoder, o *Options) changelog.Decoder {
	in, err := transformed("test", Input{Decoder: d}, o)
	if err != nil {
		t.Fatal(err)
	}
	return in.Decoder
}

// through decodes messages into batches that are cut where cut says, drops what is skipped, and hands each to apply. It returns how many changes
// were dropped and which message it ended before.
func through(d changelog.Decoder, from, to int64, cut func() bool, apply func(b *changelog.Batch)) (dropped, end int64, err error) {
	r := &run{ins: []Input{{Decoder: d}}}
	b := changelog.NewBatch(d.Table())
	flush := func() {
		dropped += r.dropSkipped(0, b)
		apply(b)
		b = changelog.NewBatch(d.Table())
	}
	for o := from; o < to; o++ {
		if err := d.Decode(b, &changelog.Record{Partition: changelog.Partition{Topic: "docs"}, Offset: o}); err != nil {
			flush()
			return dropped, o, err
		}
		if cut() {
			flush()
		}
	}
	flush()
	return dropped, to, nil
}

// keyedSink applies net effects as a sink does that can keep a value that was not sent only if it has the row.
type keyedSink struct {
	t    *rapid.T
	rows map[string]changelog.Row
}

func (s keyedSink) apply(b *changelog.Batch) {
	sc := b.Table.Schema
	var n changelog.Net
	n.Compute(sc, b.Changes)
	for _, c := range n.Deletes {
		delete(s.rows, string(changelog.AppendKey(nil, sc, c.Row)))
	}
	for _, c := range n.Upserts {
		if len(c.Row) != len(sc.Columns) {
			s.t.Fatalf("a row of %d values", len(c.Row))
		}
		k := string(changelog.AppendKey(nil, sc, c.Row))
		row := slices.Clone(c.Row)
		for i := range row {
			if row[i].IsUnchanged() {
				old, ok := s.rows[k]
				if !ok {
					s.t.Fatalf("offset %d: column %d was not sent, and the row is not there", c.Offset, i)
				}
				row[i] = old[i]
			}
		}
		s.rows[k] = row
	}
}

func (s keyedSink) texts() []string {
	var out []string
	for _, r := range s.rows {
		out = append(out, shownAs(r))
	}
	slices.Sort(out)
	return out
}

// history draws what a source does to docs with a key, as messages, and returns the rows that it holds before each of them and at the end.
// partial says whether it leaves values out that did not change; fixed that a row's tag does not change.
func history(t *rapid.T, retract, partial, fixed bool) (of map[int64][]changelog.Change, states []map[int64]changelog.Row) {
	of = make(map[int64][]changelog.Change)
	rows := make(map[int64]changelog.Row)
	tag := rapid.SampledFrom([]string{"live", "draft"})
	send := func(old, row changelog.Row) changelog.Row {
		row = slices.Clone(row)
		if partial && rapid.Bool().Draw(t, "leave out") {
			for _, c := range []int{1, 3} {
				if old[c].Str() == row[c].Str() && rapid.IntRange(0, 3).Draw(t, "which") > c-1 {
					row[c] = changelog.UnchangedValue()
				}
			}
		}
		return row
	}
	steps := rapid.IntRange(1, 40).Draw(t, "steps")
	for o := range int64(steps) {
		states = append(states, maps.Clone(rows))
		id := rapid.Int64Range(0, 4).Draw(t, "id")
		old, there := rows[id]
		body := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "body")
		var cs []changelog.Change
		switch what := rapid.IntRange(0, 5).Draw(t, "what"); {
		case !there:
			rows[id] = doc(id, tag.Draw(t, "tag"), o, body)
			cs = append(cs, changelog.Change{Kind: rapid.SampledFrom([]changelog.Kind{changelog.Insert, changelog.UpdateAfter}).Draw(t, "kind"), Row: rows[id]})
		case what == 0:
			delete(rows, id)
			c := changelog.Change{Kind: changelog.Delete, Row: old}
			if rapid.Bool().Draw(t, "key only") {
				c.KeyOnly, c.Row = true, changelog.Row{old[0], {}, {}, {}}
			}
			cs = append(cs, c)
		case what == 1 && retract: // the row moves to another key
			to := rapid.Int64Range(0, 4).Draw(t, "to")
			delete(rows, id)
			if _, taken := rows[to]; taken {
				to = 5 + o
			}
			rows[to] = doc(to, old[1].Str(), o, body)
			cs = append(cs, changelog.Change{Kind: changelog.UpdateBefore, Row: old}, changelog.Change{Kind: changelog.UpdateAfter, Row: rows[to]})
		default:
			row := doc(id, tag.Draw(t, "tag"), o, body)
			if fixed {
				row[1] = old[1]
			}
			rows[id] = row
			if retract {
				cs = append(cs, changelog.Change{Kind: changelog.UpdateBefore, Row: send(row, old)})
			}
			cs = append(cs, changelog.Change{Kind: changelog.UpdateAfter, Row: send(old, row)})
		}
		of[o] = cs
	}
	return of, append(states, maps.Clone(rows))
}

// bag is a sink of a table without a key.
type bag struct {
	t    *rapid.T
	rows map[string]int
}

func (s bag) apply(b *changelog.Batch) {
	var n changelog.Net
	n.Compute(b.Table.Schema, b.Changes)
	for _, c := range n.Deletes {
		k := shownAs(c.Row)
		if s.rows[k]--; s.rows[k] < 0 {
			s.t.Fatalf("offset %d deletes %s, which is not there", c.Offset, k)
		}
	}
	for _, c := range n.Upserts {
		s.rows[shownAs(c.Row)]++
	}
}

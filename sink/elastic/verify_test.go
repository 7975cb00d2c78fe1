package elastic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// compared is an index and the topic that it was written from.
type compared struct {
	*lane
	es    *elastic.Sink
	topic []changelog.Change
}

func newCompared(t *testing.T, s *server, table *changelog.Table, o elastic.Options, name string) *compared {
	t.Helper()
	o.CreateIndex = true
	o.ControlIndex, o.DeadLetters = s.prefix+"-control", s.prefix+"-letters"
	index := s.prefix + "-" + name
	es, err := elastic.New(s.client(nil), index, &o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := es.Lane(context.Background(), sink.Lane{Bridge: "b", Sink: "es", Tables: []*changelog.Table{table}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	l := &lane{t: t, table: table, c: c, s: s, index: index, topic: topicA}
	return &compared{lane: l.open(1, 3, false), es: es}
}

func (c *compared) put(changes ...changelog.Change) {
	c.t.Helper()
	c.must(c.checkpoint(changes...))
	c.topic = append(c.topic, changes...)
}

// edit changes members of a document as a hand does: all others stay, and its version rises by one.
func (c *compared) edit(id, members string) {
	c.t.Helper()
	var doc struct {
		Source map[string]json.RawMessage `json:"_source"`
	}
	c.must(json.Unmarshal([]byte(c.s.must("GET", "/"+c.index+"/_doc/"+id, "")), &doc))
	c.must(json.Unmarshal([]byte(members), &doc.Source))
	body, err := json.Marshal(doc.Source)
	c.must(err)
	c.s.must("PUT", "/"+c.index+"/_doc/"+id, string(body))
}

// view opens a view, and returns what it finds for the topic below an offset, as lines, and to be mended.
func (c *compared) view(below int64) (sink.View, []string, []sink.Difference) {
	c.t.Helper()
	ctx := context.Background()
	v, err := c.es.View(ctx, sink.ViewRequest{Bridge: "b", Sink: "es", Table: c.table, Incarnation: 3, Keys: true,
		Positions: []changelog.Position{{Partition: changelog.Partition{Topic: "orders"}, Offset: below, TopicID: topicA}}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = v.Close(context.Background()) })
	last, moving := make(map[string]changelog.Change), make(map[string]bool)
	for _, ch := range c.topic {
		switch key := string(v.AppendKey(nil, &ch)); {
		case ch.Offset >= below:
			moving[key] = true
			c.must(v.Skip(ctx, []changelog.Change{ch}))
		case ch.Kind.Adds():
			last[key] = ch
		default:
			delete(last, key)
		}
	}
	var rows []changelog.Change
	for key, ch := range last {
		if !moving[key] {
			rows = append(rows, ch)
		}
	}
	ds, err := v.Compare(ctx, rows)
	c.must(err)
	c.must(v.Extra(ctx, sink.ViewPass{Last: true, Lives: func(key []byte) (bool, bool) {
		_, lives := last[string(key)]
		return true, lives
	}}, func(more []sink.Difference) error {
		ds = append(ds, more...)
		return nil
	}))
	var lines []string
	for i := range ds {
		line := ds[i].Kind.String() + " " + ds[i].Key
		if ds[i].Kind != sink.Extra {
			line = fmt.Sprintf("%s %s@%d", ds[i].Kind, c.es.ID(c.table, &ds[i].Change), ds[i].Change.Offset)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return v, lines, ds
}

func (c *compared) want(what string, got, want []string) {
	c.t.Helper()
	if !slices.Equal(got, want) {
		c.t.Errorf("%s: found %q, expected %q", what, got, want)
	}
}

// Every kind of difference between an index and its topic is found and mended, also where a hand raised a version or left one behind, and the bridge's next
// writes win afterwards.
func TestVerify_PlantedDifferences(t *testing.T) {
	for _, deletes := range []elastic.Deletes{elastic.Tombstone, elastic.Hard} {
		t.Run(fmt.Sprint(deletes), func(t *testing.T) {
			onEach(t, func(t *testing.T, s *server) {
				c := newCompared(t, s, orders(t), elastic.Options{Deletes: deletes}, fmt.Sprintf("verify-%d", deletes))
				for id := range 20 {
					c.put(at(int64(id), ins, id, fmt.Sprint("v", id)))
				}
				c.put(at(20, upd, 5, "newer"), at(21, del, 6, changelog.Value{}), at(22, del, 7, changelog.Value{}))
				_, lines, _ := c.view(23)
				c.want("of an intact index", lines, nil)

				c.edit("1", `{"v":"by hand"}`)                                                          // a higher version, the mark as it was
				s.must("PUT", "/"+c.index+"/_doc/2", `{"id":2,"v":"by hand, without the mark"}`)        // and one without
				s.must("PUT", "/"+c.index+"/_doc/77", `{"id":77,"v":"extra"}`)                          // not of the topic
				s.must("PUT", "/"+c.index+"/_doc/7", `{"id":7,"v":"back"}`)                             // deleted in the topic
				s.must("DELETE", "/"+c.index+"/_doc/3", "")                                             // leaves a version behind
				s.must("PUT", "/"+c.index+"/_doc/78", `{"id":78,"flinksink":{"at":"elsewhere/0/0/0"}}`) // of another topic: not ours
				want := []string{"extra 7", "extra 77", "missing 3@3", "stale 1@1", "stale 2@2"}
				v, lines, ds := c.view(23)
				c.want("planted", lines, want)
				m, err := v.Mend(context.Background(), ds)
				c.must(err)
				mended := sink.Mended{Written: 3, Deleted: 2}
				if deletes == elastic.Hard { // the delete by hand may be the bridge's own
					mended = sink.Mended{Written: 2, Deleted: 2, Changed: 1}
				}
				if m != mended {
					t.Errorf("mended %+v, expected %+v", m, mended)
				}
				_, lines, _ = c.view(23)
				if deletes == elastic.Hard {
					c.want("mended but for what the server remembers", lines, []string{"missing 3@3"})
				} else {
					c.want("mended", lines, nil)
				}
				// What comes from the topic afterwards is newer, whatever version a hand or the repair has left.
				c.put(at(23, upd, 1, "after"), at(24, upd, 2, "after"), at(25, upd, 3, "after"), at(26, ins, 7, "after"))
				_, lines, _ = c.view(27)
				c.want("after the bridge went on", lines, nil)
			})
		})
	}
}

// What the bridge wrote behind the positions is no difference, and what changes between the look and the repair is left alone.
func TestVerify_BesideARunningBridge(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		c := newCompared(t, s, orders(t), elastic.Options{Deletes: elastic.Tombstone}, "beside")
		for id := range 10 {
			c.put(at(int64(id), ins, id, "old"))
		}
		c.put(at(10, upd, 1, "new"), at(11, del, 2, changelog.Value{}), at(12, ins, 30, "new"), at(13, upd, 3, "new"), at(14, del, 3, changelog.Value{}))
		_, lines, _ := c.view(10)
		c.want("below what is written", lines, nil)

		c.edit("4", `{"v":"by hand"}`)
		s.must("DELETE", "/"+c.index+"/_doc/5", "")
		s.must("PUT", "/"+c.index+"/_doc/77", `{"id":77,"v":"extra"}`)
		v, lines, ds := c.view(15)
		c.want("planted", lines, []string{"extra 77", "missing 5@5", "stale 4@4"})
		c.put(at(15, upd, 4, "newest"), at(16, del, 5, changelog.Value{}), at(17, ins, 77, "now of the topic"))
		m, err := v.Mend(context.Background(), ds)
		c.must(err)
		if want := (sink.Mended{Changed: 3}); m != want {
			t.Errorf("mended %+v, expected %+v", m, want)
		}
		_, lines, _ = c.view(18)
		c.want("at the end", lines, nil)
	})
}

// Values of every type are compared as what they are, and columns that are left out are not.
func TestVerify_Types(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		tb := table(t, "orders", mode(t, "[I,UA,D]"), 2, "id STRING NOT NULL", "k2 BIGINT NOT NULL", "n BIGINT", "d DECIMAL(30, 4)", "e DECIMAL(10, 4)", "f DOUBLE", "ts TIMESTAMP(9)", "x BYTES", "left_out STRING")
		c := newCompared(t, s, tb, elastic.Options{Deletes: elastic.Tombstone, Columns: map[string]string{"left_out": "", "n": "renamed"}}, "types")
		decimal := func(text string, precision int) changelog.Value {
			v, err := changelog.ParseDecimal([]byte(text), precision, 4)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		for i := range 4 {
			c.put(at(int64(i), ins, fmt.Sprintf("ü/%d \"", i), i, changelog.IntValue(1<<53+1), decimal("12345678901234567890.5000", 30), decimal("1.5000", 10), 1e300, changelog.TimestampValue(1709210096, 123456789), []byte{0, 255}, "left out"))
		}
		c.put(at(4, ins, strings.Repeat("long", 300), 4, changelog.Value{}, changelog.Value{}, changelog.Value{}, changelog.Value{}, changelog.Value{}, changelog.Value{}, changelog.Value{}))
		_, lines, _ := c.view(5)
		c.want("of an intact index", lines, nil)
		id := func(i int) string { return c.es.ID(tb, &c.topic[i]) }
		c.edit(id(0), `{"renamed":9007199254740992}`)           // the double next to it
		c.edit(id(1), `{"e":1.50,"f":10e299}`)                  // the same numbers, another text
		c.edit(id(2), `{"ts":"2024-02-29T12:34:56.123456788"}`) // a nanosecond
		c.edit(id(4), `{"x":""}`)                               // empty for NULL
		v, lines, ds := c.view(5)
		want := []string{"stale " + id(0) + "@0", "stale " + id(2) + "@2", "stale " + id(4) + "@4"}
		slices.Sort(want)
		c.want("planted", lines, want)
		m, err := v.Mend(context.Background(), ds)
		c.must(err)
		if m.Written != 3 {
			t.Errorf("mended %+v", m)
		}
		_, lines, _ = c.view(5)
		c.want("mended", lines, nil)
	})
}

func TestVerify_Refuses(t *testing.T) {
	s := standIn(t)
	keyless := table(t, "orders", changelog.Append, 0, "id BIGINT", "v STRING")
	position := []changelog.Position{{Partition: changelog.Partition{Topic: "orders"}}}
	for _, x := range []struct {
		table *changelog.Table
		at    []changelog.Position
		want  string
	}{{keyless, position, "has no key"}, {orders(t), nil, "Options.Store"}, {orders(t), position, "there is no index"}} {
		es, err := elastic.New(s.client(nil), s.prefix+"-none", &elastic.Options{Deletes: elastic.Tombstone})
		if err != nil {
			t.Fatal(err)
		}
		_, err = es.View(context.Background(), sink.ViewRequest{Bridge: "b", Table: x.table, Positions: x.at})
		var e *sink.Error
		if !errors.As(err, &e) || e.Class != sink.ErrConfig || !strings.Contains(err.Error(), x.want) {
			t.Errorf("got %v, expected %q", err, x.want)
		}
	}
}

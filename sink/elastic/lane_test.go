package elastic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// table makes one from "name TYPE" columns; the first keys of them are the key.
func table(t testing.TB, name string, mode changelog.Mode, keys int, columns ...string) *changelog.Table {
	t.Helper()
	s := &changelog.Schema{}
	for i, c := range columns {
		n, typ, _ := strings.Cut(c, " ")
		parsed, err := changelog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		s.Columns = append(s.Columns, changelog.Column{Name: n, Type: parsed})
		if i < keys {
			s.Key = append(s.Key, i)
		}
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return &changelog.Table{Name: name, Schema: s, Mode: mode}
}

func mode(t testing.TB, s string) changelog.Mode {
	t.Helper()
	m, err := changelog.ParseMode(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func orders(t testing.TB) *changelog.Table {
	return table(t, "orders", mode(t, "[I,UA,D]"), 1, "id BIGINT NOT NULL", "v STRING")
}

// lane drives one committer by hand.
type lane struct {
	t     testing.TB
	table *changelog.Table
	c     sink.Committer
	s     *server
	index string
	gen   sink.GenerationID
	next  sink.CheckpointID
	topic changelog.TopicID
}

var topicA, topicB = changelog.TopicID{1}, changelog.TopicID{2}

func (s *server) lane(table *changelog.Table, o elastic.Options, through http.RoundTripper) *lane {
	s.t.Helper()
	o.CreateIndex = true
	o.ControlIndex, o.DeadLetters = s.prefix+"-control", s.prefix+"-letters"
	index := s.prefix + "-" + table.Name
	es, err := elastic.New(s.client(through), index, &o)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := es.Lane(context.Background(), sink.Lane{Bridge: "b", Sink: "es", Tables: []*changelog.Table{table}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return &lane{t: s.t, table: table, c: c, s: s, index: index, topic: topicA}
}

func (l *lane) claim(gen sink.GenerationID, incarnation uint16, saved bool) sink.Claim {
	p := changelog.Partition{Topic: "orders", Partition: 0}
	c := sink.Claim{Generation: sink.Generation{Bridge: "b", ID: gen, Partitions: []changelog.Partition{p}}, Incarnation: incarnation}
	if saved {
		c.Positions = []changelog.Position{{Partition: p, Offset: 1, TopicID: l.topic}}
	}
	return c
}

func (l *lane) open(gen sink.GenerationID, incarnation uint16, saved bool) *lane {
	l.t.Helper()
	if err := l.c.Open(context.Background(), l.claim(gen, incarnation, saved)); err != nil {
		l.t.Fatalf("Open: %v", err)
	}
	l.gen, l.next = gen, 1
	return l
}

// at makes a change of partition 0.
func at(offset int64, kind changelog.Kind, values ...any) changelog.Change {
	row := make(changelog.Row, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case int:
			row[i] = changelog.IntValue(int64(v))
		case string:
			row[i] = changelog.StringValue(v)
		case []byte:
			row[i] = changelog.BytesValue(v)
		case float64:
			row[i] = changelog.DoubleValue(v)
		case changelog.Value:
			row[i] = v
		}
	}
	return changelog.Change{Partition: changelog.Partition{Topic: "orders", Partition: 0}, Offset: offset, Kind: kind, Row: row}
}

func (l *lane) write(changes ...changelog.Change) error {
	b := changelog.NewBatch(l.table)
	for _, c := range changes {
		b.Append(c)
	}
	return l.c.Write(context.Background(), b)
}

func (l *lane) prepare() error {
	to := changelog.Position{Partition: changelog.Partition{Topic: "orders", Partition: 0}, Offset: 1 << 40, TopicID: l.topic}
	_, err := l.c.Prepare(context.Background(), sink.Cut{Generation: sink.Generation{Bridge: "b", ID: l.gen}, Checkpoint: l.next, To: []changelog.Position{to}})
	l.next++
	return err
}

// checkpoint writes changes and prepares them.
func (l *lane) checkpoint(changes ...changelog.Change) error {
	if err := l.write(changes...); err != nil {
		return err
	}
	return l.prepare()
}

func (l *lane) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// docs returns the sources of documents by id, without Meta.
func (l *lane) docs(query string) map[string]string {
	l.t.Helper()
	hits, err := l.s.search(l.index, query)
	if err != nil {
		l.t.Fatal(err)
	}
	all := make(map[string]string)
	for _, h := range hits {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(h.Source, &m); err != nil {
			l.t.Fatal(err)
		}
		delete(m, "flinksink")
		if _, ok := m[elastic.DeletedField]; ok {
			m[elastic.DeletedField] = json.RawMessage(`"T"`)
		}
		b, err := json.Marshal(m)
		if err != nil {
			l.t.Fatal(err)
		}
		all[h.ID] = string(b)
	}
	return all
}

func (l *lane) expect(want map[string]string) {
	l.t.Helper()
	if got := l.docs(everything); fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Fatalf("documents:\n%v\nexpected:\n%v", got, want)
	}
}

// is asserts the class, and that text is in the message.
func is(t testing.TB, err, class error, text string) {
	t.Helper()
	if err == nil || !errors.Is(sink.ClassOf(err), class) || !strings.Contains(err.Error(), text) {
		t.Fatalf("%v\nexpected class %q with %q", err, class, text)
	}
}

// refusedAt asserts which changes a rejection names.
func refusedAt(t testing.TB, err error, offsets ...int64) {
	t.Helper()
	var e *sink.Error
	if !errors.As(err, &e) || !errors.Is(e.Class, sink.ErrRejected) {
		t.Fatalf("%v: expected a rejection", err)
	}
	var got []int64
	for _, r := range e.Rejected {
		got = append(got, r.Offset)
	}
	if fmt.Sprint(got) != fmt.Sprint(offsets) {
		t.Fatalf("rejected %v, expected %v: %v", got, offsets, err)
	}
}

const (
	ins = changelog.Insert
	upd = changelog.UpdateAfter
	del = changelog.Delete
)

func tablesOf(t ...*changelog.Table) []*changelog.Table { return t }

// forget makes the server forget the versions of deleted documents.
func (s *server) forget(index string) {
	s.t.Helper()
	if s.fake != nil {
		s.fake.ForgetDeleted()
		return
	}
	s.must("POST", "/"+index+"/_close", "")
	s.must("POST", "/"+index+"/_open", "")
	waitReady(s.t.(*testing.T), s, index)
}

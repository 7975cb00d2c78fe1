package kafka_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	shopColumns = "id BIGINT, v STRING, PRIMARY KEY (id) NOT ENFORCED"
	shopWith    = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
)

// shop is a bridge between two tables.
type shop struct {
	from, to       string // columns
	with, withTo   string
	decoder        *format.Options
	options        bridge.Options
	kafka          kafka.Options
	records        []*kgo.Record
	source, target string // topics
}

func (s *shop) table(t *testing.T, e *env, columns, with, topic string) *ddl.Table {
	t.Helper()
	table, err := ddl.Find("CREATE TABLE shop ("+columns+") WITH ("+with+", 'topic' = '"+topic+"', 'properties.bootstrap.servers' = '"+e.seeds[0]+"')", "")
	must(t, err)
	return table
}

// run carries the records over and returns what is in the target, in the form key=value, what the bridge logged, and its counters.
func (s shop) run(t *testing.T, e *env, m mode) (out []*kgo.Record, log string, n sink.Counters) {
	t.Helper()
	var err error
	s.source, err = e.topic(t.Context(), "from", 1, nil)
	must(t, err)
	s.target, err = e.topic(t.Context(), "to", 1, nil)
	must(t, err)
	letters, err := e.topic(t.Context(), "letters", 1, nil)
	must(t, err)
	for _, r := range s.records {
		c := *r
		c.Topic = s.source
		must(t, e.admin.ProduceSync(t.Context(), &c).FirstErr())
	}
	if s.from == "" {
		s.from = shopColumns
	}
	if s.to == "" {
		s.to = s.from
	}
	if s.with == "" {
		s.with = shopWith
	}
	if s.withTo == "" {
		s.withTo = s.with
	}
	from := s.table(t, e, s.from, s.with, s.source)
	d, err := format.New(from, all.Formats(), s.decoder)
	must(t, err)
	in, err := bridge.FromTable(from, d)
	must(t, err)
	cl := e.client()
	t.Cleanup(cl.Close)
	make := kafka.TwoPhase
	if m == inOneTransact {
		make = kafka.InTransaction
	}
	o := s.kafka
	o.Prefix, o.Topic, o.Group, o.DeadLetterTopic = s.source[max(0, len(s.source)-80):], s.source+"-store", s.source, letters
	e.made = append(e.made, o.Topic)
	to, err := make(cl, s.table(t, e, s.to, s.withTo, s.target), all.Formats(), &o)
	must(t, err)
	var lines strings.Builder
	bo := s.options
	bo.UntilEnd, bo.Unordered, bo.Interval, bo.Group, bo.Logger = true, true, 20*time.Millisecond, s.source, slog.New(slog.NewTextHandler(&lines, nil))
	bo.Hooks.Committed = func(r sink.Report) { n = n.Add(r.Counters) }
	b, err := bridge.New(s.source, in, to, &bo)
	must(t, err)
	must(t, b.Run(t.Context()))
	read := &reader{e: e, topic: s.target}
	must(t, read.read(t.Context()))
	return read.records, lines.String(), n
}

func texts(rs []*kgo.Record) (out []string) {
	text := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return string(b)
	}
	for _, r := range rs {
		out = append(out, text(r.Key)+"="+text(r.Value))
	}
	return out
}

func oddly() []*kgo.Record {
	at := time.UnixMilli(1_700_000_000_123)
	return []*kgo.Record{
		{Key: []byte(`{"id":1}`), Value: []byte(`{ "id": 1,"v":"a"}`), Timestamp: at, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}},
		{Key: []byte(`{ "id" : 2 }`), Value: []byte(`{"v":"b","id":2}`)}, // P13: a key has one form, and so one partition, whoever spells it
		{Key: []byte(`{"id":3}`), Value: []byte(`{ "id":3,"v":"c","card":"4111"}`)},
		{Key: []byte(`{ "id":1}`)},
		{Key: []byte(`{"id":4}`), Value: []byte(`{ "id":4}`)},
		{Key: []byte(`{"id":5}`), Value: []byte(`{"id":5,"v":`)},
		{Key: []byte(`{"id":6}`), Value: []byte(`{ "id":60,"v":"f"}`)},
		{Key: []byte(`{"id":7}`), Value: []byte(`{ "id":7,"v":"` + strings.Repeat("g", 3000) + `"}`)},
		{Key: []byte(`{"id":8}`), Value: []byte(`{ "id":8,"v":"h"}`)},
	}
}

// What is handed on, and what is not: a message with a member that no table has, one that cannot be read, one whose key says something else, and one that is too
// large for the target. The last three are set aside, as they are where values are encoded, and the accounting is the same.
func TestHandOn_Bridge(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		for _, m := range modes() {
			for _, c := range []struct {
				name string
				anew bool
				want []string
			}{
				{"HandedOn", false, []string{`{"id":1}={ "id": 1,"v":"a"}`, `{"id":2}={"v":"b","id":2}`, `{"id":3}={"id":3,"v":"c"}`, `{"id":1}=null`, `{"id":4}={ "id":4}`, `{"id":8}={ "id":8,"v":"h"}`}},
				{"EncodedAnew", true, []string{`{"id":1}={"id":1,"v":"a"}`, `{"id":2}={"id":2,"v":"b"}`, `{"id":3}={"id":3,"v":"c"}`, `{"id":1}=null`, `{"id":4}={"id":4,"v":null}`, `{"id":8}={"id":8,"v":"h"}`}},
			} {
				t.Run(string(m)+"/"+c.name, func(t *testing.T) {
					s := shop{records: oddly(), kafka: kafka.Options{EncodeAnew: c.anew, MaxRecordBytes: 1000}, options: bridge.Options{OnData: bridge.DeadLetter}}
					began := time.Now().Add(-time.Second)
					out, log, n := s.run(t, e, m)
					if d := cmp.Diff(c.want, texts(out)); d != "" {
						t.Errorf("- wanted, + in the topic:\n%s", d)
					}
					if strings.Contains(log, handedOn) == c.anew {
						t.Errorf("what the bridge does with values is not told:\n%s", log)
					}
					if n.Read != 9 || n.Applied != 6 || n.DeadLettered != 3 {
						t.Errorf("the accounting is %+v", n)
					}
					for i, r := range out { // no METADATA column says otherwise
						if len(r.Headers) > 0 || r.Timestamp.Before(began) {
							t.Errorf("record %d has timestamp %v and %d headers of its source", i, r.Timestamp, len(r.Headers))
						}
					}
				})
			}
		}
	})
}

// Timestamps and headers are those of the target's METADATA columns, also where the value is handed on.
func TestHandOn_Metadata(t *testing.T) {
	e := newFake(t)
	s := shop{records: oddly()[:1], from: "id BIGINT, v STRING, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', h MAP<STRING, BYTES> METADATA FROM 'headers', PRIMARY KEY (id) NOT ENFORCED"}
	out, _, _ := s.run(t, e, inOneTransact)
	if len(out) != 1 || string(out[0].Value) != `{ "id": 1,"v":"a"}` || out[0].Timestamp.UnixMilli() != 1_700_000_000_123 || len(out[0].Headers) != 1 || string(out[0].Headers[0].Value) != "x" {
		t.Errorf("the record is %v, %v, %v", texts(out), out[0].Timestamp, out[0].Headers)
	}
}

// An update in one message stays one, if its row does not move to another key; and what a table is not told about its source is not written: a message of
// Debezium's own is encoded anew.
func TestHandOn_Kinds(t *testing.T) {
	e := newFake(t)
	s := shop{from: "id BIGINT, v STRING", with: "'connector' = 'kafka', 'format' = 'debezium-json', 'key.format' = 'json', 'key.fields' = 'id'", records: []*kgo.Record{
		{Key: []byte(`{"id":1}`), Value: []byte(`{"op": "u", "before":{"id":1,"v":"a"},"after":{"id":1,"v":"b"}}`)},
		{Key: []byte(`{"id":1}`), Value: []byte(`{"op": "u", "before":{"id":1,"v":"b"},"after":{"id":2,"v":"b"}}`)},
		{Key: []byte(`{"id":2}`), Value: []byte(`{"op":"d","before":{"id":2,"v":"b"},"after":null,"source":{"table":"t"},"ts_ms":7}`)},
		{Key: []byte(`{"id":3}`), Value: []byte(`{"op":"r", "after":{"id":3,"v":"c"}}`)},
	}}
	out, _, n := s.run(t, e, twoPhase)
	want := []string{`{"id":1}={"op": "u", "before":{"id":1,"v":"a"},"after":{"id":1,"v":"b"}}`,
		`{"id":1}={"before":{"id":1,"v":"b"},"after":null,"op":"d"}`, `{"id":2}={"before":null,"after":{"id":2,"v":"b"},"op":"c"}`,
		`{"id":2}={"before":{"id":2,"v":"b"},"after":null,"op":"d"}`, `{"id":3}={"op":"r", "after":{"id":3,"v":"c"}}`}
	if d := cmp.Diff(want, texts(out)); d != "" || n.Applied != 6 {
		t.Errorf("%d changes; - wanted, + in the topic:\n%s", n.Applied, d)
	}
}

// Whatever makes of source and target two encodings, or of what was read something else than what came, has values encoded anew; and HandsOn says why.
func TestHandOn_Off(t *testing.T) {
	e := newFake(t)
	keep := func(changelog.Row) bool { return true }
	for name, s := range map[string]shop{
		"option of a writer":   {withTo: shopWith + ", 'value.json.encode.ignore-null-fields' = 'true'"},
		"option of a reader":   {with: shopWith + ", 'value.json.fail-on-missing-field' = 'true'", withTo: shopWith},
		"errors passed over":   {with: shopWith + ", 'value.json.ignore-parse-errors' = 'true'"},
		"order of columns":     {to: "v STRING, id BIGINT, PRIMARY KEY (id) NOT ENFORCED"},
		"columns left out":     {from: "id BIGINT, v STRING, w STRING, PRIMARY KEY (id) NOT ENFORCED", to: shopColumns},
		"key columns":          {withTo: shopWith + ", 'value.fields-include' = 'EXCEPT_KEY'"},
		"another format":       {withTo: "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'csv'"},
		"kinds":                {withTo: "'connector' = 'kafka', 'format' = 'debezium-json', 'key.format' = 'json', 'key.fields' = 'id'", from: "id BIGINT, v STRING", to: "id BIGINT, v STRING", with: "'connector' = 'kafka', 'format' = 'json', 'key.format' = 'json', 'key.fields' = 'id'"},
		"a lenient reader":     {decoder: &format.Options{Lenient: true}},
		"another Flink":        {decoder: &format.Options{FlinkVersion: changelog.Flink1_17}},
		"Options.EncodeAnew":   {kafka: kafka.Options{EncodeAnew: true}},
		"a filter of a bridge": {options: bridge.Options{Filter: &bridge.Filter{Keep: keep}}},
		"a mapping": {options: bridge.Options{Map: &bridge.Mapping{Schema: &changelog.Schema{Key: []int{0}, Columns: []changelog.Column{
			{Name: "id", Type: changelog.Type{Root: changelog.RootBigInt, NotNull: true}}, {Name: "v", Type: changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength}}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s.records = oddly()[:1]
			out, log, _ := s.run(t, e, twoPhase)
			if len(out) != 1 || strings.HasPrefix(string(out[0].Value), "{ ") || strings.Contains(log, handedOn) {
				t.Errorf("the target holds %v\n%s", texts(out), log)
			}
		})
	}
	// The key's format and the connector are no part of a value's encoding.
	s := shop{records: oddly()[:1], withTo: "'connector' = 'upsert-kafka', 'key.format' = 'csv', 'value.format' = 'json'"}
	out, _, _ := s.run(t, e, twoPhase)
	if d := cmp.Diff([]string{`1={ "id": 1,"v":"a"}`}, texts(out)); d != "" {
		t.Error(d)
	}
}

// An output's filter lets a part of the messages through: what is left of them, and what it makes deletes, is encoded; those of other sinks are not.
func TestHandOn_Part(t *testing.T) {
	e := newFake(t)
	source, err := e.topic(t.Context(), "from", 1, nil)
	must(t, err)
	for _, r := range append(oddly()[:1], oddly()[4], oddly()[8]) {
		r.Topic = source
		must(t, e.admin.ProduceSync(t.Context(), r).FirstErr())
	}
	s := shop{}
	from := s.table(t, e, shopColumns, shopWith, source)
	d, err := format.New(from, all.Formats(), nil)
	must(t, err)
	in, err := bridge.FromTable(from, d)
	must(t, err)
	var outs []bridge.Output
	var topics []string
	for _, name := range []string{"part", "whole"} {
		topic, err := e.topic(t.Context(), name, 1, nil)
		must(t, err)
		topics = append(topics, topic)
		cl := e.client()
		t.Cleanup(cl.Close)
		to, err := kafka.TwoPhase(cl, s.table(t, e, shopColumns, shopWith, topic), all.Formats(), &kafka.Options{Prefix: topic, Topic: source + "-store"})
		must(t, err)
		outs = append(outs, bridge.Output{Name: name, Sink: to})
	}
	outs[0].Filters = map[string]*bridge.Filter{"shop": {Keep: func(r changelog.Row) bool { return r[0].Int() != 4 }}}
	b, err := bridge.NewMany(source, []bridge.Input{in}, outs, &bridge.Options{UntilEnd: true, Unordered: true, Group: source})
	must(t, err)
	must(t, b.Run(t.Context()))
	for i, want := range [][]string{
		{`{"id":1}={"id":1,"v":"a"}`, `{"id":4}=null`, `{"id":8}={"id":8,"v":"h"}`},
		{`{"id":1}={ "id": 1,"v":"a"}`, `{"id":4}={ "id":4}`, `{"id":8}={ "id":8,"v":"h"}`},
	} {
		read := &reader{e: e, topic: topics[i]}
		must(t, read.read(t.Context()))
		if d := cmp.Diff(want, texts(read.records)); d != "" {
			t.Errorf("%s: - wanted, + in the topic:\n%s", outs[i].Name, d)
		}
	}
}

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/internal/capture"
)

// Every captured topic, as Flink read it.
func TestRead_FileEqualsFlink(t *testing.T) {
	hidden := 0
	for _, c := range cases(t) {
		t.Run(c.name, func(t *testing.T) {
			hidden += c.hidden()
			got := command(t, "read", "--ddl", c.ddl, "--file", c.topic)
			want := c.lines(t, "read.jsonl")
			status := exitDone
			if slices.ContainsFunc(want, func(l string) bool { return strings.Contains(l, `"error":`) }) {
				status = exitFailed // Flink failed too
			}
			if got.status != status || (got.errs != "") != (status == exitFailed) {
				t.Fatalf("status %d: %s", got.status, got.errs)
			}
			if want == nil { // Flink was not asked; what it would show is one row a visible record
				if n := len(lines(got.out)); n != len(c.recs)-c.hidden() {
					t.Fatalf("%d lines of %d records, %d of them hidden", n, len(c.recs), c.hidden())
				}
				return
			}
			same(t, want, lines(got.out))
		})
	}
	if hidden == 0 {
		t.Error("no captured topic holds aborted or open records: the test has lost its point")
	}
}

// same compares lines of JSON, whatever the order of the fields of an object. Of an error only that there is one counts.
func same(t *testing.T, want, got []string) {
	t.Helper()
	parse := func(ls []string) []any {
		out := make([]any, len(ls))
		for i, l := range ls {
			if err := json.Unmarshal([]byte(l), &out[i]); err != nil {
				t.Fatalf("line %q: %v", l, err)
			}
			if m, ok := out[i].(map[string]any); ok && m["error"] != nil {
				m["error"] = true
				delete(m, "class")
			}
		}
		return out
	}
	if d := cmp.Diff(parse(want), parse(got)); d != "" {
		t.Fatalf("(-Flink +flinksink)\n%s", d)
	}
}

func TestRead_Uncommitted(t *testing.T) {
	for _, c := range cases(t) {
		if c.hidden() == 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			got := command(t, "read", "--ddl", c.ddl, "--file", c.topic, "--uncommitted")
			if got.status != exitDone {
				t.Fatalf("status %d: %s", got.status, got.errs)
			}
			if n := len(lines(got.out)); n != len(c.recs) {
				t.Errorf("%d lines of %d records", n, len(c.recs))
			}
		})
	}
}

const people = `CREATE TABLE people (id BIGINT, name STRING) WITH ('connector' = 'kafka', 'topic' = 'people',
  'properties.bootstrap.servers' = 'localhost:1', 'format' = 'json');`

// Reading goes on after a bad record, and the line for it stands where the record stands.
func TestRead_BadRecords(t *testing.T) {
	topic := write(t, "topic.jsonl", `{"partition":0,"offset":3,"timestamp":1,"key":null,"value":"eyJpZCI6MSwibmFtZSI6ImEifQ=="}
{"partition":0,"offset":4,"timestamp":1,"key":null,"value":"e1NFQ1JFVA=="}
{"partition":0,"offset":7,"timestamp":1,"key":null,"value":"eyJpZCI6MiwibmFtZSI6ImIifQ=="}
{"partition":2,"offset":0,"timestamp":1,"key":null,"value":"eyJpZCI6IlNFQ1JFVCJ9"}
`)
	got := command(t, "read", "--ddl", write(t, "ddl.sql", people), "--file", topic)
	if got.status != exitFailed {
		t.Errorf("status %d", got.status)
	}
	if want := "flinksink: read: 2 of 4 records cannot be decoded: see the lines with \"error\"\n"; got.errs != want {
		t.Errorf("standard error: %q", got.errs)
	}
	var at [][2]any
	for i, l := range lines(got.out) {
		var m map[string]any
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatal(err)
		}
		at = append(at, [2]any{m["partition"], m["offset"]})
		text, bad := m["error"].(string)
		if wantBad := i == 1 || i == 3; bad != wantBad || bad && (text == "" || m["class"] != map[int]string{1: "malformed", 3: "type"}[i] || len(m) != 4) {
			t.Errorf("line %d: %s", i+1, l)
		}
		if strings.Contains(l, "SECRET") || bad && strings.Contains(text, "people") {
			t.Errorf("line %d holds a value, or its coordinates twice: %s", i+1, l)
		}
	}
	if d := cmp.Diff([][2]any{{0., 3.}, {0., 4.}, {0., 7.}, {2., 0.}}, at); d != "" {
		t.Error(d)
	}
}

func TestRead_LenientIsPassedOn(t *testing.T) {
	topic := write(t, "topic.jsonl", `{"partition":0,"offset":0,"timestamp":1,"key":null,"value":null}`)
	ddl := write(t, "ddl.sql", people)
	if got := command(t, "read", "--ddl", ddl, "--file", topic); got.status != exitFailed {
		t.Errorf("a null value: status %d, %s", got.status, got.out)
	}
	if got := command(t, "read", "--ddl", ddl, "--file", topic, "--lenient"); got.status != exitDone || got.out != "" {
		t.Errorf("a null value, lenient: status %d, %s", got.status, got.out)
	}
}

func TestRead_DDLFromStandardInput(t *testing.T) {
	var out, errs strings.Builder
	topic := write(t, "topic.jsonl", `{"partition":0,"offset":0,"timestamp":1,"key":null,"value":"eyJpZCI6MX0="}`)
	status := execute(t.Context(), []string{"read", "--ddl", "-", "--file", topic}, strings.NewReader(people), &out, &errs)
	want := `{"op":"+I","partition":0,"offset":0,"row":{"id":"1","name":null}}` + "\n"
	if status != exitDone || out.String() != want {
		t.Errorf("status %d, %q, %s", status, out.String(), errs.String())
	}
}

// Many batches, so that the borders between them are met.
func TestRead_Long(t *testing.T) {
	var topic strings.Builder
	const n = 3*printChanges + 7
	for i := range n {
		b, _ := json.Marshal(map[string]any{"partition": 0, "offset": i, "timestamp": 1, "key": nil, "value": []byte(`{"id":` + json.Number(strings.Repeat("1", 1+i%18)).String() + `}`)})
		topic.Write(append(b, '\n'))
	}
	got := command(t, "read", "--ddl", write(t, "ddl.sql", people), "--file", write(t, "topic.jsonl", topic.String()))
	ls := lines(got.out)
	if got.status != exitDone || len(ls) != n {
		t.Fatalf("status %d, %d lines of %d", got.status, len(ls), n)
	}
	for i, l := range ls {
		if want := strings.Repeat("1", 1+i%18); !strings.Contains(l, `"id":"`+want+`"`) {
			t.Fatalf("line %d: %s", i, l)
		}
	}
}

// A table that Flink refuses refuses every record, as every record is an error in what Flink's reader was asked.
func TestRead_RefusedTable(t *testing.T) {
	topic := write(t, "topic.jsonl", `{"partition":0,"offset":3,"timestamp":1,"key":null,"value":"eyJpZCI6MX0="}
{"partition":0,"offset":4,"timestamp":1,"key":null,"value":null,"aborted":true}
{"partition":1,"offset":0,"timestamp":1,"key":null,"value":"eyJpZCI6MX0="}
`)
	for name, c := range map[string]struct{ ddl, want string }{
		"a type that the format has not":  {strings.Replace(people, "'json'", "'raw'", 1), "the format takes a single column"},
		"a type that Flink's DDL has not": {strings.Replace(people, "name STRING", "name INTERVAL MONTH", 1), "Flink takes no INTERVAL"},
		"options against each other":      {strings.Replace(people, "'json'", "'json', 'json.fail-on-missing-field' = 'true', 'json.ignore-parse-errors' = 'true'", 1), "shouldn't both be true"},
		"no columns of its own":           {"CREATE TABLE people WITH ('connector' = 'kafka', 'topic' = 'people', 'format' = 'json') AS SELECT id FROM other", "run SHOW CREATE TABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			ddl := write(t, "ddl.sql", c.ddl)
			got := command(t, "read", "--ddl", ddl, "--file", topic)
			ls := lines(got.out)
			if got.status != exitConfig || !strings.Contains(got.errs, c.want) || len(ls) != 2 {
				t.Fatalf("status %d: %s%s", got.status, got.errs, got.out)
			}
			for i, at := range []string{`{"partition":0,"offset":3,"error":"`, `{"partition":1,"offset":0,"error":"`} {
				if !strings.HasPrefix(ls[i], at) || !strings.Contains(ls[i], c.want) {
					t.Errorf("line %d: %s", i+1, ls[i])
				}
			}
			if got := command(t, "read", "--ddl", ddl); got.status != exitConfig || got.out != "" {
				t.Errorf("from brokers: status %d: %s", got.status, got.out)
			}
		})
	}
	// A mistake of the command line is none of the records.
	if got := command(t, "read", "--ddl", write(t, "ddl.sql", people), "--table", "other", "--file", topic); got.status != exitConfig || got.out != "" {
		t.Errorf("--table: status %d: %s", got.status, got.out)
	}
}

// With several topics each line says which one it is of; with one, none does.
func TestRead_SeveralTopics(t *testing.T) {
	broker := newBroker(t)
	record := func(value string) []capture.Record {
		return []capture.Record{{Record: changelog.Record{Value: []byte(value), TimestampType: changelog.CreateTime}}}
	}
	for topic, value := range map[string]string{"one": `{"id":1}`, "two": "x"} {
		if err := capture.Load(t.Context(), []string{broker}, topic, 1, record(value)); err != nil {
			t.Fatal(err)
		}
	}
	for option, want := range map[string][]string{
		"'topic' = 'one;two'":            {`{"op":"+I","topic":"one","partition":0,"offset":0,"row":{"id":"1","name":null}}`, `{"topic":"two","partition":0,"offset":0,"error":`},
		"'topic-pattern' = 'one|t[x-z]'": {`{"op":"+I","topic":"one","partition":0,"offset":0,"row":{"id":"1","name":null}}`},
		"'topic' = 'one'":                {`{"op":"+I","partition":0,"offset":0,"row":{"id":"1","name":null}}`},
	} {
		got := command(t, "read", "--ddl", write(t, "ddl.sql", strings.Replace(people, "'topic' = 'people'", option, 1)), "--brokers", broker)
		ls := lines(got.out)
		if len(ls) != len(want) {
			t.Fatalf("%s: status %d: %s%s", option, got.status, got.errs, got.out)
		}
		for i := range ls {
			if !strings.HasPrefix(ls[i], want[i]) {
				t.Errorf("%s: line %d: %s", option, i+1, ls[i])
			}
		}
	}
}

// A registry that is away is waited for, told once, and ends the reading; it makes no record a bad one.
func TestRead_RegistryAway(t *testing.T) {
	var lines strings.Builder
	for i := range 3 {
		b, _ := json.Marshal(map[string]any{"partition": 0, "offset": i, "timestamp": 1, "key": nil, "value": []byte("\x00\x00\x00\x00\x01\x02")})
		lines.Write(append(b, '\n'))
	}
	ddl := strings.Replace(people, "'json'", "'avro-confluent', 'avro-confluent.url' = 'http://127.0.0.1:1'", 1)
	var out, errs strings.Builder
	c := &call{patience: time.Millisecond}
	status := c.execute(t.Context(), []string{"read", "--ddl", write(t, "ddl.sql", ddl), "--file", write(t, "topic.jsonl", lines.String())}, nil, &out, &errs)
	if status != exitFailed || out.String() != "" {
		t.Errorf("status %d, %q", status, out.String())
	}
	if n := strings.Count(errs.String(), "trying again"); n != 1 || !strings.Contains(errs.String(), "read: gave up after 1ms") || !strings.Contains(errs.String(), "127.0.0.1:1") {
		t.Errorf("standard error: %s", errs.String())
	}
}

// An outage that ends before the patience does leaves no trace in the output.
func TestPatient(t *testing.T) {
	away := 2
	told := 0
	p := &patient{ctx: t.Context(), patience: time.Minute, tell: func(string) { told++ }, Decoder: decodes(func(*changelog.Batch, *changelog.Record) error {
		if away--; away >= 0 {
			return &changelog.UnavailableError{Reason: "registry"}
		}
		return nil
	})}
	if err := p.Decode(nil, nil); err != nil || told != 1 {
		t.Errorf("%v, told %d times", err, told)
	}
}

type decodes func(*changelog.Batch, *changelog.Record) error

func (decodes) Table() *changelog.Table                                { return nil }
func (d decodes) Decode(b *changelog.Batch, r *changelog.Record) error { return d(b, r) }

package format_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/internal/capture"
)

// notWritten are the cases whose records are not made again, and why.
var notWritten = map[string]string{
	"debezium_real": "Debezium wrote it, with members that Flink never writes",
	"canal_real":    "Canal wrote it, with members that Flink never writes",
	"maxwell_real":  "Maxwell wrote it, with members that Flink never writes",
	"ogg_real":      "GoldenGate wrote it, with members that Flink never writes",
}

// defaulted are cases that are read as defaults where a field is absent, as Flink reads them; 'optional' fields and the members of a oneof are written
// where they have a value, so that what was read is not what was written. Package protobuf has a test of the rows that were written.
var defaulted = map[string]bool{"protobuf_types": true, "protobuf_read_defaults": true}

// lossy are values that a decoder cannot read as they were written, as Flink's cannot.
var lossy = map[string]*strings.Replacer{
	"canal_types":    strings.NewReplacer(`:-0.0,`, `:0.0,`),
	"maxwell_types":  strings.NewReplacer(`:-0.0,`, `:0.0,`),
	"ogg_types":      strings.NewReplacer(`:-0.0,`, `:0.0,`),
	"debezium_types": strings.NewReplacer(`:-0.0,`, `:0.0,`), // its numbers are read as BigDecimals, which have no negative zero
}

// Every record that Flink wrote, read and written again, has the same bytes.
func TestEncode_AsFlinkWrote(t *testing.T) {
	total := 0
	for _, dir := range cases(t) {
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			tab := table(t, dir)
			e, err := format.NewEncoder(tab, formats, nil)
			if why, ok := notWritten[name]; ok {
				if err == nil && !strings.HasSuffix(name, "_real") {
					t.Errorf("an encoder, in spite of: %s", why)
				}
				t.Skip(why)
			}
			if err != nil {
				t.Fatal(err)
			}
			if defaulted[name] {
				t.Skip("what is absent is read as its default")
			}
			if _, failed := failing(t, dir); len(failed) > 0 {
				t.Skip("Flink could not read what it wrote: see TestEncode_WhatFlinkCannotRead")
			}
			d, err := format.New(tab, formats, nil)
			if err != nil {
				t.Fatal(err)
			}
			records, err := capture.ReadFile(filepath.Join(dir, "topic.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			out := changelog.Record{Timestamp: -1}
			for i := range records {
				in := &records[i]
				b := changelog.NewBatch(d.Table())
				if err := d.Decode(b, &in.Record); err != nil {
					t.Fatal(err)
				}
				if b.Len() != 1 {
					t.Fatalf("offset %d: %d changes", in.Offset, b.Len())
				}
				if err := e.Encode(&out, &b.Changes[0]); err != nil {
					t.Fatal(err)
				}
				if r, ok := lossy[name]; ok {
					in.Value = []byte(r.Replace(string(in.Value)))
				}
				if !same(out.Key, in.Key) || !same(out.Value, in.Value) {
					t.Fatalf("offset %d:\n key   %s\n Flink %s\n value %s\n Flink %s", in.Offset, out.Key, in.Key, out.Value, in.Value)
				}
				if out.Timestamp != -1 && out.Timestamp != in.Timestamp {
					t.Fatalf("offset %d: timestamp %d, Flink's %d", in.Offset, out.Timestamp, in.Timestamp)
				}
				if !slices.EqualFunc(out.Headers, in.Headers, func(a, b changelog.Header) bool { return a.Key == b.Key && same(a.Value, b.Value) }) {
					t.Fatalf("offset %d: headers %q, Flink's %q", in.Offset, out.Headers, in.Headers)
				}
				total++
			}
		})
	}
	if total < 1000 {
		t.Errorf("only %d records", total)
	}
	t.Logf("%d records", total)
}

// same tells null from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func newEncoder(t testing.TB, columns, options string, lenient bool) (*format.Encoder, error) {
	t.Helper()
	tab, err := ddl.Find(fmt.Sprintf("CREATE TABLE t (%s) WITH (%s)", columns, options), "t")
	if err != nil {
		t.Fatal(err)
	}
	return format.NewEncoder(tab, formats, &format.Options{Lenient: lenient})
}

func TestNewEncoder_Refuses(t *testing.T) {
	const kv = "k STRING, v INT"
	const kafka = "'connector' = 'kafka', 'format' = 'json'"
	for _, c := range []struct{ columns, options, want string }{
		{kv + ", PRIMARY KEY (k) NOT ENFORCED", kafka, "drop the PRIMARY KEY"},
		{kv + ", PRIMARY KEY (k) NOT ENFORCED", "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json', 'sink.buffer-flush.interval' = '1s'", "must both be greater than zero"},
		{kv + ", o BIGINT METADATA FROM 'offset'", kafka, "declare the column VIRTUAL"},
		{kv + ", ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', x BIGINT METADATA FROM 'offset' VIRTUAL", kafka, ""},
		{kv + ", ts TIMESTAMP(3) METADATA FROM 'timestamp'", kafka, "TIMESTAMP_LTZ(3)"},
		{kv, kafka + ", 'topic' = 'a;b'", "a single topic"},
		{kv, kafka + ", 'topic-pattern' = 'a.*'", "a single topic"},
		{kv, kafka + ", 'key.format' = 'json', 'key.fields' = 'k', 'sink.partitioner' = 'round-robin'", "'sink.partitioner'"},
		{"m MAP<INT, INT>", kafka, "column m"},
	} {
		_, err := newEncoder(t, c.columns, c.options, false)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("(%s) WITH (%s):\n %v\n want %q in it", c.columns, c.options, err, c.want)
		}
	}
}

func TestEncode_Kinds(t *testing.T) {
	const kv = "k STRING, v INT"
	row := changelog.Row{changelog.StringValue("a"), changelog.IntValue(1)}
	noKey := changelog.Row{{}, changelog.IntValue(1)}
	append1 := "'connector' = 'kafka', 'format' = 'json'"
	upsert := "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
	for _, c := range []struct {
		columns, options string
		lenient          bool
		kind             changelog.Kind
		keyOnly          bool
		row              changelog.Row
		want             string // key and value, or a part of the error
	}{
		{kv, append1, false, changelog.Insert, false, row, `null {"k":"a","v":1}`},
		{kv, append1, false, changelog.UpdateAfter, false, row, "holds inserts only"},
		{kv, append1, true, changelog.Delete, false, row, "holds inserts only"},
		{kv, append1, false, changelog.Insert, false, row[:1], "columns of its table"},
		{kv, append1, false, changelog.Insert, false, changelog.Row{changelog.UnchangedValue(), {}}, "Unchanged"},
		{kv, append1, false, changelog.Insert, false, changelog.Row{changelog.IntValue(1), {}}, "another type"},
		{kv + ", PRIMARY KEY (k) NOT ENFORCED", upsert, false, changelog.Insert, false, row, `{"k":"a"} {"k":"a","v":1}`},
		{kv + ", PRIMARY KEY (k) NOT ENFORCED", upsert, false, changelog.UpdateAfter, false, row, `{"k":"a"} {"k":"a","v":1}`},
		{kv + ", PRIMARY KEY (k) NOT ENFORCED", upsert, false, changelog.UpdateBefore, false, row, `{"k":"a"} null`},
		{kv + ", PRIMARY KEY (k) NOT ENFORCED", upsert, false, changelog.Delete, true, row, `{"k":"a"} null`},
		{kv + ", PRIMARY KEY (k) NOT ENFORCED", upsert, false, changelog.Delete, true, noKey, "a column of the PRIMARY KEY is NULL"},
		{kv + ", PRIMARY KEY (k) NOT ENFORCED", upsert, true, changelog.Delete, true, noKey, `{"k":null} null`},
		{kv + ", PRIMARY KEY (k) NOT ENFORCED", upsert + ", 'value.fields-include' = 'EXCEPT_KEY'", false, changelog.Insert, false, row, `{"k":"a"} {"v":1}`},
	} {
		e, err := newEncoder(t, c.columns, c.options, c.lenient)
		if err != nil {
			t.Fatal(err)
		}
		var r changelog.Record
		in := &changelog.Change{Partition: changelog.Partition{Topic: "from", Partition: 2}, Offset: 5, Kind: c.kind, KeyOnly: c.keyOnly, Row: c.row}
		err = e.Encode(&r, in)
		text := func(p []byte) string { return cmp.Or(string(p), "null") }
		got := text(r.Key) + " " + text(r.Value)
		if err != nil {
			var de *changelog.DataError
			if !errors.As(err, &de) || de.Partition != in.Partition || de.Offset != 5 {
				t.Errorf("%v: %#v", err, err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %s: %v, want %s", c.options, c.kind, err, c.want)
			}
		} else if got != c.want {
			t.Errorf("%s %s: %s, want %s", c.options, c.kind, got, c.want)
		}
	}
}

// A record is used again for the next change, and nothing of the last one stays.
func TestEncode_Metadata(t *testing.T) {
	e, err := newEncoder(t, "v INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', h MAP<STRING, BYTES> METADATA FROM 'headers'", "'connector' = 'kafka', 'format' = 'json'", false)
	if err != nil {
		t.Fatal(err)
	}
	text, null := changelog.StringValue, changelog.Value{}
	var r changelog.Record
	headers := changelog.MapValue([]changelog.Value{text("a"), changelog.BytesValue([]byte{1}), null, changelog.BytesValue(nil), text("n"), null, text("e"), changelog.BytesValue(nil)})
	if err := e.Encode(&r, &changelog.Change{Row: changelog.Row{changelog.IntValue(1), changelog.TimestampLTZValue(1700000000, 123456789), headers}}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%d %q", r.Timestamp, r.Headers); got != `1700000000123 [{"a" "\x01"} {"e" ""}]` || r.Headers[1].Value == nil {
		t.Error(got)
	}
	if err := e.Encode(&r, &changelog.Change{Row: changelog.Row{null, null, null}}); err != nil || r.Headers != nil || string(r.Value) != `{"v":null}` {
		t.Errorf("%v %q %s", err, r.Headers, r.Value)
	}
	if err := e.Encode(&r, &changelog.Change{Row: changelog.Row{null, changelog.TimestampLTZValue(-1, 0), null}}); err == nil || !strings.Contains(err.Error(), "field ts") {
		t.Error(err)
	}
	if err := e.Encode(&r, &changelog.Change{Row: changelog.Row{null, null, changelog.MapValue([]changelog.Value{changelog.IntValue(1), null, changelog.IntValue(1), changelog.IntValue(1)})}}); err == nil {
		t.Error("a header whose name is no text: no error")
	}
}

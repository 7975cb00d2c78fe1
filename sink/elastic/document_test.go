package elastic_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// TestDocument writes every type, and reads back what the server keeps as the source.
func TestDocument(t *testing.T) {
	str := changelog.StringValue
	list := func(v ...changelog.Value) changelog.Value { return changelog.ArrayValue(v) }
	pairs := func(v ...changelog.Value) changelog.Value { return changelog.MapValue(v) }
	null := changelog.Value{}
	type one struct {
		typ  string
		v    changelog.Value
		want string
	}
	cases := []one{
		{"BOOLEAN", changelog.BoolValue(true), `true`},
		{"BIGINT", changelog.IntValue(math.MaxInt64), `9223372036854775807`},
		{"BIGINT", changelog.IntValue(math.MinInt64), `-9223372036854775808`},
		{"TINYINT", changelog.IntValue(-128), `-128`},
		{"FLOAT", changelog.FloatValue(3.4028235e38), `3.4028235e+38`},
		{"DOUBLE", changelog.DoubleValue(0.1), `0.1`},
		{"DOUBLE", changelog.DoubleValue(math.Copysign(0, -1)), `-0`},
		{"DOUBLE", changelog.DoubleValue(math.NaN()), `"NaN"`},
		{"DOUBLE", changelog.DoubleValue(math.Inf(-1)), `"-Infinity"`},
		{"DECIMAL(18, 2)", changelog.DecimalValue(0, 999999999999999999, 2), `9999999999999999.99`},
		{"DECIMAL(38, 10)", changelog.DecimalValue(-1, math.MaxUint64, 10), `"-0.0000000001"`},
		{"STRING", str("a\"\\\n\x00\u2028é😀"), `"a\"\\\n\u0000` + "\u2028é😀" + `"`},
		{"STRING", str(""), `""`},
		{"BYTES", changelog.BytesValue([]byte{0, 255}), `"AP8="`},
		{"DATE", changelog.DateValue(19782), `"2024-02-29"`},
		{"TIME(3)", changelog.TimeValue(45296789000000), `"12:34:56.789"`},
		{"TIMESTAMP(9)", changelog.TimestampValue(1709210096, 123456789), `"2024-02-29T12:34:56.123456789"`},
		{"TIMESTAMP(0)", changelog.TimestampValue(1709210096, 0), `"2024-02-29T12:34:56"`},
		{"TIMESTAMP_LTZ(3)", changelog.TimestampLTZValue(1709210096, 5e6), `"2024-02-29T12:34:56.005Z"`},
		{"ARRAY<INT>", list(changelog.IntValue(1), null), `[1,null]`},
		{"ARRAY<ARRAY<STRING>>", list(list(str("a")), list()), `[["a"],[]]`},
		{"ROW<a INT, b STRING>", changelog.RowValue([]changelog.Value{changelog.IntValue(1), null}), `{"a":1,"b":null}`},
		{"MAP<STRING, INT>", pairs(str("a.b"), changelog.IntValue(1), str(""), null), `{"a.b":1,"":null}`},
		{"MAP<DATE, INT>", pairs(changelog.DateValue(0), changelog.IntValue(1)), `{"1970-01-01":1}`},
		{"MULTISET<STRING>", pairs(str("x"), changelog.IntValue(2)), `{"x":2}`},
		{"INTERVAL DAY TO SECOND(3)", changelog.IntValue(-1500), `-1500`},
	}
	columns := []string{"id BIGINT NOT NULL"}
	row, nulls := []any{1}, []any{2}
	for i, c := range cases {
		columns = append(columns, fmt.Sprintf("c%d %s", i, c.typ))
		row, nulls = append(row, c.v), append(nulls, null)
	}
	onEach(t, func(t *testing.T, s *server) {
		l := s.lane(table(t, "docs", mode(t, "[I,UA,D]"), 1, columns...), tombstones, nil)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, row...), at(1, ins, nulls...)))
		hits, err := s.search(l.index, everything)
		l.must(err)
		for _, h := range hits {
			var doc map[string]json.RawMessage
			l.must(json.Unmarshal(h.Source, &doc))
			for i, c := range cases {
				want := c.want
				if h.ID == "2" {
					want = "null"
				}
				if got := doc[fmt.Sprintf("c%d", i)]; string(got) != want {
					t.Errorf("%s of document %s is %s, expected %s", c.typ, h.ID, got, want)
				}
			}
		}
		if len(hits) != 2 {
			t.Fatalf("%d documents", len(hits))
		}
	})
}

// Values that no document can hold are named, and the sentence holds no value.
func TestDocument_Refused(t *testing.T) {
	s := standIn(t)
	l := s.lane(table(t, "docs", mode(t, "[I,UA,D]"), 1, "id BIGINT NOT NULL", "v STRING", "m MAP<STRING, INT>"), tombstones, nil)
	l.open(1, 0, false)
	err := l.write(at(0, upd, 1, changelog.UnchangedValue(), changelog.Value{}), at(1, ins, 2, "fine", changelog.Value{}),
		at(2, ins, 3, "secret", changelog.MapValue([]changelog.Value{{}, changelog.IntValue(1)})))
	refusedAt(t, err, 0, 2)
	var e *sink.Error
	if !errors.As(err, &e) || e.Rejected[0].Column != "v" || e.Rejected[1].Column != "m" || strings.Contains(err.Error(), "secret") {
		t.Fatal(err)
	}
	if err := l.prepare(); err == nil {
		t.Fatal("a checkpoint with a hole was prepared")
	}
	narrow := at(3, ins, 4)
	l.must(l.c.Discard(t.Context()))
	refusedAt(t, l.write(narrow), 3)
}

// FuzzString: whatever bytes a STRING holds, the document is JSON that stands on one line, and valid text comes back as it was.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "a\"b\\", "\x00\x1f\x7f", "é😀\u2028", "\xed\xa0\x80", "\xff\xc3", "\xed\xbf\xbf\xed"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		out := elastic.AppendString(nil, b)
		var back string
		if err := json.Unmarshal(out, &back); err != nil || bytes.ContainsAny(out, "\n\r") || !utf8.Valid(out) {
			t.Fatalf("%q: %v", out, err)
		}
		if utf8.Valid(b) && back != string(b) {
			t.Fatalf("%q became %q", b, back)
		}
	})
}

func TestNew_Refuses(t *testing.T) {
	_, err := elastic.New(nil, "Upper", &elastic.Options{BulkBytes: -1, IDPrefix: strings.Repeat("x", 65), Meta: "_id", Columns: map[string]string{"a": "_source"}, DataStream: true, Deletes: elastic.Hard})
	for _, text := range []string{"client is nil", `index "Upper" has upper case`, "Options.BulkBytes is -1", "Options.IDPrefix has 65 bytes", `Options.Meta "_id"`, "Options.Columns[a]", "Options.DataStream takes inserts only"} {
		is(t, err, sink.ErrConfig, text)
	}
}

// What is wrong with a table is said by Lane, all of it at once.
func TestLane_Refuses(t *testing.T) {
	upsert := mode(t, "[I,UA,D]")
	for _, c := range []struct {
		table *changelog.Table
		o     elastic.Options
		text  string
	}{
		{orders(t), elastic.Options{}, "choose Options.Deletes. Tombstone keeps a small document in place of a deleted row"},
		{table(t, "t", upsert, 0, "a INT"), tombstones, "has no PRIMARY KEY"},
		{table(t, "t", upsert, 1, "a INT", "flinksink INT"), tombstones, "has the name of Options.Meta"},
		{table(t, "t", upsert, 1, "a INT", "_id INT"), tombstones, "a field of Elasticsearch's own"},
		{table(t, "t", upsert, 1, "a INT", "b INT"), elastic.Options{Deletes: elastic.Tombstone, Columns: map[string]string{"b": "a"}}, `both go to field "a"`},
		{table(t, "t", upsert, 1, "a INT"), elastic.Options{Deletes: elastic.Tombstone, Columns: map[string]string{"z": "a"}}, `Options.Columns names "z"`},
		{table(t, "t", upsert, 1, "a INT", "b INT"), elastic.Options{Deletes: elastic.Tombstone, Routing: "b"}, "no column of the key"},
		{table(t, "t", upsert, 1, "a INT", "b MAP<ROW<x INT>, INT>"), tombstones, "keys that no JSON member can be"},
		{table(t, "t", upsert, 1, "a INT"), elastic.Options{DataStream: true}, "a data stream takes inserts only"},
	} {
		s := standIn(t)
		es, err := elastic.New(s.client(nil), "target", &c.o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = es.Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "es", Tables: []*changelog.Table{c.table}})
		is(t, err, sink.ErrConfig, c.text)
	}
	es := newSink(t, &tombstones)
	if es.Guarantee().Level != sink.Convergent || !strings.Contains(fmt.Sprint(newSink(t, &elastic.Options{Deletes: elastic.Hard}).Guarantee()), "gc_deletes") {
		t.Fatal("guarantee")
	}
}

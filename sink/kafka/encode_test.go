package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/debezium"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

func source(mode changelog.Mode, key bool) *changelog.Table {
	s := &changelog.Schema{Columns: []changelog.Column{{Name: "id", Type: changelog.Type{Root: changelog.RootBigInt, NotNull: key}},
		{Name: "v", Type: changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength}}}}
	if key {
		s.Key = []int{0}
	}
	return &changelog.Table{Name: "source", Schema: s, Mode: mode}
}

func targetEncoder(t *testing.T, columns, with string) (*format.Encoder, bool) {
	t.Helper()
	table, err := ddl.Find("CREATE TABLE target ("+columns+") WITH ('topic' = 't', 'properties.bootstrap.servers' = 'x', "+with+")", "")
	if err != nil {
		t.Fatal(err)
	}
	e, err := format.NewEncoder(table, []changelog.Format{json.Format{}, debezium.Format{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e, table.Options["connector"] == "upsert-kafka"
}

const (
	upsertTarget  = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
	appendTarget  = "'connector' = 'kafka', 'format' = 'json'"
	retractTarget = "'connector' = 'kafka', 'format' = 'debezium-json'"
	keyed         = "id BIGINT, v STRING, PRIMARY KEY (id) NOT ENFORCED"
	unkeyed       = "id BIGINT, v STRING"
)

func change(kind changelog.Kind, id int64, v string) changelog.Change {
	return changelog.Change{Partition: changelog.Partition{Topic: "s"}, Kind: kind, Row: changelog.Row{changelog.IntValue(id), changelog.StringValue(v)}}
}

// run encodes batches and returns the records as texts; the end of the last batch is the end of the checkpoint.
func run(t *testing.T, e *encoder, batches ...[]changelog.Change) (out []string, err error) {
	t.Helper()
	emit := func(r *changelog.Record, _ origin) error {
		value := "null"
		if r.Value != nil {
			value = string(r.Value)
		}
		out = append(out, string(r.Key)+"="+value)
		return nil
	}
	offset := int64(0)
	for _, cs := range batches {
		b := changelog.NewBatch(e.source)
		for _, c := range cs {
			c.Offset = offset
			offset++
			b.Append(c)
		}
		if err := e.encode(b, emit); err != nil {
			return out, err
		}
		b.Reset()
	}
	return out, e.release(nil, emit)
}

func TestEncode_Upsert(t *testing.T) {
	const i, ub, ua, d = changelog.Insert, changelog.UpdateBefore, changelog.UpdateAfter, changelog.Delete
	full := func(id int64, v string) string { return fmt.Sprintf(`{"id":%d}={"id":%d,"v":"%s"}`, id, id, v) }
	gone := func(id int64) string { return fmt.Sprintf(`{"id":%d}=null`, id) }
	for _, c := range []struct {
		name    string
		batches [][]changelog.Change
		want    []string
	}{
		{"inserts, updates and deletes, all of them", [][]changelog.Change{{change(i, 1, "a"), change(ua, 1, "b"), change(ua, 1, "c"), change(d, 1, "c")}},
			[]string{full(1, "a"), full(1, "b"), full(1, "c"), gone(1)}},
		{"a -U before the +U of its key says nothing", [][]changelog.Change{{change(ub, 1, "a"), change(ua, 1, "b")}}, []string{full(1, "b")}},
		{"also over the end of a batch", [][]changelog.Change{{change(i, 2, "x"), change(ub, 1, "a")}, {change(ua, 1, "b")}}, []string{full(2, "x"), full(1, "b")}},
		{"a -U before another key is a delete", [][]changelog.Change{{change(ub, 1, "a"), change(ua, 3, "b")}}, []string{gone(1), full(3, "b")}},
		{"two keys change places", [][]changelog.Change{{change(ub, 1, "a"), change(ub, 2, "b"), change(ua, 2, "a"), change(ua, 1, "b")}},
			[]string{gone(1), full(2, "a"), full(1, "b")}},
		{"a -U with nothing behind it is a delete", [][]changelog.Change{{change(ub, 1, "a")}}, []string{gone(1)}}, // P28: nothing is left in memory
		{"a -U before a delete of its key", [][]changelog.Change{{change(ub, 1, "a"), change(d, 1, "a")}}, []string{gone(1), gone(1)}},
	} {
		enc, upsert := targetEncoder(t, keyed, upsertTarget)
		e, err := newEncoder(enc, source(changelog.Retract, true), upsert, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := run(t, e, c.batches...)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; expected %v", c.name, got, err, c.want)
		}
	}
}

// A debezium target gets what Flink's writer writes: the old row as a delete, the new one as an insert.
func TestEncode_Retract(t *testing.T) {
	enc, upsert := targetEncoder(t, unkeyed, retractTarget)
	e, err := newEncoder(enc, source(changelog.Retract, true), upsert, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	got, err := run(t, e, []changelog.Change{change(changelog.UpdateBefore, 1, "a"), change(changelog.UpdateAfter, 1, "b")})
	want := []string{`={"before":{"id":1,"v":"a"},"after":null,"op":"d"}`, `={"before":null,"after":{"id":1,"v":"b"},"op":"c"}`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; expected %v", got, err, want)
	}
}

// What does not fit is found before the first record, all of it at once, with the cure.
func TestEncode_Refused(t *testing.T) {
	for _, c := range []struct {
		name, columns, with string
		source              *changelog.Table
		says                []string
	}{
		{"deletes into an append topic", unkeyed, appendTarget, source(changelog.Upsert, true), []string{"takes inserts only", "upsert-kafka"}},
		{"old rows that nobody tells", unkeyed, retractTarget, source(changelog.Upsert, true), []string{"the old row", "upsert-kafka"}},
		{"another key", "id BIGINT, v STRING, PRIMARY KEY (v) NOT ENFORCED", upsertTarget, source(changelog.Upsert, true), []string{"PRIMARY KEY (v)", "(id)"}},
		{"no key in the source", keyed, upsertTarget, source(changelog.Append, false), []string{"PRIMARY KEY"}},
		{"another type and a column more", "id INT, v STRING, w STRING", appendTarget, source(changelog.Append, false), []string{`column "id" is BIGINT`, `"w"`}},
	} {
		enc, upsert := targetEncoder(t, c.columns, c.with)
		_, err := newEncoder(enc, c.source, upsert, time.Now)
		if !errors.Is(sink.ClassOf(err), sink.ErrConfig) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", c.name, err, s)
			}
		}
	}
}

func TestEncode_Rejected(t *testing.T) {
	unsent := change(changelog.UpdateAfter, 7, "")
	unsent.Row[1] = changelog.UnchangedValue()
	noKey := change(changelog.Insert, 0, "secret value")
	noKey.Row[0] = changelog.Value{}
	short := change(changelog.Insert, 7, "")
	short.Row = short.Row[:1]
	for _, c := range []struct {
		name, columns, with string
		mode                changelog.Mode
		change              changelog.Change
		says                string
	}{
		{"a column that was not sent", keyed, upsertTarget, changelog.Upsert, unsent, "REPLICA IDENTITY"},
		{"a key that is NULL", keyed, upsertTarget, changelog.Upsert, noKey, "NULL"},
		{"a row without all columns", keyed, upsertTarget, changelog.Upsert, short, "columns"},
		{"a delete in an append stream", unkeyed, appendTarget, changelog.Append, change(changelog.Delete, 7, "secret value"), "inserts only"},
	} {
		enc, upsert := targetEncoder(t, c.columns, c.with)
		e, err := newEncoder(enc, source(c.mode, upsert), upsert, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		_, err = run(t, e, []changelog.Change{change(changelog.Insert, 1, "fine"), c.change})
		var se *sink.Error
		if !errors.As(err, &se) || se.Class != sink.ErrRejected || len(se.Rejected) != 1 || se.Rejected[0].Offset != 1 || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows a value", c.name)
		}
	}
}

// The time of a record is its METADATA column's, else the moment at which it is written; headers are carried.
func TestEncode_Metadata(t *testing.T) {
	columns := unkeyed + ", ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', h MAP<STRING, BYTES> METADATA FROM 'headers', o BIGINT METADATA FROM 'offset' VIRTUAL"
	enc, upsert := targetEncoder(t, columns, appendTarget)
	from := source(changelog.Append, false)
	for _, c := range enc.Table().Schema.Columns[2:4] {
		from.Schema.Columns = append(from.Schema.Columns, changelog.Column{Name: c.Name, Type: c.Type})
	}
	e, err := newEncoder(enc, from, upsert, func() time.Time { return time.UnixMilli(99) })
	if err != nil {
		t.Fatal(err)
	}
	b := changelog.NewBatch(from)
	b.Append(changelog.Change{Kind: changelog.Insert, Row: changelog.Row{changelog.IntValue(1), changelog.StringValue("a"), changelog.TimestampLTZValue(12, 5e6),
		changelog.MapValue([]changelog.Value{changelog.StringValue("k"), changelog.BytesValue([]byte("v"))})}})
	b.Append(changelog.Change{Kind: changelog.Insert, Row: changelog.Row{changelog.IntValue(1), changelog.StringValue("a"), {}, {}}})
	var got []string
	err = e.encode(b, func(r *changelog.Record, _ origin) error {
		got = append(got, fmt.Sprintf("%d %v %s", r.Timestamp, r.Headers, r.Value))
		return nil
	})
	want := []string{`12005 [{k [118]}] {"id":1,"v":"a"}`, `99 [] {"id":1,"v":"a"}`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; expected %q", got, err, want)
	}
}

// A dead letter is never refused because of its size: what does not fit is left out, and said.
func TestLetterRecord_Cut(t *testing.T) {
	l := sink.DeadLetter{Partition: changelog.Partition{Topic: "t", Partition: 3}, Offset: 7, Index: -1, Class: "data", Error: "e", Changes: 1,
		Key: []byte(strings.Repeat("k", 2000)), Value: []byte(strings.Repeat("v", 5000)), Headers: []changelog.Header{{Key: "h", Value: []byte(strings.Repeat("h", 3000))}}}
	for _, c := range []struct{ most, value, key, headers, cut int }{{20_000, 5000, 2000, 2, 0}, {8_000, 0, 2000, 2, 5000}, {4_000, 0, 2000, 1, 5000}, {1_000, 0, 0, 1, 5000}, {10, 0, 0, 1, 5000}} {
		r, err := letterRecord(&l, c.most)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Value) != c.value || len(r.Key) != c.key || len(r.Headers) != c.headers {
			t.Errorf("of %d bytes: value %d, key %d, %d headers", c.most, len(r.Value), len(r.Key), len(r.Headers))
		}
		kr := &kgo.Record{Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			kr.Headers = append(kr.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		got, cut, err := ParseDeadLetter(kr)
		if err != nil || cut != c.cut || got.Offset != 7 || got.Partition != l.Partition || got.Index != -1 || !got.Timestamp.IsZero() {
			t.Errorf("of %d bytes: %+v, cut %d, %v", c.most, got, cut, err)
		}
	}
	if _, _, err := ParseDeadLetter(&kgo.Record{}); err == nil {
		t.Error("a record that is no letter was read")
	}
}

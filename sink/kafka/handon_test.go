package kafka

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/internal/rowtext"
	"pgregory.net/rapid"
)

func tableOf(t testing.TB, columns, with string) *ddl.Table {
	t.Helper()
	table, err := ddl.Find("CREATE TABLE t ("+columns+") WITH ('topic' = 't', 'properties.bootstrap.servers' = 'x', "+with+")", "")
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func decoderOf(t testing.TB, table *ddl.Table, o *format.Options) *format.Decoder {
	t.Helper()
	d, err := format.New(table, all.Formats(), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func sinkOf(t testing.TB, table *ddl.Table, anew bool) *Sink {
	t.Helper()
	e, err := format.NewEncoder(table, all.Formats(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Sink{encoder: e, upsert: table.Options["connector"] == "upsert-kafka", o: Options{EncodeAnew: anew}}
}

func (s *Sink) encoderOf(t testing.TB, source *changelog.Table) *encoder {
	t.Helper()
	e, err := newEncoder(s.encoder, source, s.upsert, func() time.Time { return time.UnixMilli(99) })
	if err != nil {
		t.Fatal(err)
	}
	e.handsOn, _ = s.HandsOn(source)
	return e
}

// failing is a *testing.T or a *rapid.T.
type failing interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// written is what becomes of records that are decoded in batches of so many and written by e.
func written(t failing, d *format.Decoder, e *encoder, records []changelog.Record, size int) (out []changelog.Record, from []origin) {
	t.Helper()
	emit := func(r *changelog.Record, o origin) error {
		c := changelog.Record{Offset: int64(len(out)), Timestamp: r.Timestamp, Key: slices.Clone(r.Key), Value: slices.Clone(r.Value)}
		if r.Key != nil && c.Key == nil {
			c.Key = []byte{}
		}
		for _, h := range r.Headers {
			c.Headers = append(c.Headers, changelog.Header{Key: strings.Clone(h.Key), Value: slices.Clone(h.Value)})
		}
		out, from = append(out, c), append(from, o)
		return nil
	}
	for len(records) > 0 {
		n := min(size, len(records))
		b := changelog.NewBatch(d.Table())
		b.KeepOriginals = e.handsOn
		for i := range records[:n] {
			if err := d.Decode(b, &records[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.encode(b, emit); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		records = records[n:]
	}
	if err := e.release(nil, emit); err != nil {
		t.Fatal(err)
	}
	return out, from
}

// changelogOf is what a reader of records has: which rows come and go, in which order. Flink's writers of kinds make an update two messages, and so does an encoder;
// a message that is handed on may hold both halves.
func changelogOf(t failing, d *format.Decoder, records []changelog.Record) (out []string) {
	t.Helper()
	b := changelog.NewBatch(d.Table())
	for i := range records {
		if err := d.Decode(b, &records[i]); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	}
	for _, c := range b.Changes {
		sign := "-"
		if c.Kind.Adds() {
			sign = "+"
		}
		out = append(out, fmt.Sprintf("%s %t %s", sign, c.KeyOnly, rowtext.AppendRow(nil, d.Table().Schema, c.Row)))
	}
	return out
}

const wide = "id BIGINT, s STRING, d DECIMAL(10, 2), ts TIMESTAMP(3), b BOOLEAN, f DOUBLE, a ARRAY<INT>, r ROW<x INT, y STRING>, m MAP<STRING, INT>"

// anyRow is a row of wide as JSON members, in the order of the columns. Of member "extra" no table knows.
func anyRow(t *rapid.T, id int64) [][2]string {
	text := func() string { return quoted(rapid.StringN(0, 10, -1).Draw(t, "text")) }
	int := func() string { return fmt.Sprint(rapid.Int32().Draw(t, "int")) }
	values := []string{fmt.Sprint(id), text(), fmt.Sprintf("%d.%02d", rapid.IntRange(-9999, 9999).Draw(t, "whole"), rapid.IntRange(0, 99).Draw(t, "cents")),
		fmt.Sprintf(`"2024-%02d-%02d 10:20:30.%03d"`, rapid.IntRange(1, 12).Draw(t, "month"), rapid.IntRange(1, 28).Draw(t, "day"), rapid.IntRange(0, 999).Draw(t, "ms")),
		fmt.Sprint(rapid.Bool().Draw(t, "bool")), fmt.Sprint(rapid.Float64Range(-1e6, 1e6).Draw(t, "double")), "[" + int() + ", null,\t" + int() + "]",
		`{"x": ` + int() + `, "y":` + text() + `}`, `{ "k" :` + int() + "}"}
	var members [][2]string
	for i, name := range []string{"id", "s", "d", "ts", "b", "f", "a", "r", "m"} {
		v := values[i]
		if i > 0 && rapid.IntRange(0, 5).Draw(t, "null") == 0 {
			v = "null"
		}
		members = append(members, [2]string{name, v})
	}
	return members
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// object spells members in one of the ways that JSON has: in any order, with any blanks, members that are null left out or not, others that nobody knows.
func object(t *rapid.T, members [][2]string, leaveOut bool) string {
	rng := rand.New(rand.NewSource(rapid.Int64().Draw(t, "spelling")))
	blank := func() string { return []string{"", "", " ", "\n\t"}[rng.Intn(4)] }
	members = slices.Clone(members)
	if leaveOut && rng.Intn(2) == 0 {
		members = slices.DeleteFunc(members, func(m [2]string) bool { return m[1] == "null" })
	}
	if rng.Intn(4) == 0 {
		members = append(members, [2]string{"extra", `{"of": ["nobody's", 1]}`})
	}
	if rng.Intn(2) == 0 {
		rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	}
	var out []string
	for _, m := range members {
		out = append(out, blank()+quoted(m[0])+blank()+":"+blank()+m[1]+blank())
	}
	return "{" + strings.Join(out, ",") + "}"
}

// The same records, read by the target's declaration, whether their values are handed on or encoded anew, wherever batches end; keys, timestamps, headers and
// places alike, and no member that is no column in either.
func TestHandOn_SameChangelog(t *testing.T) {
	const metadata = ", t TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', h MAP<STRING, BYTES> METADATA FROM 'headers', o BIGINT METADATA FROM 'offset' VIRTUAL"
	for _, c := range []struct{ name, columns, with string }{
		{"upsert", wide + ", PRIMARY KEY (id) NOT ENFORCED", "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"},
		{"upsert, metadata", wide + metadata + ", PRIMARY KEY (id) NOT ENFORCED", "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"},
		{"append", wide, "'connector' = 'kafka', 'format' = 'json'"},
		{"append, keyed", wide + metadata, "'connector' = 'kafka', 'format' = 'json', 'key.format' = 'json', 'key.fields' = 'id;s'"},
		{"debezium", wide, "'connector' = 'kafka', 'format' = 'debezium-json'"},
		{"debezium, keyed", wide + metadata + ", PRIMARY KEY (id) NOT ENFORCED", "'connector' = 'kafka', 'format' = 'debezium-json', 'key.format' = 'json', 'key.fields' = 'id'"},
		{"ogg", wide, "'connector' = 'kafka', 'format' = 'ogg-json'"},
		{"canal", wide, "'connector' = 'kafka', 'format' = 'canal-json'"},
		{"maxwell", wide, "'connector' = 'kafka', 'format' = 'maxwell-json'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := tableOf(t, c.columns, c.with)
			d := decoderOf(t, table, nil)
			on, anew := sinkOf(t, table, false).encoderOf(t, d.Table()), sinkOf(t, table, true).encoderOf(t, d.Table())
			if !on.handsOn || anew.handsOn {
				t.Fatal("the values are not handed on, or although they are to be encoded anew")
			}
			same := 0
			rapid.Check(t, func(rt *rapid.T) {
				records := anyRecords(rt, c.name)
				size := rapid.IntRange(1, len(records)).Draw(rt, "batch")
				got, _ := written(rt, d, on, records, size)
				want, _ := written(rt, d, anew, records, len(records))
				if a, b := changelogOf(rt, d, withoutTime(got)), changelogOf(rt, d, withoutTime(want)); !slices.Equal(a, b) {
					rt.Fatalf("handed on:\n%s\nencoded anew:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
				}
				for _, r := range got {
					if strings.Contains(string(r.Value), "extra") {
						rt.Fatalf("a member that is no column was handed on: %s", r.Value)
					}
					for i := range records {
						if r.Value != nil && string(r.Value) == string(records[i].Value) {
							same++
							break
						}
					}
				}
				if len(got) == len(want) {
					for i := range got {
						if string(got[i].Key) != string(want[i].Key) || got[i].Timestamp != want[i].Timestamp || fmt.Sprint(got[i].Headers) != fmt.Sprint(want[i].Headers) {
							rt.Fatalf("record %d: %s at %d with %v, encoded anew %s at %d with %v", i, got[i].Key, got[i].Timestamp, got[i].Headers, want[i].Key, want[i].Timestamp, want[i].Headers)
						}
					}
				}
			})
			if same == 0 {
				t.Error("no value was handed on as it came")
			}
		})
	}
}

// withoutTime leaves out what differs between two writings of one change because of when or as which record it was written.
func withoutTime(rs []changelog.Record) []changelog.Record {
	out := slices.Clone(rs)
	for i := range out {
		out[i].Offset = 0
	}
	return out
}

// anyRecords are messages of one of the encodings, as different writers spell them.
func anyRecords(t *rapid.T, encoding string) (out []changelog.Record) {
	n := rapid.IntRange(1, 5).Draw(t, "records")
	for i := range n {
		id := int64(rapid.IntRange(1, 3).Draw(t, "id"))
		row, old := anyRow(t, id), anyRow(t, id)
		r := changelog.Record{Partition: changelog.Partition{Topic: "t"}, Offset: int64(10 * i), Timestamp: 1000 + int64(i), TimestampType: changelog.CreateTime}
		r.Headers = []changelog.Header{{Key: "a", Value: []byte{byte(i)}}, {Key: "b"}}
		first, _, _ := strings.Cut(encoding, ",")
		whole, before := object(t, row, first == "upsert" || first == "append"), object(t, old, false) // rows of the others have to be whole
		op := rapid.IntRange(0, 2).Draw(t, "op")
		switch first {
		case "upsert":
			if r.Value = []byte(whole); op == 2 {
				r.Value = nil
			}
		case "append":
			r.Value = []byte(whole)
		case "debezium":
			r.Value = []byte([]string{`{"before": null, "after": ` + whole + `, "op": "c"}`, `{"op":"u","before":` + before + `,"after":` + whole + `}`, `{"before":` + before + `,"op":"d"}`}[op])
		case "ogg":
			r.Value = []byte([]string{`{"after": ` + whole + `, "op_type": "I"}`, `{"op_type":"U","before":` + before + `,"after":` + whole + `}`, `{"before":` + before + `,"op_type":"D"}`}[op])
		case "canal":
			r.Value = []byte([]string{`{"data": [` + whole + `], "type": "INSERT"}`, `{"type":"UPDATE","old":[` + before + `],"data":[` + whole + `]}`, `{"data":[` + before + `,` + before + `],"type":"DELETE"}`}[op])
		case "maxwell":
			r.Value = []byte([]string{`{"data": ` + whole + `, "type": "insert"}`, `{"type":"update","old":` + before + `,"data":` + whole + `}`, `{"data":` + before + `,"type":"delete"}`}[op])
		}
		switch {
		case encoding == "append, keyed":
			r.Key = []byte(object(t, row[:2], false))
		case first == "upsert", encoding == "debezium, keyed":
			r.Key = []byte([]string{`{"id":%d}`, `{ "id" : %d }`}[rapid.IntRange(0, 1).Draw(t, "key")])
			r.Key = fmt.Appendf(nil, string(r.Key), id)
		}
		out = append(out, r)
	}
	return out
}

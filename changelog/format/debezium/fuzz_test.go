package debezium

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	jsonformat "github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/internal/rowtext"
)

var fuzzColumns = []string{
	"id INT", "name STRING", "dt DATE", "ts TIMESTAMP(3)", "de DECIMAL(6, 2)", "b BYTES", "bo BOOLEAN", "a ARRAY<BIGINT>", "m MAP<STRING, DOUBLE>",
	"r ROW<x INT, y STRING>", "its TIMESTAMP_LTZ(3) FROM value.ingestion-timestamp", "sts TIMESTAMP_LTZ(3) FROM value.source.timestamp",
	"p MAP<STRING, STRING> FROM value.source.properties", "s STRING FROM value.schema",
}

// seeds adds the made-up messages that Flink was asked about.
func seeds(f *testing.F) {
	file, err := os.Open(filepath.Join("..", "..", "..", "testdata", "flink", "odd", "debezium-json.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	met := map[string]bool{}
	for dec := json.NewDecoder(file); ; {
		var o struct{ Value []byte }
		if err := dec.Decode(&o); err == io.EOF {
			break
		} else if err != nil {
			f.Fatal(err)
		}
		if !met[string(o.Value)] {
			met[string(o.Value)] = true
			f.Add(o.Value)
		}
	}
	if len(met) < 40 {
		f.Fatalf("%d messages", len(met))
	}
}

// FuzzDecode holds what a decoder promises whatever comes: the changes of a message are one +I, one -D, or a -U and its +U; an error leaves
// nothing behind; the pass over plain JSON takes nothing that the reader of trees reads otherwise; what is no guess is the same with leniency;
// and a row is what the format json reads from it.
func FuzzDecode(f *testing.F) {
	seeds(f)
	for _, s := range []string{
		`{"before":{"id":1,"name":"x"},"after":{"id":1,"name":"__debezium_unavailable_value","a":[95]},"op":"u"}`,
		`{"payload":{"before":{"id":1,"m":{"a":1e400,"a":2},"r":{"x":1}},"op":"d"},"schema":{"x":[1.50]}}`,
		`{"before":{"id":1,"name":"__debezium_unavailable_value"},"after":{"id":1,"name":"\u005f_debezium_unavailable_value","b":"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="},"op":"u"}`,
		`{"before":{"id":1,"name":"","de":1.50},"after":{"id":1,"name":"__debezium","a":[1,2],"m":{"x":1.5}},"source":{"ts_ms":17,"db":"d"},"op":"u","ts_ms":18}`,
		`{"schema":{"a":["b\"c",{"d":-1.5e3}]},"payload":{"before":null,"after":{"id":1,"name":"x","r":{"x":1,"y":"z"}},"source":{"db":"d","sequence":"[\"1\"]"},"op":"c","ts_ms":18}}`,
		`{"payload":{"after":{"id":1},"op":"c"},"payload":{"op":"d"}}`, `{"payload":null,"x":1,"x":2}`, `{"after":{"id":1,"a":["__debezium_unavailable_value"],"m":{"__debezium_unavailable_value":"__debezium_unavailable_value"}},"op":"c"}`,
		`{"after":{"id":1,"de":1e5,"r":{"y":[1]},"b":7},"op":"c","source":{"ts_ms":"17"},"ts_ms":1.5}`,
	} {
		f.Add([]byte(s))
	}
	type mode struct {
		p               changelog.Payload
		strict, lenient changelog.PayloadDecoder
		rows            changelog.PayloadDecoder // of the format json
		schemaInclude   bool
	}
	var modes []mode
	for _, o := range []map[string]string{
		{}, {"ignore-parse-errors": "true"}, {"schema-include": "true"}, {"timestamp-format.standard": "ISO-8601", "encode.ignore-null-fields": "true"},
	} {
		for _, key := range [][]int{nil, {0}} {
			m := mode{p: payloadOf(f, o, key, fuzzColumns...), schemaInclude: o["schema-include"] != ""}
			m.strict = decoderOf(f, Format{}, m.p)
			m.p.Lenient = true
			m.lenient = decoderOf(f, Format{UnavailableValue: DefaultUnavailableValue}, m.p)
			rows := m.p
			rows.Options = map[string]string{"decode.json-parser.enabled": "false"}
			for _, name := range []string{"ignore-parse-errors", "timestamp-format.standard"} {
				if v, ok := o[name]; ok {
					rows.Options[name] = v
				}
			}
			var err error
			if m.rows, err = (jsonformat.Format{}).NewDecoder(rows); err != nil {
				f.Fatal(err)
			}
			modes = append(modes, m)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for i, m := range modes {
			strict, lenient := changelog.NewBatch(m.p.Table), changelog.NewBatch(m.p.Table)
			serr, lerr := m.strict.DecodePayload(strict, in, nil), m.lenient.DecodePayload(lenient, in, nil)
			for b, err := range map[*changelog.Batch]error{strict: serr, lenient: lerr} {
				var de *changelog.DataError
				if err != nil && (!errors.As(err, &de) || b.Len() > 0) {
					t.Fatalf("mode %d: %#v, %d changes", i, err, b.Len())
				}
				kinds := ""
				for _, c := range b.Changes {
					kinds += c.Kind.String()
				}
				if !strings.Contains(" +I -D -U+U ", " "+kinds+" ") && kinds != "" {
					t.Fatalf("mode %d: %s", i, kinds)
				}
			}
			sameAsTree(t, m.strict.(*decoder), strict, serr, in)
			sameAsTree(t, m.lenient.(*decoder), lenient, lerr, in)
			if serr == nil {
				if lerr != nil || strict.Len() != lenient.Len() {
					t.Fatalf("mode %d: default %s, lenient %s, %v", i, text(strict), text(lenient), lerr)
				}
				for k := range strict.Changes {
					s, l := &strict.Changes[k], &lenient.Changes[k]
					if unsent(s) {
						continue // which only the default tells apart
					}
					if got, want := row(m.p.Table, s), row(m.p.Table, l); got != want || s.Kind != l.Kind {
						t.Fatalf("mode %d: default %s, lenient %s", i, got, want)
					}
				}
			}
			if lerr == nil && lenient.Len() == 1 && !unsent(&lenient.Changes[0]) {
				sameAsRow(t, in, m.p, m.schemaInclude, &lenient.Changes[0], m.rows)
			}
		}
	})
}

// sameAsTree compares what was read with what the reader of trees reads.
func sameAsTree(t *testing.T, d *decoder, b *changelog.Batch, err error, in []byte) {
	trees := *d // of which the envelope is shared
	trees.outline = nil
	tree := changelog.NewBatch(b.Table)
	treeErr := trees.DecodePayload(tree, in, nil)
	if fmt.Sprint(treeErr) != fmt.Sprint(err) || text(tree) != text(b) {
		t.Fatalf("%s, %v; as a tree %s, %v", text(b), err, text(tree), treeErr)
	}
}

func unsent(c *changelog.Change) bool {
	for _, v := range c.Row {
		if v.IsUnchanged() {
			return true
		}
	}
	return c.KeyOnly
}

func row(t *changelog.Table, c *changelog.Change) string {
	return string(rowtext.AppendRow(nil, t.Schema, c.Row))
}

// sameAsRow compares a change with what the format json reads from the part of the message that encoding/json says is its row.
func sameAsRow(t *testing.T, in []byte, p changelog.Payload, schemaInclude bool, c *changelog.Change, rows changelog.PayloadDecoder) {
	var body map[string]json.RawMessage
	if json.Unmarshal(in, &body) != nil {
		return // an array, or what Flink takes and encoding/json does not
	}
	if schemaInclude {
		payload := body["payload"]
		body = nil
		if json.Unmarshal(payload, &body) != nil {
			return
		}
	}
	image := body["after"]
	if c.Kind == changelog.Delete {
		image = body["before"]
	}
	b := changelog.NewBatch(p.Table)
	if err := rows.DecodePayload(b, bytes.TrimSpace(image), nil); err != nil {
		t.Fatalf("the row by itself: %v", err)
	}
	if b.Len() != 1 {
		return // encoding/json makes another row of it, e.g. of text that is not UTF-8
	}
	for _, col := range p.Columns {
		typ := &p.Table.Schema.Columns[col].Type
		got, want := rowtext.AppendValue(nil, typ, c.Row[col]), rowtext.AppendValue(nil, typ, b.Changes[0].Row[col])
		if !bytes.Equal(got, want) {
			t.Fatalf("column %d: %s, by itself %s", col, got, want)
		}
	}
}

const record = `{"before":null,"after":{"id":918273645,"customer":"c-00918273","item":"standard widget, blue","quantity":12,"price":1499.95,` +
	`"weight":0.375,"ordered":"2024-05-17 08:09:10.123","shipped":false,"note":"leave at door"},"op":"c"}`

func BenchmarkDecode(b *testing.B) {
	p := payloadOf(b, nil, nil, "id BIGINT", "customer STRING", "item STRING", "quantity INT", "price DECIMAL(10, 2)", "weight DOUBLE",
		"ordered TIMESTAMP(3)", "shipped BOOLEAN", "note STRING")
	d := decoderOf(b, Format{}, p)
	in := []byte(record)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	batch := changelog.NewBatch(p.Table)
	for i := 0; b.Loop(); i++ {
		if i%4096 == 0 {
			batch.Reset()
		}
		if err := d.DecodePayload(batch, in, nil); err != nil {
			b.Fatal(err)
		}
	}
}

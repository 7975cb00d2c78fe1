package maxwell

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
	"github.com/flinksink/flinksink/internal/rowtext"
)

var fuzzColumns = []string{
	"id INT", "name STRING", "dt DATE", "ts TIMESTAMP(3)", "f FLOAT", "d DOUBLE", "b BYTES", "bo BOOLEAN", "a ARRAY<BIGINT>", "m MAP<STRING, DOUBLE>",
	"r ROW<x INT, y STRING>", "db STRING FROM value.database", "pk ARRAY<STRING> FROM value.primary-key-columns", "its TIMESTAMP_LTZ(3) FROM value.ingestion-timestamp",
}

// seeds adds the made-up messages that Flink was asked about.
func seeds(f *testing.F) {
	met := map[string]bool{}
	for _, name := range []string{"maxwell-json.jsonl", "maxwell-json-more.jsonl"} {
		file, err := os.Open(filepath.Join("..", "..", "..", "testdata", "flink", "odd", name))
		if err != nil {
			f.Fatal(err)
		}
		defer file.Close()
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
	}
	if len(met) < 40 {
		f.Fatalf("%d messages", len(met))
	}
}

// FuzzDecode holds what a decoder promises whatever comes: an error leaves nothing behind; every -U has its +U behind it; the pass over plain
// JSON takes nothing that the reader of trees reads otherwise; what is no guess is the same with leniency; and a row that was read is read again
// from what an encoder makes of it.
func FuzzDecode(f *testing.F) {
	seeds(f)
	for _, s := range []string{
		`{"data":{"id":1,"name":"x","de":1.50,"f":0.1,"d":-0.0,"b":"AQ==","bo":"true","a":[1],"m":{"a":1},"r":{"x":1,"y":"\u0041"}},"old":{"r":{"name":1}},"type":"update","ts":17,"primary_key_columns":["id"]}`,
		`{"data":{"id":2,"z":[1e400,1.10],"name":-0},"old":{"name":null},"type":"update","database":"d","x":{"y":1}}`,
		`{"data":{"id":1,"name":5,"d":5,"f":16777217,"dt":"2024-01-02","ts":"2024-01-02T03:04:05"},"type":"bootstrap-insert","database":7}`,
	} {
		f.Add([]byte(s))
	}
	type mode struct {
		p       changelog.Payload
		decoder [2]*decoder // strict, lenient
		encoder changelog.PayloadEncoder
		keyed   bool
	}
	var modes []mode
	for _, columns := range [][]string{fuzzColumns, append([]string{"de DECIMAL(6, 2)"}, fuzzColumns...)} {
		for _, o := range []map[string]string{
			{}, {"ignore-parse-errors": "true"}, {"timestamp-format.standard": "ISO-8601", "encode.ignore-null-fields": "true"},
		} {
			for _, key := range [][]int{nil, {0}} {
				m := mode{p: payloadOf(f, o, key, columns...), keyed: key != nil}
				for i := range m.decoder {
					m.p.Lenient = i == 1
					m.decoder[i] = decoderOf(f, Format{Bootstrap: true}, m.p).(*decoder)
				}
				var err error
				if m.encoder, err = (Format{}).NewEncoder(m.p); err != nil {
					f.Fatal(err)
				}
				modes = append(modes, m)
			}
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for i, m := range modes {
			var results [2]string
			for k, d := range m.decoder {
				b := changelog.NewBatch(m.p.Table)
				err := d.DecodePayload(b, in, nil)
				var de *changelog.DataError
				if err != nil && (!errors.As(err, &de) || b.Len() > 0) {
					t.Fatalf("mode %d: %#v, %d changes", i, err, b.Len())
				}
				kinds := ""
				for _, c := range b.Changes {
					kinds += c.Kind.String()
				}
				if rest := strings.ReplaceAll(kinds, "-U+U", ""); strings.Contains(rest, "U") {
					t.Fatalf("mode %d: %s", i, kinds)
				}
				results[k] = outcome(b, err)
				tree := changelog.NewBatch(m.p.Table)
				treeErr := d.envelope.Read(tree, in, func(t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure { return d.tree(tree, t, root) })
				if got := outcome(tree, treeErr); got != results[k] {
					t.Fatalf("mode %d: %s, as a tree %s", i, results[k], got)
				}
				if k == 0 && err == nil {
					for c := range b.Changes {
						again(t, &m.p, d, m.encoder, &b.Changes[c])
					}
				}
			}
			if !m.keyed && !strings.HasPrefix(results[0], "error") && results[0] != results[1] {
				t.Fatalf("mode %d: default %s, lenient %s", i, results[0], results[1])
			}
		}
	})
}

func outcome(b *changelog.Batch, err error) string {
	if err != nil {
		return "error " + err.Error()
	}
	return text(b)
}

// again reads a row from what an encoder makes of it.
func again(t *testing.T, p *changelog.Payload, d *decoder, e changelog.PayloadEncoder, c *changelog.Change) {
	row := make(changelog.Row, len(c.Row)) // without METADATA, which is not written
	for _, col := range p.Columns {
		if row[col] = c.Row[col]; row[col].IsUnchanged() {
			return
		}
	}
	want := string(rowtext.AppendRow(nil, p.Table.Schema, row))
	if c.KeyOnly || strings.Contains(want, "-0.0") { // which Flink's trees do not keep
		return
	}
	message, _, err := e.AppendPayload(nil, &changelog.Change{Kind: c.Kind, Row: row})
	if err != nil {
		return // a map with a key twice, which Flink would mix
	}
	b := changelog.NewBatch(p.Table)
	if err := d.DecodePayload(b, message, nil); err != nil || b.Len() != 1 || b.Changes[0].Kind.Adds() != c.Kind.Adds() {
		t.Fatalf("%s: %v, %d changes", message, err, b.Len())
	}
	if got := string(rowtext.AppendRow(nil, p.Table.Schema, b.Changes[0].Row)); got != want && !b.Changes[0].KeyOnly {
		t.Fatalf("%s\n%s\n%s", message, got, want)
	}
}

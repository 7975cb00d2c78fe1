package maxwell

import (
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
	"github.com/flinksink/flinksink/changelog/format/internal/formattest"
)

// FuzzDecode holds what [formattest.Fuzz] says.
func FuzzDecode(f *testing.F) {
	formattest.Seeds(f, "maxwell-json.jsonl", "maxwell-json-more.jsonl")
	for _, s := range []string{
		`{"data":{"id":1,"name":"x","de":1.50,"f":0.1,"d":-0.0,"b":"AQ==","bo":"true","a":[1],"m":{"a":1},"r":{"x":1,"y":"\u0041"}},"old":{"r":{"name":1}},"type":"update","ts":17,"primary_key_columns":["id"]}`,
		`{"data":{"id":2,"z":[1e400,1.10],"name":-0},"old":{"name":null},"type":"update","database":"d","x":{"y":1}}`,
		`{"data":{"id":1,"name":5,"d":5,"f":16777217,"dt":"2024-01-02","ts":"2024-01-02T03:04:05"},"type":"bootstrap-insert","database":7}`,
	} {
		f.Add([]byte(s))
	}
	formattest.Fuzz{
		Decoder: Format{Bootstrap: true},
		Columns: []string{
			"id INT", "name STRING", "dt DATE", "ts TIMESTAMP(3)", "f FLOAT", "d DOUBLE", "b BYTES", "bo BOOLEAN", "a ARRAY<BIGINT>", "m MAP<STRING, DOUBLE>",
			"r ROW<x INT, y STRING>", "db STRING FROM value.database", "pk ARRAY<STRING> FROM value.primary-key-columns", "its TIMESTAMP_LTZ(3) FROM value.ingestion-timestamp",
		},
		Options: []map[string]string{
			{}, {"ignore-parse-errors": "true"}, {"timestamp-format.standard": "ISO-8601", "encode.ignore-null-fields": "true"},
		},
		Tree: func(d changelog.PayloadDecoder, b *changelog.Batch, in []byte) error {
			c := d.(*decoder)
			return c.envelope.Read(b, in, func(t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure { return c.tree(b, t, root) })
		},
	}.Run(f)
}

package canal

import (
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
	"github.com/flinksink/flinksink/changelog/format/internal/formattest"
)

// FuzzDecode holds what [formattest.Fuzz] says.
func FuzzDecode(f *testing.F) {
	formattest.Seeds(f, "canal-json.jsonl", "canal-json-more.jsonl")
	for _, s := range []string{
		`{"data":[{"id":1,"name":"x","de":1.50,"f":0.1,"d":-0.0,"b":"AQ==","bo":"true","a":[1],"m":{"a":1},"r":{"x":1,"y":"\u0041"}}],"old":[{"r":{"name":1}}],"type":"UPDATE","es":17,"sqlType":{"id":4}}`,
		`{"data":[{"id":"1","ts":"2024-02-30 00:00:00"},{"id":2,"z":[1e400,1.10]}],"old":[{"id":0},{"name":null}],"type":"UPDATE","database":"d","x":{"y":1}}`,
		`{"data":[{"id":1,"name":5,"d":5,"f":16777217,"dt":"2024-01-02","ts":"2024-01-02T03:04:05"}],"type":"DELETE","database":7}`,
	} {
		f.Add([]byte(s))
	}
	formattest.Fuzz{
		Decoder: Format{SkipDDL: true},
		Columns: []string{
			"id INT", "name STRING", "dt DATE", "ts TIMESTAMP(3)", "f FLOAT", "d DOUBLE", "b BYTES", "bo BOOLEAN", "a ARRAY<BIGINT>", "m MAP<STRING, DOUBLE>",
			"r ROW<x INT, y STRING>", "db STRING FROM value.database", "st MAP<STRING, INT> FROM value.sql-type", "es TIMESTAMP_LTZ(3) FROM value.event-timestamp",
		},
		Options: []map[string]string{
			{}, {"ignore-parse-errors": "true"}, {"timestamp-format.standard": "ISO-8601", "encode.ignore-null-fields": "true"}, {"database.include": "d.*"},
		},
		Tree: func(d changelog.PayloadDecoder, b *changelog.Batch, in []byte) error {
			c := d.(*decoder)
			return c.envelope.Read(b, in, func(t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure { return c.tree(b, t, root) })
		},
	}.Run(f)
}

package ogg

import (
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
	"github.com/flinksink/flinksink/changelog/format/internal/formattest"
)

// FuzzDecode holds what [formattest.Fuzz] says.
func FuzzDecode(f *testing.F) {
	formattest.Seeds(f, "ogg-json.jsonl", "ogg-json-more.jsonl")
	for _, s := range []string{
		`{"before":{"id":1,"name":"x","de":1.50,"f":0.1,"d":-0.0,"b":"AQ==","bo":"true","a":[1],"m":{"a":1},"r":{"x":1,"y":"\u0041"}},"after":{"id":1,"r":{"name":1}},"op_type":"U","op_ts":"2024-01-02 03:04:05.123456","primary_keys":["id"]}`,
		`{"after":{"id":2,"z":[1e400,1.10],"name":-0},"op_type":"I","current_ts":"2024-01-02T03:04:05.123456","x":{"y":1}}`,
		`{"before":{"id":1,"name":5,"d":5,"f":16777217,"dt":"2024-01-02","ts":"2024-01-02T03:04:05"},"op_type":"D","table":7,"current_ts":"2024-1-2 25:00:00"}`,
	} {
		f.Add([]byte(s))
	}
	formattest.Fuzz{
		Decoder: Format{},
		Columns: []string{
			"id INT", "name STRING", "dt DATE", "ts TIMESTAMP(3)", "f FLOAT", "d DOUBLE", "b BYTES", "bo BOOLEAN", "a ARRAY<BIGINT>", "m MAP<STRING, DOUBLE>",
			"r ROW<x INT, y STRING>", "tb STRING FROM value.table", "pk ARRAY<STRING> FROM value.primary-keys", "its TIMESTAMP_LTZ(6) FROM value.ingestion-timestamp", "ets TIMESTAMP_LTZ(3) FROM value.event-timestamp",
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

package format_test

import (
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

func BenchmarkDecode_Upsert(b *testing.B) {
	d := mustDecoder(b, "id BIGINT, customer STRING, total DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED",
		"'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'", false)
	r := &changelog.Record{Key: []byte(`{"id":918273}`), Value: []byte(`{"id":918273,"customer":"c-00918273","total":1499.95}`)}
	batch := changelog.NewBatch(d.Table())
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%4096 == 0 {
			batch.Reset()
		}
		if err := d.Decode(batch, r); err != nil {
			b.Fatal(err)
		}
	}
}

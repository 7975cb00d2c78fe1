package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
)

const narrow = `CREATE TABLE t (id BIGINT, customer STRING, total DECIMAL(20, 2), ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED) WITH (
	'connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'x', 'key.format' = 'json', 'value.format' = 'json')`

// BenchmarkRecords is what a message costs between the fetch and the batch that is sent, without either.
func BenchmarkRecords(b *testing.B) {
	table, err := ddl.Find(narrow, "")
	if err != nil {
		b.Fatal(err)
	}
	d, err := format.New(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	enc, err := format.NewEncoder(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	const n = 2000
	records := make([]changelog.Record, n)
	for i := range records {
		records[i] = changelog.Record{Partition: changelog.Partition{Topic: "t"}, Offset: int64(i), Key: fmt.Appendf(nil, `{"id":%d}`, i),
			Value: fmt.Appendf(nil, `{"id":%d,"customer":"customer number %d","total":%d.%02d,"ts":"2024-01-01 00:00:%02d.%03d"}`, i, i, i*7, i%100, i%60, i%1000)}
	}
	for _, c := range []struct {
		name           string
		decode, encode bool
		handOn         bool
	}{{"decoded", true, false, false}, {"decoded, kept", true, false, true}, {"encoded anew", true, true, false}, {"handed on", true, true, true}} {
		b.Run(c.name, func(b *testing.B) {
			e, err := newEncoder(enc, d.Table(), true, time.Now)
			if err != nil {
				b.Fatal(err)
			}
			e.handsOn = c.handOn
			batch := changelog.NewBatch(d.Table())
			var out unsent
			b.ReportAllocs()
			for b.Loop() {
				batch.KeepOriginals = c.handOn
				for i := range records {
					if err := d.Decode(batch, &records[i]); err != nil {
						b.Fatal(err)
					}
				}
				out.reset()
				if c.encode {
					if err := e.encode(batch, out.add); err != nil {
						b.Fatal(err)
					}
				}
				batch.Reset()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}

type unsent struct{ b batch }

func (o *unsent) reset() {
	o.b = batch{records: o.b.records[:0], from: o.b.from[:0], sources: o.b.sources[:0]}
}

func (o *unsent) add(r *changelog.Record, from origin) error {
	o.b.append(r, from)
	return nil
}

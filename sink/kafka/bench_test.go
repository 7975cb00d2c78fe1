package kafka_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kgo"
)

const benchRows = 50_000 // of one checkpoint

// benchBatch is what one checkpoint writes.
func benchBatch(t *changelog.Table) *changelog.Batch {
	b := changelog.NewBatch(t)
	for i := range int64(benchRows) {
		row := b.NewRow()
		row[0], row[1] = changelog.IntValue(i), changelog.StringValue(fmt.Sprintf("a text of some length that a row may have, number %d", i))
		b.Append(changelog.Change{Offset: i, Kind: changelog.Insert, Row: row})
	}
	return b
}

// BenchmarkCheckpoint writes checkpoints of rows and commits them, in each mode, and with package kgo's own transactional producer, which is given the same records
// encoded by the same encoder.
func BenchmarkCheckpoint(b *testing.B) {
	e := newReal(b)
	table := sinktest.Keyed()
	ctx := context.Background()
	if err := e.source(ctx); err != nil {
		b.Fatal(err)
	}
	for _, m := range modes() {
		b.Run(string(m), func(b *testing.B) {
			w := newWorld(b, e, m, table)
			d, cl, err := w.lane()
			if err != nil {
				b.Fatal(err)
			}
			defer cl.Close()
			if err := d.Acquire(ctx, 0, 1); err != nil {
				b.Fatal(err)
			}
			if err := d.Open(ctx); err != nil {
				b.Fatal(err)
			}
			batch := benchBatch(table)
			for b.Loop() {
				if err := d.Committer.Write(ctx, batch); err != nil {
					b.Fatal(err)
				}
				d.To[0].Offset += benchRows
				for _, step := range []func(context.Context) error{d.Prepare, d.Save, d.Commit} {
					if err := step(ctx); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N)*benchRows/b.Elapsed().Seconds(), "rows/s")
		})
	}
	b.Run("kgo", func(b *testing.B) {
		if err := e.reset(ctx, table, partitions); err != nil {
			b.Fatal(err)
		}
		to := e.target(table)
		enc, err := format.NewEncoder(to.table, all.Formats(), nil)
		if err != nil {
			b.Fatal(err)
		}
		topic := to.table.Options["topic"]
		cl := e.client(kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(benchRows))
		defer cl.Close()
		batch := benchBatch(table)
		for b.Loop() {
			if err := cl.BeginTransaction(); err != nil {
				b.Fatal(err)
			}
			for i := range batch.Changes {
				var r changelog.Record
				if err := enc.Encode(&r, &batch.Changes[i]); err != nil {
					b.Fatal(err)
				}
				cl.Produce(ctx, &kgo.Record{Key: r.Key, Value: r.Value}, func(_ *kgo.Record, err error) {
					if err != nil {
						b.Error(err)
					}
				})
			}
			if err := cl.Flush(ctx); err != nil {
				b.Fatal(err)
			}
			if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*benchRows/b.Elapsed().Seconds(), "rows/s")
	})
}

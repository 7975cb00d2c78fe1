// Package kafkatopic writes a [sinktest.Log] to a broker: franz-go's in-process kfake, or a real one. It is for tests.
//
// # Overview
//
// [Write] produces every entry in order: what stands in a transaction by a transactional producer of its own, so that aborted records and
// transactions that stay open are in the topic as Flink's sink leaves them. On an empty topic the offsets are those of the Log.
//
// # Not covered
//
// Holes: only a broker's compaction makes them. A Log that has some is refused.
package kafkatopic

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// Write writes l to the topic of its table's name, which must exist with as many partitions as l uses. close ends the transactions that l left
// open, by aborting them, and the producers; call it when they are no longer needed.
func Write(ctx context.Context, brokers []string, l *sinktest.Log) (close func(), err error) {
	producers := map[int]*kgo.Client{}
	closeAll := func() {
		for _, cl := range producers {
			cl.Close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	entries, err := l.Entries()
	if err != nil {
		return nil, err
	}
	ended := map[int]bool{}
	for _, e := range entries {
		if e.Kind == sinktest.Hole {
			return nil, errors.New("kafkatopic: the log has holes, which only a broker's compaction makes")
		}
		cl := producers[e.Transaction]
		if cl == nil {
			opts := []kgo.Opt{kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner())}
			if e.Transaction > 0 {
				opts = append(opts, kgo.TransactionalID(fmt.Sprintf("%s-%d", e.Record.Topic, e.Transaction)))
			}
			if cl, err = kgo.NewClient(opts...); err != nil {
				return nil, err
			}
			producers[e.Transaction] = cl
			if e.Transaction > 0 {
				if err := cl.BeginTransaction(); err != nil {
					return nil, err
				}
			}
		}
		if e.Kind == sinktest.Marker {
			if ended[e.Transaction] {
				continue // one end writes the markers of all partitions
			}
			ended[e.Transaction] = true
			if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(e.Commit)); err != nil {
				return nil, err
			}
			continue
		}
		if err := cl.ProduceSync(ctx, record(e.Record)).FirstErr(); err != nil {
			return nil, err
		}
	}
	return closeAll, nil
}

func record(r changelog.Record) *kgo.Record {
	out := &kgo.Record{Topic: r.Topic, Partition: r.Partition.Partition, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return out
}

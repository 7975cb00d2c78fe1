package bridge

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/changelog"
)

// historyPatience is how long brokers may take to send the records of a history.
const historyPatience = 30 * time.Second

// History returns a reader of what lies before a record in its partition, as a format.ReplayGuard asks for it. client are the options of the bridge's
// client, such as Input.Client; a client of its own is made for each call, which no consumer group knows of. Records of aborted transactions
// are left out, and so are those that were deleted.
func History(client []kgo.Opt) func(p changelog.Partition, from, to int64, each func(*changelog.Record) error) error {
	return func(p changelog.Partition, from, to int64, each func(*changelog.Record) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), historyPatience)
		defer cancel()
		cl, err := kgo.NewClient(append(slices.Clone(client),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.KeepControlRecords(), // which show how far a run of aborted records reaches
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.Topic: {p.Partition: kgo.NewOffset().At(from)}}))...)
		if err != nil {
			return err
		}
		defer cl.Close()
		for {
			fetches := cl.PollFetches(ctx)
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("bridge: the records %d to %d of %s did not come within %s", from, to, p, historyPatience)
			}
			for it := fetches.RecordIter(); !it.Done(); {
				r := it.Next()
				if r.Offset >= to {
					return nil
				}
				if r.Attrs.IsControl() {
					continue
				}
				rec := changelog.Record{Partition: p, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch, Timestamp: r.Timestamp.UnixMilli(),
					TimestampType: changelog.TimestampType(r.Attrs.TimestampType()), Key: r.Key, Value: r.Value}
				for _, h := range r.Headers {
					rec.Headers = append(rec.Headers, changelog.Header{Key: h.Key, Value: h.Value})
				}
				if err := each(&rec); err != nil {
					return err
				}
			}
			for _, f := range fetches.Errors() {
				return fmt.Errorf("bridge: the records before offset %d of %s: %w", to, p, f.Err)
			}
		}
	}
}

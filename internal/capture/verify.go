package capture

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// verify reads the topic as a read_committed consumer does and compares what comes with what should. Offsets were compared as they
// were written; this is about the fate of transactions, of which a client's word is not enough.
//
// It reads up to the last record that is to be visible in each partition.
func verify(ctx context.Context, brokers []string, topic string, parts [][]Record) error {
	left := map[int32][]int64{} // offsets that are still to come
	from := map[int32]kgo.Offset{}
	for p, recs := range parts {
		for i := range recs {
			if recs[i].Visible() {
				left[int32(p)] = append(left[int32(p)], recs[i].Offset)
			}
		}
		if len(left[int32(p)]) > 0 {
			from[int32(p)] = kgo.NewOffset().At(0)
		}
	}
	if len(left) == 0 {
		return nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	defer cl.Close()
	for len(left) > 0 {
		fetches, err := poll(ctx, cl)
		if err != nil {
			return fmt.Errorf("capture: reading topic %s back: %w", topic, err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			want := left[r.Partition]
			switch {
			case len(want) == 0: // behind the last one
			case !r.Attrs.IsControl() && r.Offset == want[0]:
				if left[r.Partition] = want[1:]; len(want) == 1 {
					delete(left, r.Partition)
				}
			case !r.Attrs.IsControl() && r.Offset < want[0]:
				return fmt.Errorf("capture: %s/%d: the record at offset %d is visible, and was not in the capture", topic, r.Partition, r.Offset)
			case r.Offset > want[0]:
				return fmt.Errorf("capture: %s/%d: the record at offset %d is not visible, and was in the capture", topic, r.Partition, want[0])
			}
		}
	}
	return nil
}

// poll waits for records, but not for ever: a record that is not visible has nothing behind it, when it is the last.
func poll(ctx context.Context, cl *kgo.Client) (kgo.Fetches, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("a record that was in the capture is not visible"))
	defer cancel()
	fetches := cl.PollFetches(ctx)
	if err := fetches.Err0(); err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return fetches, fetches.Err()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
)

// quiet is how long no record may come although the partition is not at its end.
const quiet = 30 * time.Second

// span is what is read of one partition: offsets from start up to end, which is not part of it.
type span struct {
	changelog.Partition
	start, end int64
}

// readBrokers prints the topics of t, partition by partition.
func (c *call) readBrokers(ctx context.Context, f *readFlags, t *ddl.Table, d changelog.Decoder, uncommitted bool, p *printer) error {
	in, err := inputOf(&f.table, &f.broker, t, d)
	if err != nil {
		return err
	}
	isolation := kgo.ReadCommitted()
	if uncommitted {
		isolation = kgo.ReadUncommitted()
	}
	cl, err := c.sourceClient(in,
		kgo.ClientID("flinksink-read"),
		kgo.FetchIsolationLevel(isolation),
		// Control records show how far a run of aborted records reaches.
		kgo.KeepControlRecords(),
		// Records that are deleted while we read are an error, not a gap in the output.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	spans, err := c.spansOf(ctx, cl, in, uncommitted)
	if err != nil {
		return err
	}
	p.topic = in.Pattern != "" || len(in.Topics) > 1
	for _, s := range spans {
		if err := readSpan(ctx, cl, s, func(r *kgo.Record) error { return p.print(record(r)) }); err != nil {
			return err
		}
	}
	return nil
}

// spansOf asks the brokers for partitions and their ends, and gives up after c.patience.
func (c *call) spansOf(ctx context.Context, cl *client, in bridge.Input, uncommitted bool) ([]span, error) {
	topics, err := c.topicsOf(ctx, cl, in)
	if err != nil {
		return nil, err
	}
	adm := kadm.NewClient(cl.Client)
	list := adm.ListCommittedOffsets
	if uncommitted {
		list = adm.ListEndOffsets
	}
	var starts, ends kadm.ListedOffsets
	if err := c.ask(ctx, cl, func(ctx context.Context) (err error) {
		if starts, err = adm.ListStartOffsets(ctx, topics...); err == nil {
			err = starts.Error()
		}
		if err != nil {
			return err
		}
		if ends, err = list(ctx, topics...); err == nil {
			err = ends.Error()
		}
		return err
	}); err != nil {
		return nil, err
	}
	var spans []span
	starts.Each(func(o kadm.ListedOffset) {
		end, _ := ends.Lookup(o.Topic, o.Partition)
		spans = append(spans, span{changelog.Partition{Topic: o.Topic, Partition: o.Partition}, o.Offset, end.Offset})
	})
	slices.SortFunc(spans, func(a, b span) int { return a.Compare(b.Partition) })
	return spans, nil
}

// readSpan hands over the records of one partition. One is read at a time, so that an output is in the order of partitions and offsets without
// being held back.
func readSpan(ctx context.Context, cl *client, s span, each func(*kgo.Record) error) error {
	if s.start >= s.end {
		return nil
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{s.Topic: {s.Partition.Partition: kgo.NewOffset().At(s.start)}})
	defer cl.RemoveConsumePartitions(map[string][]int32{s.Topic: {s.Partition.Partition}})
	for next := s.start; next < s.end; {
		// At the very end of a partition compaction may leave a batch without records, of which a consumer hears nothing.
		poll, cancel := context.WithTimeout(ctx, quiet)
		fetches := cl.PollFetches(poll)
		waited := poll.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		before := next
		var err error
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			if f.Topic != s.Topic || f.Partition != s.Partition.Partition || err != nil {
				return
			}
			for _, rec := range f.Records {
				if rec.Offset < next || rec.Offset >= s.end {
					next = max(next, rec.Offset)
					continue
				}
				next = rec.Offset + 1
				if rec.Attrs.IsControl() {
					continue
				}
				if err = each(rec); err != nil {
					return
				}
			}
			if f.Err != nil && (errors.Is(f.Err, kerr.OffsetOutOfRange) || !passes(f.Err)) {
				err = fmt.Errorf("read: %s at offset %d: %w", s.Partition, next, f.Err)
			}
		})
		if err != nil {
			return err
		}
		if waited && next == before {
			return fmt.Errorf("read: %s: no record came for %s at offset %d, although the partition ends at %d: the broker may be away, or compaction removed the last records",
				s.Partition, quiet, next, s.end)
		}
	}
	return nil
}

// passes reports whether the client tries again by itself after a fetch error.
func passes(err error) bool {
	var k *kerr.Error
	return errors.As(err, &k) && k.Retriable || errors.Is(err, context.DeadlineExceeded)
}

// record is what the decoder needs of a record.
func record(r *kgo.Record) *changelog.Record {
	out := &changelog.Record{
		Partition:     changelog.Partition{Topic: r.Topic, Partition: r.Partition},
		Offset:        r.Offset,
		LeaderEpoch:   r.LeaderEpoch,
		Timestamp:     r.Timestamp.UnixMilli(),
		TimestampType: changelog.TimestampType(r.Attrs.TimestampType()),
		Key:           r.Key,
		Value:         r.Value,
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, changelog.Header{Key: h.Key, Value: h.Value})
	}
	return out
}

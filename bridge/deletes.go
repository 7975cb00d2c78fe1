package bridge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file finds that deletes may have been compacted away unread.
//
// What Kafka promises (KIP-534, and the documentation of delete.retention.ms): a tombstone stays for delete.retention.ms after the
// cleaner first passed it, and the cleaner passes a record min.compaction.lag.ms after it was written at the earliest. A tombstone that is
// written after a bridge has read its partition to the end is therefore there for at least both together. A bridge that is back by then has
// missed nothing. One that comes later may have, and no offset shows it: a gap in a compacted log is nothing unusual.
//
// So the age of the position decides: the time since it was saved, or, where that says too much because nothing was written for long
// before the bridge went away, the time since the first record that it has not read was written, if that record is still there.

// compaction is what a topic's settings say of tombstones.
type compaction struct {
	compacted bool
	keeps     time.Duration // how long a tombstone is surely there after it was written
	after     time.Duration // and how long after the cleaner first passed it
}

// missedDeletes refuses stored positions that are older than tombstones live, unless Options.AllowMissedDeletes accepts them.
func (r *run) missedDeletes(ctx context.Context, stored map[changelog.Partition]sink.StoredPosition) error {
	var topics []string
	for p := range stored {
		if r.deletes(p.Topic) {
			topics = append(topics, p.Topic)
		}
	}
	if len(topics) == 0 {
		return nil
	}
	slices.Sort(topics)
	topics = slices.Compact(topics)
	settings, err := r.compactions(ctx, topics)
	if err != nil {
		return err
	}
	var parts []changelog.Partition
	for p, sp := range stored {
		c := settings[p.Topic]
		if c.compacted && r.deletes(p.Topic) && (sp.Saved.IsZero() || time.Since(sp.Saved) > c.keeps) {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	slices.SortFunc(parts, changelog.Partition.Compare)
	b, err := r.f.ask(ctx, "acquire", topics, parts)
	if err != nil {
		return err
	}
	for _, p := range parts {
		sp := stored[p]
		start, _ := b.start.Lookup(p.Topic, p.Partition)
		high, _ := b.high.Lookup(p.Topic, p.Partition)
		id := b.ids[p.Topic]
		if sp.Offset >= high.Offset || sp.Offset < start.Offset || sp.TopicID != id && sp.TopicID != (changelog.TopicID{}) && id != (changelog.TopicID{}) {
			continue // nothing was written since; or the position is gone altogether, which Seek says
		}
		at, written, err := r.f.first(ctx, sp.Position, id)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r.log.Warn("flinksink: cannot read the first record after a stored position", "bridge", r.name, "partition", p.String(), "error", err)
		}
		keeps := settings[p.Topic].keeps
		known := err == nil && !written.IsZero()
		if known && at == sp.Offset && time.Since(written) <= keeps {
			continue // and what follows it was written later
		}
		since := sp.Saved
		if since.IsZero() {
			if !known || time.Since(written) <= keeps {
				r.log.Warn("flinksink: the store does not tell when the position was saved: whether deletes were compacted away since is not known",
					"bridge", r.name, "partition", p.String(), "position", sp.Offset)
				continue
			}
			since = written
		}
		age := time.Since(since).Round(time.Second)
		if r.o.AllowMissedDeletes {
			r.log.Warn("flinksink: deletes may have been compacted away since the position was saved; Options.AllowMissedDeletes accepts it",
				"bridge", r.name, "partition", p.String(), "position", sp.Offset, "age", age, "deletesAreKept", keeps)
			continue
		}
		return r.lost("acquire", sp.Position, missed(sp.Position, age, keeps, "delete.retention.ms + min.compaction.lag.ms"))
	}
	return nil
}

// standing is the same for a bridge that runs, and saves nothing or too slowly: because the sink is away, its work goes wrong, or more is written than
// it can take. When it reads a row, the tombstone that will take the row away is there, or is still to be written; cleaners may pass it from then on, so
// it is surely there for delete.retention.ms more. So all that a partition held at some moment has to be read, and saved, that long after it. What is
// older than the oldest mark that is not saved was in time; a position that moves proves nothing by itself.
func (w *watcher) standing(ctx context.Context, now time.Time) error {
	r := w.r
	stands := make(map[changelog.Position]time.Time)
	var topics []string
	r.f.mu.Lock()
	for p, part := range r.f.parts {
		// One that was made at this look says nothing yet.
		if r.deletes(p.Topic) && len(part.marks) > 0 && part.marks[0].at.Before(w.looked) && !part.marks[0].at.Equal(w.missed[p]) {
			stands[changelog.Position{Partition: p, Offset: part.saved, LeaderEpoch: -1, TopicID: part.topicID}] = part.marks[0].at
			topics = append(topics, p.Topic)
		}
	}
	r.f.mu.Unlock()
	if len(stands) == 0 {
		return nil
	}
	slices.Sort(topics)
	settings, err := r.compactions(ctx, slices.Compact(topics))
	if err != nil {
		return nil // the brokers are away: the next look asks again
	}
	for p, since := range stands {
		c, age := settings[p.Topic], now.Sub(since).Round(time.Second)
		if !c.compacted || now.Sub(since) <= c.after {
			continue
		}
		if !r.o.AllowMissedDeletes {
			return r.lost("watch", p, missed(p, age, c.after, "delete.retention.ms"))
		}
		r.log.Warn("flinksink: deletes may be compacted away before they are read; Options.AllowMissedDeletes accepts it",
			"bridge", r.name, "partition", p.Partition.String(), "position", p.Offset, "age", age, "deletesAreKept", c.after)
		if w.missed == nil {
			w.missed = make(map[changelog.Partition]time.Time)
		}
		w.missed[p.Partition] = since
	}
	return nil
}

func missed(p changelog.Position, age, keeps time.Duration, settings string) error {
	return fmt.Errorf("the topic is compacted, keeps deletes for %s (%s), and this position is %s old: deletes after it may be compacted away unread, "+
		"which no offset shows, and their rows would stay. To be sure, empty the table and read the topic again ('flinksink positions reset'); to accept, set Options.AllowMissedDeletes, "+
		"or once by 'flinksink positions set %s:%d:%d'", keeps, settings, age, p.Topic, p.Partition.Partition, p.Offset)
}

// compactions asks how topics are compacted. Without the right to ask (DESCRIBE_CONFIGS) it is not known, which is said once.
func (r *run) compactions(ctx context.Context, topics []string) (map[string]compaction, error) {
	ask, cancel := context.WithTimeout(ctx, r.o.Connect)
	defer cancel()
	out := make(map[string]compaction)
	err := retry(ask, func() error {
		configs, err := r.adm.DescribeTopicConfigs(ask, topics...)
		if err != nil {
			return err
		}
		for _, c := range configs {
			if c.Err != nil {
				return c.Err
			}
			values := make(map[string]string)
			for _, kv := range c.Configs {
				values[kv.Key] = kv.MaybeValue()
			}
			out[c.Name] = compactionOf(values)
		}
		return nil
	})
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	cure := ""
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		cure = "; allow DESCRIBE_CONFIGS on the topic"
	}
	r.unasked.Do(func() {
		r.log.Warn("flinksink: cannot ask whether the topics are compacted, so whether deletes were compacted away while the bridge was down is not known"+cure,
			"bridge", r.name, "topics", topics, "error", err)
	})
	return out, nil
}

// compactionOf reads a topic's settings.
func compactionOf(values map[string]string) compaction {
	var c compaction
	for _, policy := range strings.Split(values["cleanup.policy"], ",") {
		c.compacted = c.compacted || strings.TrimSpace(policy) == "compact"
	}
	const most = math.MaxInt64 / int64(time.Millisecond) / 4
	for _, name := range []string{"delete.retention.ms", "min.compaction.lag.ms"} {
		if ms, err := strconv.ParseInt(values[name], 10, 64); err == nil && ms > 0 {
			c.keeps += time.Duration(min(ms, most)) * time.Millisecond
			if name == "delete.retention.ms" {
				c.after = c.keeps
			}
		}
	}
	return c
}

// first returns the offset of the first record at or after a position, and when it was written; a zero time if there is none, or it has
// no time. Control records and those of transactions that are open or aborted count too: they tell the time as well as any.
func (f *fetcher) first(ctx context.Context, at changelog.Position, id changelog.TopicID) (offset int64, written time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.r.o.Connect)
	defer cancel()
	found, err := f.metadata(ctx, []string{at.Topic})
	if err != nil {
		return 0, time.Time{}, err
	}
	leader, ok := found[at.Topic].leaders[at.Partition.Partition]
	if !ok || leader < 0 {
		return 0, time.Time{}, kerr.LeaderNotAvailable
	}
	fp, _, err := f.fetchOnce(ctx, at.Partition, id, leader, at.Offset, kgo.ReadUncommitted())
	if err != nil || len(fp.Records) == 0 {
		return 0, time.Time{}, err
	}
	r := fp.Records[0]
	if timestampType(r.Attrs) == changelog.NoTimestamp || r.Timestamp.UnixMilli() < 0 {
		return r.Offset, time.Time{}, nil
	}
	return r.Offset, r.Timestamp, nil
}

// fetchOnce fetches once, beside the client's own fetches, and returns where to fetch next.
func (f *fetcher) fetchOnce(ctx context.Context, p changelog.Partition, id changelog.TopicID, leader int32, from int64, level kgo.IsolationLevel) (kgo.FetchPartition, int64, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = 1 << 20
	if level == kgo.ReadCommitted() {
		req.IsolationLevel = 1
	}
	req.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = p.Topic, id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p.Partition, from, 1<<20
	t.Partitions = append(t.Partitions, rp)
	req.Topics = append(req.Topics, t)
	raw, err := f.cl.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return kgo.FetchPartition{}, 0, err
	}
	resp := raw.(*kmsg.FetchResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return kgo.FetchPartition{}, 0, kerr.UnknownServerError
	}
	fp, to := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true,
		Offset:             from,
		IsolationLevel:     level,
		Topic:              p.Topic,
		Partition:          p.Partition,
	}, &resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	return fp, to, fp.Err
}

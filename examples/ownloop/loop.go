package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// loop is a consumer group member with one lane.
type loop struct {
	brokers      []string
	group, topic string
	decoder      changelog.Decoder
	interval     time.Duration // between checkpoints

	cl *kgo.Client
	c  *sink.Coordinator

	mu    sync.Mutex                    // the coordinator is called by one goroutine at a time: by the loop, or by a callback of the client
	next  map[changelog.Partition]int64 // where the lane reads on, of the partitions it holds
	moved map[changelog.Partition]int   // how often a partition was sought
	err   error                         // of a callback
}

var _ sink.Source = (*loop)(nil)

// run reads until ctx ends, and ends with a checkpoint.
func (l *loop) run(ctx context.Context, o sink.Options) (err error) {
	l.next, l.moved = make(map[changelog.Partition]int64), make(map[changelog.Partition]int)
	// What the group needs of the client lives longer than ctx: the partitions are given back in order at the end.
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	l.mu.Lock() // the client begins at once, and its callbacks need the coordinator
	l.cl, err = kgo.NewClient(kgo.SeedBrokers(l.brokers...), kgo.ConsumerGroup(l.group), kgo.ConsumeTopics(l.topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // what Flink aborted is never read
		kgo.DisableAutoCommit(),                      // positions live in the store
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),  // a position that is gone is an error, not a jump
		kgo.AdjustFetchOffsetsFn(func(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			return l.assigned(alive, offsets)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { l.gone(alive, gone, false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { l.gone(alive, gone, true) }))
	if err != nil {
		l.mu.Unlock()
		return err
	}
	o.Source, o.Tables, o.Fingerprint = l, []*changelog.Table{l.decoder.Table()}, l.group+" reads "+l.topic
	l.c, err = sink.NewCoordinator(ctx, o)
	l.mu.Unlock()
	if err != nil {
		l.cl.Close()
		return err
	}
	err = l.poll(ctx)
	l.cl.Close() // leaves the group: Revoke takes the last checkpoint
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(err, l.err, l.c.Close(alive))
}

func (l *loop) poll(ctx context.Context) error {
	due := time.Now().Add(l.interval)
	for ctx.Err() == nil {
		l.mu.Lock()
		before := make(map[changelog.Partition]int, len(l.moved))
		for p, n := range l.moved {
			before[p] = n
		}
		l.mu.Unlock()
		wait, cancel := context.WithDeadline(ctx, due)
		fetches := l.cl.PollRecords(wait, 10_000)
		cancel()
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
				return fmt.Errorf("%s/%d: %w", e.Topic, e.Partition, e.Err)
			}
		}
		if err := l.take(ctx, fetches, before, &due); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// take writes what was fetched, and checkpoints when it is time.
func (l *loop) take(ctx context.Context, fetches kgo.Fetches, before map[changelog.Partition]int, due *time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	b, progress := changelog.NewBatch(l.decoder.Table()), sink.Progress{}
	var failed error
	fetches.EachPartition(func(t kgo.FetchTopicPartition) {
		p := changelog.Partition{Topic: t.Topic, Partition: t.Partition}
		next, held := l.next[p]
		if !held || len(t.Records) == 0 || failed != nil {
			return // it was taken away meanwhile
		}
		if l.moved[p] != before[p] {
			// The lane went back while the client was asked: nobody knows from which side of that this was fetched.
			l.seek(changelog.Position{Partition: p, Offset: next})
			return
		}
		for _, r := range t.Records {
			if failed = l.decode(b, r); failed != nil {
				return
			}
		}
		last := t.Records[len(t.Records)-1]
		progress.To = append(progress.To, changelog.Position{Partition: p, Offset: last.Offset + 1, LeaderEpoch: last.LeaderEpoch})
		progress.Records += int64(len(t.Records))
	})
	if failed != nil {
		return failed
	}
	if len(progress.To) > 0 {
		for _, to := range progress.To {
			l.next[to.Partition] = to.Offset
		}
		// When it has to go back, Write calls Seek and returns nil.
		if err := l.c.Write(ctx, b, progress); err != nil {
			return err
		}
	}
	if time.Now().Before(*due) {
		return nil
	}
	*due = time.Now().Add(l.interval)
	l.cl.ResumeFetchPartitions(nil) // resumes nothing, and wakes the client, which may miss (kgo 1.22.3, once in many thousands) that SetOffsets gave it something to fetch
	_, err := l.c.Checkpoint(ctx)
	return err
}

func (l *loop) decode(b *changelog.Batch, r *kgo.Record) error {
	c := changelog.Record{Partition: changelog.Partition{Topic: r.Topic, Partition: r.Partition}, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch,
		Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		c.Headers = append(c.Headers, changelog.Header{Key: h.Key, Value: h.Value})
	}
	return l.decoder.Decode(b, &c)
}

// assigned acquires new partitions; the client begins where it says. What the group remembers is ignored.
func (l *loop) assigned(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c == nil {
		return nil, errors.New("the coordinator could not be made")
	}
	var add []changelog.Partition
	for topic, ps := range offsets {
		for p := range ps {
			add = append(add, changelog.Partition{Topic: topic, Partition: p})
		}
	}
	slices.SortFunc(add, changelog.Partition.Compare)
	at, err := l.c.Assign(ctx, add)
	if err != nil {
		l.err = err
		return nil, err
	}
	for _, p := range at {
		l.next[p.Partition] = p.Offset
		l.moved[p.Partition]++
		offsets[p.Topic][p.Partition.Partition] = kgo.NewOffset().At(p.Offset).WithEpoch(-1)
	}
	return offsets, nil
}

// gone gives partitions back: Revoke checkpoints first, Lose does not.
func (l *loop) gone(ctx context.Context, gone map[string][]int32, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ps []changelog.Partition
	for topic, numbers := range gone {
		for _, n := range numbers {
			p := changelog.Partition{Topic: topic, Partition: n}
			ps = append(ps, p)
			delete(l.next, p)
			l.moved[p]++
		}
	}
	slices.SortFunc(ps, changelog.Partition.Compare)
	if l.c == nil {
		return // it was never made, and the client closes
	}
	how := l.c.Revoke
	if lost {
		how = l.c.Lose
	}
	if err := how(ctx, ps); err != nil && l.err == nil {
		l.err = err
	}
}

// Begin, Seek, Pause and Resume are the sink.Source. The coordinator calls them, so l.mu is held.

// Begin starts a partition that was never read at its first message.
func (l *loop) Begin(ctx context.Context, ps []changelog.Partition) (at []changelog.Position, err error) {
	starts, err := kadm.NewClient(l.cl).ListStartOffsets(ctx, l.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, err
	}
	for _, p := range ps {
		o, _ := starts.Lookup(p.Topic, p.Partition)
		at = append(at, changelog.Position{Partition: p, Offset: o.Offset, LeaderEpoch: -1})
	}
	return at, nil
}

// Seek goes back to where a checkpoint has to be done again.
func (l *loop) Seek(_ context.Context, to []changelog.Position) error {
	for _, p := range to {
		l.next[p.Partition] = p.Offset
		l.seek(p)
	}
	return nil
}

func (l *loop) seek(p changelog.Position) {
	l.moved[p.Partition]++
	l.cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{p.Topic: {p.Partition.Partition: {Epoch: -1, Offset: p.Offset}}})
}

// Pause and Resume hold the fetches while a decided checkpoint waits for its sink.
func (l *loop) Pause(ps ...changelog.Partition)  { l.cl.PauseFetchPartitions(byTopic(ps)) }
func (l *loop) Resume(ps ...changelog.Partition) { l.cl.ResumeFetchPartitions(byTopic(ps)) }

func byTopic(ps []changelog.Partition) map[string][]int32 {
	m := make(map[string][]int32)
	for _, p := range ps {
		m[p.Topic] = append(m[p.Topic], p.Partition)
	}
	return m
}

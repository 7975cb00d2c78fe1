package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	latencyRate     = 10_000 // rows a second
	latencyInterval = time.Second
	latencyTick     = 10 * time.Millisecond // rows come in so many portions
)

// kafkaLatency is how long a row takes from its producer, through a bridge, to a read_committed consumer of the target.
func (b *bench) kafkaLatency(ctx context.Context) error {
	s, stop, err := b.brokerOnly(ctx)
	if err != nil {
		return err
	}
	defer stop()
	seconds := 15
	if b.quick {
		seconds = 4
	}
	b.head(s, "LATENCY: %d rows a second for %d s, a checkpoint every %v; from the call of the producer to a read_committed consumer of the target", latencyRate, seconds, latencyInterval)
	b.say("  of the rows that were sent an interval after the first one came, or later, when all are at work; all of it on this machine")
	modes := []struct {
		name string
		as   kafkaSink
	}{{"TwoPhase", kafka.TwoPhase}, {"InTransaction", kafka.InTransaction}}
	const median, most99, most = 0, 1, 2
	found := make([][3]figure, len(modes))
	for round := range b.rounds {
		for j := range modes {
			i := (round + j) % len(modes)
			took, err := latencies(ctx, s, fmt.Sprintf("latency_%s_%d", strings.ToLower(modes[i].name), round), seconds, modes[i].as)
			if err != nil {
				return fmt.Errorf("%s: %w", modes[i].name, err)
			}
			slices.Sort(took)
			for q, at := range []int{len(took) / 2, len(took) * 99 / 100, len(took) - 1} {
				found[i][q] = append(found[i][q], float64(took[at].Microseconds())/1000)
			}
		}
	}
	w := b.table("", "median, ms", "99 %", "the slowest")
	for i, m := range modes {
		line(w, m.name, found[i][median].String(), found[i][most99].String(), found[i][most].String())
	}
	flush(w)
	b.say("  load average %s", loadAverage())
	allowed := float64((latencyInterval + 100*time.Millisecond).Milliseconds())
	for i, m := range modes {
		b.atMost("latency, "+m.name+": 99 % of rows visible", "ms", allowed, found[i][most99]...)
		b.atMost("latency, "+m.name+": all rows visible", "ms", allowed, found[i][most]...)
	}
	return nil
}

// latencies runs one bridge and returns how long each row took.
func latencies(ctx context.Context, s *servers, name string, seconds int, as kafkaSink) ([]time.Duration, error) {
	n := seconds * latencyRate
	k := &kafkaCopy{s: s, shape: rows.Narrow(), n: n}
	var err error
	if k.from, err = s.fill(ctx, name+"_from", 0, nil); err != nil {
		return nil, err
	}
	to, err := s.fill(ctx, name+"_to", 0, nil)
	if err != nil {
		return nil, err
	}
	seeds := kgo.SeedBrokers(strings.Split(s.broker, ",")...)
	cl, err := kgo.NewClient(seeds)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	in, out, err := k.bridge(cl, to, as)
	if err != nil {
		return nil, err
	}
	br, err := bridge.New(to, in, out, &bridge.Options{Interval: latencyInterval})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- br.Run(ctx) }()
	defer func() { cancel(); <-ended }()

	// What a row is sent at is written before it is sent, and read after it came.
	began := time.Now()
	sent, came := make([]atomic.Int64, n), make([]time.Duration, 0, n)
	failed := make(chan error, 2)
	go func() { failed <- sendSteadily(ctx, seeds, k, began, sent) }()
	reader, err := kgo.NewClient(seeds, kgo.ConsumeTopics(to), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	deadline, stop := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+2*time.Minute)
	defer stop()
	warm := time.Duration(math.MaxInt64) // rows that were sent before do not count
	for left := n; left > 0; {
		fetches := reader.PollFetches(deadline)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d of %d rows: %w", n-left, n, err)
		}
		now := time.Since(began)
		if left -= fetches.NumRecords(); fetches.NumRecords() > 0 && warm == math.MaxInt64 {
			warm = now + latencyInterval
		}
		for _, r := range fetches.Records() {
			id, err := rows.ParseKey(r.Key)
			if err != nil || id < 0 || id >= int64(n) {
				return nil, fmt.Errorf("a key that nobody sent: %w", err)
			}
			if at := time.Duration(sent[id].Load()); at >= warm {
				came = append(came, now-at)
			}
		}
	}
	if err := <-failed; err != nil {
		return nil, err
	}
	if len(came) == 0 {
		return nil, errors.New("no row came behind the first checkpoints: measure for longer")
	}
	return came, nil
}

// sendSteadily sends the rows in portions, each at its time or as soon as may be.
func sendSteadily(ctx context.Context, seeds kgo.Opt, k *kafkaCopy, began time.Time, sent []atomic.Int64) error {
	cl, err := kgo.NewClient(seeds, kgo.DefaultProduceTopic(k.from), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		return err
	}
	defer cl.Close()
	tick := time.NewTicker(latencyTick)
	defer tick.Stop()
	failed := make(chan error, 1)
	for i := 0; i < k.n; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-tick.C:
		}
		for due := min(k.n, int(time.Since(began)*latencyRate/time.Second)); i < due; i++ {
			sent[i].Store(int64(time.Since(began)))
			cl.Produce(ctx, &kgo.Record{Key: rows.Key(int64(i)), Value: k.shape.Value(k.shape.Row(int64(i), 0))}, func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		}
	}
	return cl.Flush(ctx)
}

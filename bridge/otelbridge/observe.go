package otelbridge

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/sink"
)

// Observe registers a callback that reports, at each collection, what the bridges' Status says: the metrics that the package's
// documentation lists. It reaches neither broker nor sink. Unregister the registration when the bridges are of no more interest.
func Observe(m metric.Meter, b ...*bridge.Bridge) (metric.Registration, error) {
	status := make([]func() bridge.Status, 0, len(b))
	for _, b := range b {
		if b == nil {
			return nil, errors.New("otelbridge: a bridge is nil")
		}
		status = append(status, b.Status)
	}
	return observe(m, time.Now, status...)
}

func observe(m metric.Meter, clock func() time.Time, status ...func() bridge.Status) (metric.Registration, error) {
	i := &instruments{m: m}
	g := gauges{
		running:     i.gauge("flinksink.bridge.running", "1", "1 while Run is in progress, else 0."),
		messages:    i.observedCounter("flinksink.messages", "{message}", "Messages that decided checkpoints passed."),
		changes:     i.observedCounter("flinksink.changes", "{change}", "Changes that decided checkpoints account for."),
		checkpoints: i.observedCounter("flinksink.checkpoints", "{checkpoint}", "Checkpoints that were decided."),
		age:         i.seconds("flinksink.checkpoint.age", "Time since the last checkpoint was decided."),
		retries:     i.observedCounter("flinksink.retries", "{retry}", "Tries again after failures."),
		failing:     i.seconds("flinksink.lane.failing", "For how long a lane has failed and tried again."),
		uncommitted: i.gauge("flinksink.lane.uncommitted", "1", "1 while a decided checkpoint cannot be committed, else 0."),
		pending:     i.seconds("flinksink.sink.pending", "For how long a decided checkpoint of a sink has waited to be committed."),
		buffered:    i.gauge("flinksink.lane.buffered", "By", "What was fetched and is not yet written."),
		position:    i.gauge("flinksink.partition.position", "{offset}", "Position of the last decided checkpoint."),
		lag:         i.gauge("flinksink.partition.lag", "{offset}", "Offsets between the last decided checkpoint and the end of the partition."),
		waiting:     i.gauge("flinksink.partition.waiting", "{offset}", "Offsets that an open transaction keeps from being read."),
		standing:    i.seconds("flinksink.partition.standing", "For how long nothing was saved although there is more to read."),
	}
	if len(i.errs) > 0 {
		return nil, errors.Join(i.errs...)
	}
	sums := make([]sum, len(status))
	var mu sync.Mutex // guards sums, and that they see one status after the other: two readers may collect at once
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for i, status := range status {
			mu.Lock()
			s := status()
			total := sums[i].add(s)
			mu.Unlock()
			g.observe(o, clock(), s, total)
		}
		return nil
	}, i.all...)
}

// sum carries what a Status counts since Run began over from one Run to the next: a counter never goes back.
type sum struct {
	started time.Time
	before  totals // of the runs before this one
	last    totals // of this one
}

type totals struct {
	counters             sink.Counters
	checkpoints, retries int64
}

func (t totals) plus(u totals) totals {
	return totals{t.counters.Add(u.counters), t.checkpoints + u.checkpoints, t.retries + u.retries}
}

func (s *sum) add(now bridge.Status) totals {
	if !now.Started.Equal(s.started) {
		s.before, s.started = s.before.plus(s.last), now.Started
	}
	s.last = totals{now.Counters, now.Checkpoints, now.Retries}
	return s.before.plus(s.last)
}

// gauges are the instruments of observe.
type gauges struct {
	running, uncommitted, buffered, position, lag, waiting metric.Int64ObservableGauge
	messages, changes, checkpoints, retries                metric.Int64ObservableCounter
	age, failing, standing, pending                        metric.Float64ObservableGauge
}

func (g *gauges) observe(o metric.Observer, now time.Time, s bridge.Status, total totals) {
	base := []attribute.KeyValue{system, bridgeKey.String(s.Bridge), groupKey.String(s.Group)}
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(slices.Concat(more, base)...))
	}
	plain := with()
	o.ObserveInt64(g.running, one(s.Running), plain)
	o.ObserveInt64(g.messages, total.counters.Records, plain)
	for _, c := range []struct {
		outcome string
		n       int64
	}{{"applied", total.counters.Applied}, {"superseded", total.counters.Superseded},
		{"dead_lettered", total.counters.DeadLettered}, {"skipped", total.counters.Skipped}} {
		o.ObserveInt64(g.changes, c.n, with(outcomeKey.String(c.outcome)))
	}
	o.ObserveInt64(g.checkpoints, total.checkpoints, plain)
	o.ObserveInt64(g.retries, total.retries, plain)
	if !s.Running {
		return // what it held is somebody else's to report now
	}
	since := s.LastCheckpoint
	if since.Before(s.Started) {
		since = s.Started
	}
	o.ObserveFloat64(g.age, age(now, since), plain)
	for _, l := range s.Lanes {
		lane := with(laneKey.Int(l.Lane))
		o.ObserveFloat64(g.failing, age(now, l.FailingSince), lane)
		o.ObserveInt64(g.uncommitted, one(l.Uncommitted != nil), lane)
		o.ObserveInt64(g.buffered, int64(l.Buffered), lane)
		for _, k := range l.Sinks {
			o.ObserveFloat64(g.pending, age(now, k.Since), with(laneKey.Int(l.Lane), sinkKey.String(k.Sink)))
		}
	}
	for _, p := range s.Partitions {
		part := with(topicKey.String(p.Topic), partitionKey.String(strconv.Itoa(int(p.Partition.Partition))))
		if p.Saved >= 0 {
			o.ObserveInt64(g.position, p.Saved, part)
		}
		if lag := p.Lag(); lag >= 0 {
			o.ObserveInt64(g.lag, lag, part)
		}
		if p.LastStableOffset >= 0 {
			o.ObserveInt64(g.waiting, p.Waiting(), part)
		}
		o.ObserveFloat64(g.standing, age(now, p.StandsSince), part)
	}
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// age is 0 for the zero time.
func age(now, since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(0, now.Sub(since).Seconds())
}

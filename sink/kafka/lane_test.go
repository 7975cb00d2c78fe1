package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A mode is a sink and its store, as a bridge without any database has them.
type mode string

const (
	twoPhase      mode = "TwoPhase"
	inOneTransact mode = "InTransaction"
)

func modes() []mode { return []mode{twoPhase, inOneTransact} }

// world is a place that lanes of one bridge work in, one after the other or side by side.
type world struct {
	*env
	mode  mode
	topic *sinktest.Topic
	o     *kafka.Options
	news  time.Duration // after which a topic is missing; 0: as it is by default
}

// newWorld fills a source with some changes.
func newWorld(t testing.TB, e *env, m mode, table *changelog.Table) *world {
	t.Helper()
	if err := e.source(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.reset(t.Context(), table, partitions); err != nil {
		t.Fatal(err)
	}
	w := &world{env: e, mode: m, topic: sinktest.NewTopic(table), o: e.storeOptions(true)}
	e.made = append(e.made, w.o.Topic)
	fill(w.topic)
	return w
}

func fill(topic *sinktest.Topic) {
	for i := range int64(6) {
		topic.Put(int32(i%2), sinktest.Insert(i/2, "a"), sinktest.Insert(i/2, "a"))
	}
}

// lane starts a lane on a client of its own.
func (w *world) lane(o ...kgo.Opt) (*sinktest.Driver, *kgo.Client, error) {
	cl := w.client(o...)
	d, err := w.laneOn(cl)
	return d, cl, err
}

func (w *world) laneOn(cl *kgo.Client) (*sinktest.Driver, error) {
	make := kafka.TwoPhase
	if w.mode == inOneTransact {
		make = kafka.InTransaction
	}
	s, err := make(cl, w.target(w.topic.Table).table, all.Formats(), w.o)
	if err != nil {
		return nil, err
	}
	if w.news > 0 {
		kafka.ShortenNews(s, w.news)
	}
	on, err := withOriginals(s, w.target(w.topic.Table).table, new(atomic.Int64)) // so what processes leave behind is of both kinds: the suite's clients encode
	if err != nil {
		return nil, err
	}
	c, err := on.Lane(context.Background(), sink.Lane{Bridge: sinktest.Bridge, Sink: sinktest.SinkName, Tables: []*changelog.Table{w.topic.Table}})
	if err != nil {
		return nil, err
	}
	if store, ok := c.(sink.Store); ok {
		return sinktest.NewDriver(c, store, w.topic), nil
	}
	return sinktest.NewDriver(c, c.(sink.StoreOfferer).OfferStore(), w.topic), nil
}

// carry reads to the end of both partitions, some messages a checkpoint, by the rules of package sink, whatever fails.
func carry(ctx context.Context, d *sinktest.Driver, most int) error {
	var last error
	done := func() bool {
		return len(d.From) == 2 && d.From[0] == d.Topic.End(0) && d.From[1] == d.Topic.End(1) && len(d.Settle) == 0
	}
	try := func(f func(context.Context) error) bool {
		err := f(ctx)
		if err != nil {
			last = err
		}
		return err == nil
	}
	for range 30 {
		if !try(func(ctx context.Context) error { return d.Acquire(ctx, 0, 1) }) || !try(d.Open) {
			continue
		}
		for !done() {
			if !try(func(ctx context.Context) error { return d.Write(ctx, most) }) || !try(d.Prepare) {
				_ = d.Discard(ctx)
				break
			}
			if !try(d.Save) {
				_, _ = d.End(ctx)
				_ = d.Discard(ctx)
				break
			}
			for n := 0; !try(d.Commit); n++ {
				if n == 10 {
					return fmt.Errorf("Commit fails without end: %w", last)
				}
			}
		}
		if done() {
			return nil
		}
	}
	return fmt.Errorf("no end after 30 generations: %w", last)
}

// sees compares what readers see with what the source holds before some positions.
func (w *world) sees(t testing.TB, what string, to ...changelog.Position) {
	t.Helper()
	got, err := w.rows(context.Background(), w.topic.Table)
	if err != nil {
		t.Fatal(err)
	}
	order := func(a, b sinktest.Row) int {
		if a.ID != b.ID {
			return int(a.ID - b.ID)
		}
		return slices.Compare([]byte(a.V), []byte(b.V))
	}
	slices.SortFunc(got, order)
	want := w.topic.Rows(to...)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		t.Errorf("%s: readers see %v, expected are %v", what, got, want)
	}
}

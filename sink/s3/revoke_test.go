package s3_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
)

// P67: one partition of two is given away in good order while the files of both are open, again and again. What was written is committed before the partition is somebody else's,
// so no offset is ever read a second time, and each is in one object.
func TestRevoke_ReadsNothingTwice(t *testing.T) {
	k, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "topic"))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	producer, err := kgo.NewClient(kgo.SeedBrokers(k.ListenAddrs()...), kgo.DefaultProduceTopic("topic"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	e := newFake(t)
	produced := int64(0)
	put := func(n int) {
		for i := range n {
			if err := producer.ProduceSync(t.Context(), &kgo.Record{Partition: int32(i % 2), Value: fmt.Appendf(nil, `{"id":%d,"v":"a"}`, produced)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			produced++
		}
	}
	var written atomic.Int64
	news := make(chan struct{}, 1)
	tell := func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	run := func() (owned func() int, stop func()) {
		tb, err := ddl.Find(`CREATE TABLE events (id BIGINT, v STRING) WITH ('connector' = 'kafka', 'topic' = 'topic', 'properties.bootstrap.servers' = '`+k.ListenAddrs()[0]+`', 'format' = 'json')`, "events")
		if err != nil {
			t.Fatal(err)
		}
		d, err := format.New(tb, []changelog.Format{json.Format{}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		in, err := bridge.FromTable(tb, d)
		if err != nil {
			t.Fatal(err)
		}
		store, err := s3.NewStore(e.client(nil), e.bucket, "lake", s3.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		o := &bridge.Options{Store: store, Interval: time.Hour, Changes: 1 << 30, SinkName: "lake"} // a checkpoint only where the partition goes
		o.Hooks.Written = func(_ string, n, _ int) { written.Add(int64(n)); tell() }
		o.Hooks.Acquired = func(sink.Claim) { tell() }
		o.Hooks.Committed = func(sink.Report) { tell() }
		b, err := bridge.New("bridge", in, e.sink(&s3.Options{Manifest: true}), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := b.Run(ctx); err != nil {
				t.Error(err)
			}
			tell()
		})
		return func() int { return len(b.Status().Partitions) }, func() { cancel(); wg.Wait() }
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		limit := time.NewTimer(3 * time.Minute) // after anything was heard: a busy machine may be slow, and goes on
		defer limit.Stop()
		tick := time.NewTicker(20 * time.Millisecond) // not everything has a hook
		defer tick.Stop()
		for !ok() {
			select {
			case <-news:
				limit.Reset(3 * time.Minute)
			case <-tick.C:
			case <-limit.C:
				t.Fatalf("%s: %d rows were produced, %d written", what, produced, written.Load())
			}
		}
	}
	first, stop := run()
	until("two partitions", func() bool { return first() == 2 })
	for round := range 3 {
		put(50)
		until("all written", func() bool { return written.Load() >= produced })
		second, stopSecond := run()
		until("a partition each", func() bool { return first() == 1 && second() == 1 })
		put(50)
		until("all written by both", func() bool { return written.Load() >= produced })
		stopSecond()
		until("both partitions again", func() bool { return first() == 2 })
		if n := written.Load(); n != produced {
			t.Errorf("round %d: %d rows were written for %d that were produced", round, n, produced)
		}
	}
	stop()
	if n := written.Load(); n != produced {
		t.Errorf("%d rows were written for %d that were produced", n, produced)
	}
	e.holds(produced, "after the last one stopped")
	e.clean("after the last one stopped")
}

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/flinksink/flinksink/sink/sinktest/kafkatopic"
)

// Two members share a topic, calls fail at random, one member leaves, and the table is the topic's.
func TestLoop(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	table, err := ddl.Find(createTable, "orders")
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := format.NewEncoder(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	topic := sinktest.NewLog(encoder)
	want := map[int64]string{}
	for i := range int64(300) {
		p, id := int32(i%4), i%60
		switch tx := topic.Begin(); {
		case i%7 == 0:
			tx.Insert(p, id, "never")
			tx.Abort()
		case i%5 == 0:
			tx.Delete(p, id, nil)
			tx.Commit()
			delete(want, id)
		default:
			tx.Commit()
			topic.UpdateAfter(p, id, fmt.Sprint("v", i))
			want[id] = fmt.Sprint("v", i)
		}
	}
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	end, err := kafkatopic.Write(ctx, broker.ListenAddrs(), topic)
	if err != nil {
		t.Fatal(err)
	}
	defer end()

	server := sinktest.NewServer()
	start := func(ctx context.Context, seed uint64) chan error {
		decoder, err := newDecoder()
		if err != nil {
			t.Fatal(err)
		}
		l := &loop{brokers: broker.ListenAddrs(), group: "g", topic: "orders", decoder: decoder, interval: 20 * time.Millisecond}
		to := sinktest.RandomFaults(seed, 30).Sink(sinktest.NewSink(server, &sinktest.SinkOptions{InTransaction: true}))
		done := make(chan error, 1)
		go func() {
			done <- l.run(ctx, sink.Options{Bridge: "orders", Sinks: []sink.Declared{{Name: "memory", Sink: to}}, Attempts: 1 << 30,
				Backoff: func(int) time.Duration { return time.Millisecond }})
		}()
		return done
	}
	first, leave := context.WithCancel(ctx)
	defer leave()
	one, other := start(first, 1), start(ctx, 2)
	rows := func() map[int64]string {
		got := map[int64]string{}
		for _, r := range server.Table("orders") {
			got[r[0].Int()] = r[1].Str()
		}
		return got
	}
	for left, tick := false, time.NewTicker(10*time.Millisecond); fmt.Sprint(rows()) != fmt.Sprint(want) || !left; {
		select {
		case <-tick.C:
			if len(rows()) > 10 && !left {
				leave()
				if err := <-one; err != nil {
					t.Fatalf("the member that left: %v", err)
				}
				left = true
			}
		case err := <-other:
			t.Fatalf("the member that stays ended: %v", err)
		case <-ctx.Done():
			t.Fatalf("the table holds %v, expected %v", rows(), want)
		}
	}
	cancel()
	if err := <-other; err != nil && !strings.Contains(err.Error(), "context canceled") {
		t.Error(err)
	}
}

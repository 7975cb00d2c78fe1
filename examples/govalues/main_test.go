package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lines is what the program has printed, and cancels it when it printed enough.
type lines struct {
	mu     sync.Mutex
	text   strings.Builder
	until  string
	cancel func()
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if strings.Contains(l.text.String(), l.until) {
		l.cancel()
	}
	return len(p), nil
}

func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	put := func(key, value string) {
		t.Helper()
		r := &kgo.Record{Key: []byte(key)}
		if value != "" {
			r.Value = []byte(value)
		}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"id":1}`, `{"id":1,"customer":"ann","total":10.5,"items":[{"sku":"pen","n":2},{"sku":"ink","n":1}],"placed_at":"2024-02-29 12:34:56"}`)
	put(`{"id":2}`, `{"id":2,"customer":null,"total":1,"items":[],"placed_at":"2024-03-01 00:00:00"}`)
	put(`{"id":1}`, "")
	out := &lines{until: "-D 1\n"}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	out.cancel = stop
	rows, err := run(reading, broker.ListenAddrs(), out)
	if err != nil || ctx.Err() != nil {
		t.Fatalf("%v, %v: %s", err, ctx.Err(), out.text.String())
	}
	want := "+I 1 ann 10.50 2 items 2024-02-29 12:34:56\n+I 2 nobody 1.00 0 items 2024-03-01 00:00:00\n-D 1\n"
	if out.text.String() != want {
		t.Errorf("printed\n%swant\n%s", out.text.String(), want)
	}
	if len(rows) != 1 || rows[2].Customer != nil || rows[2].Total.String() != "1.00" {
		t.Errorf("%+v", rows)
	}

	// A NULL that the struct has no place for stops it, with the column and no value.
	put(`{"id":3}`, `{"id":3,"customer":"bob","total":null,"items":null,"placed_at":"2024-03-01 00:00:00"}`)
	_, err = run(ctx, broker.ListenAddrs(), out)
	if err == nil || !strings.Contains(err.Error(), "orders/0 offset 3") || !strings.Contains(err.Error(), "field total: NULL") || strings.Contains(err.Error(), "bob") {
		t.Errorf("%v", err)
	}
}

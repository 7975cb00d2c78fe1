package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The ledger covers every offset once, whatever checkpoints the bridge made and however often it was stopped; whoever listens hears of it.
func TestRun(t *testing.T) {
	dsn := os.Getenv("FLINKSINK_POSTGRES")
	if dsn == "" {
		t.Skip("needs a Postgres: set FLINKSINK_POSTGRES to its connection string, or run ./test")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	// A database of its own: the program names its tables and its bridge itself.
	admin, err := pgxpool.New(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	name := fmt.Sprintf("example_incheckpoint_%d", time.Now().UnixNano())
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	defer admin.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
	conf := admin.Config()
	conf.ConnConfig.Database = name
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	listener, err := pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Release()
	if _, err := listener.Exec(ctx, "LISTEN orders"); err != nil {
		t.Fatal(err)
	}

	const partitions = 2
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ddl := strings.Replace(createTable, "localhost:9092", strings.Join(broker.ListenAddrs(), ","), 1)

	put := 0
	for round := range 3 {
		interrupted, interrupt := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- run(interrupted, ddl, pool) }()
		for range 5 + round {
			value := fmt.Appendf(nil, `{"id":%d,"customer":"ann","total":1.5}`, put)
			if err := cl.ProduceSync(ctx, &kgo.Record{Key: fmt.Appendf(nil, `{"id":%d}`, put), Value: value, Partition: int32(put % partitions)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			put++
		}
		// Each notification comes with a checkpoint that moved; the last of them has everything.
		for rows := 0; rows < put; {
			if _, err := listener.Conn().WaitForNotification(ctx); err != nil {
				t.Fatal(err)
			}
			if err := pool.QueryRow(ctx, `SELECT count(*) FROM public.orders`).Scan(&rows); err != nil {
				t.Fatal(err)
			}
		}
		interrupt()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}

	for p := range partitions {
		var offsets, covered, begin, end int64
		if err := pool.QueryRow(ctx, `SELECT (SELECT sum(to_offset - from_offset)::bigint FROM public.orders_ledger WHERE partition = $1), count(DISTINCT o), min(from_offset), max(to_offset)
			FROM public.orders_ledger, generate_series(from_offset, to_offset - 1) o WHERE partition = $1`, p).Scan(&offsets, &covered, &begin, &end); err != nil {
			t.Fatal(err)
		}
		if want := int64(put / partitions); begin != 0 || end != want || offsets != want || covered != want {
			t.Errorf("partition %d: the ledger goes from %d to %d, over %d offsets, %d of them different; there are %d", p, begin, end, offsets, covered, want)
		}
	}
}

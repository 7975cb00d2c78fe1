package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The program that users copy does what it says, and ends without an error when it is interrupted.
func TestRun(t *testing.T) {
	dsn := os.Getenv("FLINKSINK_POSTGRES")
	if dsn == "" {
		t.Skip("needs a Postgres: set FLINKSINK_POSTGRES to its connection string, or run ./test")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	// A database of its own: the program names its table and its bridge itself.
	admin, err := pgxpool.New(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	name := fmt.Sprintf("example_postgres_%d", time.Now().UnixNano())
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

	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, kv := range [][2]string{
		{`{"id":1}`, `{"id":1,"customer":"ann","total":10.5}`},
		{`{"id":2}`, `{"id":2,"customer":"bob","total":20}`},
		{`{"id":1}`, `{"id":1,"customer":"ann","total":99999999999999999.99}`},
		{`{"id":2}`, ``},
		{`{"id":3}`, `{"id":3,"customer":null,"total":0}`},
	} {
		r := &kgo.Record{Key: []byte(kv[0]), Value: []byte(kv[1])}
		if kv[1] == "" {
			r.Value = nil
		}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}

	// As signal.NotifyContext ends a context: with a cause that is not context.Canceled.
	interrupted, interrupt := context.WithCancelCause(ctx)
	done := make(chan error, 1)
	go func() {
		done <- run(interrupted, strings.Replace(createTable, "localhost:9092", strings.Join(broker.ListenAddrs(), ","), 1), pool)
	}()
	const want = "1:ann:99999999999999999.99 3:NULL:0.00"
	for got := ""; got != want; {
		// Until the first checkpoint there is no table.
		_ = pool.QueryRow(ctx, `SELECT string_agg(concat_ws(':', id, coalesce(customer, 'NULL'), total), ' ' ORDER BY id) FROM public.orders`).Scan(&got)
		select {
		case err := <-done:
			t.Fatalf("the bridge ended: %v", err)
		case <-ctx.Done():
			t.Fatalf("the table holds %q, want %q", got, want)
		case <-time.After(20 * time.Millisecond):
		}
	}
	interrupt(errors.New("interrupt signal received"))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

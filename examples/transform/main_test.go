package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The table follows the orders: in, changed, out when they are drafts or gone, and in again.
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
	name := fmt.Sprintf("example_transform_%d", time.Now().UnixNano())
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
	put := func(id int, value string) {
		t.Helper()
		r := &kgo.Record{Key: fmt.Appendf(nil, `{"id":%d}`, id)}
		if value != "" {
			r.Value = fmt.Appendf(nil, `{"id":%d,"customer":"ann","country":"NO",%s}`, id, value)
		}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	// The program runs until it is interrupted; what was put is seen when the table says so.
	until := func(want ...string) {
		t.Helper()
		var got []string
		for {
			rows, err := pool.Query(ctx, `SELECT order_id || ' ' || coalesce(label, '-') || ' ' || coalesce(gross_cents::text, '-') FROM public.open_orders ORDER BY order_id`)
			if err == nil {
				got, err = pgx.CollectRows(rows, pgx.RowTo[string])
			}
			if err == nil && strings.Join(got, "; ") == strings.Join(want, "; ") {
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%q, %v; want %q", got, err, want)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	interrupted, interrupt := context.WithCancel(ctx)
	defer interrupt()
	done := make(chan error, 1)
	go func() {
		done <- run(interrupted, strings.Replace(createTable, "localhost:9092", strings.Join(broker.ListenAddrs(), ","), 1), pool)
	}()

	put(1, `"status":"PAID","net_cents":1000,"vat_percent":25`)
	put(2, `"status":"DRAFT","net_cents":1,"vat_percent":0`)
	put(3, `"status":"PAID","net_cents":null,"vat_percent":25`)
	until("1 ann (NO) 1250", "3 ann (NO) -")
	put(1, `"status":"DRAFT","net_cents":1000,"vat_percent":25`) // it was there, so it goes
	put(2, `"status":"PAID","net_cents":200,"vat_percent":50`)
	put(3, "")
	until("2 ann (NO) 300")
	put(1, `"status":"SENT","net_cents":4,"vat_percent":0`)
	until("1 ann (NO) 4", "2 ann (NO) 300")
	interrupt()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

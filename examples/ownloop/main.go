// Command ownloop keeps a Postgres table equal to a topic, like examples/postgres, with a consumer loop of its own in place of package bridge: for
// programs that have one anyway. The loop polls and decodes; sink.Coordinator does the rest.
//
//	DATABASE_URL=postgres://app@db/shop BROKERS=localhost:9092 go run ./examples/ownloop
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

const createTable = `CREATE TABLE orders (
  id BIGINT, customer STRING, PRIMARY KEY (id) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = 'orders', 'key.format' = 'json', 'value.format' = 'json')`

func newDecoder() (changelog.Decoder, error) {
	table, err := ddl.Find(createTable, "orders")
	if err != nil {
		return nil, err
	}
	return format.New(table, []changelog.Format{json.Format{}}, nil)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	to, err := postgres.New(pool, "public.orders", &postgres.Options{CreateTable: true})
	if err != nil {
		log.Fatal(err)
	}
	decoder, err := newDecoder()
	if err != nil {
		log.Fatal(err)
	}
	l := &loop{brokers: strings.Split(os.Getenv("BROKERS"), ","), group: "orders", topic: "orders", decoder: decoder, interval: time.Second}
	if err := l.run(ctx, sink.Options{Bridge: "orders", Sinks: []sink.Declared{{Name: "postgres", Sink: to}}}); err != nil {
		log.Fatal(err)
	}
}

// Command postgres keeps a Postgres table equal to a topic that a Flink SQL job writes. It is the program to copy: the CREATE TABLE is the
// one from the Flink job, the pool is the one that the service has anyway.
//
//	DATABASE_URL=postgres://app@db/shop go run ./examples/postgres
//
// It runs until it is interrupted. Start it again whenever it ended, however it ended: it goes on where Postgres says it is.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink/postgres"
)

const createTable = `CREATE TABLE orders (
  id BIGINT, customer STRING, total DECIMAL(20, 2), PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json', 'value.format' = 'json')`

func run(ctx context.Context, createTable string, pool *pgxpool.Pool) error {
	table, err := ddl.Find(createTable, "orders")
	if err != nil {
		return err
	}
	decoder, err := format.New(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		return err
	}
	from, err := bridge.FromTable(table, decoder)
	if err != nil {
		return err
	}
	to, err := postgres.New(pool, "public.orders", &postgres.Options{CreateTable: true})
	if err != nil {
		return err
	}
	b, err := bridge.New("orders", from, to, nil)
	if err != nil {
		return err
	}
	log.Println(b.Guarantee())
	return b.Run(ctx)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := run(ctx, createTable, pool); err != nil {
		log.Fatal(err)
	}
}

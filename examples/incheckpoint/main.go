// Command incheckpoint is examples/postgres with rows of its own in the transaction of each checkpoint: a ledger that says which offsets came
// with which number of rows, and a notification for whoever listens. They are there if and only if the rows are there, each exactly once,
// whatever crashes.
//
//	DATABASE_URL=postgres://app@db/shop go run ./examples/incheckpoint
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
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

const createLedger = `CREATE TABLE IF NOT EXISTS public.orders_ledger (
  topic text, partition int, from_offset bigint, to_offset bigint, changes bigint, at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (topic, partition, from_offset))`

// ledger writes a row for each partition that moved. The primary key cannot be hit twice: no two checkpoints begin at the same offset of a
// partition, and of a checkpoint that is done again nothing was committed before.
func ledger(ctx context.Context, tx pgx.Tx, info postgres.Info) error {
	from := make(map[changelog.Partition]int64, len(info.From))
	for _, p := range info.From {
		from[p.Partition] = p.Offset
	}
	moved := false
	for _, p := range info.To {
		if p.Offset == from[p.Partition] {
			continue
		}
		moved = true
		// changes are those of the checkpoint, over all partitions of its lane.
		if _, err := tx.Exec(ctx, `INSERT INTO public.orders_ledger (topic, partition, from_offset, to_offset, changes) VALUES ($1, $2, $3, $4, $5)`,
			p.Topic, p.Partition.Partition, from[p.Partition], p.Offset, info.Counters.Read); err != nil {
			return err
		}
	}
	if !moved {
		return nil
	}
	_, err := tx.Exec(ctx, `NOTIFY orders`) // is sent when, and if, the transaction commits
	return err
}

func run(ctx context.Context, createTable string, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, createLedger); err != nil {
		return err
	}
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
	to, err := postgres.New(pool, "public.orders", &postgres.Options{CreateTable: true, InCheckpoint: ledger})
	if err != nil {
		return err
	}
	b, err := bridge.New("orders", from, to, nil)
	if err != nil {
		return err
	}
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

// Command status is examples/postgres with a status page beside it: it keeps a Postgres table equal to a topic that a Flink SQL job
// writes, and shows how that goes on http://localhost:8080/.
//
//	DATABASE_URL=postgres://app@db/shop go run ./examples/status
//
// When the bridge halts the page stays, with the reason, until the program is interrupted; /healthz answers 503 meanwhile.
package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/bridge/statuspage"
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

func newBridge(createTable string, pool *pgxpool.Pool) (*bridge.Bridge, error) {
	table, err := ddl.Find(createTable, "orders")
	if err != nil {
		return nil, err
	}
	decoder, err := format.New(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		return nil, err
	}
	from, err := bridge.FromTable(table, decoder)
	if err != nil {
		return nil, err
	}
	to, err := postgres.New(pool, "public.orders", &postgres.Options{CreateTable: true})
	if err != nil {
		return nil, err
	}
	return bridge.New("orders", from, to, nil)
}

// run runs the bridge and the page until ctx ends, and returns what the bridge ended with.
func run(ctx context.Context, createTable string, pool *pgxpool.Pool, l net.Listener) error {
	defer l.Close()
	b, err := newBridge(createTable, pool)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: statuspage.Handler(b), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()

	halted := b.Run(ctx)
	if halted != nil {
		log.Print(halted)
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = server.Shutdown(stop)
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = e
	}
	return errors.Join(halted, err)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	l, err := net.Listen("tcp", "localhost:8080")
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("status on http://%s/", l.Addr())
	if err := run(ctx, createTable, pool, l); err != nil {
		log.Fatal(err)
	}
}

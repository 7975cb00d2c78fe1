// Command transform keeps a Postgres table equal to what
//
//	SELECT id AS order_id, customer || ' (' || country || ')' AS label, net_cents * (100 + vat_percent) / 100 AS gross_cents
//	FROM orders WHERE status <> 'DRAFT'
//
// would give for a topic that a Flink SQL job writes: a filter and a mapping of the bridge, and a column that has another name in Postgres.
//
//	DATABASE_URL=postgres://app@db/shop go run ./examples/transform
//
// An order that becomes a draft again is deleted from the table, as it is from the result of the query.
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
  id BIGINT, customer STRING, country STRING, status STRING, net_cents BIGINT, vat_percent INT, PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json', 'value.format' = 'json')`

// selected describes the rows that come out. The column id is copied, since orders has one of its name and type; Row fills the others.
const selected = `CREATE TABLE selected (id BIGINT, label STRING, gross_cents BIGINT, PRIMARY KEY (id) NOT ENFORCED)`

// transform says what the bridge does with the rows of orders.
func transform(orders *ddl.Table) (*bridge.Options, error) {
	to, err := ddl.Find(selected, "selected")
	if err != nil {
		return nil, err
	}
	// Rows have the columns of their table, in its order.
	in, out := orders.Schema(), to.Schema()
	customer, country, status := in.Index("customer"), in.Index("country"), in.Index("status")
	net, vat := in.Index("net_cents"), in.Index("vat_percent")
	label, gross := out.Index("label"), out.Index("gross_cents")

	return &bridge.Options{
		Filter: &bridge.Filter{Keep: func(row changelog.Row) bool { return row[status].Str() != "DRAFT" }},
		Map: &bridge.Mapping{Schema: out, Row: func(b *changelog.Batch, in, out changelog.Row) error {
			if !in[customer].IsNull() && !in[country].IsNull() {
				// Text comes from the batch: it has to live as long as the row, and its size counts in the bridge's budget.
				text := b.NewBytes(len(in[customer].Str()) + len(in[country].Str()) + len(" ()"))[:0]
				text = append(text, in[customer].Str()...)
				text = append(text, " ("...)
				text = append(text, in[country].Str()...)
				text = append(text, ')')
				out[label] = changelog.StringBytesValue(text)
			}
			if !in[net].IsNull() && !in[vat].IsNull() { // else gross_cents is NULL, as in SQL
				out[gross] = changelog.IntValue(in[net].Int() * (100 + in[vat].Int()) / 100)
			}
			return nil
		}},
	}, nil
}

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
	options, err := transform(table)
	if err != nil {
		return err
	}
	to, err := postgres.New(pool, "public.open_orders", &postgres.Options{CreateTable: true, Columns: map[string]string{"id": "order_id"}})
	if err != nil {
		return err
	}
	b, err := bridge.New("open-orders", from, to, options)
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

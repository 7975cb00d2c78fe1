package main

import (
	"context"
	"log"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/postgres"
	s3sink "github.com/flinksink/flinksink/sink/s3"
)

const createTable = `CREATE TABLE orders (
  id BIGINT, customer STRING, total DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json', 'value.format' = 'json')`

// services are the clients of a program that writes to three places.
type services struct {
	pool   *pgxpool.Pool
	search *elastictransport.Client // a *elasticsearch.Client will do too
	lake   *s3.Client
	names
}

// names are of what is written into, beside the table.
type names struct{ bucket, index, alias string }

// newBridge is the part to copy: one topic into a Postgres table, a bucket and a search index, by one decision.
//
// Postgres decides: its transaction holds the rows and the positions, and the receipts of the files that wait for it. The files become visible
// after it. The index cannot wait, so it is given each checkpoint last, when Postgres and the bucket have their part of it ready.
func newBridge(createTable string, s services, o *bridge.Options) (*bridge.Bridge, error) {
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
	rows, err := postgres.New(s.pool, "public.orders", &postgres.Options{CreateTable: true})
	if err != nil {
		return nil, err
	}
	files, err := s3sink.New(s.lake, s.bucket, "raw", &s3sink.Options{Kind: s3sink.Changelog, Manifest: true})
	if err != nil {
		return nil, err
	}
	index, err := elastic.New(s.search, s.index, &elastic.Options{Deletes: elastic.Tombstone, CreateIndex: true, Alias: s.alias, Refresh: true})
	if err != nil {
		return nil, err
	}
	return bridge.NewMany("orders", []bridge.Input{from}, []bridge.Output{
		{Name: "postgres", Sink: rows},
		{Name: "lake", Sink: files},
		{Name: "search", Sink: index},
	}, o)
}

// run runs the bridge until ctx ends, or with UntilEnd until it has read all there is.
func run(ctx context.Context, createTable string, s services, o *bridge.Options) error {
	b, err := newBridge(createTable, s, o)
	if err != nil {
		return err
	}
	if o.UntilEnd {
		log.Println(b.Guarantee())
	}
	return b.Run(ctx)
}

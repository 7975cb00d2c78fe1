package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink/postgres"
)

// runBridges is the process that is killed: a bridge for each topic, until each is at the end.
func runBridges(ctx context.Context, broker string, pool *pgxpool.Pool) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, t := range topics() {
		g.Go(func() error {
			createTable, err := t.ddl(broker)
			if err != nil {
				return err
			}
			table, err := ddl.Find(createTable, "t")
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
			to, err := postgres.New(pool, exact+"."+t.table, nil)
			if err != nil {
				return err
			}
			b, err := bridge.New(t.table, from, to, &bridge.Options{
				// Small fetches and a checkpoint each 250 changes are far too little for speed, and right for this: a kill falls before, in
				// the middle of and right after many of them.
				Client:   []kgo.Opt{kgo.FetchMaxPartitionBytes(16 << 10)},
				Changes:  250,
				Interval: 50 * time.Millisecond,
				// The process that follows a killed one takes its place in the consumer group at once.
				InstanceID: "quickstart-" + t.table,
				UntilEnd:   true,
			})
			if err != nil {
				return err
			}
			if err := b.Run(ctx); err != nil {
				return fmt.Errorf("bridge %s: %w", t.table, err)
			}
			return nil
		})
	}
	return g.Wait()
}

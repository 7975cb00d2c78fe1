package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// The usual lines: what a service that moves a topic into Postgres looks like when it is written by hand, with care. A batch is one
// transaction. A key that comes twice in a batch is written once. Deletes are deletes. Offsets are committed after the rows,
// never before, after every batch, and waited for; nothing is swallowed.
//
// What it does not do, because nothing makes one think of it: ask for another isolation level than the client's default, and keep the
// offsets where the rows are.

// usualGroup is the consumer group of one table.
func usualGroup(t topic) string { return "usual-" + t.table }

// runUsual runs a loop for each topic until it is told to stop.
func runUsual(ctx context.Context, broker string, pool *pgxpool.Pool) error {
	write := map[string]func(context.Context, pgx.Tx, string, []*kgo.Record) error{"counts": upsertCounts, "events": insertEvents}
	g, ctx := errgroup.WithContext(ctx)
	for _, t := range topics() {
		g.Go(func() error { return usualLoop(ctx, broker, pool, t, write[t.table]) })
	}
	return g.Wait()
}

func usualLoop(ctx context.Context, broker string, pool *pgxpool.Pool, t topic, write func(context.Context, pgx.Tx, string, []*kgo.Record) error) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(broker),
		kgo.ConsumerGroup(usualGroup(t)),
		kgo.ConsumeTopics(t.name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		// As for the bridge: a process that follows a killed one need not wait until the group has noticed.
		kgo.InstanceID("quickstart-usual-"+t.table),
	)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	for {
		// The same size as the bridge's checkpoints.
		fetches := cl.PollRecords(ctx, 250)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("poll %s: %w", t.name, err)
		}
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return write(ctx, tx, pgx.Identifier{usual, t.table}.Sanitize(), fetches.Records())
		})
		if err != nil {
			return fmt.Errorf("write %s: %w", t.table, err)
		}
		if err := cl.CommitUncommittedOffsets(ctx); err != nil {
			return fmt.Errorf("commit offsets of %s: %w", t.name, err)
		}
		cl.AllowRebalance()
	}
}

type countKey struct {
	G string `json:"g"`
}

type count struct {
	N *int64 `json:"n"`
	S *int32 `json:"s"`
}

func upsertCounts(ctx context.Context, tx pgx.Tx, table string, records []*kgo.Record) error {
	last := map[string]*count{} // nil: deleted
	for _, r := range records {
		var k countKey
		if err := json.Unmarshal(r.Key, &k); err != nil {
			return fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		if r.Value == nil {
			last[k.G] = nil
			continue
		}
		c := &count{}
		if err := json.Unmarshal(r.Value, c); err != nil {
			return fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		last[k.G] = c
	}
	var deleted, gs []string
	var ns []*int64
	var ss []*int32
	for g, c := range last {
		if c == nil {
			deleted = append(deleted, g)
			continue
		}
		gs, ns, ss = append(gs, g), append(ns, c.N), append(ss, c.S)
	}
	if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE g = ANY($1)", deleted); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO "+table+" (g, n, s) SELECT * FROM unnest($1::text[], $2::bigint[], $3::int[]) "+
		"ON CONFLICT (g) DO UPDATE SET n = excluded.n, s = excluded.s", gs, ns, ss)
	return err
}

type event struct {
	ID *int64  `json:"id"`
	V  *string `json:"v"`
}

func insertEvents(ctx context.Context, tx pgx.Tx, table string, records []*kgo.Record) error {
	var b strings.Builder
	b.WriteString("INSERT INTO " + table + " (id, v) VALUES ")
	args := make([]any, 0, 2*len(records))
	for i, r := range records {
		var e event
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "($%d,$%d)", 2*i+1, 2*i+2)
		args = append(args, e.ID, e.V)
	}
	_, err := tx.Exec(ctx, b.String(), args...)
	return err
}

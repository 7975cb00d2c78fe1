package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

// bridgeMain is the bridge with its defaults, until the end of the topic.
func bridgeMain(ctx context.Context) error {
	t, err := taskOf()
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, t.DSN)
	if err != nil {
		return err
	}
	defer pool.Close()
	table, err := ddl.Find(fmt.Sprintf(`CREATE TABLE items (%s) WITH ('connector' = 'upsert-kafka', 'topic' = '%s', 'properties.bootstrap.servers' = '%s',
		'key.format' = 'json', 'value.format' = 'json')`, shape.Flink(), t.Topic, t.Broker), "items")
	if err != nil {
		return err
	}
	decoder, err := format.New(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		return err
	}
	in, err := bridge.FromTable(table, decoder)
	if err != nil {
		return err
	}
	to, err := postgres.New(pool, "public."+t.Table, nil)
	if err != nil {
		return err
	}
	b, err := bridge.New(t.Group, in, to, &bridge.Options{UntilEnd: true})
	if err != nil {
		return err
	}
	return b.Run(ctx)
}

// warm lets the bridge make the tables of its own, which otherwise the clock of its first run would see.
func (s *servers) warm(ctx context.Context, j *job) error {
	if err := s.newTable(ctx, "warm", false); err != nil {
		return err
	}
	run, err := self(roleOurs)(ctx, task{Broker: s.broker, Topic: j.topic, Group: s.prefix + "_warm", DSN: s.dsn, Table: "warm"}, j)
	if err != nil {
		return err
	}
	defer run.stop()
	select {
	case err = <-run.over():
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the bridge cannot do it: %w", err)
	}
	got, err := s.signature(ctx, "warm")
	if err == nil && got != j.want {
		err = errors.New("the bridge's table holds " + got + " instead of " + j.want)
	}
	return err
}

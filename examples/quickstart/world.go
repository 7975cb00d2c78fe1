package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/flinksink/flinksink/internal/capture"
	"github.com/flinksink/flinksink/testbed/postgres"
)

// world is what both programs find: a broker and a database.
type world struct {
	out     io.Writer
	broker  string
	dsn     string
	pool    *pgxpool.Pool
	adm     *kadm.Client
	records map[string][]capture.Record // by topic
}

// load writes the topics into the broker and returns how many records of theirs are aborted.
func (w *world) load(ctx context.Context, say func(string, ...any)) (aborted int, err error) {
	for _, t := range topics() {
		recs, err := t.records()
		if err != nil {
			return 0, err
		}
		w.records[t.name] = recs
		if err := capture.Load(ctx, []string{w.broker}, t.name, t.partitions, recs); err != nil {
			return 0, err
		}
		gone, deletes := 0, 0
		for _, r := range recs {
			if r.Aborted {
				gone++
			}
			if r.Value == nil {
				deletes++
			}
		}
		aborted += gone
		say("  topic     %-26s%6d records, %s", t.name, len(recs), describe(t, deletes, gone))
	}
	return aborted, nil
}

func describe(t topic, deletes, aborted int) string {
	if deletes > 0 {
		return fmt.Sprintf("%d of them deletes, %d partitions", deletes, t.partitions)
	}
	return fmt.Sprintf("%d of them in transactions that Flink aborted", aborted)
}

// makeDatabase makes an empty database with the tables of both programs; drop removes it again.
func (w *world) makeDatabase(ctx context.Context, dsn string) (drop func(), err error) {
	admin, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("flinksink_quickstart_%d", time.Now().UnixNano())
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		admin.Close(ctx)
		return nil, fmt.Errorf("making a database: %w", err)
	}
	drop = func() {
		if w.pool != nil {
			w.pool.Close()
		}
		ctx := context.WithoutCancel(ctx)
		_, _ = admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		admin.Close(ctx)
	}
	if w.dsn, err = withDatabase(dsn, name); err == nil {
		w.pool, err = pgxpool.New(ctx, w.dsn)
	}
	for _, schema := range []string{exact, usual} {
		if err == nil {
			_, err = w.pool.Exec(ctx, "CREATE SCHEMA "+schema)
		}
		for _, t := range topics() {
			if err == nil {
				_, err = w.pool.Exec(ctx, fmt.Sprintf("CREATE TABLE %s.%s (%s)", schema, t.table, t.create))
			}
		}
	}
	if err != nil {
		drop()
		return nil, err
	}
	return drop, nil
}

// withDatabase is dsn with another database.
func withDatabase(dsn, name string) (string, error) {
	u, err := url.Parse(dsn)
	if err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") {
		u.Path = "/" + name
		return u.String(), nil
	}
	if err == nil && strings.Contains(dsn, "=") { // key=value words, of which the last counts
		return dsn + " dbname=" + name, nil
	}
	return "", fmt.Errorf("%s is no connection string that this program understands: expected postgres://user@host/database", postgres.Env)
}

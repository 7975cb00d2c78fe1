package main

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// writer does a phase on a table and returns how long it took, start-up not counted.
type writer func(ctx context.Context, p *phase, table string) (time.Duration, error)

// each runs one transaction for each batch of a phase over one connection.
func each(pool *pgxpool.Pool, batches int, prepare func(ctx context.Context, c *pgx.Conn) error, f func(ctx context.Context, tx pgx.Tx, i int) error) (time.Duration, error) {
	ctx := context.Background()
	c, err := pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Release()
	if prepare != nil {
		if err := prepare(ctx, c.Conn()); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for i := range batches {
		if err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return f(ctx, tx, i) }); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// copyInto copies rows that are ready in memory straight into the table.
func copyInto(pool *pgxpool.Pool) writer {
	return func(_ context.Context, p *phase, table string) (time.Duration, error) {
		return each(pool, len(p.copied), nil, func(ctx context.Context, tx pgx.Tx, i int) error {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "cust", "qty", "price"}, pgx.CopyFromRows(p.copied[i]))
			return err
		})
	}
}

// unnestChunk is how many rows a statement takes.
const unnestChunk = 5000

func upsertSQL(table string) string {
	return `INSERT INTO "` + table + `" ("id", "cust", "qty", "price") SELECT s.c1, s.c2, s.c3, s.c4 FROM unnest($1::int8[], $2::text[], $3::int8[], $4::float8[]) AS s(c1, c2, c3, c4)` +
		` ON CONFLICT ("id") DO UPDATE SET "cust" = EXCLUDED."cust", "qty" = EXCLUDED."qty", "price" = EXCLUDED."price"`
}

// unnest writes rows that are ready in memory, sorted by key, an array for each column.
func unnest(pool *pgxpool.Pool) writer {
	return func(_ context.Context, p *phase, table string) (time.Duration, error) {
		sql := upsertSQL(table)
		ids, custs, qtys, prices := make([]int64, unnestChunk), make([]string, unnestChunk), make([]int64, unnestChunk), make([]float64, unnestChunk)
		return each(pool, len(p.ready), nil, func(ctx context.Context, tx pgx.Tx, i int) error {
			for rows := p.ready[i]; len(rows) > 0; {
				n := min(unnestChunk, len(rows))
				for k, it := range rows[:n] {
					ids[k], custs[k], qtys[k], prices[k] = it.ID, it.Cust, it.Qty, it.Price
				}
				if _, err := tx.Exec(ctx, sql, ids[:n], custs[:n], qtys[:n], prices[:n]); err != nil {
					return err
				}
				rows = rows[n:]
			}
			return nil
		})
	}
}

// merge copies rows that are ready in memory, sorted by key, into a temporary table and merges that.
func merge(pool *pgxpool.Pool) writer {
	return func(_ context.Context, p *phase, table string) (time.Duration, error) {
		stage := "stage_" + table
		return each(pool, len(p.copied), func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, `CREATE TEMPORARY TABLE IF NOT EXISTS "`+stage+`" (id bigint, cust text, qty bigint, price double precision) ON COMMIT DELETE ROWS`)
			return err
		}, func(ctx context.Context, tx pgx.Tx, i int) error {
			if _, err := tx.CopyFrom(ctx, pgx.Identifier{stage}, []string{"id", "cust", "qty", "price"}, pgx.CopyFromRows(p.copied[i])); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO "`+table+`" (id, cust, qty, price) SELECT id, cust, qty, price FROM "`+stage+`" ORDER BY id`+
				` ON CONFLICT (id) DO UPDATE SET cust = EXCLUDED.cust, qty = EXCLUDED.qty, price = EXCLUDED.price`)
			return err
		})
	}
}

const usualBatch = 1000

// usual is what a service that moves a topic into Postgres looks like when it is written by hand: poll, decode, one INSERT ... ON CONFLICT
// of many rows, COMMIT, then the offsets. A row that comes again after a crash is written again.
func usual(s *servers) writer {
	return func(ctx context.Context, p *phase, table string) (time.Duration, error) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(s.broker, ",")...), kgo.ConsumeTopics(p.topic), kgo.ConsumerGroup(p.topic+"_"+table),
			kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll())
		if err != nil {
			return 0, err
		}
		defer cl.CloseAllowingRebalance()
		var began time.Time
		full := valuesSQL(table, usualBatch)
		for n, total := 0, p.rows(); n < total; {
			fetches := cl.PollRecords(ctx, usualBatch)
			if began.IsZero() {
				began = time.Now() // joining the group does not count, nor the first fetch
			}
			if err := fetches.Err(); err != nil {
				var ke *kerr.Error
				if errors.As(err, &ke) && ke.Retriable {
					continue
				}
				return 0, err
			}
			records := fetches.Records()
			if len(records) == 0 {
				continue
			}
			last := make(map[int64]item, len(records)) // one statement may not meet a key twice
			for _, r := range records {
				var it item
				if err := stdjson.Unmarshal(r.Value, &it); err != nil {
					return 0, err
				}
				last[it.ID] = it
			}
			args := make([]any, 0, 4*len(last)+1)
			sql := full
			if len(last) != usualBatch {
				sql = valuesSQL(table, len(last))
				args = append(args, pgx.QueryExecModeExec) // not worth a prepared statement
			}
			for _, it := range last {
				args = append(args, it.ID, it.Cust, it.Qty, it.Price)
			}
			if err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, sql, args...)
				return err
			}); err != nil {
				return 0, err
			}
			if err := cl.CommitUncommittedOffsets(ctx); err != nil {
				return 0, err
			}
			cl.AllowRebalance()
			n += len(records)
		}
		return time.Since(began), nil
	}
}

func valuesSQL(table string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `INSERT INTO "%s" (id, cust, qty, price) VALUES `, table)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "($%d,$%d,$%d,$%d)", 4*i+1, 4*i+2, 4*i+3, 4*i+4)
	}
	b.WriteString(" ON CONFLICT (id) DO UPDATE SET cust = EXCLUDED.cust, qty = EXCLUDED.qty, price = EXCLUDED.price")
	return b.String()
}

// signature tells whether a table holds what it must.
type signature struct{ rows, ids, custs, qtys, cents int64 }

func signatureOf(ctx context.Context, pool *pgxpool.Pool, table string) (s signature, err error) {
	err = pool.QueryRow(ctx, `SELECT count(*), coalesce(sum(id), 0)::bigint, coalesce(sum(hashtext(cust)), 0)::bigint, coalesce(sum(qty), 0)::bigint,
		coalesce(sum(round(price * 100)::bigint), 0)::bigint FROM "`+table+`"`).Scan(&s.rows, &s.ids, &s.custs, &s.qtys, &s.cents)
	return s, err
}

// binaryFormat says that all parameters are in binary form.
func binaryFormat() []int16 { return []int16{1} }

func execBinary(ctx context.Context, tx pgx.Tx, sql string, params [][]byte, oids []uint32) error {
	return tx.Conn().PgConn().ExecParams(ctx, sql, params, oids, binaryFormat(), nil).Read().Err
}

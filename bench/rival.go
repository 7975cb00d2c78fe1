package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// writer does a phase on a table.
type writer func(ctx context.Context, p *phase, table string) (effort, error)

// each runs one transaction for each batch of a phase over one connection.
func each(ctx context.Context, pool *pgxpool.Pool, batches []batch, prepare string, f func(ctx context.Context, tx pgx.Tx, b *batch) error) (time.Duration, error) {
	c, err := pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Release()
	if prepare != "" {
		if _, err := c.Exec(ctx, prepare); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for i := range batches {
		if err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return f(ctx, tx, &batches[i]) }); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// copyInto copies rows that are ready in memory straight into the table.
func copyInto(pool *pgxpool.Pool) timer {
	return func(ctx context.Context, p *phase, table string) (time.Duration, error) {
		return each(ctx, pool, p.cut(checkpointRows), "", func(ctx context.Context, tx pgx.Tx, b *batch) error {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{table}, p.shape.Names(), pgx.CopyFromRows(b.rows))
			return err
		})
	}
}

// unnestChunk is how many rows a statement takes.
const unnestChunk = 5000

// unnested is the relation s of the parameters, a column of the table each.
func unnested(s *rows.Shape) string {
	var args []string
	for i, c := range s.Columns {
		args = append(args, fmt.Sprintf("$%d::%s[]", i+1, [...]string{"int8", "text", "float8"}[c.Kind]))
	}
	return "unnest(" + strings.Join(args, ", ") + ") AS s(" + strings.Join(s.Names(), ", ") + ")"
}

func upsertSQL(s *rows.Shape, table string) string {
	names := strings.Join(s.Names(), ", ")
	return fmt.Sprintf(`INSERT INTO "%s" (%s) SELECT %s FROM %s%s`, table, names, "s."+strings.Join(s.Names(), ", s."), unnested(s), s.OnConflict())
}

func updateSQL(s *rows.Shape, table string) string {
	return fmt.Sprintf(`UPDATE "%s" AS t SET %s FROM %s WHERE t.id = s.id`, table, s.Set("s"), unnested(s))
}

func deleteSQL(table string) string {
	return fmt.Sprintf(`DELETE FROM "%s" AS t USING unnest($1::int8[]) AS s(id) WHERE t.id = s.id`, table)
}

// unnest writes rows that are ready in memory, sorted by key, an array for each column: INSERT ... ON CONFLICT, and DELETE ... USING.
func unnest(pool *pgxpool.Pool, size int) timer {
	return func(ctx context.Context, p *phase, table string) (time.Duration, error) {
		sql := upsertSQL(p.shape, table)
		if p.deletes {
			sql = deleteSQL(table)
		}
		return statements(ctx, pool, p, size, sql)
	}
}

// statements runs one statement over each chunk of a phase.
func statements(ctx context.Context, pool *pgxpool.Pool, p *phase, size int, sql string) (time.Duration, error) {
	return each(ctx, pool, p.cut(size), "", func(ctx context.Context, tx pgx.Tx, b *batch) error {
		for _, args := range b.chunks {
			if _, err := tx.Exec(ctx, sql, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// updateFrom updates rows that are there, and would lose any that are not; the rows themselves come by COPY.
func updateFrom(pool *pgxpool.Pool) timer {
	return func(ctx context.Context, p *phase, table string) (time.Duration, error) {
		if p.name == "new keys" {
			return copyInto(pool)(ctx, p, table)
		}
		return statements(ctx, pool, p, checkpointRows, updateSQL(p.shape, table))
	}
}

// merge copies rows that are ready in memory, sorted by key, into a temporary table and merges that.
func merge(pool *pgxpool.Pool) timer {
	return func(ctx context.Context, p *phase, table string) (time.Duration, error) {
		stage, names := "stage_"+table, strings.Join(p.shape.Names(), ", ")
		sql := fmt.Sprintf(`INSERT INTO "%s" (%s) SELECT %s FROM "%s" ORDER BY id%s`, table, names, names, stage, p.shape.OnConflict())
		return each(ctx, pool, p.cut(checkpointRows), fmt.Sprintf(`CREATE TEMPORARY TABLE IF NOT EXISTS "%s" (%s) ON COMMIT DELETE ROWS`, stage, p.shape.SQL()),
			func(ctx context.Context, tx pgx.Tx, b *batch) error {
				if _, err := tx.CopyFrom(ctx, pgx.Identifier{stage}, p.shape.Names(), pgx.CopyFromRows(b.rows)); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, sql)
				return err
			})
	}
}

const usualBatch = 1000

// loop is what a service that moves a topic into Postgres looks like when it is written by hand: poll, decode, one INSERT ... ON CONFLICT
// of many rows, COMMIT, then the offsets. A row that comes again after a crash is written again.
func loop(ctx context.Context, s *servers, p *phase, table string) (time.Duration, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(s.broker, ",")...), kgo.ConsumeTopics(p.topic), kgo.ConsumerGroup(p.topic+"_"+table),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll())
	if err != nil {
		return 0, err
	}
	defer cl.CloseAllowingRebalance()
	var began time.Time
	most := min(usualBatch, 65535/len(p.shape.Columns)) // parameters of a statement
	full := valuesSQL(p.shape, table, most)
	for n := 0; n < p.n; {
		fetches := cl.PollRecords(ctx, most)
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
		last := make(map[int64][]any, len(records)) // one statement may not meet a key twice
		var gone []int64
		for _, r := range records {
			if len(r.Value) == 0 {
				id, err := rows.ParseKey(r.Key)
				if err != nil {
					return 0, err
				}
				delete(last, id)
				gone = append(gone, id)
				continue
			}
			row, err := p.shape.Parse(r.Value)
			if err != nil {
				return 0, err
			}
			last[row[0].(int64)] = row
		}
		args := make([]any, 0, len(p.shape.Columns)*len(last)+1)
		sql := full
		if len(last) != most {
			sql = valuesSQL(p.shape, table, len(last))
			args = append(args, pgx.QueryExecModeExec) // not worth a prepared statement
		}
		for _, row := range last {
			args = append(args, row...)
		}
		if err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if len(gone) > 0 {
				if _, err := tx.Exec(ctx, `DELETE FROM "`+table+`" WHERE id = ANY($1)`, gone); err != nil {
					return err
				}
			}
			if len(last) == 0 {
				return nil
			}
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

func valuesSQL(s *rows.Shape, table string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `INSERT INTO "%s" (%s) VALUES `, table, strings.Join(s.Names(), ", "))
	for i := range n * len(s.Columns) {
		switch {
		case i == 0:
			b.WriteByte('(')
		case i%len(s.Columns) == 0:
			b.WriteString("),(")
		default:
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "$%d", i+1)
	}
	return b.String() + ")" + s.OnConflict()
}

// binaryFormat says that all parameters are in binary form.
func binaryFormat() []int16 { return []int16{1} }

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const loopBatch = 1000

// loopMain is what a service that moves a topic into Postgres looks like when it is written by hand: poll, decode, one INSERT ... ON CONFLICT of
// many rows, COMMIT, then the offsets. A row that comes again after a crash is written again.
func loopMain(ctx context.Context) error {
	t, err := taskOf()
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, t.DSN)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(t.Broker, ",")...), kgo.ConsumeTopics(t.Topic), kgo.ConsumerGroup(t.Group),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll())
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	full := insertSQL(t.Table, loopBatch)
	for n := 0; n < t.Records; {
		fetches := cl.PollRecords(ctx, loopBatch)
		if err := fetches.Err(); err != nil {
			var ke *kerr.Error
			if errors.As(err, &ke) && ke.Retriable {
				continue
			}
			return err
		}
		records := fetches.Records()
		last := make(map[int64][]any, len(records)) // one statement may not meet a key twice
		for _, r := range records {
			if len(r.Value) == 0 {
				id, err := rows.ParseKey(r.Key)
				if err != nil {
					return err
				}
				last[id] = nil
				continue
			}
			row, err := shape.Parse(r.Value)
			if err != nil {
				return err
			}
			last[row[0].(int64)] = row
		}
		var gone []int64
		args := make([]any, 0, len(shape.Columns)*len(last)+1)
		kept := 0
		for id, row := range last {
			if row == nil {
				gone = append(gone, id)
				continue
			}
			args, kept = append(args, row...), kept+1
		}
		sql := full
		if kept != loopBatch {
			sql = insertSQL(t.Table, kept)
			args = append([]any{pgx.QueryExecModeExec}, args...) // not worth a prepared statement
		}
		if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if len(gone) > 0 {
				if _, err := tx.Exec(ctx, `DELETE FROM "`+t.Table+`" WHERE id = ANY($1)`, gone); err != nil {
					return err
				}
			}
			if kept == 0 {
				return nil
			}
			_, err := tx.Exec(ctx, sql, args...)
			return err
		}); err != nil {
			return err
		}
		if err := cl.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
		cl.AllowRebalance()
		n += len(records)
	}
	return nil
}

func insertSQL(table string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `INSERT INTO "%s" (%s) VALUES `, table, strings.Join(shape.Names(), ", "))
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "($%d,$%d,$%d,$%d)", 4*i+1, 4*i+2, 4*i+3, 4*i+4)
	}
	return b.String() + shape.OnConflict()
}

package postgres_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/jackc/pgx/v5"
)

// harness describes the sink to the suite. Each client has a pool of its own, as a process has, of a single connection: a lane never
// needs two at once.
func harness(e *env) sinktest.Harness {
	return sinktest.Harness{
		InTransaction: true,
		Timeout:       5 * time.Minute, // of a machine that does much else
		Reset: func(ctx context.Context, t *changelog.Table) error {
			key := ""
			if len(t.Schema.Key) > 0 {
				key = ", PRIMARY KEY (id)"
			}
			create := "; CREATE TABLE " + t.Name + " (id bigint, v text" + key + ")"
			if t.Name == sinktest.TextTable || t.Name == sinktest.TypeTable {
				create = "" // the sink does, with the columns that it finds right for them
			}
			_, err := e.admin.Exec(ctx, "DROP SCHEMA IF EXISTS "+e.own+" CASCADE; DROP TABLE IF EXISTS "+t.Name+create)
			return err
		},
		Connect: func(ctx context.Context, t *changelog.Table) (sinktest.Client, error) {
			var w wire
			o := e.options()
			o.CreateTable = true
			s, err := postgres.New(e.pool(w.through), "", o)
			return sinktest.Client{Sink: s, Release: w.cut}, err
		},
		Rows: func(ctx context.Context, t *changelog.Table) ([]sinktest.Row, error) {
			rows, err := e.admin.Query(ctx, "SELECT id, v FROM "+e.live(t))
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowToStructByPos[sinktest.Row])
		},
		Values: func(ctx context.Context, t *changelog.Table) ([]changelog.Row, error) {
			return harnessValues(ctx, e, t)
		},
		Letters:   func(ctx context.Context) ([]sink.DeadLetter, error) { return harnessLetters(ctx, e) },
		Leftovers: func(ctx context.Context) ([]string, error) { return harnessLeftovers(ctx, e) },
	}
}

func TestLaws(t *testing.T) { sinktest.Run(t, harness(newEnv(t))) }

// The store with another sink than its own, which leaves receipts.
func TestLaws_StoreAlone(t *testing.T) {
	if os.Getenv("FLINKSINK_LONG") == "" {
		t.Skip("FLINKSINK_LONG=1 runs it; TestLaws and TestLaws_StandAloneStore meet the same code")
	}
	e := newEnv(t)
	h := harness(e)
	h.InTransaction, h.Rows = false, nil
	connect := h.Connect
	h.Connect = func(ctx context.Context, t *changelog.Table) (sinktest.Client, error) {
		c, err := connect(ctx, t)
		if err != nil {
			return c, err
		}
		lane, err := c.Sink.Lane(ctx, sink.Lane{Bridge: sinktest.Bridge, Sink: sinktest.SinkName, Tables: []*changelog.Table{t}})
		if err != nil {
			return c, err
		}
		c.Sink, c.Store = nil, lane.(sink.Store)
		return c, nil
	}
	sinktest.Run(t, h)
}

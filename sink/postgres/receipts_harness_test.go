package postgres_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/jackc/pgx/v5/pgxpool"
)

// modes are those that leave receipts.
var modes = []postgres.Mode{postgres.Prepared, postgres.Staged}

// receiptHarness describes a mode that leaves receipts. The store is the one that the lane offers, or, elsewhere, the suite's own.
func receiptHarness(e *env, mode postgres.Mode, elsewhere bool) sinktest.Harness {
	h := harness(e)
	h.InTransaction = false
	h.Leftovers = func(ctx context.Context) ([]string, error) {
		left, err := harnessLeftovers(ctx, e)
		if e.one("SELECT to_regclass('"+e.own+".staging') IS NOT NULL") == "true" {
			left = append(left, e.all("SELECT 'staged', generation, checkpoint FROM "+e.own+".staging WHERE number = 0")...)
		}
		return left, err
	}
	reset := h.Reset
	h.Reset = func(ctx context.Context, t *changelog.Table) error {
		if err := e.rollBackAll(ctx); err != nil {
			return err
		}
		return reset(ctx, t)
	}
	h.Connect = func(ctx context.Context, t *changelog.Table) (sinktest.Client, error) {
		var w wire
		o := e.options()
		o.CreateTable, o.Mode, o.LockTimeout = true, mode, 30*time.Second
		p := e.pool(func(c *pgxpool.Config) {
			w.through(c)
			c.MaxConns = 2 // a law opens two sinks in one process
		})
		s, err := postgres.New(p, "", o)
		if err != nil || elsewhere {
			return sinktest.Client{Sink: s, Release: w.cut}, err
		}
		st, err := postgres.NewStore(p, &postgres.StoreOptions{Schema: e.own})
		return sinktest.Client{Sink: s, Store: st, Release: w.cut}, err
	}
	return h
}

// rollBackAll takes away the prepared transactions of laws that ended early: they would lock the tables for ever.
func (e *env) rollBackAll(ctx context.Context) error {
	rows, err := e.admin.Query(ctx, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, 'flinksink/"+sinktest.Bridge+"')")
	if err != nil {
		return err
	}
	var gids []string
	for rows.Next() {
		var gid string
		if err := rows.Scan(&gid); err != nil {
			return err
		}
		gids = append(gids, gid)
	}
	if rows.Err() != nil {
		return rows.Err()
	}
	for _, gid := range gids {
		if _, err := e.admin.Exec(ctx, "ROLLBACK PREPARED '"+gid+"'"); err != nil {
			return err
		}
	}
	return nil
}

// Each mode with the store that the lane offers, and with positions in another system. Without FLINKSINK_LONG, one of the two for each.
func TestLaws_Receipts(t *testing.T) {
	for i, mode := range modes {
		for j, elsewhere := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, store elsewhere %v", mode, elsewhere), func(t *testing.T) {
				if i != j && os.Getenv("FLINKSINK_LONG") == "" {
					t.Skip("FLINKSINK_LONG=1 runs it; ./test full does")
				}
				sinktest.Run(t, receiptHarness(newEnv(t), mode, elsewhere))
			})
		}
	}
}

// The stand-alone store is a store for any sink.
func TestLaws_StandAloneStore(t *testing.T) {
	e := newEnv(t)
	h := harness(e)
	h.InTransaction, h.Rows = false, nil
	h.Connect = func(ctx context.Context, t *changelog.Table) (sinktest.Client, error) {
		var w wire
		st, err := postgres.NewStore(e.pool(w.through), &postgres.StoreOptions{Schema: e.own})
		return sinktest.Client{Store: sink.Store(st), Release: w.cut}, err
	}
	sinktest.Run(t, h)
}

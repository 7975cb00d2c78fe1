package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/sink/postgres"
)

// paceFlags say how often a bridge checkpoints, and how many lanes share its partitions.
type paceFlags struct {
	interval time.Duration
	lanes    int
}

func (f *paceFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.DurationVar(&f.interval, "interval", bridge.DefaultInterval, "longest `TIME` between two checkpoints while there is something to save; where only files are written, which each checkpoint ends, 5m unless it is given")
	fs.IntVar(&f.lanes, "lanes", 1, "`NUMBER` of lanes that the partitions are spread over, each with a connection of its own")
}

func (f *paceFlags) check() error {
	var interval error
	if f.interval <= 0 {
		interval = usage(fmt.Errorf("--interval has to be longer than 0, e.g. 1s"))
	}
	return errors.Join(interval, within("--lanes", int64(f.lanes), 1, mostLanes))
}

// mostLanes is more than any server has connections for.
const mostLanes = 10_000

// judgeSettings says what is wrong with the bridge's name, what it reads and its pace.
func judgeSettings(name string, in bridge.Input, f *paceFlags) error {
	// The sink takes no part in the settings that are checked here: its own are checked elsewhere.
	_, err := bridge.New(name, in, &postgres.Sink{}, &bridge.Options{Interval: f.interval, Lanes: f.lanes})
	return plain(err)
}

// spread notes lanes that would have nothing to do.
func (k *checkup) spread(s *subject) {
	n := 0
	for _, t := range s.topics {
		n += len(t.partitions)
	}
	if lanes := s.flags.pace.lanes; s.topics != nil && lanes > n {
		k.note("lanes", "%d lanes share %d partitions: %d of them have nothing to do", lanes, n, lanes-n)
	}
}

// connections notes a server of Postgres that has fewer of them left than the lanes use. What this user may not ask for is not compared; a bridge of this name that
// runs has its own already.
func (t *tableTarget) connections(ctx context.Context, k *checkup, lanes int) {
	var most, used int
	err := t.pool.QueryRow(ctx, `SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
		(SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend')`).Scan(&most, &used)
	if err != nil || most <= 0 {
		return
	}
	switch need, free := lanes+1, max(0, most-used); {
	case free < need:
		k.note("lanes", "%d lanes and their store use %d connections at once, and the server has %d left of %d (max_connections): raise that, or lower --lanes", lanes, need, free, most)
	case lanes > 1:
		k.ok("lanes", "%d lanes and their store use %d connections at once, and the server has %d left", lanes, need, free)
	}
}

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/bridge"
)

// runFlags are those of flinksink run.
type runFlags struct {
	table     tableFlags
	broker    brokerFlags
	target    targetFlags
	bridge    string
	instance  string
	interval  time.Duration
	lanes     int
	untilEnd  bool
	unordered bool
}

func (c *call) run() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run --bridge NAME --ddl FILE --to postgres://...",
		Short: "Run a bridge: make a topic true in Postgres, exactly once, for as long as it runs",
		Long: `run reads the topic of a Flink table and writes what it says into Postgres. Rows and positions are one transaction each interval, so
a process that is killed goes on where the last transaction ended, and no change is lost or takes effect twice.

The bridge's name keys all that is stored: another name begins at the topic's start again (or where the table's scan.startup.mode
says). One name belongs to one topic and one target. Several processes of one name share the partitions.

It runs until it is stopped. An interrupt (or SIGTERM) ends it with a checkpoint; a second one ends it at once, which loses nothing
either. With --until-end it stops by itself once everything below the last stable offsets that it found at its start is in the
table, and says what waits behind an open transaction.

The guarantee is printed at the start, an account at the end, on standard output; progress on standard error. A record that cannot be
decoded stops the bridge, with everything before it checkpointed, and the command that skips it is named: exit status 1.`,
		Example: `  flinksink run --bridge orders --ddl orders.sql --to postgres://app@db:5432/shop
  PGPASSWORD=... flinksink run --bridge orders --ddl orders.sql --to postgres://app@db/shop --into sales.orders --create-table
  flinksink run --bridge backfill --ddl orders.sql --to postgres://app@db/shop --until-end --lanes 2
  flinksink run --bridge orders --instance orders-0 --ddl all.sql --table orders --to postgres://app@db/shop \
    --brokers kafka:9093 --config security.protocol=SSL`,
		Args: cobra.NoArgs,
	}
	fs := cmd.Flags()
	fs.StringVar(&f.bridge, "bridge", "", "durable `NAME` of the bridge; everything it stores is kept under it (required)")
	cmd.MarkFlagRequired("bridge")
	f.table.add(cmd)
	f.broker.add(cmd)
	f.target.add(cmd)
	fs.DurationVar(&f.interval, "interval", bridge.DefaultInterval, "longest `TIME` between two checkpoints while there is something to save")
	fs.BoolVar(&f.untilEnd, "until-end", false, "stop at the last stable offsets that were there at the start")
	fs.IntVar(&f.lanes, "lanes", 1, "`NUMBER` of lanes that the partitions are spread over, each with a connection of its own")
	fs.BoolVar(&f.unordered, "unordered", false, "accept a CDC topic of several partitions whose records have no key as far as the table says: each row's changes are in one partition all the same")
	fs.StringVar(&f.instance, "instance", "", "`ID` of this process among those of the bridge: after a crash it has its partitions back at once; it stays the same over restarts, and no two processes have the same")
	cmd.RunE = c.runE(func(cmd *cobra.Command) error { return c.doRun(cmd, f) })
	return cmd
}

func (c *call) doRun(cmd *cobra.Command, f *runFlags) error {
	switch {
	case f.bridge == "":
		return usage(fmt.Errorf("--bridge is empty: give the bridge a name"))
	case f.interval <= 0:
		return usage(fmt.Errorf("--interval has to be longer than 0, e.g. 1s"))
	case f.lanes < 1:
		return usage(fmt.Errorf("--lanes has to be 1 or more"))
	}
	t, err := c.load(cmd, &f.table, &f.broker)
	if err != nil {
		return err
	}
	d, err := decoder(t, &f.table)
	if err != nil {
		return err
	}
	in, err := bridge.FromTable(t, d)
	if err != nil {
		return err
	}
	pool, err := c.open(cmd.Context(), "--to", f.target.to, f.lanes)
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := f.target.sink(pool)
	if err != nil {
		return err
	}
	return c.drive(cmd, f.bridge, in, s, f.target.table(t), bridge.Options{
		InstanceID: f.instance,
		Interval:   f.interval,
		Lanes:      f.lanes,
		UntilEnd:   f.untilEnd,
		Unordered:  f.unordered,
	}, func(err error, s bridge.Status) error { return pastRecord(err, f.bridge, &f.target, s) })
}

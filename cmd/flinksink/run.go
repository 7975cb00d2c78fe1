package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
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
	missed    bool
	halt      bool
	data      dataFlags
	plan      string
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
decoded, or of which Postgres refuses a row, stops the bridge, with everything before it checkpointed, and the command that skips it is
named: exit status 1. With --on-data dead-letter it goes into a table of dead letters in the same transaction, with --on-data skip it is
dropped and counted; either way the bridge goes on, unless there are too many of them (--data-budget).`,
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
	fs.BoolVar(&f.missed, "allow-missed-deletes", false, "go on although the bridge was down for longer than its compacted topic keeps deletes: rows whose deletes it missed stay")
	fs.BoolVar(&f.halt, "halt-when-fenced", false, "stop when another process has taken partitions over, or a position was moved by hand, instead of joining the group again")
	fs.StringVar(&f.instance, "instance", "", "`ID` of this process among those of the bridge: after a crash it has its partitions back at once; it stays the same over restarts, and no two processes have the same")
	f.data.add(cmd)
	fs.StringVar(&f.plan, "plan", "", "`FILE` with what EXPLAIN CHANGELOG_MODE printed of the job: a record of a kind that its plan does not write is then a bad one (default: what the format can carry is taken)")
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
	onData, err := f.data.policy()
	if err != nil {
		return err
	}
	t, err := c.load(cmd, &f.table, &f.broker)
	if err != nil {
		return err
	}
	d, err := decoder(t, &f.table)
	if err != nil {
		return err
	}
	promise, err := c.promise(cmd, f.plan, t, &f.table)
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
	if f.target.createTable {
		if err := sameBridge(cmd.Context(), pool, f, in, s); err != nil {
			return err
		}
	}
	return c.drive(cmd, f.bridge, in, s, f.target.table(t), bridge.Options{
		InstanceID: f.instance,
		Interval:   f.interval,
		Lanes:      f.lanes,
		UntilEnd:   f.untilEnd,
		Unordered:  f.unordered,
		Promise:    promise,

		AllowMissedDeletes: f.missed,
		HaltWhenFenced:     f.halt,

		OnData:     onData,
		DataBudget: f.data.budget,
	}, func(err error, s bridge.Status) error {
		return whole(pastRecord(err, f.bridge, &f.target, s), f.bridge, &f.target)
	})
}

// sameBridge refuses the name of another bridge before a table is made for it: the store itself compares when the first partition comes.
// And it refuses to make a table anew that positions are stored for: what is below them would never come.
func sameBridge(ctx context.Context, pool *pgxpool.Pool, f *runFlags, in bridge.Input, to *postgres.Sink) error {
	st, err := newStore(pool, f.target.storeSchema)
	if err != nil {
		return err
	}
	state, err := st.Read(ctx, f.bridge)
	if err != nil {
		return err
	}
	group := in.Group
	if group == "" {
		group = f.bridge
	}
	mine := fingerprintOf(group, in, to)
	if state.Bridge != "" && !strings.HasPrefix(state.Fingerprint, mine+" into ") {
		return config("the name %q belongs to another bridge (%s), while this one is (%s): give this bridge a name of its own", f.bridge, state.Fingerprint, mine)
	}
	for _, found := range to.Check(ctx, sink.Lane{Bridge: f.bridge, Sink: bridge.DefaultSinkName, Tables: []*changelog.Table{in.Decoder.Table()}}, mine) {
		if found.What == "bridge" && found.Err != nil {
			return found.Err
		}
	}
	return nil
}

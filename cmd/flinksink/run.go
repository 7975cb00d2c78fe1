package main

import (
	"errors"
	"fmt"

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
	pace      paceFlags
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
		Use:   "run --bridge NAME --ddl FILE --to URL",
		Short: "Run a bridge: make a topic true in Postgres, Kafka, S3 or Elasticsearch, for as long as it runs",
		Long: `run reads the topic of a Flink table and writes what it says into a target. A process that is killed goes on where the last checkpoint
ended, and no change is lost or takes effect twice (in Elasticsearch the end state is right):

  postgres://app@db/shop        rows and positions are one transaction each interval (--mode prepared, staged: two phases)
  kafka://broker:9092/topic     records and positions are one Kafka transaction (--mode two-phase: ended once it is decided), in the
                                encoding of the topic that is read or that of --kafka-ddl
  s3://bucket/prefix            files that become visible at their checkpoint, positions in the bucket (--s3-format, --s3-kind, ...)
  https://search:9200/index     a document a row; positions are elsewhere (--store); {column} in the name makes an index for each value

--to may be repeated, once for each kind: all prepare, one decides, which is Postgres or Kafka in mode in-transaction or what --store names,
then all commit. Their parts are stored under the names postgres, kafka, s3 and elastic (of a single target: sink).

The bridge's name keys all that is stored: another name begins at the topic's start again (or where the table's scan.startup.mode
says). One name belongs to one topic and one set of targets. Several processes of one name share the partitions.

Secrets come from the environment: PGPASSWORD or ~/.pgpass, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or AWS_PROFILE, ~/.aws, SSO, or
what a container or host of AWS has), ELASTICSEARCH_API_KEY or ELASTICSEARCH_USERNAME and ELASTICSEARCH_PASSWORD (ELASTICSEARCH_CA is a
file).
Those of Kafka stand in the table, or in --kafka-properties FILE.

It runs until it is stopped. An interrupt (or SIGTERM) ends it with a checkpoint; a second one ends it at once, which loses nothing
either. With --until-end it stops by itself once everything below the last stable offsets that it found at its start is
written, and says what waits behind an open transaction.

The guarantee is printed at the start, an account at the end, on standard output; progress on standard error. A record that cannot be
decoded, or of which the target refuses a row, stops the bridge, with everything before it checkpointed, and the command that skips it is
named: exit status 1. With --on-data dead-letter it is kept beside the rows, in the same checkpoint (a table, --kafka-dead-letters, a
file, an index), with --on-data skip it is dropped and counted; either way the bridge goes on, unless there are too many of them
(--data-budget).`,
		Example: `  flinksink run --bridge orders --ddl orders.sql --to postgres://app@db:5432/shop
  PGPASSWORD=... flinksink run --bridge orders --ddl orders.sql --to postgres://app@db/shop --into sales.orders --create-table
  flinksink run --bridge backfill --ddl orders.sql --to postgres://app@db/shop --until-end --lanes 2
  flinksink run --bridge copy --ddl orders.sql --to kafka://broker:9092/orders-copy
  flinksink run --bridge lake --ddl views.sql --to s3://lake/raw --s3-format parquet --s3-partition-by 'day=ts|yyyy-MM-dd'
  flinksink run --bridge search --ddl orders.sql --to https://search:9200/orders --create-table --index-deletes tombstone \
    --store postgres://app@db/shop
  flinksink run --bridge all --ddl orders.sql --to postgres://app@db/shop --to s3://lake/raw --s3-kind changelog
  flinksink run --bridge orders --instance orders-0 --ddl all.sql --table orders --to postgres://app@db/shop \
    --brokers kafka:9093 --config security.protocol=SSL`,
		Args: noArgs,
	}
	fs := cmd.Flags()
	fs.StringVar(&f.bridge, "bridge", "", "durable `NAME` of the bridge; everything it stores is kept under it (required)")
	cmd.MarkFlagRequired("bridge")
	f.table.add(cmd)
	f.broker.add(cmd)
	f.target.add(cmd)
	f.pace.add(cmd)
	fs.BoolVar(&f.untilEnd, "until-end", false, "stop at the last stable offsets that were there at the start")
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
	var name error
	if f.bridge == "" {
		name = usage(fmt.Errorf("--bridge is empty: give the bridge a name"))
	}
	onData, data := f.data.policy()
	ts, err := c.targets(cmd, &f.target)
	if err := errors.Join(name, f.pace.check(), data, err); err != nil {
		return err
	}
	if err := keepsLetters(ts, onData, &f.target); err != nil {
		return err
	}
	t, err := c.load(&f.table, &f.broker)
	if err != nil {
		return err
	}
	d, err := decoder(t, &f.table)
	if err != nil {
		return err
	}
	promise, err := c.promise(f.plan, t, &f.table)
	if err != nil {
		return err
	}
	in, err := inputOf(&f.table, &f.broker, t, d)
	if err != nil {
		return err
	}
	if err := judgeSettings(f.bridge, in, &f.pace); err != nil {
		return err
	}
	r, err := newReading(f.bridge, t, in, &f.table, f.pace.lanes)
	if err != nil {
		return err
	}
	r.interval, r.writes = f.pace.interval, true
	to, err := c.open(cmd.Context(), ts, &f.target, r)
	if err != nil {
		return err
	}
	defer to.close()
	if err := to.sameStore(cmd.Context(), r.bridge); err != nil {
		return err
	}
	if f.target.create {
		if err := to.ready(cmd.Context(), r); err != nil {
			return err
		}
	}
	interval := f.pace.interval
	if !cmd.Flags().Changed("interval") {
		interval = 0 // the bridge's default, which looks at its sinks
	}
	return c.drive(cmd, r, to, bridge.Options{
		InstanceID: f.instance,
		Interval:   interval,
		Lanes:      f.pace.lanes,
		UntilEnd:   f.untilEnd,
		Unordered:  f.unordered,
		Promise:    promise,

		AllowMissedDeletes: f.missed,
		HaltWhenFenced:     f.halt,

		OnData:     onData,
		DataBudget: f.data.budget,
	}, func(err error, s bridge.Status) error {
		at := to.storeFlags(&f.target)
		return whole(pastRecord(err, f.bridge, at, s), f.bridge, at)
	})
}

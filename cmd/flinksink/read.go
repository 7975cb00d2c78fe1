package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
)

// readFlags are those of flinksink read.
type readFlags struct {
	table       tableFlags
	broker      brokerFlags
	file        string
	uncommitted bool
}

func (c *call) read() *cobra.Command {
	f := &readFlags{}
	cmd := &cobra.Command{
		Use:   "read --ddl FILE [--brokers HOST:PORT | --file TOPIC.jsonl]",
		Short: "Print a topic as changes, one JSON object a line",
		Long: `read prints the changes that a topic holds, as Flink's own reader sees them, and ends.

Each line is one change: its kind (op: +I, -U, +U or -D), where it came from, and its row, in the order of partitions, then of offsets.
Scalars are the text that Flink's CAST(x AS STRING) gives (timestamps with local time zone in UTC), bytes are hex, ARRAY is a JSON
array, ROW an object, MAP and MULTISET an array of [key, value] pairs sorted by key, NULL is null. A delete that knows its key only
has null in the other columns. The text is Flink's also where Flink misprints: a year beyond 0 to 9999 shows its last four digits.

From brokers, every partition is read from its first offset, whatever startup mode the table says, up to the last stable offset that
was there at the start: records of aborted transactions, and records behind an open one, are left out. --uncommitted prints them as
well, up to the high watermark. No consumer group is used and nothing is committed. Several topics of one table come one after another,
and each line names its topic.

From a file (--file), the records are those of a captured topic: one JSON object a line with partition, offset, timestamp, key and
value (base64, or null), headers, and aborted or open for what a read_committed consumer does not get.

A record that cannot be decoded prints {"partition":..,"offset":..,"error":"..","class":".."}; reading goes on, and the exit status is 1.
So it is when a signal ends the reading early. A table that is refused refuses every record: with --file each has such a line. A schema
registry that does not answer is waited for, and then ends the reading.`,
		Example: `  flinksink read --ddl orders.sql
  flinksink read --ddl orders.sql --brokers kafka-1:9092,kafka-2:9092 --config security.protocol=SSL
  flinksink read --ddl all-tables.sql --table orders --uncommitted
  flinksink read --ddl orders.sql --file topic.jsonl | jq -c 'select(.op == "-D")'`,
		Args: noArgs,
	}
	f.table.add(cmd)
	f.broker.add(cmd)
	cmd.Flags().StringVar(&f.file, "file", "", "read a captured topic from `TOPIC.jsonl` instead of from brokers")
	cmd.Flags().BoolVar(&f.uncommitted, "uncommitted", false, "print records of aborted and of open transactions as well")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return excludes(cmd, "file", "brokers", "config") }
	cmd.RunE = c.runE(func(cmd *cobra.Command) error { return c.doRead(cmd, f) })
	return cmd
}

func (c *call) doRead(cmd *cobra.Command, f *readFlags) (err error) {
	ctx := cmd.Context()
	t, err := c.load(&f.table, &f.broker)
	var mistake *ddl.Error
	if err != nil && (!errors.As(err, &mistake) || mistake.Line == 0) {
		return err
	}
	var d changelog.Decoder
	if err == nil {
		d, err = decoder(t, &f.table)
	}
	if err != nil {
		if f.file == "" {
			return err
		}
		p := newPrinter(cmd.OutOrStdout(), refusal{errors.New(hide(err.Error(), c.secrets))})
		return errors.Join(err, readFile(ctx, f.file, "", f.uncommitted, p), p.close())
	}
	p := newPrinter(cmd.OutOrStdout(), &patient{Decoder: d, ctx: ctx, patience: c.patience, tell: func(text string) {
		fmt.Fprintln(cmd.ErrOrStderr(), "flinksink: read: "+hide(text, c.secrets))
	}})
	if f.file != "" {
		err = readFile(ctx, f.file, t.Options["topic"], f.uncommitted, p)
	} else {
		err = c.readBrokers(ctx, f, t, d, f.uncommitted, p)
	}
	// What was read is printed, whatever ended the reading.
	if werr := p.close(); werr != nil && err == nil {
		err = werr
	}
	switch {
	case interrupted(ctx):
		return fmt.Errorf("read: %w: the output is whole lines, but not the whole topic", errInterrupted)
	case err != nil:
		return err
	case p.bad > 0:
		return fmt.Errorf("read: %d of %d records cannot be decoded: see the lines with \"error\"", p.bad, p.records)
	}
	return nil
}

// readFile prints a captured topic.
func readFile(ctx context.Context, path, topic string, uncommitted bool, p *printer) error {
	recs, err := readCapture(path)
	if err != nil {
		return err
	}
	for i := range recs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r := &recs[i]
		if !r.Visible() && !uncommitted {
			continue
		}
		r.Topic = topic
		// A capture does not hold leader epochs. Its topic had one leader from its first record to its last.
		r.LeaderEpoch = 0
		if err := p.print(&r.Record); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/internal/capture"
)

// replayFlags are those of flinksink replay.
type replayFlags struct {
	table  tableFlags
	target targetFlags
	file   string
}

func (c *call) replay() *cobra.Command {
	f := &replayFlags{}
	cmd := &cobra.Command{
		Use:   "replay --ddl FILE --file TOPIC.jsonl --to URL",
		Short: "Bring a captured topic into a target, through a broker in this process",
		Long: `replay writes a captured topic into a broker inside this process, at the offsets it had, with its aborted and its open transactions, and
runs a bridge from there into a target, which is one of those of run, until everything a read_committed consumer gets is written.

Each replay is a bridge of a new name and applies the whole topic, whatever was replayed before: an upsert table ends up the same, an
append table has the rows once more. The bridge's positions stay in the store (in Postgres: --store-schema), under a name that begins with
"replay-".

The file holds one JSON object a line with partition, offset, timestamp, key and value (base64, or null), headers, and aborted or open.`,
		Example: `  flinksink replay --ddl orders.sql --file topic.jsonl --to postgres://app@localhost/scratch --create-table
  flinksink replay --ddl all.sql --table orders --file topic.jsonl --to postgres://app@localhost/scratch --into replayed.orders`,
		Args: noArgs,
	}
	f.table.add(cmd)
	cmd.Flags().StringVar(&f.file, "file", "", "the captured topic, `TOPIC.jsonl` (required)")
	cmd.MarkFlagRequired("file")
	f.target.add(cmd)
	cmd.RunE = c.runE(func(cmd *cobra.Command) error { return c.doReplay(cmd, f) })
	return cmd
}

func (c *call) doReplay(cmd *cobra.Command, f *replayFlags) error {
	ctx := cmd.Context()
	ts, err := c.targets(cmd, &f.target)
	if err != nil {
		return err
	}
	t, err := c.load(&f.table, nil)
	if err != nil {
		return err
	}
	d, err := decoder(t, &f.table)
	if err != nil {
		return err
	}
	topic := t.Options["topic"]
	if err := oneTopic(topic); err != nil {
		return err
	}
	recs, err := readCapture(f.file)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("replay-%s-%s-%s", t.Name(), time.Now().UTC().Format("20060102T150405"), rand.Text()[:8])
	r, err := newReading(name, t, bridge.Input{Topics: []string{topic}, Decoder: d}, &f.table, 1)
	if err != nil {
		return err
	}
	r.apart, r.writes = true, true
	to, err := c.open(ctx, ts, &f.target, r)
	if err != nil {
		return err
	}
	defer to.close()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return fmt.Errorf("replay: the broker in this process: %w", err)
	}
	defer broker.Close()
	if err := capture.Load(ctx, broker.ListenAddrs(), topic, partitions(recs), recs); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("replay: %w", err)
	}
	// Of the table's own options only those that say how records are read matter here: the broker is another one.
	r.in.Client = []kgo.Opt{kgo.SeedBrokers(broker.ListenAddrs()...)}
	return c.drive(cmd, r, to, bridge.Options{UntilEnd: true}, nil) // nothing to get past: a bridge of this name never runs again
}

// oneTopic refuses what a capture of one topic cannot stand for.
func oneTopic(topic string) error {
	switch {
	case topic == "":
		return config("--ddl: the table has no option 'topic': a captured topic is replayed under the name that it gives")
	case strings.Contains(topic, ";"):
		return config("--ddl: 'topic' names several topics, and a capture is of one: name the one that was captured")
	}
	return nil
}

// partitions returns how many partitions the topic of recs needs.
func partitions(recs []capture.Record) int {
	n := 1
	for i := range recs {
		n = max(n, int(recs[i].Partition.Partition)+1)
	}
	return n
}

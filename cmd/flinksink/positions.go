package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// positionFlags are those that every command about positions has.
type positionFlags struct {
	keep   storeFlags
	kafka  kafkaFlags
	s3     s3Flags
	bridge string

	to []string // of pending: targets to ask
	at []place  // the same
}

func (f *positionFlags) add(cmd *cobra.Command, bridge string) {
	fs := cmd.Flags()
	f.keep.add(cmd)
	fs.Lookup("store").Usage = "`URL` of what holds the positions, which is what run has in --store, or the target that decides: " + spellings(storeKinds()...) + " (required)"
	f.kafka.addClient(cmd)
	fs.Lookup("kafka-config").Usage = "kafka: a client property, `KEY=VALUE`, for the brokers of --store, and of --to where it is a flag; may be repeated"
	f.s3.addClient(cmd)
	fs.StringVar(&f.bridge, "bridge", "", bridge)
	cmd.MarkFlagRequired("store")
}

// with opens the store for do.
func (c *call) with(cmd *cobra.Command, f *positionFlags, do func(st *keeper) error) error {
	p, err := c.placeOf("--store", f.keep.url, storeKinds()...)
	if err != nil {
		return err
	}
	f.at = nil
	for _, to := range f.to {
		at, err := c.placeOf("--to", to, atPostgres, atKafka, atS3)
		switch at.kind { // before the store is asked
		case atKafka:
			_, err = at.broker("--to")
		case atS3:
			_, err = at.folder("--to")
		}
		if err != nil {
			return err
		}
		f.at = append(f.at, at)
	}
	if err := flagsOfOthers(cmd.Flags(), append([]place{p}, f.at...)); err != nil {
		return err
	}
	st, err := c.openStore(cmd.Context(), &f.keep, &f.kafka, &f.s3, 1)
	if err != nil {
		return err
	}
	defer st.close()
	if schema := f.keep.schema; schema != "" && st.pool != nil { // a misspelt schema is no store that is empty
		there := false
		if err := st.pool.QueryRow(cmd.Context(), "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", schema).Scan(&there); err != nil {
			return fmt.Errorf("--store-schema: looking for schema %q: %w", schema, err)
		}
		if !there {
			return config("--store-schema: there is no schema %q in this database: correct it, or --store", schema)
		}
	}
	return do(st)
}

func (c *call) positions() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "positions",
		Short: "See and move the stored positions of bridges",
		Long: `positions shows where bridges are, and moves them by hand. A bridge reads from its stored positions and from nowhere else, so moving
one is how a bridge is sent back, or past a message that nobody can read.

A move is one transaction: it is fenced against a bridge that runs, compared with the position that was expected, and written into
the store's table audit with who, when, from, to and why. A bridge that runs when its positions are moved is refused at its next
write; it drops what it had read in vain and goes on from where the position is now, without being restarted.

Stores are Postgres, a topic of checkpoints in Kafka, a bucket and a file. Only Postgres knows its bridges (elsewhere --bridge is
needed) and keeps an audit.`,
		Example: `  flinksink positions show --store postgres://app@db/shop
  flinksink positions skip --store postgres://app@db/shop --bridge orders orders:3:1017`,
		Args: noCommand,
		RunE: func(*cobra.Command, []string) error {
			return usage(errors.New("a command is missing: show, set, reset or skip"))
		},
	}
	cmd.AddCommand(c.positionsShow(), c.positionsSet(), c.positionsReset(), c.positionsSkip())
	return cmd
}

// recentMoves is how many moves by hand are shown.
const recentMoves = 5

func (c *call) positionsShow() *cobra.Command {
	f := &positionFlags{}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "show --store URL",
		Short: "Show where bridges are, who owns what, and what waits",
		Long: `show prints what the store holds: for each partition the position (what is read next), the generation and process that took it last
(whether it still runs, the store does not know), the checkpoint that saved it, when, and what that checkpoint counted over all
partitions of its lane; then what is decided and waits to be committed, and what was last moved by hand. It changes nothing.`,
		Example: `  flinksink positions show --store postgres://app@db/shop
  flinksink positions show --store postgres://app@db/shop --bridge orders --json
  flinksink positions show --store s3://lake/raw --bridge views`,
		Args: noArgs,
	}
	f.add(cmd, "`NAME` of one bridge (default: all, in Postgres)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.RunE = c.runE(func(cmd *cobra.Command) error {
		return c.with(cmd, f, func(st *keeper) error {
			all, err := readBridges(cmd, st, f.bridge)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(map[string]any{"bridges": jsonBridges(all)})
			}
			return writeBridges(cmd.OutOrStdout(), all)
		})
	})
	return cmd
}

// stored is what is known of a bridge.
type stored struct {
	sink.State
	moves []postgres.Audit
}

func readBridges(cmd *cobra.Command, k *keeper, bridge string) ([]stored, error) {
	ctx := cmd.Context()
	if k.pg == nil {
		return readBridge(ctx, k, bridge)
	}
	st := k.pg
	names, err := st.Bridges(ctx)
	if err != nil {
		return nil, err
	}
	if bridge != "" {
		if !slices.Contains(names, bridge) {
			if writers, err := k.writers(ctx); err == nil && slices.Contains(writers, bridge) {
				return nil, config("--bridge: %q writes into this database, and its positions are in another store: name that one by --store", bridge)
			}
			return nil, config("--bridge: %s knows no bridge %q: it knows %s", st, bridge, quoted(names))
		}
		names = []string{bridge}
	}
	var all []stored
	for _, n := range names {
		s := stored{}
		if s.State, err = st.Read(ctx, n); err != nil {
			return nil, err
		}
		if s.moves, err = st.Audit(ctx, n, recentMoves); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// readBridge reads a store that answers about one bridge, and keeps no audit.
func readBridge(ctx context.Context, k *keeper, bridge string) ([]stored, error) {
	if bridge == "" {
		return nil, usage(fmt.Errorf("--bridge is missing: %s is asked about one bridge", k.place.kind.article()))
	}
	state, err := k.Read(ctx, bridge)
	if err != nil {
		return nil, err
	}
	if state.Bridge == "" {
		return nil, config("--bridge: %s knows no bridge %q: correct the name, or --store", k.place.public(), bridge)
	}
	return []stored{{State: state}}, nil
}

func quoted(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Trim(fmt.Sprintf("%q", names), "[]")
}

// holder returns the generation that holds a partition, nil for none.
func (s *stored) holder(p changelog.Partition) *sink.GenerationState {
	for i := range s.Generations {
		if g := &s.Generations[i]; !g.Ended && slices.Contains(g.Partitions, p) {
			return g
		}
	}
	return nil
}

// unsaved returns the partitions that a generation holds and that have no position.
func (s *stored) unsaved() (out []changelog.Partition) {
	for _, g := range s.Generations {
		if g.Ended {
			continue
		}
		for _, p := range g.Partitions {
			if !slices.ContainsFunc(s.Positions, func(q sink.StoredPosition) bool { return q.Position.Partition == p }) {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, changelog.Partition.Compare)
	return out
}

func writeBridges(w io.Writer, all []stored) error {
	if len(all) == 0 {
		_, err := io.WriteString(w, "no bridge has its positions here\n")
		return err
	}
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeBridge(&b, &s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeBridge(b *strings.Builder, s *stored) {
	fmt.Fprintf(b, "bridge %q: %s\n", s.Bridge, s.Fingerprint)
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PARTITION\tPOSITION\tOWNER\tCHECKPOINT\tSAVED\tREAD\tAPPLIED\tSUPERSEDED\tSKIPPED\tDEAD")
	held := func(p changelog.Partition) string {
		if g := s.holder(p); g != nil {
			return fmt.Sprintf("%d %s", g.ID, oneLine(g.Owner))
		}
		return "nobody"
	}
	for _, p := range s.Positions {
		n := p.Counters
		at := "by hand"
		if p.Generation != 0 {
			at = fmt.Sprintf("%d.%d", p.Generation, p.Checkpoint)
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n", p.Position.Partition, p.Offset, held(p.Position.Partition), at, stamp(p.Saved), n.Read, n.Applied, n.Superseded, n.Skipped, n.DeadLettered)
	}
	for _, p := range s.unsaved() {
		fmt.Fprintf(tw, "%s\tnone\t%s\t\t\t\t\t\t\t\n", p, held(p))
	}
	tw.Flush()
	if len(s.Pending) == 0 {
		b.WriteString("pending: nothing waits to be committed\n")
	}
	for _, p := range s.Pending {
		fmt.Fprintf(b, "pending: checkpoint %d.%d of sink %q is decided, and not yet known to be committed\n", p.Generation, p.Checkpoint, p.Sink)
	}
	for _, m := range s.moves {
		fmt.Fprintf(b, "moved: %s %s %s from %s to %s by %s (role %s)", stamp(m.At), m.What, m.Partition, offset(m.Before), offset(m.After), m.Who, m.Role)
		if m.Reason != "" {
			fmt.Fprintf(b, ": %s", oneLine(m.Reason))
		}
		b.WriteByte('\n')
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

func offset(p *changelog.Position) string {
	if p == nil {
		return "none"
	}
	return strconv.FormatInt(p.Offset, 10)
}

// oneLine keeps what somebody wrote from looking like lines of ours, and from steering a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.Join(strings.Fields(s), " "))
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/postgres"
)

func (c *call) pending() *cobra.Command {
	f := &positionFlags{}
	asJSON, settled := false, false
	cmd := &cobra.Command{
		Use:   "pending --store URL",
		Short: "Show what bridges left in doubt, and what settle would do",
		Long: `pending lists what the modes prepared and staged leave while a checkpoint is neither committed nor rolled back: prepared transactions,
staged rows, receipts of decided checkpoints, generations that may still write. Each comes with its age, its owner and a plan:

  commit     it is decided: positions have moved past it
  roll back  its generation ended without deciding it
  leave      its owner, or its successor, settles it
  forget     it is committed, and only the store does not know yet
  lost       it is decided and gone: what it covers has to be read again
  settled    it is committed, and a bridge that stopped in good order has left the receipt: shown with --all

Whether a receipt is committed is read at its target: in the tables of a Postgres that is the store, in the bucket or the brokers that hold
the positions, and at what --to names. Of other targets it is not known, and the receipt is shown.

A generation that may still write, with nothing beside it, is not in doubt by itself.

A bridge that starts, or takes partitions over, settles by itself what is its own. It changes nothing.

Of a store that is not Postgres it lists the receipts of decided checkpoints, of the one bridge that is named: transactions of Kafka,
uploads and staged objects of S3 that wait. What was prepared and never decided is in no store; the next start of the bridge rolls it
back.`,
		Example: `  flinksink pending --store postgres://app@db/shop
  flinksink pending --store postgres://app@db/shop --bridge orders --json
  flinksink pending --store postgres://app@db/shop --bridge all --to s3://lake/raw --to kafka://broker:9092`,
		Args: noArgs,
	}
	f.add(cmd, "`NAME` of one bridge (default: all, in Postgres)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().StringArrayVar(&f.to, "to", nil, "`URL` of a target, which is asked whether a receipt is committed: "+spellings(atPostgres, atKafka, atS3)+"; may be repeated (default: what holds the positions is asked)")
	cmd.Flags().BoolVar(&settled, "all", false, "show receipts too that are proven to be committed")
	cmd.RunE = c.runE(func(cmd *cobra.Command) error {
		return c.with(cmd, f, func(st *keeper) error {
			all, notes, err := c.inDoubt(cmd, f, st)
			if err != nil {
				return err
			}
			if !settled {
				all = withoutSettled(all)
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(map[string]any{"pending": inDoubtJSON(all)})
			}
			return writePending(cmd.OutOrStdout(), all, notes, time.Now())
		})
	})
	return cmd
}

func (c *call) settle() *cobra.Command {
	f := &positionFlags{}
	o := postgres.SettleOptions{}
	yes := false
	cmd := &cobra.Command{
		Use:   "settle --store URL --bridge NAME",
		Short: "Commit or roll back by hand what a bridge left in doubt",
		Long: `settle carries out what pending plans for one bridge: it commits what is decided, and rolls back what no process can decide any more. It
does no harm beside a bridge that runs. Every deed is written into the store's table audit, with who and why.

It is for a bridge that does not come back, whose prepared transactions keep their locks, and for decided work that is lost:
with --accept-lost the receipt of what is lost, or of what the table refuses for good, is let go. Its rows stay missing until the
position is set back, which is a command of its own: flinksink positions set.

Without --yes it shows what it would do.

It is for what waits in Postgres. What waits in Kafka or S3 is settled by the bridge itself, whose next start does that before anything
else: run it once more, with --until-end. What it says is lost there is let go by flinksink positions set --accept-lost.`,
		Example: `  flinksink settle --store postgres://app@db/shop --bridge orders
  flinksink settle --store postgres://app@db/shop --bridge orders --yes --reason "host is gone"`,
		Args: noArgs,
	}
	f.add(cmd, "`NAME` of the bridge (required)")
	cmd.MarkFlagRequired("bridge")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().BoolVar(&o.AcceptLost, "accept-lost", false, "let decided work go that is lost, or that the table refuses for good")
	cmd.Flags().StringVar(&o.Reason, "reason", "", "`TEXT` for the audit: why")
	cmd.RunE = c.runE(func(cmd *cobra.Command) error {
		if f.bridge == "" {
			return usage(errors.New("--bridge is empty: give the bridge's name"))
		}
		o.Bridge = f.bridge
		return c.with(cmd, f, func(k *keeper) error {
			st, err := k.postgres("holds receipts, and only the bridge has the sinks that they are of", "start the bridge once more (flinksink run --until-end), which commits what is decided before "+
				"anything else and rolls back the rest; flinksink pending shows what waits. What it then says is lost is let go by flinksink positions set --accept-lost")
			if err != nil {
				return err
			}
			elsewhere, err := k.elsewhere(cmd.Context())
			if err != nil {
				return err
			}
			if !slices.Contains(elsewhere, f.bridge) { // of such a bridge what a successor has fenced can be rolled back
				if _, err := readBridges(cmd, k, f.bridge); err != nil {
					return err
				}
			}
			if !yes {
				all, err := st.Pending(cmd.Context(), f.bridge)
				if err != nil {
					return err
				}
				if err := writePending(cmd.OutOrStdout(), withoutSettled(all), nil, time.Now()); err != nil {
					return err
				}
				_, err = io.WriteString(cmd.OutOrStdout(), "nothing was changed: --yes does it\n")
				return err
			}
			return c.doSettle(cmd, st, o)
		})
	})
	return cmd
}

func (c *call) doSettle(cmd *cobra.Command, st *postgres.Store, o postgres.SettleOptions) error {
	done, err := st.Settle(cmd.Context(), o)
	if err != nil {
		return err
	}
	var b strings.Builder
	var errs []error
	for i := range done {
		d := &done[i]
		if d.Plan == postgres.Done {
			continue
		}
		writeInDoubt(&b, &d.InDoubt, time.Now())
		switch {
		case d.Err != nil:
			b.WriteString("  not done: see below\n")
			errs = append(errs, d.Err)
		case d.Plan != postgres.Leave:
			b.WriteString("  done\n")
		}
	}
	if !slices.ContainsFunc(done, func(d postgres.Settled) bool { return doubtful(&d.InDoubt) }) {
		b.WriteString("nothing is in doubt\n")
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), b.String()); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// withoutSettled leaves out what is proven to be committed.
func withoutSettled(all []postgres.InDoubt) []postgres.InDoubt {
	return slices.DeleteFunc(all, func(d postgres.InDoubt) bool { return d.Plan == postgres.Done })
}

// doubtful reports whether something waits for a decision, or for somebody to carry one out. A generation does not, that may still write.
func doubtful(d *postgres.InDoubt) bool { return d.Plan != postgres.Done && d.Checkpoint != 0 }

func writePending(w io.Writer, all []postgres.InDoubt, notes []string, now time.Time) error {
	var b strings.Builder
	for i := range all {
		writeInDoubt(&b, &all[i], now)
	}
	if !slices.ContainsFunc(all, func(d postgres.InDoubt) bool { return doubtful(&d) }) {
		b.WriteString("nothing is in doubt\n")
	}
	for _, n := range notes {
		b.WriteString(n + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeInDoubt(b *strings.Builder, d *postgres.InDoubt, now time.Time) {
	fmt.Fprintf(b, "bridge %q  sink %q  %d", d.Bridge, d.Sink, d.Generation)
	if d.Checkpoint != 0 {
		fmt.Fprintf(b, ".%d", d.Checkpoint)
	}
	fmt.Fprintf(b, "  %s", d.What)
	if !d.Since.IsZero() {
		fmt.Fprintf(b, "  since %s (%s)", stamp(d.Since), max(now.Sub(d.Since), 0).Round(time.Second))
	}
	if d.Owner != "" {
		fmt.Fprintf(b, "  owner %s", oneLine(d.Owner))
	}
	if d.Role != "" {
		fmt.Fprintf(b, "  role %s", oneLine(d.Role))
	}
	fmt.Fprintf(b, "\n  %s: %s\n", d.Plan, d.Why)
	for i := range d.From {
		if i < len(d.To) && d.From[i].Offset != d.To[i].Offset {
			fmt.Fprintf(b, "  covers %s from %d to %d\n", d.From[i].Partition, d.From[i].Offset, d.To[i].Offset-1)
		}
	}
	if d.Name != "" {
		fmt.Fprintf(b, "  name %s\n", oneLine(d.Name))
	}
}

// What pending --json prints. Names are part of what the program promises; fields may be added.
type (
	jsonInDoubt struct {
		Bridge     string     `json:"bridge"`
		Sink       string     `json:"sink"`
		Generation int64      `json:"generation"`
		Checkpoint int64      `json:"checkpoint"` // 0: the generation as a whole
		What       string     `json:"what"`
		Name       string     `json:"name"`
		Since      *time.Time `json:"since"`
		Role       string     `json:"role"`
		Owner      string     `json:"owner"`
		Plan       string     `json:"plan"`
		Why        string     `json:"why"`
		Covers     []jsonRun  `json:"covers"`
	}
	jsonRun struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		From      int64  `json:"from"` // the first offset
		To        int64  `json:"to"`   // the offset after the last
	}
)

// inDoubtJSON converts what is in doubt. Lists are never null.
func inDoubtJSON(all []postgres.InDoubt) []jsonInDoubt {
	out := []jsonInDoubt{}
	for _, d := range all {
		x := jsonInDoubt{Bridge: d.Bridge, Sink: d.Sink, Generation: int64(d.Generation), Checkpoint: int64(d.Checkpoint), What: d.What, Name: d.Name, Role: d.Role, Owner: d.Owner,
			Plan: d.Plan.String(), Why: d.Why, Covers: covers(d.From, d.To)}
		if !d.Since.IsZero() {
			at := d.Since.UTC()
			x.Since = &at
		}
		out = append(out, x)
	}
	return out
}

func covers(from, to []changelog.Position) []jsonRun {
	out := []jsonRun{}
	for i, p := range from {
		if i < len(to) {
			out = append(out, jsonRun{p.Topic, p.Partition.Partition, p.Offset, to[i].Offset})
		}
	}
	return out
}

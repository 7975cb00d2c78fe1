package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// verifyFlags are those of flinksink verify and repair.
type verifyFlags struct {
	table    tableFlags
	broker   brokerFlags
	target   targetFlags
	bridge   string
	sink     string
	from     []string
	memory   int
	showKeys bool
	reason   string
	yes      bool
}

func (f *verifyFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.bridge, "bridge", "", "`NAME` of the bridge, whose positions say how far the table is (required)")
	cmd.MarkFlagRequired("bridge")
	f.table.add(cmd)
	f.broker.add(cmd)
	f.target.add(cmd)
	fs.MarkHidden("create-table")
	fs.MarkHidden("kafka-ddl") // a topic is not compared
	fs.MarkHidden("kafka-table")
	fs.MarkHidden("kafka-dead-letters")
	fs.MarkHidden("kafka-transaction-timeout")
	fs.MarkHidden("kafka-max-downtime")
	fs.Lookup("to").Usage = "`URL` of the target: " + spellings(atPostgres, atIndex, atS3) + "; a password is better kept in PGPASSWORD or ~/.pgpass (required)"
	fs.StringVar(&f.sink, "sink", bridge.DefaultSinkName, "declared `NAME` of the sink within the bridge")
	fs.StringArrayVar(&f.from, "from", nil, "`TOPIC:PARTITION:OFFSET` at which the bridge began, where 'scan.startup.mode' is not earliest-offset; may be repeated")
	fs.IntVar(&f.memory, "memory", 256, "`MiB` that may be used for keys, some 80 bytes each; with more keys the topic is read several times")
	fs.BoolVar(&f.showKeys, "show-keys", false, "print a line for each row that differs, with its key, which is data")
}

func (c *call) verify() *cobra.Command {
	f := &verifyFlags{}
	cmd := &cobra.Command{
		Use:   "verify --bridge NAME --ddl FILE --to URL",
		Short: "Compare a table, an index or files with their topic",
		Long: `verify reads the topic up to the stored positions of the bridge, and compares the last row of each key with the table: rows that are
missing, rows that are stale (any column that the bridge writes differs from what it would have written), and extra rows, which the topic
does not have. It changes nothing. The bridge may run meanwhile: positions and rows are read in one snapshot of the database, which stays
open until the end, so rows that die meanwhile are vacuumed later. In an Elasticsearch index keys that are changing are left out.

Files in S3 are read by their manifests, so of committed checkpoints only: each has to be what its manifest says, and the rows of a
checkpoint have to be those of its offsets in the topic, each once. Of kind upsert only the files themselves are judged. Each file is read
in the format and compression that its name tells, so it does no harm if run had others before.

The flags are those that the bridge runs with. What cannot be judged is said: values that the source did not send, records that cannot be
decoded or written, and extra rows where the topic does not go back to its beginning any more. A row of a table
that was set aside or skipped, since a constraint refused it, counts as missing or stale. A table without a key cannot be compared.

The exit status is 1 if a row differs. Counts and positions are printed, and with --show-keys the keys.`,
		Example: `  flinksink verify --bridge orders --ddl orders.sql --to postgres://app@db/shop
  flinksink verify --bridge orders --ddl orders.sql --to postgres://app@db/shop --into sales.orders --show-keys
  flinksink verify --bridge orders --ddl orders.sql --to http://search:9200/orders --store postgres://app@db/shop
  flinksink verify --bridge lake --ddl views.sql --to s3://lake/raw --s3-format parquet`,
		Args: noArgs,
	}
	f.add(cmd)
	cmd.RunE = c.runE(func(cmd *cobra.Command) error { return c.doVerify(cmd, f, false) })
	return cmd
}

func (c *call) repair() *cobra.Command {
	f := &verifyFlags{}
	cmd := &cobra.Command{
		Use:   "repair --bridge NAME --ddl FILE --to URL",
		Short: "Write missing and stale rows again, and delete extra ones",
		Long: `repair compares as verify does, and with --yes it mends what it finds in a table or an index: missing and stale rows are written again from
the topic, extra rows are deleted (or marked as deleted, with --soft-delete). Without --yes it shows what it would do.

Stop the bridge first. Each transaction of at most 1,000 rows makes sure that the bridge is still where it was when the table was looked at,
ends its generations, leaves a row alone that somebody changed meanwhile, and is written into the store's table audit. If the bridge goes
on all the same, the repair stops; what was mended stays, and the next repair finds what is left.`,
		Example: `  flinksink repair --bridge orders --ddl orders.sql --to postgres://app@db/shop
  flinksink repair --bridge orders --ddl orders.sql --to postgres://app@db/shop --yes --reason "backup of the 3rd"`,
		Args: noArgs,
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do it; without, it is shown what would be done")
	cmd.Flags().StringVar(&f.reason, "reason", "", "`TEXT` for the audit: why")
	cmd.RunE = c.runE(func(cmd *cobra.Command) error { return c.doVerify(cmd, f, true) })
	return cmd
}

func (c *call) doVerify(cmd *cobra.Command, f *verifyFlags, mends bool) error {
	ctx := cmd.Context()
	var errs []error
	if f.bridge == "" {
		errs = append(errs, usage(fmt.Errorf("--bridge is empty: name the bridge")))
	}
	errs = append(errs, within("--memory", int64(f.memory), 1, 1<<20))
	o := &bridge.VerifyOptions{Memory: f.memory << 20, Keys: f.showKeys, Why: f.reason}
	for _, text := range f.from {
		p, err := parsePosition(text)
		if err != nil {
			errs = append(errs, usage(fmt.Errorf("--from: %w", err)))
		}
		o.From = append(o.From, p)
	}
	if f.target.index.deletes == "" {
		f.target.index.deletes = "tombstone"
		if !slices.ContainsFunc(f.target.to, func(to string) bool { return kindOf(to) == atIndex }) {
			f.target.index.deletes = ""
		}
	}
	ts, err := c.targets(cmd, &f.target)
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	if len(ts) > 1 {
		return usage(fmt.Errorf("--to names %d targets: they are compared one by one, with the --sink and the --store of the run", len(ts)))
	}
	if ts[0].at().kind == atKafka {
		return config("--to names a topic, which keeps every change and cannot be compared row by row: compare what a table reads of it, by a bridge of the topic into Postgres and verify there")
	}
	t, err := c.load(&f.table, &f.broker)
	if err != nil {
		return err
	}
	d, err := decoder(t, &f.table)
	if err != nil {
		return err
	}
	in, err := inputOf(&f.table, &f.broker, t, d)
	if err != nil {
		return err
	}
	r, err := newReading(f.bridge, t, in, &f.table, 1)
	if err != nil {
		return err
	}
	opened, err := c.open(ctx, ts, &f.target, r)
	if err != nil {
		return err
	}
	defer opened.close()
	settings := &bridge.Options{Connect: c.patience, SinkName: f.sink, Store: opened.store}
	if files, ok := ts[0].(*filesTarget); ok {
		return c.verifyFiles(cmd, f, r, d, files, opened, mends)
	}
	to, ok := opened.outputs[0].Sink.(sink.Verifiable)
	if !ok {
		return config("--to names %s, which cannot be compared", ts[0].at().kind.article())
	}
	into := opened.into(t)
	out := cmd.OutOrStdout()
	p := newProgress(cmd.ErrOrStderr(), c.secrets)
	began := time.Now()
	line := make(chan string, 1)
	line <- "looking at the table"
	o.Progress = func(now bridge.VerifyProgress) {
		<-line
		line <- progressText(now)
	}
	var werr error
	if f.showKeys {
		o.Found = func(d sink.Difference) {
			text := fmt.Sprintf("%s %s", d.Kind, d.Key)
			if d.Kind != sink.Extra {
				text += fmt.Sprintf(" %s@%d", d.Change.Partition, d.Change.Offset)
			}
			if _, err := fmt.Fprintln(out, text); err != nil && werr == nil {
				werr = err
			}
		}
	}
	p.start(func() string {
		text := <-line
		line <- text
		return text
	})
	run := bridge.Verify
	if mends && f.yes {
		run = bridge.Repair
	}
	report, err := run(ctx, f.bridge, in, to, settings, o)
	p.end()
	if werr == nil && len(report.Positions) > 0 {
		werr = writeVerified(out, f, source(in), into, report, err == nil, mends, time.Since(began))
	}
	switch {
	case interrupted(ctx):
		return fmt.Errorf("%w before all rows were compared", errInterrupted)
	case err != nil:
		return err
	case werr != nil:
		return werr
	case report.Clean():
		return nil
	case !mends:
		return fmt.Errorf("verify: %d rows differ: see which with --show-keys, mend them with flinksink repair", report.Missing+report.Stale+report.Extra)
	case !f.yes:
		return config("nothing was changed: stop the bridge, then repeat the command with --yes")
	case report.Mended.Changed+report.Mended.Refused > 0:
		return repairLeft(report.Mended)
	}
	return nil
}

// repairLeft says what becomes of rows that were left alone.
func repairLeft(m sink.Mended) error {
	var left []string
	if m.Changed > 0 {
		left = append(left, fmt.Sprintf("%d rows changed meanwhile: verify again", m.Changed))
	}
	if m.Refused > 0 {
		left = append(left, fmt.Sprintf("%d rows are refused: change the target so that it takes them, or does not alter them (a trigger), or correct them at their source; what the bridge set aside is in flinksink letters", m.Refused))
	}
	return fmt.Errorf("repair: %s", strings.Join(left, "; "))
}

// progressText is the line of progress, in ASCII.
func progressText(p bridge.VerifyProgress) string {
	text := fmt.Sprintf("pass %d, %s", p.Pass, p.Step)
	if p.Of > 0 {
		text += fmt.Sprintf(": %s of at most %s records", thousands(p.Records), thousands(p.Of))
	}
	if p.Found > 0 {
		text += fmt.Sprintf(", %s differences", thousands(p.Found))
	}
	return text
}

// writeVerified prints what a comparison found.
func writeVerified(w io.Writer, f *verifyFlags, topics, table string, r bridge.VerifyReport, whole, mends bool, took time.Duration) error {
	var b strings.Builder
	fmt.Fprintf(&b, "bridge %q: %s against %s, below %s\n", f.bridge, topics, table, positionsText(r.Positions))
	if !whole {
		b.WriteString("stopped by the error below; until then:\n")
	}
	fmt.Fprintf(&b, "rows compared: %s, in %s\n", thousands(r.Keys), took.Round(100*time.Millisecond))
	for _, k := range []struct {
		kind sink.DifferenceKind
		n    int64
	}{{sink.Missing, r.Missing}, {sink.Stale, r.Stale}, {sink.Extra, r.Extra}} {
		if k.kind == sink.Extra && r.NoExtra != "" {
			fmt.Fprintf(&b, "extra: not looked for: %s\n", r.NoExtra)
			continue
		}
		fmt.Fprintf(&b, "%s: %s", k.kind, thousands(k.n))
		if first := r.First[k.kind]; len(first) > 0 {
			more := ""
			if k.n > int64(len(first)) {
				more = ", ..."
			}
			fmt.Fprintf(&b, " (as of %s%s)", positionsText(first), more)
		}
		b.WriteByte('\n')
	}
	if r.Moving > 0 {
		fmt.Fprintf(&b, "not judged: %s keys that are changing\n", thousands(r.Moving))
	}
	if r.Unwritable > 0 {
		fmt.Fprintf(&b, "not judged: %s rows that the table does not take (as of %s)\n", thousands(r.Unwritable), positionsText(r.First[sink.Unwritable]))
	}
	if r.Unreadable > 0 {
		fmt.Fprintf(&b, "not judged: what %s records that cannot be decoded would have changed\n", thousands(r.Unreadable))
	}
	switch m := r.Mended; {
	case mends && f.yes:
		fmt.Fprintf(&b, "mended: %s rows written, %s deleted; left alone: %s that changed meanwhile, %s that the table does not take\n",
			thousands(m.Written), thousands(m.Deleted), thousands(m.Changed), thousands(m.Refused))
	case mends && !r.Clean():
		fmt.Fprintf(&b, "would write %s rows and delete %s\n", thousands(r.Missing+r.Stale), thousands(r.Extra))
	case whole && r.Clean():
		b.WriteString("no difference\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func positionsText(ps []changelog.Position) string {
	var out []string
	for _, p := range ps {
		out = append(out, p.String())
	}
	return strings.Join(out, ", ")
}

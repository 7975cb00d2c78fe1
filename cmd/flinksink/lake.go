package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	s3sink "github.com/flinksink/flinksink/sink/s3"
)

// lakeFlags are those of the commands that work on the files of a bridge.
type lakeFlags struct {
	to, bridge, sink string
	s3               s3Flags
}

func (f *lakeFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.to, "to", "", "`URL` of the folder that the bridge writes to, s3://bucket/prefix (required)")
	fs.StringVar(&f.bridge, "bridge", "", "`NAME` of the bridge (required)")
	fs.StringVar(&f.sink, "sink", bridge.DefaultSinkName, "declared `NAME` of the sink within the bridge (s3 where run had several targets)")
	cmd.MarkFlagRequired("to")
	cmd.MarkFlagRequired("bridge")
	f.s3.addClient(cmd)
}

// lakeFolder is what --to names.
func (c *call) lakeFolder(f *lakeFlags) (folder, error) {
	if f.bridge == "" {
		return folder{}, usage(fmt.Errorf("--bridge is empty: name the bridge"))
	}
	p, err := c.placeOf("--to", f.to, atS3)
	if err != nil {
		return folder{}, err
	}
	return p.folder("--to")
}

// folder reads the flags, and makes the client.
func (c *call) folder(ctx context.Context, f *lakeFlags) (*s3.Client, folder, error) {
	d, err := c.lakeFolder(f)
	if err != nil {
		return nil, d, err
	}
	client, err := c.bucketAt(ctx, "--to", &f.s3, d)
	return client, d, err
}

func (c *call) compact() *cobra.Command {
	f := &lakeFlags{}
	o := s3sink.CompactOptions{}
	var fileMiB int64
	cmd := &cobra.Command{
		Use:   "compact --to s3://bucket/prefix --bridge NAME",
		Short: "Merge the small files that a bridge left in a bucket",
		Long: `compact merges small files of committed checkpoints, folder by folder, and deletes what earlier calls replaced long enough ago. A timer
or an operator calls it, beside the bridge that runs or not; two calls at the same time do each other no harm. It says what it left alone,
and why. Files of a format that --s3-format does not name are left alone: where run had several, each takes a call.

Readers by manifest see each row once at every moment. Who lists folders does not: he sees the old files until they are deleted, and never
the merged ones. So a lake that is compacted is read by its manifests.`,
		Example: `  flinksink compact --to s3://lake/raw --bridge views
  flinksink compact --to s3://lake/raw --bridge views --s3-format parquet --older-than 6h --delete-after 48h`,
		Args: noArgs,
	}
	f.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.s3.format, "s3-format", "json", "`FORMAT` of the files: json (lines), csv, raw, parquet or avro; others are left alone")
	fs.DurationVar(&o.OlderThan, "older-than", time.Hour, "leave checkpoints alone that are younger than this `TIME`")
	fs.DurationVar(&o.DeleteAfter, "delete-after", 24*time.Hour, "delete files that were replaced after this `TIME`, which readers that began before have")
	fs.Int64Var(&fileMiB, "file-size", 256, "about the size of merged files, in `MiB`; files of half of that and more are left as they are")
	fs.IntVar(&o.MaxFiles, "max-files", 10_000, "merge at most this `NUMBER` of files")
	cmd.RunE = c.runE(func(cmd *cobra.Command) error {
		var format error
		o.Format, format = f.s3.files()
		if err := errors.Join(format, within("--file-size", fileMiB, 1, mostMiB), within("--max-files", int64(o.MaxFiles), 1, math.MaxInt32),
			notBelow("--older-than", o.OlderThan, 0), notBelow("--delete-after", o.DeleteAfter, 0)); err != nil {
			return err
		}
		client, d, err := c.folder(cmd.Context(), f)
		if err != nil {
			return err
		}
		o.Bridge, o.Sink, o.FileBytes = f.bridge, f.sink, fileMiB<<20
		// The zero of these means their default to the library, and "at once" here.
		o.OlderThan, o.DeleteAfter = max(o.OlderThan, time.Nanosecond), max(o.DeleteAfter, time.Nanosecond)
		did, err := s3sink.Compact(cmd.Context(), client, d.bucket, d.prefix, o)
		if err != nil {
			return err
		}
		if did.Number == 0 && did.Left.Checkpoints+did.Left.Young == 0 {
			return f.noManifest(cmd.Context(), client, d)
		}
		return writeCompacted(cmd.OutOrStdout(), did, o)
	})
	return cmd
}

func writeCompacted(w io.Writer, did s3sink.CompactResult, o s3sink.CompactOptions) error {
	var b strings.Builder
	if did.Number != 0 {
		fmt.Fprintf(&b, "merged %s files of %s rows into %s\n", thousands(int64(did.Read)), thousands(did.Rows), thousands(int64(did.Written)))
	} else {
		b.WriteString("nothing to merge\n")
	}
	if did.Deleted > 0 {
		fmt.Fprintf(&b, "deleted %s files that were merged before\n", thousands(int64(did.Deleted)))
	}
	writeLeft(&b, did, o)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeLeft says what was seen and left alone: what another format keeps from being merged always, the rest where nothing was merged.
func writeLeft(b *strings.Builder, did s3sink.CompactResult, o s3sink.CompactOptions) {
	left := did.Left
	say := func(n int, format string, a ...any) {
		if n == 1 {
			format = strings.NewReplacer("files", "file", "checkpoints", "checkpoint").Replace(format)
		}
		if n > 0 {
			fmt.Fprintf(b, "left alone: %s "+format+"\n", append([]any{thousands(int64(n))}, a...)...)
		}
	}
	for _, end := range slices.Sorted(maps.Keys(left.Others)) {
		how := "no --s3-format of this command"
		if name := formatOf(end); name != "" {
			how = "--s3-format " + name
		}
		say(left.Others[end], "files named *%s: that takes %s", end, how)
	}
	say(left.Unlike, "files whose columns differ from those of their neighbours")
	if did.Number != 0 {
		return
	}
	say(left.Young, "checkpoints younger than %s (--older-than)", o.OlderThan)
	say(left.Large, "files larger than %s MiB, half of --file-size", thousands(o.FileBytes>>21))
	say(left.Alone, "files without another small one in the same folder")
}

// noManifest refuses a sink that has no manifest there.
func (f *lakeFlags) noManifest(ctx context.Context, client *s3.Client, d folder) error {
	all, err := s3sink.Sinks(ctx, client, d.bucket, d.prefix)
	if err != nil {
		return err
	}
	if slices.Contains(all, s3sink.SinkName{Bridge: f.bridge, Sink: f.sink}) {
		return config("bridge %q, sink %q, has no manifest below %s: it has committed nothing yet, or writes none (--s3-manifest of run), and there is nothing to go by", f.bridge, f.sink, d)
	}
	return f.nothing("a manifest", d, all)
}

// nothing says that a sink has not left what was looked for, and names those that have left something.
func (f *lakeFlags) nothing(what string, d folder, all []s3sink.SinkName) error {
	const most = 20
	var there []string
	for _, n := range all[:min(most, len(all))] {
		there = append(there, fmt.Sprintf("bridge %q, sink %q", n.Bridge, n.Sink))
	}
	if len(all) > most {
		there = append(there, fmt.Sprintf("and %d more", len(all)-most))
	}
	if there == nil {
		there = []string{"no bridge at all"}
	}
	return config("bridge %q, sink %q, has not left %s below %s, where %s left something: correct the names (the sink is called s3 where run had several targets) or the folder; or it has committed nothing yet, or writes no manifests (--s3-manifest of run)",
		f.bridge, f.sink, what, d, strings.Join(there, "; "))
}

// hasManifest reports whether there is any of the sink's.
func (f *lakeFlags) hasManifest(ctx context.Context, client *s3.Client, d folder) (bool, error) {
	rd, err := s3sink.NewReader(client, d.bucket, d.prefix, &s3sink.ReaderOptions{Bridge: f.bridge, Sink: f.sink})
	if err != nil {
		return false, err
	}
	for _, err := range rd.Manifests(ctx) {
		return err == nil, err
	}
	return false, nil
}

// successFlags are those of flinksink success.
type successFlags struct {
	lakeFlags
	table  tableFlags
	broker brokerFlags
	o      s3sink.SuccessOptions
	idle   []string
}

func (c *call) success() *cobra.Command {
	f := &successFlags{}
	cmd := &cobra.Command{
		Use:   "success --to s3://bucket/prefix --bridge NAME --ddl FILE --s3-partition-by FOLDER --every TIME",
		Short: "Mark folders whose time is over with _SUCCESS",
		Long: `success writes an object _SUCCESS into each folder of files whose time is over: when every partition of the topic has passed its end, by
the event times that the manifests tell (run --s3-event-time), less --lateness. A timer or an operator calls it, as often as needed.

A row that comes later is written all the same, as a new file; such folders are listed as late at every call. A partition that is idle holds
everything back, unless --idle leaves it out.`,
		Example: `  flinksink success --to s3://lake/raw --bridge views --ddl views.sql --s3-partition-by 'day=ts|yyyy-MM-dd' --every 24h
  flinksink success --to s3://lake/raw --bridge views --ddl views.sql --s3-partition-by 'hour=ts|yyyy-MM-dd-HH' --every 1h --lateness 5m`,
		Args: noArgs,
	}
	f.lakeFlags.add(cmd)
	f.table.add(cmd)
	f.broker.add(cmd)
	fs := cmd.Flags()
	fs.StringArrayVar(&f.s3.partitionBy, "s3-partition-by", nil, "as of run: `FOLDER`, NAME=COLUMN|LAYOUT, as in 'day=ts|yyyy-MM-dd'; may be repeated (required)")
	fs.DurationVar(&f.o.Every, "every", 0, "how long a folder's time is: 24h for days, 1h for hours, as `TIME` (required)")
	fs.DurationVar(&f.o.Lateness, "lateness", 0, "how much earlier than the latest event time of its partition a row may still come, as `TIME`")
	fs.DurationVar(&f.o.Back, "back", 7*24*time.Hour, "read manifests that were written within this `TIME`")
	fs.StringArrayVar(&f.idle, "idle", nil, "`TOPIC:PARTITION` that holds nothing back; may be repeated")
	cmd.MarkFlagRequired("s3-partition-by")
	cmd.MarkFlagRequired("every")
	cmd.RunE = c.runE(func(cmd *cobra.Command) error { return c.doSuccess(cmd, f) })
	return cmd
}

func (c *call) doSuccess(cmd *cobra.Command, f *successFlags) error {
	ctx := cmd.Context()
	var idle []changelog.Partition
	var errs []error
	for _, text := range f.idle {
		p, err := parsePartition(text)
		if err != nil {
			errs = append(errs, usage(fmt.Errorf("--idle: %w", err)))
		}
		idle = append(idle, p)
	}
	var err error
	f.o.PartitionBy, err = f.s3.folders()
	_, place := c.lakeFolder(&f.lakeFlags)
	if err := errors.Join(append(errs, err, place, notBelow("--every", f.o.Every, time.Second), notBelow("--lateness", f.o.Lateness, 0), notBelow("--back", f.o.Back, time.Second))...); err != nil {
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
	in, err := inputOf(&f.table, &f.broker, t, d)
	if err != nil {
		return err
	}
	client, at, err := c.folder(ctx, &f.lakeFlags)
	if err != nil {
		return err
	}
	f.o.Bridge, f.o.Sink, f.o.Table = f.bridge, f.sink, d.Table().Name
	if f.o.Partitions, err = c.partitionsOf(ctx, in); err != nil {
		return err
	}
	f.o.Partitions = slices.DeleteFunc(f.o.Partitions, func(p changelog.Partition) bool { return slices.Contains(idle, p) })
	did, err := s3sink.Success(ctx, client, at.bucket, at.prefix, f.o)
	if err != nil {
		return err
	}
	if did.Watermark.IsZero() {
		if has, err := f.hasManifest(ctx, client, at); err != nil || !has {
			if err == nil {
				err = f.noManifest(ctx, client, at)
			}
			return err
		}
	}
	return writeSuccess(cmd.OutOrStdout(), did)
}

// partitionsOf asks the brokers which partitions there are.
func (c *call) partitionsOf(ctx context.Context, in bridge.Input) (out []changelog.Partition, err error) {
	cl, err := c.sourceClient(in)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	spans, err := c.spansOf(ctx, cl, in, false)
	for _, s := range spans {
		out = append(out, s.Partition)
	}
	return out, err
}

func writeSuccess(w io.Writer, did s3sink.SuccessResult) error {
	var b strings.Builder
	for _, p := range did.Waiting {
		fmt.Fprintf(&b, "waiting: %s has told no time yet (run writes times with --s3-event-time; --idle leaves it out, --back looks further back)\n", p)
	}
	if !did.Watermark.IsZero() {
		fmt.Fprintf(&b, "no row is expected before %s\n", stamp(did.Watermark))
	}
	for _, k := range did.Closed {
		fmt.Fprintf(&b, "closed: %s\n", k)
	}
	for _, k := range did.Late {
		fmt.Fprintf(&b, "late: %s had been marked and has got rows since\n", k)
	}
	if len(did.Closed) == 0 {
		b.WriteString("no folder was closed by this call\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

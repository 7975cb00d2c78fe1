package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/sink/postgres"
)

// shapeFlags say in which shape changes are written, and into which columns.
type shapeFlags struct {
	appendOnce, ignoreDeletes, skipUnchanged bool
	softDelete, softDeleteLive               string
	softDeleteFrom, version                  string
	audit                                    map[string]string
	swapGroup                                []string
	swapRun, swapLast                        string
	columns                                  map[string]string
	cast                                     []string
	evolve, truncateNanos                    bool
}

func (f *shapeFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.appendOnce, "append-once", false, "table without a key: keep each row's topic, partition, offset and index, and pass over a row that is there already")
	fs.BoolVar(&f.ignoreDeletes, "ignore-deletes", false, "leave rows in the table that the changelog deletes")
	fs.StringVar(&f.softDelete, "soft-delete", "", "`COLUMN[=VALUE]` that marks deleted rows instead of deleting them: true in a boolean, =now() in a timestamptz, or =TEXT")
	fs.StringVar(&f.softDeleteLive, "soft-delete-live", "", "`TEXT` that the column of --soft-delete COLUMN=TEXT holds in all other rows (default: NULL)")
	fs.StringVar(&f.softDeleteFrom, "soft-delete-from", "", "Flink `COLUMN`, e.g. of METADATA FROM 'timestamp', whose value in the delete is the mark")
	fs.BoolVar(&f.skipUnchanged, "skip-unchanged", false, "do not write a row again that is the same already")
	fs.StringVar(&f.version, "version-column", "", "Flink `COLUMN` that grows with each change: a row is never overwritten by an older one")
	fs.StringToStringVar(&f.audit, "audit", nil, "`FIELD=COLUMN,...` to fill with where each row comes from: bridge, generation, checkpoint, topic, partition, offset, index, time")
	fs.Lookup("audit").DefValue = "" // and not the brackets of an empty map
	fs.StringSliceVar(&f.swapGroup, "swap-group", nil, "Flink `COLUMNS` that name a group, all rows of which are replaced at once when the topic has written it anew")
	fs.StringVar(&f.swapRun, "swap-run", "", "Flink `COLUMN` that differs between two writings of a group (default: another group comes in between)")
	fs.StringVar(&f.swapLast, "swap-last", "", "Flink BOOLEAN `COLUMN` that is true in the last row of a group (default: the first row of the next one tells)")
	fs.StringToStringVar(&f.columns, "column", nil, "Flink `COLUMN=NAME,...` where the table's columns have other names; an empty NAME leaves the column out")
	fs.Lookup("column").DefValue = ""
	fs.StringSliceVar(&f.cast, "cast", nil, "Flink text `COLUMNS` that the server casts to whatever type the table's column has")
	fs.BoolVar(&f.evolve, "evolve", false, "add columns that the Flink table has and the table lacks, nullable, with the first checkpoint")
	fs.BoolVar(&f.truncateNanos, "truncate-nanos", false, "cut off the digits of times below the microsecond, which Postgres cannot hold")
}

// shapeFlagNames are their names.
func shapeFlagNames() []string {
	return []string{"append-once", "ignore-deletes", "soft-delete", "soft-delete-live", "soft-delete-from", "skip-unchanged", "version-column", "audit", "swap-group", "swap-run", "swap-last",
		"column", "cast", "evolve", "truncate-nanos"}
}

// set puts the shape into o.
func (f *shapeFlags) set(o *postgres.Options) error {
	o.AppendOnce, o.IgnoreDeletes, o.SkipUnchanged, o.Version = f.appendOnce, f.ignoreDeletes, f.skipUnchanged, f.version
	o.SoftDelete.Column, o.SoftDelete.Deleted, _ = strings.Cut(f.softDelete, "=")
	o.SoftDelete.Live, o.SoftDelete.From = f.softDeleteLive, f.softDeleteFrom
	o.Swap = postgres.Swap{Group: f.swapGroup, Run: f.swapRun, Last: f.swapLast}
	o.Columns, o.Cast, o.Evolve, o.TruncateNanos = f.columns, f.cast, f.evolve, f.truncateNanos
	columns := map[string]*string{"bridge": &o.Audit.Bridge, "generation": &o.Audit.Generation, "checkpoint": &o.Audit.Checkpoint, "topic": &o.Audit.Topic,
		"partition": &o.Audit.Partition, "offset": &o.Audit.Offset, "index": &o.Audit.Index, "time": &o.Audit.Time}
	for _, field := range slices.Sorted(maps.Keys(f.audit)) {
		to, ok := columns[field]
		if !ok {
			return usage(fmt.Errorf("--audit: there is no field %q: they are bridge, generation, checkpoint, topic, partition, offset, index and time", field))
		}
		if f.audit[field] == "" {
			return usage(fmt.Errorf("--audit: field %q has no column: write %s=COLUMN", field, field))
		}
		*to = f.audit[field]
	}
	return nil
}

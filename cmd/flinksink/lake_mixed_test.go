package main

import (
	"strings"
	"testing"
)

// A lake whose format and compression were changed between runs is compared file by file as each was written, also after it was merged, and compact says
// what it left alone.
func TestLake_OtherFormatsBetweenRuns(t *testing.T) {
	broker := newBroker(t)
	lake := newBucket(t)
	makeTopic(t, broker, "views", 2)
	ddl := write(t, "ddl.sql", strings.Replace(viewsDDL, " tags MAP<STRING, INT>,", "", 1))
	with := func(name, ddl string, more ...string) result {
		t.Helper()
		return command(t, append([]string{name, "--bridge", "views", "--ddl", ddl, "--brokers", broker, "--to", "s3://lake/raw", "--s3-endpoint", lake.URL}, more...)...)
	}
	const fine = "missing: 0 rows\nextra: 0 rows\nno difference\n"
	for i, flags := range [][]string{
		{"--s3-format", "json"}, {"--s3-format", "json"},
		{"--s3-format", "json", "--s3-compression", "gzip"},
		{"--s3-format", "csv", "--s3-compression", "zstd"}, {"--s3-format", "csv", "--s3-compression", "zstd"},
		{"--s3-format", "parquet"}, {"--s3-format", "parquet"},
		{"--s3-format", "avro"},
	} {
		for id := range 4 {
			view(t, broker, 10*i+id, "10")
		}
		if got := with("run", ddl, append([]string{"--until-end"}, flags...)...); got.status != exitDone {
			t.Fatalf("%q: %+v", flags, got)
		}
		if got := with("verify", ddl, flags...); got.status != exitDone || !strings.HasSuffix(got.out, fine) {
			t.Errorf("verify with %q: %+v", flags, got)
		}
	}
	compact := func(format string) string {
		t.Helper()
		got := command(t, "compact", "--to", "s3://lake/raw", "--bridge", "views", "--s3-endpoint", lake.URL, "--s3-format", format, "--older-than", "0s", "--delete-after", "0s")
		if got.status != exitDone {
			t.Errorf("compact %s: %+v", format, got)
		}
		return got.out
	}
	for _, c := range []struct{ format, merged, left string }{
		{"csv", "merged ", "named *.jsonl.gz: that takes --s3-format json\n"},
		{"json", "merged ", "named *.parquet: that takes --s3-format parquet\n"},
		{"parquet", "merged ", "named *.csv.zst: that takes --s3-format csv\n"},
		{"json", "deleted ", "named *.avro: that takes --s3-format avro\n"},
	} {
		if out := compact(c.format); !strings.Contains(out, c.merged) || !strings.Contains(out, c.left) {
			t.Errorf("compact %s: %s", c.format, out)
		}
		for _, format := range []string{"json", "parquet", "raw"} { // what the flag says does not matter
			if got := with("verify", ddl, "--s3-format", format); got.status != exitDone || !strings.HasSuffix(got.out, fine) || !strings.Contains(got.out, "rows: 32, in ") {
				t.Errorf("verify with %s after merging %s: %+v", format, c.format, got)
			}
		}
	}
	// Damage is still damage, and rows that are not those of the topic are still that.
	fewer := write(t, "fewer.sql", strings.NewReplacer(" tags MAP<STRING, INT>,", "", " price DECIMAL(10, 2),", "").Replace(viewsDDL))
	if got := with("verify", fewer); got.status != exitFailed || !strings.Contains(got.out, "merged files (csv): the topic has 8 rows, its files hold 8, and not the same\n") ||
		!strings.Contains(got.out, "of another --s3-kind, or of a table with other columns") || strings.Contains(got.out, "damaged:") {
		t.Errorf("of other rows: %+v", got)
	}
	// A format that the table does not fit is not judged.
	tags := write(t, "tags.sql", viewsDDL)
	if got := with("verify", tags); got.status != exitFailed || !strings.Contains(got.out, "not judged: the rows of 1 checkpoints (of merged files: all of them) whose files are of format csv, which cannot be written of the table: table ") || strings.Contains(got.out, "damaged:") || !strings.Contains(got.out, "merged files (json)") {
		t.Errorf("of a table that csv cannot hold: %+v", got)
	}
	damage(t, lake, "raw/_flinksink/views/sink/compacted/")
	if got := with("verify", ddl); got.status != exitFailed || !strings.Contains(got.out, "damaged: merged files (") {
		t.Errorf("of a damaged file: %+v", got)
	}
}

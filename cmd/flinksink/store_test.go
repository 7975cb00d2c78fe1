package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// Positions that Kafka, a bucket or a file keeps are shown and moved, and what waits is told.
func TestPositions_OtherStores(t *testing.T) {
	broker := newBroker(t)
	lake := newBucket(t)
	keyed(t, broker, 10)
	makeTopic(t, broker, "copy", 1)
	es := elastictest.NewServer()
	t.Cleanup(es.Close)
	ddl := write(t, "ddl.sql", keyedDDL)
	file := "file:" + filepath.Join(t.TempDir(), "store.json")
	for _, c := range []struct {
		name         string
		to, at, more []string
	}{
		{"kafka", []string{"--to", "kafka://" + broker + "/copy"}, []string{"--store", "kafka://" + broker}, nil},
		{"s3", []string{"--to", "s3://lake/raw", "--s3-kind", "changelog", "--s3-endpoint", lake.URL}, []string{"--store", "s3://lake/raw", "--s3-endpoint", lake.URL}, nil},
		{"file", []string{"--to", es.URL + "/keyed", "--create-table", "--index-deletes", "hard", "--store", file}, []string{"--store", file}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := func() result {
				return command(t, append([]string{"run", "--bridge", c.name, "--ddl", ddl, "--brokers", broker, "--until-end"}, c.to...)...)
			}
			if got := run(); got.status != exitDone {
				t.Fatalf("%+v", got)
			}
			at := func(words string, more ...string) result {
				return command(t, append(append(strings.Fields(words), append(slices.Clone(c.at), "--bridge", c.name)...), more...)...)
			}
			if got := at("positions show"); got.status != exitDone || !strings.Contains(got.out, "keyed/0    10  ") || strings.Contains(got.out, "pending: nothing waits") != (c.name != "s3") {
				t.Errorf("show: %+v", got)
			}
			if got := at("positions set", "keyed:0:4"); got.status != exitConfig || !strings.Contains(got.out, "would move keyed/0 from 10 to 4: 6 offsets are applied again  (--was keyed:0:10)") {
				t.Errorf("a set that is not certain: %+v", got)
			}
			if got := at("positions set", "keyed:0:4", "--was", "keyed:0:9"); got.status != exitConfig || !strings.Contains(got.errs, "is 10, and 9 was expected") {
				t.Errorf("a set that expects another: %+v", got)
			}
			if got := at("positions set", "keyed:0:4", "--was", "keyed:0:10"); got.status != exitDone || !strings.Contains(got.out, "moved keyed/0 from 10 to 4") {
				t.Errorf("set: %+v", got)
			}
			if got := at("positions skip", "keyed:0:4"); got.status != exitDone || !strings.Contains(got.out, "moved keyed/0 from 4 to 5") {
				t.Errorf("skip: %+v", got)
			}
			if got := at("positions skip", "keyed:0:4"); got.status != exitConfig {
				t.Errorf("a second skip: %+v", got)
			}
			if got := at("positions set", "keyed:1:4", "--yes"); got.status != exitConfig || !strings.Contains(got.errs, "never held keyed/1") {
				t.Errorf("of a partition that is none: %+v", got)
			}
			if got := run(); got.status != exitDone || !strings.Contains(got.out, "\nrecords      5\n") {
				t.Errorf("after the moves: %+v", got)
			}
			if got := at("pending"); got.status != exitDone || got.out != "nothing is in doubt\n" {
				t.Errorf("pending: %+v", got)
			}
			if got := at("pending", "--all"); got.status != exitDone || strings.Contains(got.out, "  settled: it is committed") != (c.name == "s3") {
				t.Errorf("pending --all: %+v", got)
			}
			if got := at("settle", "--yes"); got.status != exitConfig || !strings.Contains(got.errs, "start the bridge once more") {
				t.Errorf("settle: %+v", got)
			}
			// A bucket's receipts wait until the next checkpoint; those of the others are gone.
			got := at("positions set", "keyed:0:4", "--yes", "--accept-lost")
			switch {
			case c.name != "s3" && (got.status != exitConfig || !strings.Contains(got.errs, "nothing that is decided waits")):
				t.Errorf("set --accept-lost: %+v", got)
			case c.name == "s3":
				if got.status != exitDone || !strings.Contains(got.out, "moved keyed/0 from 10 to 4") {
					t.Errorf("set --accept-lost: %+v", got)
				}
				if got := at("pending"); got.out != "nothing is in doubt\n" {
					t.Errorf("pending after what waited was let go: %+v", got)
				}
				if got := run(); got.status != exitDone || !strings.Contains(got.out, "\nrecords      6\n") {
					t.Errorf("after what waited was let go: %+v", got)
				}
			}
			got = at("positions reset", "--yes")
			switch {
			case c.name != "file" && (got.status != exitConfig || !strings.Contains(got.errs, "positions set")):
				t.Errorf("reset: %+v", got)
			case c.name == "file" && (got.status != exitDone || !strings.Contains(got.out, "from 10 to none")):
				t.Errorf("reset: %+v", got)
			}
			if got := command(t, append([]string{"positions", "show", "--bridge", "nobody"}, c.at...)...); got.status != exitConfig || !strings.Contains(got.errs, `no bridge "nobody"`) {
				t.Errorf("of a bridge that is not there: %+v", got)
			}
			if got := command(t, append([]string{"positions", "show"}, c.at...)...); got.status != exitConfig || !strings.Contains(got.errs, "--bridge is missing") {
				t.Errorf("without a bridge: %+v", got)
			}
		})
	}
}

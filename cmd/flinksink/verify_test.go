package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/internal/capture"
	"github.com/flinksink/flinksink/sink"
)

const keyedDDL = `CREATE TABLE keyed (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = 'keyed', 'properties.bootstrap.servers' = 'x', 'key.format' = 'json', 'value.format' = 'json')`

// A table that somebody changed by hand is compared, and mended: counts and positions are printed, keys only when asked for.
func TestVerifyAndRepair(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	ddl := write(t, "ddl.sql", keyedDDL)
	if err := capture.Load(t.Context(), []string{broker}, "keyed", 1, nil); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic("keyed"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	put := func(id int, name string) {
		r := &kgo.Record{Key: fmt.Appendf(nil, `{"id":%d}`, id), Value: fmt.Appendf(nil, `{"id":%d,"name":%q}`, id, name)}
		if name == "" {
			r.Value = nil
		}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for id := range 10 {
		put(id, fmt.Sprint("name", id))
	}
	put(9, "")
	with := func(name string, more ...string) result {
		t.Helper()
		args := append([]string{name, "--bridge", "keyed", "--ddl", ddl, "--brokers", broker}, s.flags(more...)...)
		return command(t, args...)
	}
	if got := with("verify"); got.status != exitConfig || !strings.Contains(got.errs, `"keyed" does not exist`) || strings.Contains(got.errs, "--create-table") {
		t.Errorf("of a table that is missing: %+v", got)
	}
	if got := with("run", "--until-end", "--create-table"); got.status != exitDone {
		t.Fatalf("%+v", got)
	}
	got := with("verify")
	if got.status != exitDone || got.errs != "" || !strings.HasSuffix(got.out, "missing: 0\nstale: 0\nextra: 0\nno difference\n") ||
		!strings.HasPrefix(got.out, "bridge \"keyed\": topic keyed against table keyed, below keyed/0@11\nrows compared: 9, in ") {
		t.Errorf("of an intact table: %+v", got)
	}
	s.exec(t, "DELETE FROM keyed WHERE id = 1")
	s.exec(t, "UPDATE keyed SET name = 'other' WHERE id IN (2, 3)")
	s.exec(t, "INSERT INTO keyed VALUES (9, 'came back'), (77, 'secret')")
	const found = "missing: 1 (as of keyed/0@1)\nstale: 2 (as of keyed/0@2, keyed/0@3)\nextra: 2\n"
	got = with("verify")
	if got.status != exitFailed || !strings.HasSuffix(got.out, found) || got.errs != "flinksink: verify: 5 rows differ: see which with --show-keys, mend them with flinksink repair\n" {
		t.Errorf("with differences: %+v", got)
	}
	if got := with("verify", "--show-keys", "--memory", "1"); got.status != exitFailed || strings.Contains(got.out, "secret") ||
		!slices.Equal(strings.Split(got.out, "\n")[:5], []string{"missing (1) keyed/0@1", "stale (2) keyed/0@2", "stale (3) keyed/0@3", "extra (9)", "extra (77)"}) {
		t.Errorf("with keys: %+v", got)
	}
	if got := with("repair"); got.status != exitConfig || !strings.HasSuffix(got.out, found+"would write 3 rows and delete 2\n") || !strings.Contains(got.errs, "nothing was changed") {
		t.Errorf("a repair without --yes: %+v", got)
	}
	if n := s.one(t, "SELECT count(*) FROM keyed WHERE name IN ('other', 'secret', 'came back')"); n != 4 {
		t.Errorf("it changed the table: %d", n)
	}
	got = with("repair", "--yes", "--reason", "a test")
	if got.status != exitDone || !strings.HasSuffix(got.out, found+"mended: 3 rows written, 2 deleted; left alone: 0 that changed meanwhile, 0 that the table does not take\n") {
		t.Errorf("a repair: %+v", got)
	}
	if got := with("verify"); got.status != exitDone {
		t.Errorf("after the repair: %+v", got)
	}
	if n := s.one(t, "SELECT count(*) FROM "+s.schema+".audit WHERE what = 'repair' AND reason LIKE 'a test (%'"); n != 2 {
		t.Errorf("%d rows in the audit", n)
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--memory", "0"}, "--memory is 0: it has to be 1 or more"},
		{[]string{"--from", "x"}, "--from: \"x\": a position is written TOPIC:PARTITION:OFFSET"},
		{[]string{"--bridge", ""}, "--bridge is empty"},
		{[]string{"--bridge", "other"}, "has no positions of bridge \"other\""},
		{[]string{"--swap-group", "name"}, "--swap-group keeps the last rows"},
	} {
		if got := with("verify", c.flags...); got.status != exitConfig || !strings.Contains(got.errs, c.want) {
			t.Errorf("%q: %+v", c.flags, got)
		}
	}
}

func TestRepairLeft(t *testing.T) {
	for want, m := range map[string]sink.Mended{
		"repair: 2 rows changed meanwhile: verify again":                             {Changed: 2, Written: 5},
		"repair: 1 rows are refused: change the target so that it takes them, or":    {Refused: 1},
		"repair: 2 rows changed meanwhile: verify again; 1 rows are refused: change": {Changed: 2, Refused: 1},
	} {
		if err := repairLeft(m); !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

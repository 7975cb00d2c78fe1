package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// A topic is carried over to another, in both modes, in another encoding too, and a second run does nothing.
func TestRun_Kafka(t *testing.T) {
	broker := newBroker(t)
	keyed(t, broker, 10)
	produce(t, broker, "keyed", `{"id":3}`, "")
	ddl := write(t, "ddl.sql", keyedDDL)
	into := write(t, "into.sql", strings.NewReplacer("'json'", "'csv'", "'topic' = 'keyed'", "'topic' = 'other'").Replace(keyedDDL))
	for _, c := range []struct {
		topic string
		flags []string
		row   string
	}{
		{"same", nil, `{"id":7,"name":"n"}`},
		{"two", []string{"--mode", "two-phase"}, `{"id":7,"name":"n"}`},
		{"other", []string{"--kafka-ddl", into, "--kafka-checkpoints", "kept"}, "7,n"},
	} {
		makeTopic(t, broker, c.topic, 2)
		run := func(name string, more ...string) result {
			return command(t, append(append([]string{name, "--bridge", "to-" + c.topic, "--ddl", ddl, "--brokers", broker, "--to", "kafka://" + broker + "/" + c.topic}, c.flags...), more...)...)
		}
		if got := run("check"); got.status != exitDone || !strings.Contains(got.out, "ok     target     topic "+c.topic+": it is there") || !strings.Contains(got.out, "read_committed") {
			t.Errorf("%s: check: %+v", c.topic, got)
		}
		for i, want := range []string{"\nrecords      11\n", "\nrecords      0\n"} {
			got := run("run", "--until-end")
			if got.status != exitDone || !strings.HasPrefix(got.out, fmt.Sprintf("bridge %q: topic keyed into topic %s\nguarantee: exactly once: ", "to-"+c.topic, c.topic)) || !strings.Contains(got.out, want) {
				t.Fatalf("%s, run %d: %+v", c.topic, i, got)
			}
		}
		rows := topicRows(t, broker, c.topic, true)
		if len(rows) != 9 || !slices.Contains(rows, c.row) {
			t.Errorf("%s: %q", c.topic, rows)
		}
	}
	got := command(t, "run", "--bridge", "x", "--ddl", ddl, "--brokers", broker, "--to", "kafka://"+broker+"/keyed", "--until-end")
	if got.status != exitConfig || !strings.Contains(got.errs, "would read what it writes") {
		t.Errorf("into the topic that is read: %+v", got)
	}
	got = command(t, "run", "--bridge", "x", "--ddl", ddl, "--brokers", broker, "--to", "kafka://"+broker+"/absent", "--until-end")
	if got.status != exitConfig || !strings.Contains(got.errs, `--to: topic "absent" does not exist at `+broker+`: create it, or correct --to`) {
		t.Errorf("into a topic that is missing: %+v", got)
	}
}

// One run writes to four places by one decision, which is that of Postgres.
func TestRun_SeveralTargets(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	lake := newBucket(t)
	es := elastictest.NewServer()
	t.Cleanup(es.Close)
	keyed(t, broker, 20)
	produce(t, broker, "keyed", `{"id":3}`, "")
	makeTopic(t, broker, "copy", 2)
	ddl := write(t, "ddl.sql", keyedDDL)
	args := append([]string{"--bridge", "all", "--ddl", ddl, "--brokers", broker, "--create-table", "--to", "kafka://" + broker + "/copy", "--to", "s3://lake/raw", "--s3-endpoint", lake.URL,
		"--s3-kind", "changelog", "--to", es.URL + "/keyed", "--index-deletes", "tombstone"}, s.flags()...)
	if got := command(t, append([]string{"check"}, args...)...); got.status != exitDone || !strings.Contains(got.out, "index keyed is missing, and is made at the start") || !strings.Contains(got.out, "guarantee") {
		t.Errorf("check: %+v", got)
	}
	got := command(t, append([]string{"run", "--until-end"}, args...)...)
	if got.status != exitDone || !strings.HasPrefix(got.out, `bridge "all": topic keyed into topic copy, files below s3://lake/raw, index keyed, table keyed`) {
		t.Fatalf("%+v", got)
	}
	if n := s.one(t, "SELECT count(*) FROM keyed"); n != 19 {
		t.Errorf("Postgres has %d rows", n)
	}
	if rows := topicRows(t, broker, "copy", true); len(rows) != 19 {
		t.Errorf("the topic has %d rows: %q", len(rows), rows)
	}
	if rows := documents(t, es, "keyed"); len(rows) != 19 || !slices.Contains(rows, `{"id":7,"name":"n"}`) {
		t.Errorf("the index has %d: %q", len(rows), rows)
	}
	if rows := lakeRows(t, lake, "raw", "all", "s3", "json"); len(rows) != 21 {
		t.Errorf("the files have %d rows: %q", len(rows), rows)
	}
	with := func(name string, to ...string) result {
		return command(t, append([]string{name, "--bridge", "all", "--ddl", ddl, "--brokers", broker}, to...)...)
	}
	at := []string{"--store", s.to, "--store-schema", s.schema}
	if got := with("verify", append([]string{"--sink", "s3", "--to", "s3://lake/raw", "--s3-endpoint", lake.URL, "--s3-kind", "changelog"}, at...)...); got.status != exitDone || !strings.HasSuffix(got.out, "missing: 0 rows\nextra: 0 rows\nno difference\n") {
		t.Errorf("verify of the files: %+v", got)
	}
	if got := with("verify", append([]string{"--sink", "elastic", "--to", es.URL + "/keyed"}, at...)...); got.status != exitDone {
		t.Errorf("verify of the index: %+v", got)
	}
	if got := with("verify", s.flags("--sink", "postgres")...); got.status != exitDone {
		t.Errorf("verify of the table: %+v", got)
	}
}

// An index, and indexes that are named by their rows, are filled and compared.
func TestRun_Elastic(t *testing.T) {
	es := elastictest.NewServer()
	t.Cleanup(es.Close)
	indexes(t, es.URL)
}

// A captured topic is replayed into each kind of target.
func TestReplay_Targets(t *testing.T) {
	c := find(t, "upsert_json_all")
	broker := newBroker(t)
	lake := newBucket(t)
	es := elastictest.NewServer()
	t.Cleanup(es.Close)
	makeTopic(t, broker, "replayed", 1)
	final := len(c.lines(t, "final.jsonl"))
	for _, to := range [][]string{
		{"--to", "kafka://" + broker + "/replayed"},
		{"--to", "s3://lake/raw", "--s3-endpoint", lake.URL, "--s3-kind", "upsert"},
		{"--to", es.URL + "/replayed", "--create-table", "--index-deletes", "tombstone", "--store", "file:" + filepath.Join(t.TempDir(), "s")},
	} {
		got := command(t, append([]string{"replay", "--ddl", c.ddl, "--file", c.topic}, to...)...)
		if got.status != exitDone || !strings.Contains(got.out, "account      everything up to the last stable offsets at the start is written\n") {
			t.Errorf("%v: %+v", to[:2], got)
		}
	}
	if rows := topicRows(t, broker, "replayed", true); len(rows) != final {
		t.Errorf("the topic holds %d rows, Flink %d", len(rows), final)
	}
	if rows := documents(t, es, "replayed"); len(rows) != final {
		t.Errorf("the index holds %d rows, Flink %d", len(rows), final)
	}
}

// Which target decides, where --store names none, is what a bridge chooses; and Kafka leaves it to a Postgres that is its own store.
func TestDeciding(t *testing.T) {
	for _, c := range []struct{ to, mode, want, kafka string }{
		{"postgres://a/b", "", "postgres", ""},
		{"s3://l/p", "", "s3", ""},
		{"http://e/i", "", "", ""},
		{"kafka://b:1/t", "", "kafka", ""},
		{"s3://l/p postgres://a/b", "prepared", "postgres", ""},
		{"s3://l/p kafka://b:1/t", "", "kafka", ""},
		{"s3://l/p kafka://b:1/t", "two-phase", "kafka", "two-phase"},
		{"kafka://b:1/t postgres://a/b", "", "postgres", "two-phase"},
		{"kafka://b:1/t postgres://a/b", "staged", "kafka", ""},
		{"http://e/i s3://l/p", "", "s3", ""},
	} {
		f, cmd := &targetFlags{}, &cobra.Command{}
		f.add(cmd) // for the defaults of the other flags
		f.to = strings.Fields(c.to)
		if c.mode != "" {
			f.modes = []string{c.mode}
		}
		ts, err := (&call{}).targets(cmd, f)
		if err != nil {
			t.Errorf("%s: %v", c.to, err)
			continue
		}
		got := ""
		if d := deciding(ts); d != nil {
			got = string(d.at().kind)
		}
		if got != c.want {
			t.Errorf("%s, mode %q: %q decides, want %q", c.to, c.mode, got, c.want)
		}
		for _, x := range ts {
			if k, ok := x.(*topicTarget); ok && k.mode != c.kafka {
				t.Errorf("%s, mode %q: Kafka is %q, want %q", c.to, c.mode, k.mode, c.kafka)
			}
		}
	}
}

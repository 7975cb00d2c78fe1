package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/sink/postgres"
)

func shapeOf(t *testing.T, args string) (postgres.Options, error) {
	t.Helper()
	var f shapeFlags
	cmd := &cobra.Command{}
	f.add(cmd)
	if err := cmd.ParseFlags(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	var o postgres.Options
	err := f.set(&o)
	return o, err
}

func TestShapeFlags(t *testing.T) {
	for args, want := range map[string]postgres.Options{
		"":                              {},
		"--append-once --audit topic=t": {AppendOnce: true, Audit: postgres.AuditColumns{Topic: "t"}},
		"--soft-delete gone --skip-unchanged --version-column v":       {SoftDelete: postgres.SoftDelete{Column: "gone"}, SkipUnchanged: true, Version: "v"},
		"--soft-delete gone=now()":                                     {SoftDelete: postgres.SoftDelete{Column: "gone", Deleted: postgres.Now}},
		"--soft-delete state=a=b --soft-delete-live c":                 {SoftDelete: postgres.SoftDelete{Column: "state", Deleted: "a=b", Live: "c"}},
		"--soft-delete gone --soft-delete-from ts":                     {SoftDelete: postgres.SoftDelete{Column: "gone", From: "ts"}},
		"--ignore-deletes --swap-group a,b --swap-run r --swap-last l": {IgnoreDeletes: true, Swap: postgres.Swap{Group: []string{"a", "b"}, Run: "r", Last: "l"}},
		"--column a=b,c= --cast x,y --evolve --truncate-nanos":         {Columns: map[string]string{"a": "b", "c": ""}, Cast: []string{"x", "y"}, Evolve: true, TruncateNanos: true},
		"--audit bridge=b,generation=g,checkpoint=c --audit topic=t,partition=p,offset=o,index=i,time=at": {
			Audit: postgres.AuditColumns{Bridge: "b", Generation: "g", Checkpoint: "c", Topic: "t", Partition: "p", Offset: "o", Index: "i", Time: "at"}},
	} {
		if got, err := shapeOf(t, args); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", args, got, err)
		}
	}
	for args, want := range map[string]string{"--audit ofset=o": `no field "ofset"`, "--audit offset=": "write offset=COLUMN"} {
		if _, err := shapeOf(t, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// Captured topics go into tables of a shape, and what a shape lacks is told by the names of the flags.
func TestReplay_Shape(t *testing.T) {
	s := newScratch(t)
	ddl := write(t, "ddl.sql", people)
	topic := write(t, "topic.jsonl", `{"partition":0,"offset":0,"timestamp":1,"key":null,"value":"eyJpZCI6MX0="}`)
	for range 2 { // each replay is a bridge of its own, and applies everything again
		got := command(t, append([]string{"replay", "--ddl", ddl, "--file", topic, "--create-table", "--append-once", "--audit", "time=at"}, s.flags()...)...)
		if got.status != exitDone {
			t.Fatalf("status %d: %s", got.status, got.errs)
		}
	}
	if n := s.one(t, "SELECT count(*) FROM people WHERE flinksink_offset = 0 AND at IS NOT NULL"); n != 1 {
		t.Errorf("%v rows, expected 1", n)
	}
	upserts := write(t, "upserts.sql", `CREATE TABLE kept (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 'kept',
		'properties.bootstrap.servers' = 'x:9092', 'key.format' = 'json', 'value.format' = 'json')`)
	topic = write(t, "upserts.jsonl", `{"partition":0,"offset":0,"timestamp":1,"key":"eyJpZCI6MX0=","value":"eyJpZCI6MX0="}
{"partition":0,"offset":1,"timestamp":2,"key":"eyJpZCI6MX0=","value":null}`)
	args := append([]string{"replay", "--ddl", upserts, "--file", topic}, s.flags()...)
	if got := command(t, append(args, "--create-table", "--soft-delete", "gone=now()")...); got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.errs)
	}
	if n := s.one(t, "SELECT count(*) FROM kept WHERE id = 1 AND gone IS NOT NULL"); n != 1 {
		t.Errorf("%v rows, expected 1 that is marked", n)
	}
	s.exec(t, "CREATE TABLE other_names (id bigint PRIMARY KEY)")
	missing := append(args, "--into", "other_names")
	if got := command(t, missing...); got.status != exitConfig || !strings.Contains(got.errs, "set --evolve, or rename or leave it out in --column\n") {
		t.Errorf("status %d: %s", got.status, got.errs)
	}
	for _, more := range []string{"--column name=", "--evolve"} {
		if got := command(t, append(slices.Clone(missing), strings.Fields(more)...)...); got.status != exitDone {
			t.Errorf("%s: status %d: %s", more, got.status, got.errs)
		}
	}
	for _, c := range []struct{ flags, want string }{{"--soft-delete other", "of --soft-delete is missing"}, {"--ignore-deletes --version-column id", "--version-column is"}, {"--swap-group id", "set --ignore-deletes"}} {
		got := command(t, append(args, strings.Fields(c.flags)...)...)
		if got.status != exitConfig || !strings.Contains(got.errs, c.want) || strings.Contains(got.errs, "Options.") {
			t.Errorf("%s: status %d: %s", c.flags, got.status, got.errs)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const plansDir = "../../changelog/explain/testdata"

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		name, plan, table string
		more              []string
		status            int
	}{
		{"explain-upsert", "02_group_by_upsert", "per_cust", []string{"--to", "postgres"}, exitDone},
		{"explain-statement-set", "18_statement_set", "last_click", nil, exitDone},
		{"explain-retract", "05_group_by_changelog_debezium", "per_cust", []string{"--to", "postgres://app:secret@nowhere/shop", "--partitions", "3"}, exitFailed},
		{"explain-retract-unordered", "05_group_by_changelog_debezium", "per_cust", []string{"--to", "postgres", "--partitions", "3", "--unordered"}, exitDone},
		{"explain-kafka", "02_group_by_upsert", "per_cust", []string{"--to", "kafka://broker:9092/copy"}, exitDone},
		{"explain-s3", "02_group_by_upsert", "per_cust", []string{"--to", "s3"}, exitDone},
		{"explain-elastic", "02_group_by_upsert", "per_cust", []string{"--to", "https://me:secret@search:9200/i"}, exitDone},
		{"explain-refused", "12_error_update_into_append", "per_cust", nil, exitFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"explain", "--plan", filepath.Join(plansDir, c.plan+".txt"), "--ddl", filepath.Join(plansDir, c.plan+".sql"), "--table", c.table}, c.more...)
			got := command(t, args...)
			if got.status != c.status || (got.errs == "") != (c.status == exitDone) || strings.Contains(got.out+got.errs, "secret") {
				t.Errorf("status %d, error %s", got.status, got.errs)
			}
			golden(t, c.name+".txt", got.out)
		})
	}
}

func TestExplain_NoPlan(t *testing.T) {
	ddl := filepath.Join(plansDir, "02_group_by_upsert.sql")
	for text, want := range map[string]string{
		"": "the text holds no plan: it must be what EXPLAIN CHANGELOG_MODE INSERT INTO ... prints",
		"== Abstract Syntax Tree ==\nLogicalSink(table=[a])": "the text holds no plan",
	} {
		got := command(t, "explain", "--plan", write(t, "plan.txt", text), "--ddl", ddl, "--table", "per_cust")
		if got.status != exitConfig || got.out != "" || !strings.Contains(got.errs, want) {
			t.Errorf("%q: status %d, %s", text, got.status, got.errs)
		}
	}
	if got := command(t, "explain", "--plan", "nope.txt", "--ddl", ddl, "--table", "per_cust"); got.status != exitConfig || !strings.Contains(got.errs, "--plan nope.txt: there is no such file") {
		t.Errorf("status %d, %s", got.status, got.errs)
	}
}

// What run refuses of a plan it refuses before it connects.
func TestRun_Plan(t *testing.T) {
	for _, c := range []struct{ plan, table, want string }{
		{"12_error_update_into_append", "per_cust", "plan: Flink refuses the job: the table per_cust takes no updates"},
		{"17_plan_advice", "per_cust", "the plan does not tell which kinds of change it holds: ask Flink for EXPLAIN CHANGELOG_MODE"},
		{"19_materialize_none_force", "joined", "materialize: upsertMaterialize is off although -U reaches the sink"},
	} {
		got := command(t, "run", "--bridge", "b", "--to", "postgres://nowhere.invalid/x", "--plan", filepath.Join(plansDir, c.plan+".txt"), "--ddl", filepath.Join(plansDir, c.plan+".sql"), "--table", c.table)
		if got.status != exitConfig || !strings.Contains(got.errs, c.want) {
			t.Errorf("%s: status %d, %s", c.plan, got.status, got.errs)
		}
	}
}

// The messages of format protobuf come with a flag or from the environment.
func TestRead_Protobuf(t *testing.T) {
	dir := filepath.Join(captures, "protobuf_proto2")
	args := []string{"read", "--ddl", filepath.Join(dir, "ddl.sql"), "--file", filepath.Join(dir, "topic.jsonl")}
	want, err := os.ReadFile(filepath.Join(dir, "read.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(protoPaths, "")
	if got := command(t, args...); got.status == exitDone || !strings.Contains(got.errs, "set --proto to the .proto files") {
		t.Errorf("without: status %d, %s", got.status, got.errs)
	}
	if got := command(t, append(args, "--proto", "nope.proto")...); got.status != exitConfig || !strings.Contains(got.errs, "--proto nope.proto: there is no such file") {
		t.Errorf("missing: status %d, %s", got.status, got.errs)
	}
	got := command(t, append(args, "--proto", filepath.Join(captures, "proto", "shop.proto"), "--proto", filepath.Join(captures, "proto", "old.proto"))...)
	if got.status != exitDone || strings.Count(got.out, "\n") != strings.Count(string(want), "\n") || !strings.Contains(got.out, `"name":"x"`) {
		t.Errorf("status %d, %s\n%s", got.status, got.errs, got.out)
	}
	t.Setenv(protoPaths, filepath.Join(captures, "proto"))
	if again := command(t, args...); again.out != got.out || again.status != exitDone {
		t.Errorf("by %s: status %d, %s", protoPaths, again.status, again.errs)
	}
}

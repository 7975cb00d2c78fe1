package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// What is wrong with a file is said with the flag, the file and, where it is known, the line.
func TestFiles_Named(t *testing.T) {
	ofAWS(t, "", "")
	topic := write(t, "topic.jsonl", `{"partition":0,"offset":0,"timestamp":1,"key":null,"value":"eyJpZCI6MX0="}`)
	ddl := write(t, "ddl.sql", keyedDDL)
	wrong := write(t, "wrong.sql", "CREATE TABLE t (\n  id BIGNT) WITH ('connector' = 'kafka')")
	wide := write(t, "wide.sql", "\xff\xfeC\x00R\x00E\x00A\x00T\x00E\x00")
	dir := t.TempDir()
	plan := write(t, "plan.txt", "no plan")
	props := write(t, "client.properties", "a=b\ngeheim-x\n")
	copied := []string{"run", "--bridge", "b", "--ddl", ddl, "--to", "kafka://localhost:1/t", "--brokers", "localhost:1"}
	for _, c := range []struct {
		args []string
		in   string
		want string
	}{
		{[]string{"read", "--file", topic, "--ddl", "absent.sql"}, "", "--ddl absent.sql: there is no such file"},
		{[]string{"read", "--file", topic, "--ddl", dir}, "", "--ddl " + dir + ": it cannot be read"},
		{[]string{"run", "--bridge", "b", "--to", "s3://l", "--ddl", wrong}, "", "--ddl " + wrong + ": line 2, column 6: expected a Flink type, found BIGNT"},
		{[]string{"run", "--bridge", "b", "--to", "s3://l", "--ddl", "-"}, "CREATE\nTABEL", "--ddl - (standard input): line 2, column 1: "},
		{[]string{"run", "--bridge", "b", "--to", "s3://l", "--ddl", "-"}, "", "--ddl - (standard input): nothing came"},
		{[]string{"run", "--bridge", "b", "--to", "s3://l", "--ddl", wide}, "", "--ddl " + wide + ": it is no plain text (UTF-16"},
		{[]string{"run", "--bridge", "b", "--to", "s3://l", "--ddl", ddl, "--table", "nope"}, "", "--ddl " + ddl + " (--table): the text creates no table called \"nope\""},
		{append(copied, "--kafka-ddl", "absent.sql"), "", "--kafka-ddl absent.sql: there is no such file"},
		{append(copied, "--kafka-ddl", wrong), "", "--kafka-ddl " + wrong + ": line 2, column 6: "},
		{append(copied, "--kafka-ddl", "-"), "CREATE\nTABEL", "--kafka-ddl - (standard input): line 2, column 1: "},
		{append(copied, "--kafka-table", "nope"), "", "--ddl " + ddl + " (--kafka-table): the text creates no table called \"nope\""},
		{append(copied, "--kafka-properties", "absent"), "", "--kafka-properties absent: there is no such file"},
		{append(copied, "--kafka-properties", props), "", "--kafka-properties " + props + ": line 2 is no KEY=VALUE"},
		{append(copied, "--plan", "absent"), "", "--plan absent: there is no such file"},
		{append(copied, "--plan", "-"), "no plan", "--plan - (standard input): the text holds no plan"},
		{[]string{"explain", "--ddl", ddl, "--plan", plan}, "", "--plan " + plan + ": the text holds no plan"},
		{append(copied, "--proto", "absent"), "", "--proto absent: there is no such file"},
		{[]string{"read", "--ddl", ddl, "--file", "absent"}, "", "--file absent: there is no such file"},
		{[]string{"read", "--ddl", ddl, "--file", plan}, "", "--file " + plan + ": line 1: "},
		{[]string{"replay", "--ddl", ddl, "--file", plan, "--to", "postgres://a@localhost:1/b"}, "", "--file " + plan + ": line 1: "},
	} {
		var out, errs strings.Builder
		status := (&call{patience: patience}).execute(t.Context(), c.args, strings.NewReader(c.in), &out, &errs)
		if status != exitConfig || out.String() != "" || !strings.Contains(errs.String(), "flinksink: "+c.want) || strings.Contains(errs.String(), "geheim") || strings.Contains(errs.String(), "open ") {
			t.Errorf("%v: status %d, %q is missing in %s", c.args, status, c.want, errs.String())
		}
	}
	t.Setenv(elasticCA, "absent.pem")
	got := offline(t, "run", "--bridge", "b", "--ddl", ddl, "--brokers", "localhost:1", "--to", "https://localhost:1/i", "--store", "file:"+filepath.Join(dir, "s"), "--index-deletes", "hard")
	if got.status != exitConfig || !strings.Contains(got.errs, elasticCA+" names absent.pem: there is no such file") {
		t.Errorf("%+v", got)
	}
}

// Editors of Windows begin a text with a mark that is no part of it.
func TestFiles_ByteOrderMark(t *testing.T) {
	topic := write(t, "topic.jsonl", `{"partition":0,"offset":0,"timestamp":1,"key":null,"value":"eyJpZCI6MX0="}`)
	if got := command(t, "read", "--ddl", write(t, "ddl.sql", mark+people), "--file", topic); got.status != exitDone || !strings.Contains(got.out, `"id":"1"`) {
		t.Errorf("%+v", got)
	}
	f := &kafkaFlags{properties: write(t, "client.properties", mark+"security.protocol=SSL\r\n")}
	if lines, err := f.lines(); err != nil || len(lines) != 1 || lines[0] != "security.protocol=SSL" {
		t.Errorf("%q, %v", lines, err)
	}
}

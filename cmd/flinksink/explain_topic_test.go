package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// explain judges the topic that --kafka-ddl describes as run does.
func TestExplain_TopicOfItsOwn(t *testing.T) {
	plan := filepath.Join(plansDir, "02_group_by_upsert")
	table := func(options string, columns string) string {
		return write(t, "copy.sql", "CREATE TABLE copied ("+columns+") WITH ("+options+", 'topic' = 'copy', 'properties.bootstrap.servers' = 'x')")
	}
	const columns = "cust STRING, n BIGINT, total DECIMAL(38, 2), PRIMARY KEY (cust) NOT ENFORCED"
	const upsert = "'connector' = 'upsert-kafka', 'key.format' = 'json', "
	for _, c := range []struct {
		name string
		more []string
		want []string
	}{
		{"csv", []string{"--to", "kafka", "--kafka-ddl", table(upsert+"'value.format' = 'csv'", columns)},
			[]string{"ok    sink        Kafka takes it by table copied, connector 'upsert-kafka' with format 'csv'\n", "note  sink        values are decoded and encoded anew", "readers of the topic have to be read_committed"}},
		{"a URL", []string{"--to", "kafka://broker:9092/copy", "--kafka-ddl", table(upsert+"'value.format' = 'csv'", columns), "--kafka-table", "copied"}, []string{"ok    sink        Kafka takes it by table copied"}},
		{"inserts only", []string{"--to", "kafka", "--kafka-ddl", table("'connector' = 'kafka', 'format' = 'json'", strings.TrimSuffix(columns, ", PRIMARY KEY (cust) NOT ENFORCED"))},
			[]string{"wrong sink        Kafka does not take it by table copied: the target takes inserts only, and table "}},
		{"old rows", []string{"--to", "kafka", "--kafka-ddl", table("'connector' = 'kafka', 'format' = 'debezium-json'", columns)}, []string{"wrong sink        Kafka does not take it by table copied: the target's format writes the old row"}},
		{"another key", []string{"--to", "kafka", "--kafka-ddl", table(upsert+"'value.format' = 'json'", strings.Replace(columns, "KEY (cust)", "KEY (n)", 1))}, []string{"wrong sink        Kafka does not take it by table copied: the target's PRIMARY KEY (n) is not that of table"}},
	} {
		got := command(t, append([]string{"explain", "--plan", plan + ".txt", "--ddl", plan + ".sql", "--table", "per_cust"}, c.more...)...)
		wrong := strings.HasPrefix(c.want[0], "wrong")
		if got.status != map[bool]int{true: exitFailed, false: exitDone}[wrong] || wrong && strings.Contains(got.out, "Kafka takes it") {
			t.Errorf("%s: %+v", c.name, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got.out, want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, got.out)
			}
		}
	}
	for _, c := range []struct {
		more []string
		want string
	}{
		{[]string{"--to", "postgres", "--kafka-ddl", "x.sql"}, "--kafka-ddl is for a Kafka topic, and nothing here names one"},
		{[]string{"--kafka-table", "x"}, "--kafka-table is for a Kafka topic, and nothing here names one"},
		{[]string{"--to", "kafka", "--kafka-ddl", "absent.sql"}, "--kafka-ddl absent.sql: there is no such file"},
		{[]string{"--to", "kafka://broker:9092/other", "--kafka-ddl", table(upsert+"'value.format' = 'csv'", columns)}, "is of topic \"copy\", and --to names topic \"other\""},
	} {
		got := command(t, append([]string{"explain", "--plan", plan + ".txt", "--ddl", plan + ".sql", "--table", "per_cust"}, c.more...)...)
		if got.status != exitConfig || !strings.Contains(got.errs, c.want) {
			t.Errorf("%v: %+v", c.more, got)
		}
	}
}

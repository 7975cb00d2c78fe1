package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// check and explain say whether a copy hands the values of messages on as they came, and why not.
func TestHandsOn(t *testing.T) {
	broker := newBroker(t)
	keyed(t, broker, 1)
	makeTopic(t, broker, "copy", 1)
	ddl := write(t, "ddl.sql", keyedDDL)
	other := write(t, "other.sql", strings.NewReplacer("'topic' = 'keyed'", "'topic' = 'copy'", "'value.format' = 'json'", "'value.format' = 'json', 'value.json.encode.decimal-as-plain-number' = 'true'").Replace(keyedDDL))
	for _, c := range []struct {
		more []string
		want string
	}{
		{nil, "ok     target     values are handed on as they came"},
		{[]string{"--kafka-ddl", other}, "note   target     values are decoded and encoded anew, not handed on as they came: table"},
		{[]string{"--lenient"}, "read leniently"},
	} {
		got := command(t, append([]string{"check", "--bridge", "b", "--ddl", ddl, "--brokers", broker, "--to", "kafka://" + broker + "/copy"}, c.more...)...)
		if got.status != exitDone || !strings.Contains(got.out, c.want) {
			t.Errorf("check %v: %+v", c.more, got)
		}
	}
	plan := filepath.Join(plansDir, "02_group_by_upsert")
	text, err := os.ReadFile(plan + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	guesses := strings.Replace(string(text), "'value.format' = 'json'", "'value.format' = 'json', 'value.json.ignore-parse-errors' = 'true'", -1)
	if guesses == string(text) {
		t.Fatal("the table's option was not found")
	}
	got := command(t, "explain", "--plan", plan+".txt", "--ddl", write(t, "guesses.sql", guesses), "--table", "per_cust", "--to", "kafka")
	if got.status != exitDone || !strings.Contains(got.out, "note  sink        values are decoded and encoded anew, not handed on as they came") || !strings.Contains(got.out, "'ignore-parse-errors'") {
		t.Errorf("explain: %+v", got)
	}
}

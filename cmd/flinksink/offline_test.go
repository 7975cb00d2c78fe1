package main

import (
	"strings"
	"testing"
	"time"
)

// offline runs a command whose servers are all away, and fails if it waited for one of them.
func offline(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs strings.Builder
	c := &call{patience: time.Hour}
	status := c.execute(t.Context(), args, strings.NewReader(""), &out, &errs)
	return result{status, out.String(), errs.String()}
}

// What flags and table show to be wrong is told before anything is dialled, and all of it at once: with a patience of an hour a server that is asked ends this test.
func TestOffline(t *testing.T) {
	ofAWS(t, "", "")
	ddl, closed := write(t, "ddl.sql", keyedDDL), closedAddress(t)
	kafka := "--to kafka://" + closed + "/t "
	postgres := "--to postgres://a@" + closed + "/b "
	for _, c := range []struct {
		flags string
		want  []string
	}{
		{kafka + "--mode two-phase --interval 20m --kafka-max-downtime 1h", []string{"--kafka-transaction-timeout is 15m0s, --interval is 20m0s and --kafka-max-downtime is 1h0m0s"}},
		{kafka + "--mode in-transaction --interval 20m --store kafka://" + closed, []string{"--mode in-transaction: the transaction of a Kafka topic decides then, and --store names", "--interval is 20m0s: the timeout has to be longer"}},
		{kafka + "--mode two-phase --interval 20m --store file:/no/such/folder/x", []string{"--store file:/no/such/folder/x: there is no folder /no/such/folder", "--interval is 20m0s and --kafka-max-downtime is 1m0s"}},
		{kafka + "--store kafka://" + closed + "/a --kafka-checkpoints b --interval 20m", []string{`--store names topic "a", and --kafka-checkpoints "b"`, "--interval is 20m0s"}},
		{kafka + postgres + "--mode kafka=in-transaction --mode postgres=in-transaction", []string{"a Kafka topic and a Postgres database would both decide", "--mode kafka=two-phase, or --mode postgres=prepared or postgres=staged"}},
		{postgres + kafka + "--mode kafka=in-transaction", []string{"would both decide"}},
		{postgres + "--store file:x --mode in-transaction", []string{"the transaction of a Postgres database decides then"}},
		{kafka + "--kafka-max-downtime -1s --kafka-transaction-timeout 1ms --interval -1s --lanes 0 --data-budget 0 --on-data x", []string{"--kafka-max-downtime is -1s: it is 0s, for none, or longer", "--kafka-transaction-timeout is 1ms",
			"--interval has to be longer than 0", "--lanes is 0: it has to be 1 or more", "--data-budget is 0", `--on-data "x" is no policy`}},
		{kafka + "--on-data dead-letter --interval 20m", []string{"there is nothing to keep dead letters in: name a topic by --kafka-dead-letters"}},
		{postgres + "--lanes 2000000000", []string{"--lanes is 2000000000: it has to be 10000 or less"}},
		{kafka + "--kafka-config no.such=1", []string{"--kafka-config, --kafka-properties: property 'no.such' is no property of a Kafka client"}},
		{"--to kafka://a:x/t", []string{"--to: it must list brokers as host:port"}},
		{postgres + "--config no.such=1 --brokers " + closed, []string{"--config no.such is no property of a Kafka client"}},
		{postgres + "--soft-delete-live x --swap-run y ", []string{"--soft-delete is missing: name the column", "--swap-group is missing: name the columns"}},
		{postgres + "--swap-group a --append-once --ignore-deletes --soft-delete x", []string{"--ignore-deletes and --soft-delete contradict", "and --append-once looks at them", "--append-once is for tables without a key, and --soft-delete for"}},
		{"--to postgres://a@" + closed + "/b?sslmode=nope --soft-delete-live x", []string{"cannot be read as a Postgres URL", "--soft-delete is missing"}},
		{"--to s3://lake/x --s3-format orc --s3-kind all --s3-compression lzma --s3-partition-by = --s3-file-size 0", []string{`--s3-format "orc"`, `--s3-kind "all"`, `--s3-compression "lzma"`, `--s3-partition-by "="`, "--s3-file-size is 0: it has to be 1 or more"}},
		{"--to s3://lake/x --s3-partition-by nope", []string{"the region of the bucket is missing", `--s3-partition-by names column "nope"`}},
		{"--to http://" + closed + "/I --store s3://lake/x", []string{"the region of the bucket is missing", "has upper case letters"}},
		{"--to http://" + closed + "/i", []string{"can hold deletes: choose --index-deletes", "--store is missing"}},
		{"--to http://" + closed + "/i --index-deletes never --lanes 0", []string{`--index-deletes "never"`, "--lanes is 0"}},
	} {
		for _, name := range []string{"run", "check"} {
			args := append([]string{name, "--bridge", "b", "--ddl", ddl}, strings.Fields(c.flags)...)
			if name == "check" { // which then looks at the brokers that are read
				args = append(args, "--brokers", "nowhere")
			} else if !strings.Contains(c.flags, "--brokers") {
				args = append(args, "--brokers", closed)
			}
			got := offline(t, args...)
			text := got.errs
			if name == "check" && strings.Contains(got.out, "skip   brokers") {
				text = strings.ReplaceAll(got.out, "\n"+strings.Repeat(" ", 18), "\n")
			}
			if got.status == exitDone || name == "run" && (got.status != exitConfig || got.out != "") {
				t.Errorf("%s %s: %+v", name, c.flags, got)
			}
			for _, w := range c.want {
				if !strings.Contains(text, w) && !(name == "check" && strings.Contains(c.flags, "--config")) {
					t.Errorf("%s %s: %q is missing in\n%s", name, c.flags, w, text)
				}
			}
		}
	}
	for _, c := range []struct {
		args string
		want []string
	}{
		{"compact --to s3://lake/x --bridge b --s3-format orc --file-size 0 --max-files 0 --older-than -1s --delete-after -1s", []string{`--s3-format "orc"`, "--file-size is 0", "--max-files is 0", "--older-than is -1s: it has to be 0s or longer", "--delete-after is -1s"}},
		{"success --to s3://lake/x --bridge b --ddl " + ddl + " --s3-partition-by =x --every 0s --lateness -1s --back 0s --idle x", []string{`--s3-partition-by "=x"`, "--every is 0s: it has to be 1s or longer", "--lateness is -1s", "--back is 0s", `--idle: "x"`}},
		{"verify --bridge b --ddl " + ddl + " --to s3://lake/x --memory 0 --from x --s3-format orc", []string{"--memory is 0", `--from: "x"`, `--s3-format "orc"`}},
		{"replay --ddl " + ddl + " --file nowhere --to s3://lake/x --s3-format orc", []string{`--s3-format "orc"`}},
		{"letters --store s3://lake/x --limit -1", []string{"--limit is -1: it has to be 0 or more"}},
		{"pending --store postgres://a@" + closed + "/b --to kafka://", []string{"an address is missing"}},
		{"explain --plan x --ddl " + ddl + " --partitions 0", []string{"--partitions is 0: it has to be 1 or more"}},
		{"run --bridge  b --ddl " + ddl + " --to kafka://" + closed + "/keyed --brokers " + closed, []string{"would read what it writes"}},
	} {
		got := offline(t, strings.Fields(c.args)...)
		for _, w := range c.want {
			if got.status != exitConfig || got.out != "" || !strings.Contains(got.errs, w) {
				t.Errorf("%s: %q is missing in %+v", c.args, w, got)
			}
		}
	}
}

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// What cannot be of --to and --store is told before any server is asked.
func TestTargets_BadInput(t *testing.T) {
	ddl := write(t, "ddl.sql", keyedDDL)
	ofAWS(t, "", "")
	for _, c := range []struct{ flags, want string }{
		{"--to x", "--to takes postgres://"},
		{"--to kafka://b:9092", "the topic is missing"},
		{"--to kafka:///t", "an address is missing"},
		{"--to kafka://b:9092/t/u", "more than the name of a topic"},
		{"--to kafka://me:geheim42@b:9092/t", "--kafka-config"},
		{"--to s3:///prefix", "the name of the bucket is missing"},
		{"--to s3://me:geheim42@lake/x", "AWS_SECRET_ACCESS_KEY"},
		{"--to s3://lake/x", "--s3-region"},
		{"--to s3://lake/x --s3-region eu-west-1 --s3-kind changelog", "the keys of the bucket are missing"},
		{"--to s3://lake/x --s3-endpoint nowhere", "--s3-endpoint"},
		{"--to s3://lake/x --s3-endpoint http://me:geheim42@s3", "--s3-endpoint"},
		{"--to s3://lake/x --s3-format orc", "--s3-format \"orc\": it is json"},
		{"--to s3://lake/x --s3-kind all", "--s3-kind \"all\""},
		{"--to s3://lake/x --s3-compression lzma", "--s3-compression \"lzma\""},
		{"--to s3://lake/x --s3-partition-by day=ts|YYYY", "--s3-partition-by"},
		{"--to s3://lake/x --mode prepared", "--mode \"prepared\": it is multipart or rename"},
		{"--to http://es/i --mode prepared", "has no modes"},
		{"--to http://es/i/j --store file:x", "more than the name of an index"},
		{"--to http://es/i-* --store file:x", "columns in braces"},
		{"--to http://es/i --store file:x --index-deletes never", "--index-deletes \"never\""},
		{"--to http://es/i --store http://es/i", "--store takes postgres://"},
		{"--to postgres://a/b --to postgres://c/d", "--to names postgres twice"},
		{"--to postgres://a/b --to kafka://b:1/t --mode in-transaction", "write postgres=in-transaction or kafka=in-transaction"},
		{"--to postgres://a/b --mode prepared --mode staged", "two modes of postgres"},
		{"--to postgres://a/b --s3-format json", "--s3-format is for a folder of a bucket"},
		{"--to s3://lake/x --into t", "--into is for a Postgres database"},
		{"--to s3://lake/x --append-once", "--append-once is for a Postgres database"},
		{"--to postgres://a/b --index-refresh", "--index-refresh is for an Elasticsearch index"},
		{"--to postgres://a/b --kafka-prefix p", "--kafka-prefix is for a Kafka topic"},
	} {
		args := append([]string{"run", "--bridge", "b", "--ddl", ddl, "--brokers", "localhost:1"}, strings.Fields(c.flags)...)
		got := impatient(t, args...)
		if got.status != exitConfig || got.out != "" || !strings.Contains(got.errs, c.want) || strings.Contains(got.errs, "geheim42") {
			t.Errorf("%s: status %d, out %q, error %s", c.flags, got.status, got.out, got.errs)
		}
	}
	// A topic with deletes: the sink explains the choice, in this program's words.
	es := elastictest.NewServer()
	t.Cleanup(es.Close)
	broker := newBroker(t)
	keyed(t, broker, 1)
	got := command(t, "run", "--bridge", "b", "--ddl", ddl, "--brokers", broker, "--to", es.URL+"/keyed", "--store", "file:"+filepath.Join(t.TempDir(), "s"), "--until-end")
	if got.status != exitConfig || !strings.Contains(got.errs, "--index-deletes") || !strings.Contains(strings.ToLower(got.errs), "tombstone keeps") {
		t.Errorf("without a choice of deletes: %+v", got)
	}
	lake := newBucket(t)
	got = command(t, "run", "--bridge", "b", "--ddl", ddl, "--brokers", broker, "--to", "s3://lake/x", "--s3-endpoint", lake.URL, "--until-end")
	if got.status != exitConfig || !strings.Contains(got.errs, "--s3-kind") || strings.Contains(got.errs, "Options.") {
		t.Errorf("without a kind: %+v", got)
	}
}

// No secret of a target is shown, whatever fails.
func TestTargets_Secrets(t *testing.T) {
	const secret = "hunter2hunter2"
	ddl := write(t, "ddl.sql", keyedDDL)
	broker := newBroker(t)
	keyed(t, broker, 1)
	closed := closedAddress(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIA")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	t.Setenv("AWS_SESSION_TOKEN", secret)
	t.Setenv("ELASTICSEARCH_PASSWORD", secret)
	t.Setenv("ELASTICSEARCH_API_KEY", secret)
	for _, to := range [][]string{
		{"--to", "s3://lake/x", "--s3-endpoint", "http://" + closed, "--s3-kind", "changelog"},
		{"--to", "s3://lake/x", "--s3-endpoint", "http://x:" + secret + "@" + closed},
		{"--to", "http://me:" + secret + "@" + closed + "/i", "--store", "file:" + filepath.Join(t.TempDir(), "s"), "--index-deletes", "hard"},
		{"--to", "http://" + closed + "/i", "--store", "file:" + filepath.Join(t.TempDir(), "s"), "--index-deletes", "hard"},
		{"--to", "kafka://" + closed + "/t", "--kafka-config", "sasl.mechanism=PLAIN", "--kafka-config", "security.protocol=SASL_PLAINTEXT",
			"--kafka-config", `sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="` + secret + `";`},
		{"--to", "kafka://" + closed + "/t", "--kafka-config", secret},
		{"--to", "kafka://" + closed + "/t", "--kafka-properties", write(t, "bad.properties", "# of tests\n"+secret+"\n")},
		{"--to", "kafka://" + closed + "/t", "--kafka-properties", write(t, "client.properties", "sasl.mechanism=PLAIN\nsecurity.protocol=SASL_PLAINTEXT\n"+
			`sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="`+secret+`";`)},
		{"--to", "kafka://u:" + secret + "@" + closed + "/t"},
	} {
		for _, name := range []string{"run", "check"} {
			var out, errs strings.Builder
			c := &call{patience: 300 * time.Millisecond}
			status := c.execute(t.Context(), append([]string{name, "--bridge", "b", "--ddl", ddl, "--brokers", broker}, to...), strings.NewReader(""), &out, &errs)
			got := result{status, out.String(), errs.String()}
			if got.status == exitDone || strings.Contains(got.out+got.errs, secret) {
				t.Errorf("%s %v: status %d: %s%s", name, to[:2], got.status, got.out, got.errs)
			}
		}
	}
}

package main

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// own is a name of a test's own on a server that others use too.
func own() string { return "cmd-" + strings.ToLower(rand.Text()[:10]) }

// The same topic, by way of a real broker, to another topic of it, in both modes.
func TestRun_RealKafkaToKafka(t *testing.T) {
	broker := os.Getenv("FLINKSINK_KAFKA")
	if broker == "" {
		t.Skip("FLINKSINK_KAFKA is not set: set it to the address of a Kafka broker to run this test, or use ./test full, which starts one")
	}
	name := own()
	makeTopic(t, broker, name, 1)
	t.Cleanup(func() {
		cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
		if err != nil {
			t.Error(err)
			return
		}
		defer cl.Close()
		if _, err := kadm.NewClient(cl).DeleteTopics(context.Background(), name, name+"-checkpoints"); err != nil {
			t.Error(err)
		}
	})
	for _, id := range []string{"1", "2", "3"} {
		produce(t, broker, name, `{"id":`+id+`}`, `{"id":`+id+`,"name":"n"}`)
	}
	produce(t, broker, name, `{"id":2}`, "")
	ddl := write(t, "ddl.sql", strings.Replace(keyedDDL, "'topic' = 'keyed'", "'topic' = '"+name+"'", 1))
	for _, mode := range []string{"in-transaction", "two-phase"} {
		into := name + "-" + mode
		makeTopic(t, broker, into, 2)
		t.Cleanup(func() { forget(t, broker, into) })
		for i, want := range []string{"\nrecords      4\n", "\nrecords      0\n"} {
			got := command(t, "run", "--bridge", into, "--ddl", ddl, "--brokers", broker, "--to", "kafka://"+broker+"/"+into, "--kafka-checkpoints", name+"-checkpoints", "--mode", mode, "--until-end")
			if got.status != exitDone || !strings.Contains(got.out, want) {
				t.Fatalf("%s, run %d: %+v", mode, i, got)
			}
		}
		if rows := topicRows(t, broker, into, true); !slices.Equal(rows, []string{`{"id":1,"name":"n"}`, `{"id":3,"name":"n"}`}) {
			t.Errorf("%s: %q", mode, rows)
		}
		got := command(t, "positions", "show", "--store", "kafka://"+broker, "--kafka-checkpoints", name+"-checkpoints", "--bridge", into)
		if got.status != exitDone || !strings.Contains(got.out, name+"/0  4") {
			t.Errorf("positions: %+v", got)
		}
	}
}

// A real S3 server takes a lake, and holds its positions.
func TestLake_RealServer(t *testing.T) {
	endpoint := os.Getenv("FLINKSINK_S3")
	if endpoint == "" {
		t.Skip("FLINKSINK_S3 is not set: set it to the address of an S3 server with the keys testbed and testbed-secret to run this test, or use ./test full, which starts one")
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "testbed")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testbed-secret")
	c := &call{patience: patience}
	client, err := c.bucketClient(t.Context(), "--to", &s3Flags{endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	bucket := own()
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		all, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &bucket})
		if err != nil {
			t.Error(err)
			return
		}
		for _, o := range all.Contents {
			client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: o.Key})
		}
		client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket})
	})
	broker := newBroker(t)
	makeTopic(t, broker, "views", 2)
	ddl := write(t, "ddl.sql", viewsDDL)
	for _, mode := range []string{"multipart", "rename"} {
		for id := range 5 {
			view(t, broker, id, "10")
		}
		with := func(name string, more ...string) result {
			return command(t, append([]string{name, "--bridge", mode, "--ddl", ddl, "--brokers", broker, "--to", "s3://" + bucket + "/" + mode, "--s3-endpoint", endpoint, "--s3-format", "parquet", "--mode", mode}, more...)...)
		}
		if got := with("check"); got.status != exitDone {
			t.Errorf("%s: check: %+v", mode, got)
		}
		if got := with("run", "--until-end"); got.status != exitDone {
			t.Fatalf("%s: %+v", mode, got)
		}
		if got := with("verify"); got.status != exitDone || !strings.HasSuffix(got.out, "no difference\n") {
			t.Errorf("%s: verify: %+v", mode, got)
		}
	}
}

// A real Elasticsearch takes an index, and one for each value of a column of the key.
func TestRun_RealElastic(t *testing.T) {
	url := os.Getenv("FLINKSINK_ELASTIC")
	if url == "" {
		t.Skip("FLINKSINK_ELASTIC is not set: set it to the address of an Elasticsearch to run this test, or use ./test full, which starts one")
	}
	indexes(t, url)
}

// indexes fills an index, and several that are named by their rows, and compares them.
func indexes(t *testing.T, url string) {
	broker := newBroker(t)
	name := own()
	keyed(t, broker, 10)
	produce(t, broker, "keyed", `{"id":3}`, "")
	file := write(t, "ddl.sql", keyedDDL)
	store := "file:" + filepath.Join(t.TempDir(), "store.json")
	for _, index := range []string{name, name + "-{id}"} {
		bridge := strings.NewReplacer("{", "", "}", "").Replace(index)
		with := func(what string, more ...string) result {
			return command(t, append([]string{what, "--bridge", bridge, "--ddl", file, "--brokers", broker, "--to", url + "/" + index, "--store", store, "--index-deletes", "tombstone"}, more...)...)
		}
		if got := with("check", "--create-table"); got.status != exitDone || !strings.Contains(got.out, "ok     index") {
			t.Errorf("%s: check: %+v", index, got)
		}
		if got := with("run", "--create-table", "--until-end", "--index-refresh"); got.status != exitDone {
			t.Fatalf("%s: %+v", index, got)
		}
		t.Cleanup(func() {
			for n := range 10 {
				i := strings.ReplaceAll(index, "{id}", string(rune('0'+n)))
				req, err := http.NewRequest(http.MethodDelete, url+"/"+i, nil)
				if err == nil {
					if res, err := http.DefaultClient.Do(req); err == nil {
						res.Body.Close()
					}
				}
			}
		})
		if got := with("verify"); got.status != exitDone || !strings.Contains(got.out, "rows compared: 9, in ") {
			t.Errorf("%s: verify: %+v", index, got)
		}
		one := strings.ReplaceAll(index, "{id}", "7")
		req, err := http.NewRequest(http.MethodDelete, url+"/"+one+"/_doc/7?refresh=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%v %v", res, err)
		}
		res.Body.Close()
		if got := with("verify", "--show-keys"); got.status != exitFailed || !strings.HasPrefix(got.out, "missing (7) keyed/0@7\n") {
			t.Errorf("%s: verify of an index without one row: %+v", index, got)
		}
	}
}

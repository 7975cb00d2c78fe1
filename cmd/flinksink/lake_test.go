package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/flinksink/flinksink/sink/s3/s3test"
)

const viewsDDL = `CREATE TABLE visits (id BIGINT, name STRING, price DECIMAL(10, 2), tags MAP<STRING, INT>, ts TIMESTAMP(3)) WITH (
  'connector' = 'kafka', 'topic' = 'views', 'properties.bootstrap.servers' = 'x', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json')`

func view(t *testing.T, broker string, id int, day string) {
	t.Helper()
	produce(t, broker, "views", "", fmt.Sprintf(`{"id":%d,"name":"a \"name\",\nof two lines","price":%d.5,"tags":{"b":2,"a":%d},"ts":"2026-11-%s 12:00:00"}`, id, id, id, day))
}

// A lake is written in each format, compared with its topic, merged and compared again; what somebody did to it is found.
func TestLake(t *testing.T) {
	for _, c := range []struct {
		format string
		more   []string
	}{
		{"json", []string{"--s3-compression", "gzip"}},
		{"csv", []string{"--s3-compression", "zstd", "--mode", "rename"}},
		{"parquet", nil},
		{"avro", []string{"--mode", "multipart"}},
	} {
		t.Run(c.format, func(t *testing.T) {
			broker := newBroker(t)
			lake := newBucket(t)
			makeTopic(t, broker, "views", 2)
			text := viewsDDL
			if c.format == "csv" {
				text = strings.Replace(text, " tags MAP<STRING, INT>,", "", 1)
			}
			ddl := write(t, "ddl.sql", text)
			flags := append([]string{"--s3-endpoint", lake.URL, "--s3-format", c.format}, c.more...)
			with := func(name string, more ...string) result {
				t.Helper()
				return command(t, append(append([]string{name, "--bridge", "views", "--ddl", ddl, "--brokers", broker, "--to", "s3://lake/raw", "--s3-partition-by", "day=ts|yyyy-MM-dd"}, flags...), more...)...)
			}
			const fine = "missing: 0 rows\nextra: 0 rows\nno difference\n"
			for i := range 3 {
				for id := range 6 {
					view(t, broker, 10*i+id, fmt.Sprint(10+id%2))
				}
				if got := with("run", "--until-end", "--s3-event-time", "ts"); got.status != exitDone {
					t.Fatalf("run %d: %+v", i, got)
				}
				if got := with("verify"); got.status != exitDone || !strings.HasSuffix(got.out, fine) || !strings.Contains(got.out, fmt.Sprintf("rows: %d, in ", 6*i+6)) {
					t.Fatalf("verify after run %d: %+v", i, got)
				}
			}
			rows := lakeRows(t, lake, "raw", "views", "sink", c.format)
			if len(rows) != 18 {
				t.Errorf("%d rows: %q", len(rows), rows)
			}
			at := []string{"--to", "s3://lake/raw", "--bridge", "views", "--s3-endpoint", lake.URL}
			got := command(t, append([]string{"compact", "--s3-format", c.format, "--older-than", "0s", "--delete-after", "0s"}, at...)...)
			if got.status != exitDone || !strings.HasPrefix(got.out, "merged 6 files of 18 rows into 2\n") {
				t.Errorf("compact: %+v", got)
			}
			if got := with("verify"); got.status != exitDone || !strings.HasSuffix(got.out, fine) {
				t.Errorf("verify of merged files: %+v", got)
			}
			if again := lakeRows(t, lake, "raw", "views", "sink", c.format); fmt.Sprint(again) != fmt.Sprint(rows) {
				t.Errorf("merging changed the rows to %q", again)
			}
			got = command(t, append([]string{"success", "--ddl", ddl, "--brokers", broker, "--s3-partition-by", "day=ts|yyyy-MM-dd", "--every", "24h"}, at...)...)
			if got.status != exitDone || !strings.Contains(got.out, "no row is expected before 2026-11-11T12:00:00Z") && !strings.Contains(got.out, "waiting: views/") {
				t.Errorf("success: %+v", got)
			}
			damage(t, lake, "raw/_flinksink/views/sink/compacted/")
			if got := with("verify"); got.status != exitFailed || !strings.Contains(got.out, "damaged: merged files: file ") {
				t.Errorf("verify of a damaged file: %+v", got)
			}
		})
	}
}

// damage takes one byte away from the end of an object whose key begins so.
func damage(t *testing.T, s *s3test.Server, prefix string) {
	t.Helper()
	c := &call{patience: patience}
	client, err := c.bucketClient(t.Context(), "--to", &s3Flags{endpoint: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := rewrite(t.Context(), client, "lake", prefix, func(b []byte) []byte { return b[:len(b)-1] }); err != nil {
		t.Fatal(err)
	}
}

// Rows that are not those of the topic, and files of other rows, are found by their checkpoint.
func TestLake_Differences(t *testing.T) {
	broker := newBroker(t)
	lake := newBucket(t)
	makeTopic(t, broker, "views", 1)
	view(t, broker, 1, "10")
	view(t, broker, 2, "10")
	ddl := write(t, "ddl.sql", viewsDDL)
	with := func(name, ddl string, more ...string) result {
		t.Helper()
		return command(t, append([]string{name, "--bridge", "views", "--ddl", ddl, "--brokers", broker, "--to", "s3://lake/raw", "--s3-endpoint", lake.URL}, more...)...)
	}
	if got := with("run", ddl, "--until-end"); got.status != exitDone {
		t.Fatalf("%+v", got)
	}
	noTags := write(t, "fewer.sql", strings.Replace(viewsDDL, " price DECIMAL(10, 2),", "", 1))
	if got := with("verify", noTags); got.status != exitFailed || !strings.Contains(got.out, "the topic has 2 rows, its files hold 2, and not the same") {
		t.Errorf("of other rows: %+v", got)
	}
	if got := with("verify", ddl, "--sink", "other"); got.status != exitConfig || !strings.Contains(got.errs, "has not left a manifest below s3://lake/raw, where bridge \"views\", sink \"sink\" left something") {
		t.Errorf("of a sink that is none: %+v", got)
	}
	if got := with("verify", ddl, "--s3-format", "avro"); got.status != exitDone { // each file is read as it was written
		t.Errorf("with another format: %+v", got)
	}
	if got := with("repair", ddl, "--yes"); got.status != exitConfig || !strings.Contains(got.errs, "never changed") {
		t.Errorf("repair: %+v", got)
	}
	if got := command(t, "compact", "--to", "postgres://a/b", "--bridge", "views"); got.status != exitConfig || !strings.Contains(got.errs, "--to takes s3://bucket/prefix") {
		t.Errorf("compact elsewhere: %+v", got)
	}
	// What compact leaves alone it names, with what would take it.
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--s3-format", "avro", "--older-than", "0s"}, "nothing to merge\nleft alone: 1 file named *.jsonl: that takes --s3-format json\n"},
		{[]string{"--older-than", "0s"}, "nothing to merge\nleft alone: 1 file without another small one in the same folder\n"},
		{nil, "nothing to merge\nleft alone: 1 checkpoint younger than 1h0m0s (--older-than)\n"},
	} {
		got := command(t, append([]string{"compact", "--to", "s3://lake/raw", "--bridge", "views", "--s3-endpoint", lake.URL}, c.flags...)...)
		if got.status != exitDone || got.out != c.want {
			t.Errorf("compact %q: %+v, want %q", c.flags, got, c.want)
		}
	}
	// Names that are not there are refused, with those that are.
	at := []string{"--to", "s3://lake/raw", "--s3-endpoint", lake.URL}
	const there = "below s3://lake/raw, where bridge \"views\", sink \"sink\" left something: correct the names"
	for _, c := range [][]string{
		append([]string{"compact", "--bridge", "nosuch"}, at...), append([]string{"compact", "--bridge", "views", "--sink", "other"}, at...),
		append([]string{"success", "--bridge", "nosuch", "--ddl", ddl, "--brokers", broker, "--s3-partition-by", "day=ts|yyyy-MM-dd", "--every", "24h"}, at...),
		{"letters", "--store", "s3://lake/raw", "--s3-endpoint", lake.URL, "--bridge", "nosuch"},
	} {
		if got := command(t, c...); got.status != exitConfig || got.out != "" || !strings.Contains(got.errs, there) {
			t.Errorf("%q: %+v", c, got)
		}
	}
	if got := command(t, "compact", "--bridge", "views", "--to", "s3://lake/other", "--s3-endpoint", lake.URL); got.status != exitConfig || !strings.Contains(got.errs, "where no bridge at all left something") {
		t.Errorf("compact of another folder: %+v", got)
	}
	if got := command(t, "letters", "--store", "s3://lake/raw", "--s3-endpoint", lake.URL, "--bridge", "views"); got.status != exitDone {
		t.Errorf("letters of a bridge that has none: %+v", got)
	}
	// Bad rows become letters in the bucket, and are expected in no file.
	produce(t, broker, "views", "", `{"id":`)
	view(t, broker, 3, "10")
	if got := with("run", ddl, "--until-end", "--on-data", "dead-letter"); got.status != exitDone {
		t.Fatalf("%+v", got)
	}
	if got := with("verify", ddl); got.status != exitDone || strings.Contains(got.out, "cannot be decoded") {
		t.Errorf("beside a letter: %+v", got)
	}
	for _, more := range [][]string{nil, {"--bridge", "views"}} {
		got := command(t, append([]string{"letters", "--store", "s3://lake/raw", "--s3-endpoint", lake.URL}, more...)...)
		if got.status != exitDone || !strings.HasPrefix(got.out, "views:0:2  data: ") {
			t.Errorf("letters: %+v", got)
		}
	}
}

// Dead letters of a topic are read from their topic.
func TestLetters_Topic(t *testing.T) {
	broker := newBroker(t)
	makeTopic(t, broker, "views", 1)
	makeTopic(t, broker, "views-copy", 1)
	makeTopic(t, broker, "letters", 1)
	view(t, broker, 1, "10")
	produce(t, broker, "views", "", `{"id":`)
	ddl := write(t, "ddl.sql", viewsDDL)
	got := command(t, "run", "--bridge", "views", "--ddl", ddl, "--brokers", broker, "--to", "kafka://"+broker+"/views-copy", "--kafka-dead-letters", "letters", "--on-data", "dead-letter", "--until-end")
	if got.status != exitDone {
		t.Fatalf("%+v", got)
	}
	if rows := topicRows(t, broker, "views-copy", false); len(rows) != 1 {
		t.Errorf("%q", rows)
	}
	got = command(t, "letters", "--store", "kafka://"+broker+"/letters")
	if got.status != exitDone || !strings.Contains(got.out, "  views:0:1  data: ") {
		t.Errorf("letters: %+v", got)
	}
	got = command(t, "letters", "--store", "kafka://"+broker+"/letters", "--json")
	if got.status != exitDone || !strings.Contains(got.out, `"topic": "views"`) || !strings.Contains(got.out, `"value": "eyJpZCI6"`) {
		t.Errorf("letters --json: %+v", got)
	}
	if got := command(t, "letters", "--store", "file:"+filepath.Join(os.TempDir(), "x")); got.status != exitConfig {
		t.Errorf("letters of a file: %+v", got)
	}
}

// rewrite changes the first object below prefix.
func rewrite(ctx context.Context, client *s3.Client, bucket, prefix string, change func([]byte) []byte) error {
	all, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix})
	if err != nil || len(all.Contents) == 0 {
		return fmt.Errorf("%d objects below %s: %w", len(all.Contents), prefix, err)
	}
	key := all.Contents[0].Key
	got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: key})
	if err != nil {
		return err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		return err
	}
	_, err = client.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: key, Body: bytes.NewReader(change(body))})
	return err
}

// A position that was set back makes rows of a lake twice: the files say so. A file that somebody took away is missed.
func TestLake_RowsTwice(t *testing.T) {
	broker := newBroker(t)
	lake := newBucket(t)
	keyed(t, broker, 10)
	ddl := write(t, "ddl.sql", keyedDDL)
	at := []string{"--s3-endpoint", lake.URL}
	with := func(name string, more ...string) result {
		t.Helper()
		return command(t, append(append([]string{name, "--bridge", "twice", "--ddl", ddl, "--brokers", broker, "--to", "s3://lake/raw", "--s3-kind", "changelog"}, at...), more...)...)
	}
	if got := with("run", "--until-end"); got.status != exitDone {
		t.Fatalf("%+v", got)
	}
	if got := command(t, append([]string{"positions", "set", "--store", "s3://lake/raw", "--bridge", "twice", "--yes", "keyed:0:6"}, at...)...); got.status != exitDone {
		t.Fatalf("%+v", got)
	}
	if got := with("run", "--until-end"); got.status != exitDone || !strings.Contains(got.out, "\nrecords      4\n") {
		t.Fatalf("%+v", got)
	}
	got := with("verify")
	if got.status != exitFailed || !strings.Contains(got.out, "keyed/0: offsets 6 to 9 are in checkpoint 1.") || !strings.Contains(got.errs, "1 stretches of offsets are there twice") {
		t.Errorf("of rows that are there twice: %+v", got)
	}
	damage(t, lake, "raw/keyed/")
	if got := with("verify"); got.status != exitFailed || !strings.Contains(got.out, "damaged: checkpoint 1.") {
		t.Errorf("of a damaged file: %+v", got)
	}
	got = with("verify", "--s3-kind", "upsert")
	if got.status != exitFailed || !strings.Contains(got.out, "not judged: what the rows hold") {
		t.Errorf("of kind upsert: %+v", got)
	}
}

// check says which lifecycle rules the bucket lacks, ready to paste, and stops nothing; once they are there it says so, and where it may not look it says that.
func TestCheck_Lifecycle(t *testing.T) {
	broker, lake := newBroker(t), newBucket(t)
	makeTopic(t, broker, "views", 1)
	ddl := write(t, "ddl.sql", viewsDDL)
	check := func() string {
		t.Helper()
		got := command(t, "check", "--bridge", "views", "--ddl", ddl, "--brokers", broker, "--to", "s3://lake/raw", "--s3-endpoint", lake.URL, "--mode", "rename")
		if got.status != exitDone {
			t.Fatalf("%+v", got)
		}
		return got.out
	}
	out := check()
	for _, want := range []string{
		"note   lifecycle  bucket lake: no lifecycle rule aborts incomplete multipart uploads",
		`{"ID": "flinksink-uploads", "Status": "Enabled", "Filter": {"Prefix": "raw/"}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}` + "\n",
		`{"ID": "flinksink-staging", "Status": "Enabled", "Filter": {"Prefix": "raw/_staging/"}, "Expiration": {"Days": 7}}` + "\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	lake.Intercept = func(r s3test.Request) *s3test.Fault {
		if r.Op == "GetBucketLifecycleConfiguration" {
			return &s3test.Fault{Status: 403, Code: "AccessDenied"}
		}
		return nil
	}
	if out := check(); !strings.Contains(out, "skip   lifecycle  the lifecycle rules of bucket lake cannot be seen, which stops nothing: GetBucketLifecycleConfiguration: AccessDenied (403)") {
		t.Error(out)
	}
	lake.Intercept = nil
	c := &call{patience: patience}
	client, err := c.bucketClient(t.Context(), "--to", &s3Flags{endpoint: lake.URL})
	if err != nil {
		t.Fatal(err)
	}
	days, prefix := int32(7), "raw/_staging/"
	if _, err := client.PutBucketLifecycleConfiguration(t.Context(), &s3.PutBucketLifecycleConfigurationInput{Bucket: new("lake"), LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{
		{Status: types.ExpirationStatusEnabled, AbortIncompleteMultipartUpload: &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: &days}},
		{Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: &prefix}, Expiration: &types.LifecycleExpiration{Days: &days}},
	}}}); err != nil {
		t.Fatal(err)
	}
	if out := check(); !strings.Contains(out, "ok     lifecycle  the rules of bucket lake") {
		t.Error(out)
	}
}

// Where nothing keeps dead letters, run and check say which flag is missing.
func TestRun_NoPlaceForDeadLetters(t *testing.T) {
	broker := newBroker(t)
	keyed(t, broker, 1)
	makeTopic(t, broker, "copy", 1)
	ddl := write(t, "ddl.sql", keyedDDL)
	for _, name := range []string{"run", "check"} {
		got := command(t, name, "--bridge", "b", "--ddl", ddl, "--brokers", broker, "--to", "kafka://"+broker+"/copy", "--on-data", "dead-letter")
		if got.status == exitDone || !strings.Contains(got.out+got.errs, "name a topic by --kafka-dead-letters") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/internal/capture"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
	s3sink "github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// keyed makes the topic of keyedDDL, with a row for each id below n.
func keyed(t *testing.T, broker string, n int) {
	t.Helper()
	if err := capture.Load(t.Context(), []string{broker}, "keyed", 1, nil); err != nil {
		t.Fatal(err)
	}
	for id := range n {
		produce(t, broker, "keyed", fmt.Sprintf(`{"id":%d}`, id), fmt.Sprintf(`{"id":%d,"name":"n"}`, id))
	}
}

// produce writes one record; "" is null.
func produce(t *testing.T, broker, topic, key, value string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	r := &kgo.Record{}
	if key != "" {
		r.Key = []byte(key)
	}
	if value != "" {
		r.Value = []byte(value)
	}
	if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// newBucket starts an S3 server with a bucket "lake", whose keys are in the environment.
func newBucket(t *testing.T) *s3test.Server {
	t.Helper()
	s, err := s3test.Start("lake")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	t.Setenv("AWS_ACCESS_KEY_ID", "a key of tests")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "geheim-of-the-bucket")
	return s
}

// topicRows reads what a read_committed reader sees of a topic: the last value of each key, or with keys off all values.
func topicRows(t *testing.T, broker, topic string, keys bool) []string {
	t.Helper()
	cl, err := newClient([]kgo.Opt{kgo.SeedBrokers(broker), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl.Client).ListCommittedOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	last := make(map[string]string)
	n := 0
	ends.Each(func(o kadm.ListedOffset) {
		err := readSpan(t.Context(), cl, span{changelog.Partition{Topic: topic, Partition: o.Partition}, 0, o.Offset}, func(r *kgo.Record) error {
			k := string(r.Key)
			if !keys {
				k, n = fmt.Sprint(n), n+1
			}
			if r.Value == nil && keys {
				delete(last, k)
			} else {
				last[k] = string(r.Value)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	var out []string
	for _, v := range last {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// lakeRows reads the rows of a bridge's committed files.
func lakeRows(t *testing.T, s *s3test.Server, prefix, bridge, sink, format string) []string {
	t.Helper()
	c := &call{patience: patience}
	client, err := c.bucketClient(t.Context(), "--to", &s3Flags{endpoint: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s3sink.NewReader(client, "lake", prefix, &s3sink.ReaderOptions{Bridge: bridge, Sink: sink})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for m, err := range r.Manifests(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range m.Files {
			body, err := r.Open(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			if err := eachRow(format, body, func(row []byte) error {
				out = append(out, string(row))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			body.Close()
		}
	}
	slices.Sort(out)
	return out
}

// documents returns the sources of an index, tombstones left out, without the mark of where they came from.
func documents(t *testing.T, es *elastictest.Server, index string) []string {
	t.Helper()
	for _, call := range [][2]string{{"POST", "/" + index + "/_refresh"}, {"POST", "/" + index + "/_search"}} {
		body := io.Reader(nil)
		if strings.HasSuffix(call[1], "_search") {
			body = strings.NewReader(`{"size":10000,"query":{"bool":{"must_not":{"exists":{"field":"flinksink_deleted"}}}},"sort":[{"_shard_doc":"asc"}]}`)
		}
		req, err := http.NewRequestWithContext(t.Context(), call[0], es.URL+call[1], body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: %d %s %v", call[1], res.StatusCode, text, err)
		}
		if !strings.HasSuffix(call[1], "_search") {
			continue
		}
		var answer struct {
			Hits struct {
				Hits []struct {
					Source map[string]any `json:"_source"`
				} `json:"hits"`
			} `json:"hits"`
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, h := range answer.Hits.Hits {
			delete(h.Source, "flinksink")
			row, err := json.Marshal(h.Source)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(row))
		}
		slices.Sort(out)
		return out
	}
	return nil
}

// makeTopic makes an empty topic.
func makeTopic(t *testing.T, broker, topic string, partitions int) {
	t.Helper()
	if err := capture.Load(t.Context(), []string{broker}, topic, partitions, nil); err != nil {
		t.Fatal(err)
	}
}

package killtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/flinksink/flinksink/sink/elastic/elastictest"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// rowOf turns a row in JSON into one of the oracle.
func (s *subject) rowOf(text []byte) (out [2]string, err error) {
	var row struct {
		Part, Off, Writer, N, ID, Seq int64
		Region, At                    string
		Body, Note                    *string
		Amount                        json.Number
	}
	if err := json.Unmarshal(text, &row); err != nil {
		return out, err
	}
	if !s.keyed {
		return [2]string{fmt.Sprintf("%d/%d", row.Part, row.Off), fmt.Sprintf("%d|%d|%s", row.Writer, row.N, shown(row.Body))}, nil
	}
	amount, ok := new(big.Rat).SetString(row.Amount.String())
	if !ok {
		return out, fmt.Errorf("amount %q", row.Amount)
	}
	at, err := time.Parse("2006-01-02 15:04:05", strings.TrimSuffix(strings.Replace(row.At, "T", " ", 1), "Z"))
	if err != nil {
		return out, err
	}
	return [2]string{fmt.Sprintf("%s/%d", row.Region, row.ID), fmt.Sprintf("%d|%s|%s|%s", row.Seq, amount.FloatString(2), shown(row.Note), at.Format("2006-01-02 15:04:05.000"))}, nil
}

// newTopic is a topic of the broker that is read from.
func newTopic(t *testing.T, s *subject, d *deadly, broker *kfake.Cluster, mode string) standIn {
	to := s.topic + "_copy"
	if _, err := s.adm.CreateTopic(t.Context(), partitions, 1, nil, to); err != nil {
		t.Fatal(err)
	}
	ours := func(id *string) bool { return id != nil && strings.HasPrefix(*id, "flinksink") }
	broker.ControlKey(-1, func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		name := ""
		switch r := r.(type) {
		case *kmsg.ProduceRequest:
			if ours(r.TransactionID) {
				name = "Produce"
			}
		case *kmsg.EndTxnRequest:
			if ours(&r.TransactionalID) {
				name = "EndTxn"
			}
		case *kmsg.InitProducerIDRequest:
			if ours(r.TransactionalID) {
				name = "InitProducerID"
			}
		case *kmsg.TxnOffsetCommitRequest:
			name = "TxnOffsetCommit"
		}
		if d.met(name) {
			return nil, errors.New("the bridge is dead"), true
		}
		return nil, nil, false
	})
	requests := []string{"InitProducerID", "Produce", "EndTxn"}
	if mode == "in-transaction" {
		requests = append(requests, "TxnOffsetCommit")
	}
	return standIn{
		args:     []string{"--to", "kafka://" + s.brokers + "/" + to, "--mode", mode},
		requests: requests,
		rows: func(ctx context.Context) ([][2]string, error) {
			// Every change is a record, so the number of records tells whether one is there twice; the last of each key is its row.
			return s.committedRows(ctx, to)
		},
		early: true, // a row is replaced and deleted by later records: only the end is compared row by row
	}
}

// committedRows reads a topic as a read_committed consumer does, and makes sure that it has no more records than changes were produced.
func (s *subject) committedRows(ctx context.Context, topic string) ([][2]string, error) {
	ends, err := s.adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, err
	}
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for p := range int32(partitions) {
		if o, ok := ends.Lookup(topic, p); ok && o.Offset > 0 {
			from[p], left[p] = kgo.NewOffset().At(0), o.Offset
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	rows := map[string][]byte{}
	records := 0
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for _, r := range fetches.Records() {
			if !r.Attrs.IsControl() && r.Offset < left[r.Partition] {
				records++
				rows[string(r.Key)] = r.Value
			}
			if r.Offset >= left[r.Partition]-1 {
				delete(left, r.Partition)
			}
		}
	}
	if want := s.truth.changes(); records != want {
		return nil, fmt.Errorf("the topic has %d records of %d changes", records, want)
	}
	var out [][2]string
	for _, v := range rows {
		if v == nil {
			continue
		}
		row, err := s.rowOf(v)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// newLake is a folder of a bucket, which is its own store.
func newLake(t *testing.T, s *subject, d *deadly, _ *kfake.Cluster) standIn {
	server, err := s3test.Start("lake")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	server.Intercept = func(r s3test.Request) *s3test.Fault {
		name := r.Op
		if r.Op == "PutObject" {
			switch {
			case strings.HasSuffix(r.Key, "/store.json"):
				name = "save"
			case strings.Contains(r.Key, "/manifest/"):
				name = "manifest"
			case strings.Contains(r.Key, "/fence/"):
				name = "fence"
			}
		}
		d.mu.Lock()
		after := d.after
		d.mu.Unlock()
		if after {
			return &s3test.Fault{After: true, Do: func() { d.met(name) }}
		}
		if d.met(name) {
			return &s3test.Fault{}
		}
		return nil
	}
	client := awss3.New(awss3.Options{Region: "us-east-1", BaseEndpoint: aws.String(server.URL), UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")})
	return standIn{
		args:     []string{"--to", "s3://lake/raw", "--s3-endpoint", server.URL},
		env:      []string{"AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret"},
		requests: []string{"CreateMultipartUpload", "UploadPart", "save", "CompleteMultipartUpload", "manifest"},
		rows: func(ctx context.Context) ([][2]string, error) {
			r, err := s3.NewReader(client, "lake", "raw", &s3.ReaderOptions{Bridge: s.topic, Sink: "sink"})
			if err != nil {
				return nil, err
			}
			var out [][2]string
			for m, err := range r.Manifests(ctx) {
				if err != nil {
					return nil, err
				}
				for _, f := range m.Files {
					body, err := r.Open(ctx, f)
					if err != nil {
						return nil, err
					}
					lines := bufio.NewScanner(body)
					for lines.Scan() {
						row, err := s.rowOf(lines.Bytes())
						if err != nil {
							return nil, err
						}
						out = append(out, row)
					}
					if err := errors.Join(lines.Err(), body.Close()); err != nil {
						return nil, err
					}
				}
			}
			return out, nil
		},
	}
}

// newIndex is an index, whose bridge keeps its positions in a file.
func newIndex(t *testing.T, s *subject, d *deadly, _ *kfake.Cluster) standIn {
	server := elastictest.NewServer()
	t.Cleanup(server.Close)
	server.Inject(func(r *http.Request) *elastictest.Fault {
		name := r.Method + " " + r.URL.Path
		if strings.HasSuffix(r.URL.Path, "/_bulk") {
			name = "bulk"
		}
		if d.met(name) {
			return &elastictest.Fault{Status: http.StatusServiceUnavailable, Body: "{}"}
		}
		return nil
	})
	store := filepath.Join(t.TempDir(), "store.json")
	return standIn{
		args:     []string{"--to", server.URL + "/accounts", "--create-table", "--index-deletes", "tombstone", "--store", "file:" + store},
		requests: []string{"bulk", "bulk", "bulk"},
		early:    true,
		rows: func(ctx context.Context) ([][2]string, error) {
			var out [][2]string
			after := ""
			for {
				body := fmt.Appendf(nil, `{"size":1000,"query":{"bool":{"must_not":{"exists":{"field":"flinksink_deleted"}}}},"sort":[{"_shard_doc":"asc"}]%s}`, after)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/accounts/_search", bytes.NewReader(body))
				if err != nil {
					return nil, err
				}
				req.Header.Set("Content-Type", "application/json")
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					return nil, err
				}
				var answer struct {
					Hits struct {
						Hits []struct {
							Source json.RawMessage `json:"_source"`
							Sort   json.RawMessage `json:"sort"`
						} `json:"hits"`
					} `json:"hits"`
				}
				err = errors.Join(json.NewDecoder(res.Body).Decode(&answer), res.Body.Close())
				if err != nil {
					return nil, err
				}
				for _, h := range answer.Hits.Hits {
					row, err := s.rowOf(h.Source)
					if err != nil {
						return nil, err
					}
					out = append(out, row)
				}
				if len(answer.Hits.Hits) < 1000 {
					return out, nil
				}
				after = `,"search_after":` + string(answer.Hits.Hits[len(answer.Hits.Hits)-1].Sort)
			}
		},
	}
}

package killtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/flinksink/flinksink/sink/elastic/elastictest"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
	"github.com/flinksink/flinksink/testbed/kafka"
)

// This file kills the real flinksink run with SIGKILL while it writes one topic to Postgres, Kafka, S3 and Elasticsearch, by one decision. Postgres is a real server; the others
// are those that the environment names, or stand-ins. S3, Elasticsearch and a real broker are behind proxies of the test, which kill the bridge at a chosen request:
// before it is passed on, or after it was answered and before the bridge hears of it. So it dies where some of the sinks have prepared or committed a checkpoint and
// the others have not. A stand-in for Kafka kills by itself.
//
// What the test waits for are events: the bridge's death, or its end. Where exactly it died changes nothing in what has to be there.

// four are the targets.
type four struct {
	args, env []string
	rounds    int // times that each request is died at, before it and after it
	requests  []string
	topic     string // in Kafka
	search    string // URL of the index, past the proxy
	client    *awss3.Client
	bucket    string
}

// A bridge into four targets is killed at requests to each of them, and all four hold what was produced, each change once.
func TestKill_FourTargets(t *testing.T) {
	to, n := server(t), seed(t)
	bin, err := build(t.Context(), t.TempDir(), "cmd/flinksink")
	if err != nil {
		t.Fatal(err)
	}
	long := os.Getenv("FLINKSINK_LONG") != ""
	t.Run("kfake", func(t *testing.T) {
		rounds := 1
		if long {
			rounds = 3
		}
		fake, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(fake.Close)
		fourTargets(t, bin, to, n, rounds, fake, "")
	})
	t.Run("kafka", func(t *testing.T) {
		broker := os.Getenv(kafka.Env)
		switch {
		case broker == "":
			t.Skipf("%s is not set: it is the address of a Kafka broker that tests may fill, e.g. localhost:9092; ./test full starts one", kafka.Env)
		case !long:
			t.Skip("FLINKSINK_LONG=1 is not set, as ./test full sets it: this takes minutes")
		}
		fourTargets(t, bin, to, n, 5, nil, broker)
	})
}

// fourTargets has one bridge live and die on a stand-in for Kafka, or on a real broker.
func fourTargets(t *testing.T, bin, to string, n uint64, rounds int, fake *kfake.Cluster, broker string) {
	w := &world{name: fmt.Sprintf("killtest_%d_four_%d", os.Getpid(), time.Now().UnixMilli()), to: to, flinksink: bin, session: 30 * time.Second, rebalance: time.Minute} // the next process has the dead one's instance id
	d := &deadly{}
	x := &four{rounds: rounds}
	var kinds []string
	if fake != nil {
		w.brokers, kinds = fake.ListenAddrs()[0], []string{"Produce", "EndTxn"}
	} else {
		kinds = []string{"InitProducerID", "Produce", "EndTxn"}
		w.brokers = newRelay(t, broker, d, func(r kmsg.Request) string { return requestOf(r, w.name) }, kmsg.InitProducerID, kmsg.Produce, kmsg.EndTxn)
	}
	s := newSubjectOf(t, w, "keyed", n)
	s.clean = true // before the writers are fed
	x.topic = s.topic + "_copy"
	x.files(t, d)
	x.index(t, s, d)
	x.copies(t, s, d, fake)
	x.requests = append(x.requests, kinds...)
	x.args = append([]string{"run", "--bridge", s.topic, "--ddl", s.file, "--to", s.to, "--into", s.into, "--store-schema", s.own, "--interval", "50ms", "--instance", s.topic + "-0"}, x.args...)
	kills := s.dieIn(t, bin, x, d)
	if t.Failed() {
		t.Logf("FLINKSINK_SEED=%d repeats what was produced", n)
		return
	}
	x.same(t, s, kills)
}

// dieIn kills bridges at each request, and lets the last one finish.
func (s *subject) dieIn(t *testing.T, bin string, x *four, d *deadly) (kills int) {
	ctx := t.Context()
	bridge := func(more ...string) *process {
		cmd := exec.Command(bin, append(slices.Clone(x.args), more...)...)
		cmd.Env = append(os.Environ(), x.env...)
		return start(t, cmd)
	}
	for _, request := range slices.Concat(slices.Repeat([][]string{x.requests}, x.rounds)...) {
		for _, after := range []bool{false, true} {
			s.feed(200)
			nth := 1 + s.r.IntN(2)
			p := bridge()
			for ; ; p = bridge() {
				d.arm(request, after, nth, func() { _ = p.cmd.Process.Kill() })
				if !s.diesSlowly(ctx, p) {
					t.Fatalf("the bridge did not come to %s: %s", request, p.tail())
				}
				if !p.unanswered() {
					break
				}
			}
			if !p.killed() {
				t.Fatalf("the bridge ended by itself before %s: %s", request, p.tail())
			}
			kills++
			if _, _, err := s.look(ctx, false); err != nil { // rows and positions are of one transaction, whenever it is looked at
				t.Fatalf("Postgres, after a death at %s (after it: %t): %v", request, after, err)
			}
		}
	}
	if err := s.finish(ctx, 0); err != nil {
		t.Fatal(err)
	}
	p := bridge("--until-end")
	for ; ; p = bridge("--until-end") {
		select {
		case <-p.done:
		case <-time.After(longPatience):
			t.Fatalf("the last bridge does not reach the end: %s", p.tail())
		}
		if !p.unanswered() {
			break
		}
	}
	if !p.cmd.ProcessState.Success() {
		t.Fatalf("the last bridge failed: %s", p.tail())
	}
	return kills
}

// unanswered reports a process that ended since a server did not answer it in the time that a command gives it at its start: on a busy machine that may be.
// Whatever supervises a bridge starts it again. A server that never answers ends the test at its own time-out.
func (p *process) unanswered() bool {
	said := p.out.String()
	return !p.killed() && (strings.Contains(said, "no answer") || strings.Contains(said, "within 10s"))
}

// longPatience is for a machine that others use.
const longPatience = 5 * time.Minute

// diesSlowly feeds the topic a little until the bridge is dead. A bridge that waits for something to read comes to no request.
func (s *subject) diesSlowly(ctx context.Context, p *process) bool {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	end := time.After(longPatience)
	for {
		select {
		case <-p.done:
			return true
		case <-tick.C:
			s.feed(10)
		case <-end:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// same compares all four targets with the truth.
func (x *four) same(t *testing.T, s *subject, kills int) {
	ctx := t.Context()
	if _, _, err := s.look(ctx, true); err != nil {
		t.Errorf("postgres: %v", err)
	}
	if err := s.ends(ctx); err != nil {
		t.Errorf("postgres: %v", err)
	}
	all := map[int32]int64{}
	for p := range int32(partitions) {
		all[p] = math.MaxInt64
	}
	if _, err := s.truth.advance(all); err != nil {
		t.Fatal(err)
	}
	for name, rows := range map[string]func(context.Context, *subject) ([][2]string, error){
		"kafka":   func(ctx context.Context, s *subject) ([][2]string, error) { return s.committedRows(ctx, x.topic) },
		"s3":      x.lines,
		"elastic": x.documents,
	} {
		found, err := rows(ctx, s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := s.truth.compare(found); !d.none() || d.found == 0 {
			t.Errorf("%s, after %d kills and %d changes: %s", name, kills, s.truth.changes(), d)
		}
	}
	t.Logf("%d kills, %d changes", kills, s.truth.changes())
}

// guarded puts a server behind a proxy that asks d about each request. name says which one it is, "" for one that nobody dies at.
func guarded(t *testing.T, server string, d *deadly, name func(r *http.Request) string) string {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // it is signed
		},
		// The bridge dies in the middle of requests.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := name(r)
		d.mu.Lock()
		after := d.after
		d.mu.Unlock()
		if !after {
			if d.met(request) {
				w.WriteHeader(http.StatusServiceUnavailable) // nobody reads it
				return
			}
			proxy.ServeHTTP(w, r)
			return
		}
		// The server is to carry the request out although the bridge is gone when it answers.
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
		d.met(request)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// copies makes the topic that is written to, on the broker that is read from.
func (x *four) copies(t *testing.T, s *subject, d *deadly, fake *kfake.Cluster) {
	t.Helper()
	if _, err := s.adm.CreateTopic(t.Context(), partitions, 1, nil, x.topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.adm.DeleteTopic(context.Background(), x.topic); err != nil {
			t.Error(err)
		}
	})
	x.args = append(x.args, "--to", "kafka://"+s.brokers+"/"+x.topic, "--kafka-prefix", s.topic)
	if fake == nil {
		return
	}
	fake.ControlKey(-1, func(r kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if d.met(requestOf(r, s.topic)) {
			return nil, errDead, true
		}
		return nil, nil, false
	})
}

// requestOf names a request of the bridge's transactions, whose ids begin with prefix.
func requestOf(r kmsg.Request, prefix string) string {
	var id *string
	name := ""
	switch r := r.(type) {
	case *kmsg.ProduceRequest:
		name, id = "Produce", r.TransactionID
	case *kmsg.EndTxnRequest:
		name, id = "EndTxn", &r.TransactionalID
	case *kmsg.InitProducerIDRequest:
		name, id = "InitProducerID", r.TransactionalID
	}
	if id == nil || !strings.HasPrefix(*id, prefix) || strings.Contains(*id, "-writer-") {
		return ""
	}
	return name
}

// files makes the bucket.
func (x *four) files(t *testing.T, d *deadly) {
	t.Helper()
	server, key, secret := os.Getenv("FLINKSINK_S3"), "testbed", "testbed-secret"
	x.bucket = fmt.Sprintf("killtest-%d-%d", os.Getpid(), time.Now().UnixMilli())
	if server == "" {
		fake, err := s3test.Start(x.bucket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fake.Close() })
		server = fake.URL
	}
	x.client = awss3.New(awss3.Options{Region: "us-east-1", BaseEndpoint: aws.String(server), UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(key, secret, "")})
	if os.Getenv("FLINKSINK_S3") != "" {
		x.makeBucket(t)
	}
	front := guarded(t, server, d, func(r *http.Request) string {
		q := r.URL.Query()
		switch {
		case r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifest/"):
			return "manifest"
		case r.Method == http.MethodPut && q.Has("partNumber"):
			return "UploadPart"
		case r.Method == http.MethodPost && q.Has("uploadId"):
			return "CompleteMultipartUpload"
		}
		return ""
	})
	x.args = append(x.args, "--to", "s3://"+x.bucket+"/raw", "--s3-endpoint", front, "--s3-kind", "changelog")
	x.env = append(x.env, "AWS_ACCESS_KEY_ID="+key, "AWS_SECRET_ACCESS_KEY="+secret)
	x.requests = append(x.requests, "UploadPart", "CompleteMultipartUpload", "manifest")
}

// makeBucket makes the bucket of a real server, and takes it away again.
func (x *four) makeBucket(t *testing.T) {
	t.Helper()
	if _, err := x.client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &x.bucket}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		objects := awss3.NewListObjectsV2Paginator(x.client, &awss3.ListObjectsV2Input{Bucket: &x.bucket})
		for objects.HasMorePages() {
			page, err := objects.NextPage(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			for _, o := range page.Contents {
				if _, err := x.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &x.bucket, Key: o.Key}); err != nil {
					t.Error(err)
				}
			}
		}
		if _, err := x.client.DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: &x.bucket}); err != nil {
			t.Error(err)
		}
	})
}

// index makes an index, or leaves that to the bridge.
func (x *four) index(t *testing.T, s *subject, d *deadly) {
	t.Helper()
	server, name := os.Getenv("FLINKSINK_ELASTIC"), s.topic
	if server == "" {
		fake := elastictest.NewServer()
		t.Cleanup(fake.Close)
		server = fake.URL
	} else {
		t.Cleanup(func() {
			if _, err := request(context.Background(), http.MethodDelete, server+"/"+name+"?ignore_unavailable=true", ""); err != nil {
				t.Error(err)
			}
		})
	}
	x.search = server + "/" + name
	front := guarded(t, server, d, func(r *http.Request) string {
		if strings.HasSuffix(r.URL.Path, "/_bulk") {
			return "bulk"
		}
		return ""
	})
	x.args = append(x.args, "--to", front+"/"+name, "--create-table", "--index-deletes", "tombstone")
	x.requests = append(x.requests, "bulk")
}

// lines reads the files as their manifests name them: each change once, and what they come to.
func (x *four) lines(ctx context.Context, s *subject) ([][2]string, error) {
	r, err := s3.NewReader(x.client, x.bucket, "raw", &s3.ReaderOptions{Bridge: s.topic, Sink: "s3"})
	if err != nil {
		return nil, err
	}
	type change struct {
		Op        string `json:"_op"`
		Partition int32  `json:"_partition"`
		Offset    int64  `json:"_offset"`
		Region    string
		ID        int64
		line      []byte
	}
	var all []change
	for m, err := range r.Manifests(ctx) {
		if err != nil {
			return nil, err
		}
		for _, f := range m.Files {
			body, err := r.Open(ctx, f)
			if err != nil {
				return nil, err
			}
			text, err := io.ReadAll(body)
			if err = errors.Join(err, body.Close()); err != nil {
				return nil, err
			}
			for line := range bytes.Lines(text) {
				c := change{line: line}
				if err := json.Unmarshal(line, &c); err != nil {
					return nil, err
				}
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	if want := s.truth.changes(); len(all) != want {
		return nil, fmt.Errorf("the files have %d changes of %d", len(all), want)
	}
	rows := map[string][]byte{}
	for i, c := range all {
		if i > 0 && all[i-1].Partition == c.Partition && all[i-1].Offset == c.Offset {
			return nil, fmt.Errorf("the change of partition %d at offset %d is there twice", c.Partition, c.Offset)
		}
		key := fmt.Sprintf("%s/%d", c.Region, c.ID)
		if rows[key] = c.line; c.Op == "-D" {
			delete(rows, key)
		}
	}
	var out [][2]string
	for _, line := range rows {
		row, err := s.rowOf(line)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// documents reads the index. There are fewer rows than a search may return at once.
func (x *four) documents(ctx context.Context, s *subject) ([][2]string, error) {
	if _, err := request(ctx, http.MethodPost, x.search+"/_refresh", ""); err != nil {
		return nil, err
	}
	text, err := request(ctx, http.MethodPost, x.search+"/_search", `{"size":10000,"query":{"bool":{"must_not":{"exists":{"field":"flinksink_deleted"}}}}}`)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Hits struct {
			Hits []struct {
				Source json.RawMessage `json:"_source"`
			} `json:"hits"`
		} `json:"hits"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	var out [][2]string
	for _, h := range answer.Hits.Hits {
		row, err := s.rowOf(h.Source)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

func request(ctx context.Context, method, url, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err == nil && res.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, url, res.Status, text)
	}
	return text, err
}

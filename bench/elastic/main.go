package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/elastic/go-elasticsearch/v8/esutil"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/flinksink/flinksink/bench/internal/turns"
	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	flinkjson "github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/filestore"
	"github.com/flinksink/flinksink/testbed/kafka"
)

const (
	addressVariable = "FLINKSINK_ELASTIC"
	roleVariable    = "FLINKSINK_BENCH_ROLE"
	bulkBytes       = 4 << 20
	bulkActions     = 1 << 20 // that is, no bound: the indexer has none
	changes         = 100_000 // of a checkpoint
	workers         = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if os.Getenv(roleVariable) == "broker" {
		err = kafka.Serve(ctx, kafka.Options{}, os.Stdin, os.Stdout)
	} else {
		err = measure(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// course is what all contenders run over.
type course struct {
	broker, topic, dir string
	shape              *rows.Shape
	n, runs            int
	prefix             string
	transport          esapi.Transport // of the server, or the stub
	real               bool
	table              *ddl.Table
}

func measure(ctx context.Context) error {
	n := flag.Int("rows", 200_000, "rows of the topic")
	rounds := flag.Int("rounds", 5, "rounds, each contender once in each")
	only := flag.String("only", "", "indexer or three: one of the two parts")
	flag.Parse()
	path, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Env, cmd.Stderr = append(os.Environ(), roleVariable+"=broker"), os.Stderr
	broker, err := kafka.Start(ctx, cmd)
	if err != nil {
		return err
	}
	defer broker.Stop()
	dir, err := os.MkdirTemp("", "flinksink-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := &course{broker: broker.Addr(), topic: "rows", dir: dir, shape: rows.Narrow(), n: *n, prefix: fmt.Sprintf("bench-%d", os.Getpid())}
	if err := c.fill(ctx); err != nil {
		return err
	}
	if c.table, err = ddl.Find(fmt.Sprintf(`CREATE TABLE items (%s) WITH ('connector' = 'upsert-kafka', 'topic' = '%s', 'properties.bootstrap.servers' = '%s', 'key.format' = 'json',
		'value.format' = 'json')`, c.shape.Flink(), c.topic, c.broker), "items"); err != nil {
		return err
	}
	fmt.Printf("%d rows, %d rounds; load average %s at the start\n", c.n, *rounds, loadAverage())
	if *only != "three" {
		if err := encoding(ctx, *rounds); err != nil {
			return err
		}
	}
	c.transport = new(stub)
	if *only != "three" {
		if err := c.turns(ctx, "a stub that costs nothing", *rounds, 0.5); err != nil {
			return err
		}
	}
	address := os.Getenv(addressVariable)
	if address == "" {
		fmt.Println(addressVariable + " is not set: no run against a server")
		return nil
	}
	req, err := http.NewRequest("GET", address, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", addressVariable, err)
	}
	if c.transport, err = elastictransport.New(elastictransport.Config{URLs: []*url.URL{req.URL}, DisableRetry: true}); err != nil {
		return err
	}
	c.real = true
	if *only != "three" {
		if err := c.turns(ctx, "Elasticsearch", *rounds, 0.95); err != nil {
			return err
		}
	}
	if *only == "indexer" {
		return nil
	}
	return c.three(ctx, *rounds)
}

// turns measures both contenders.
func (c *course) turns(ctx context.Context, where string, rounds int, want float64) error {
	names := []string{"flinksink bridge", "esutil.BulkIndexer"}
	rates, client, server := make([][]float64, 2), make([][]float64, 2), make([][]float64, 2)
	var ratios []float64
	for round := range rounds {
		for j := range names {
			i := (round + j) % 2
			c.runs++
			index := fmt.Sprintf("%s-%d", c.prefix, c.runs)
			ours, _ := turns.CPUTime()
			theirs, err := c.serverCPU(ctx)
			if err != nil {
				return err
			}
			took, err := []func(context.Context, string) (time.Duration, error){c.bridge, c.indexer}[i](ctx, index)
			if err != nil {
				return err
			}
			now, _ := turns.CPUTime()
			then, err := c.serverCPU(ctx)
			if err != nil {
				return err
			}
			if c.real {
				if err := c.counted(ctx, index); err != nil {
					return err
				}
			}
			rates[i] = append(rates[i], float64(c.n)/took.Seconds())
			client[i] = append(client[i], float64((now-ours).Microseconds())/float64(c.n))
			server[i] = append(server[i], float64((then-theirs).Microseconds())/float64(c.n))
		}
		ratios = append(ratios, rates[0][round]/rates[1][round])
	}
	fmt.Printf("into %s, rows/s, median [lowest .. highest]:\n", where)
	for i, name := range names {
		fmt.Printf("  %-21s %s; CPU µs a row: client %s", name, figure(rates[i], "%.0f"), figure(client[i], "%.1f"))
		if c.real {
			fmt.Printf(", server %s", figure(server[i], "%.1f"))
		}
		fmt.Println()
	}
	fmt.Printf("  ratio                 %s, wanted %.2f; load average %s\n", figure(ratios, "%.2f"), want, loadAverage())
	return nil
}

// serverCPU is what the server has used so far.
func (c *course) serverCPU(ctx context.Context) (sum time.Duration, err error) {
	if !c.real {
		return 0, nil
	}
	time.Sleep(1100 * time.Millisecond) // the server looks once a second
	res, err := esapi.NodesStatsRequest{Metric: []string{"process"}, FilterPath: []string{"nodes.*.process.cpu.total_in_millis"}}.Do(ctx, c.transport)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var answer struct {
		Nodes map[string]struct {
			Process struct {
				CPU struct {
					Total int64 `json:"total_in_millis"`
				} `json:"cpu"`
			} `json:"process"`
		} `json:"nodes"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return 0, err
	}
	for _, n := range answer.Nodes {
		sum += time.Duration(n.Process.CPU.Total) * time.Millisecond
	}
	return sum, nil
}

func figure(f []float64, form string) string {
	slices.Sort(f)
	return fmt.Sprintf(form+" ["+form+" .. "+form+"]", f[len(f)/2], f[0], f[len(f)-1])
}

// bridge runs a bridge to the end of the topic, with deletes as tombstones, and a file as its store.
func (c *course) bridge(ctx context.Context, index string) (time.Duration, error) {
	d, err := format.New(c.table, []changelog.Format{flinkjson.Format{}}, nil)
	if err != nil {
		return 0, err
	}
	in, err := bridge.FromTable(c.table, d)
	if err != nil {
		return 0, err
	}
	clock := &clocked{Decoder: in.Decoder}
	in.Decoder = clock
	es, err := elastic.New(c.transport, index, &elastic.Options{Deletes: elastic.Tombstone, CreateIndex: true, BulkBytes: bulkBytes, BulkActions: bulkActions, InFlight: workers})
	if err != nil {
		return 0, err
	}
	store, err := filestore.New(filepath.Join(c.dir, index))
	if err != nil {
		return 0, err
	}
	o := bridge.Options{Store: store, Changes: changes, Interval: time.Hour, UntilEnd: true}
	var last time.Time
	var mu sync.Mutex
	o.Hooks.Saved = func(sink.Report) {
		mu.Lock()
		defer mu.Unlock()
		last = time.Now()
	}
	b, err := bridge.New(index, in, es, &o)
	if err != nil {
		return 0, err
	}
	if err := b.Run(ctx); err != nil {
		return 0, err
	}
	if n := b.Status().Counters.Applied; n != int64(c.n) {
		return 0, fmt.Errorf("the bridge applied %d of %d rows", n, c.n)
	}
	return last.Sub(clock.began), nil
}

type clocked struct {
	changelog.Decoder
	first sync.Once
	began time.Time
}

func (c *clocked) Decode(b *changelog.Batch, r *changelog.Record) error {
	c.first.Do(func() { c.began = time.Now() })
	return c.Decoder.Decode(b, r)
}

// indexer feeds ready-made documents.
func (c *course) indexer(ctx context.Context, index string) (time.Duration, error) {
	if c.real {
		es, err := elastic.New(c.transport, index, &elastic.Options{Deletes: elastic.Tombstone})
		if err != nil {
			return 0, err
		}
		d, err := format.New(c.table, []changelog.Format{flinkjson.Format{}}, nil)
		if err != nil {
			return 0, err
		}
		mapping, err := es.Mapping(d.Table())
		if err != nil {
			return 0, err
		}
		res, err := esapi.IndicesCreateRequest{Index: index, Body: strings.NewReader(mapping)}.Do(ctx, c.transport)
		if err != nil {
			return 0, err
		}
		res.Body.Close()
		if res.IsError() {
			return 0, errors.New(res.Status())
		}
	}
	type item struct {
		id   string
		body []byte
	}
	items := make([]item, c.n)
	for i := range items {
		items[i] = item{strconv.Itoa(i), c.shape.Value(c.shape.Row(int64(i), 0))}
	}
	var failed atomic.Value
	began := time.Now()
	bi, err := esutil.NewBulkIndexer(esutil.BulkIndexerConfig{NumWorkers: workers, FlushBytes: bulkBytes, Client: c.transport, Index: index,
		OnError: func(_ context.Context, err error) { failed.Store(err.Error()) }})
	if err != nil {
		return 0, err
	}
	for i := range items {
		if err := bi.Add(ctx, esutil.BulkIndexerItem{Action: "index", DocumentID: items[i].id, Body: bytes.NewReader(items[i].body)}); err != nil {
			return 0, err
		}
	}
	if err := bi.Close(ctx); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if why := failed.Load(); why != nil {
		return 0, fmt.Errorf("esutil: %v", why)
	}
	if st := bi.Stats(); st.NumFailed > 0 || st.NumFlushed != uint64(c.n) {
		return 0, fmt.Errorf("esutil flushed %d and failed %d of %d", st.NumFlushed, st.NumFailed, c.n)
	}
	return took, nil
}

// counted makes sure that the index has all rows, and takes it away.
func (c *course) counted(ctx context.Context, index string) error {
	res, err := esapi.IndicesRefreshRequest{Index: []string{index}}.Do(ctx, c.transport)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res, err = (esapi.CountRequest{Index: []string{index}}).Do(ctx, c.transport); err != nil {
		return err
	}
	defer res.Body.Close()
	var answer struct{ Count int }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Count != c.n {
		return fmt.Errorf("index %s has %d documents of %d", index, answer.Count, c.n)
	}
	if res, err = (esapi.IndicesDeleteRequest{Index: []string{index}}).Do(ctx, c.transport); err != nil {
		return err
	}
	return res.Body.Close()
}

func (c *course) fill(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.broker), kgo.DefaultProduceTopic(c.topic), kgo.MaxBufferedRecords(100_000), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 4, 1, nil, c.topic); err != nil {
		return err
	}
	var failed atomic.Value
	for i := range c.n {
		cl.Produce(ctx, &kgo.Record{Key: rows.Key(int64(i)), Value: c.shape.Value(c.shape.Row(int64(i), 0))}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(err.Error())
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if why := failed.Load(); why != nil {
		return fmt.Errorf("the topic cannot be filled: %v", why)
	}
	return nil
}

// stub answers every bulk with as many successes as it has actions, and any other call with an index that is there.
type stub struct{ answers sync.Map }

func (s *stub) Perform(r *http.Request) (*http.Response, error) {
	index, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	body := []byte(`{"` + index + `":{"aliases":{},"mappings":{"_meta":{"flinksink:` + index + `:elastic":true}},"settings":{"index":{"uuid":"u"}}}}`)
	if strings.HasSuffix(r.URL.Path, "/_bulk") {
		n, buf := 0, make([]byte, 64<<10)
		for {
			k, err := r.Body.Read(buf)
			n += bytes.Count(buf[:k], []byte("\n"))
			if err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
		}
		n /= 2 // an action and its document
		known, ok := s.answers.Load(n)
		if !ok {
			known, _ = s.answers.LoadOrStore(n, []byte(`{"items":[`+strings.TrimSuffix(strings.Repeat(`{"index":{"status":200}},`, n), ",")+`]}`))
		}
		body = known.([]byte)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"X-Elastic-Product": {"Elasticsearch"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(text)); err == nil && len(f) >= 3 {
		return strings.Join(f[:3], " ")
	}
	return "unknown"
}

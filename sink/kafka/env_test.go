package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// env is a cluster that tests write to, and a reader of it that shares nothing with the sink.
type env struct {
	t        testing.TB
	seeds    []string
	admin    *kgo.Client
	kadm     *kadm.Client
	fake     *kfake.Cluster // nil: a real one
	compress []kgo.CompressionCodec
	name     string // begins the names of all that the test makes

	mu          sync.Mutex
	serial      int
	letterTopic string // since the last Reset
	letterBox   *reader
	targets     map[string]*target // by table
	made        []string           // topics
}

// target is what a table is written to since the last Reset.
type target struct {
	table  *ddl.Table
	reader *reader
}

// newFake starts a cluster in this process.
func newFake(t testing.TB, o ...kfake.Opt) *env {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return newEnv(t, fake, fake.ListenAddrs())
}

// newReal finds the cluster that FLINKSINK_KAFKA names.
func newReal(t testing.TB) *env {
	t.Helper()
	seeds := os.Getenv("FLINKSINK_KAFKA")
	if seeds == "" {
		t.Skip("FLINKSINK_KAFKA is not set; ./test starts a broker and sets it")
	}
	return newEnv(t, nil, strings.Split(seeds, ","))
}

func newEnv(t testing.TB, fake *kfake.Cluster, seeds []string) *env {
	t.Helper()
	e := &env{t: t, seeds: seeds, fake: fake, targets: make(map[string]*target)}
	e.name = "sinkkafka-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())) + fmt.Sprintf("-%d-%d", os.Getpid(), serial())
	e.admin = e.client(kgo.RequestRetries(5))
	e.kadm = kadm.NewClient(e.admin)
	t.Cleanup(e.close)
	return e
}

var (
	serialMu sync.Mutex
	serials  int
)

func serial() int {
	serialMu.Lock()
	defer serialMu.Unlock()
	serials++
	return serials
}

func (e *env) close() {
	if e.fake == nil && len(e.made) > 0 {
		_, _ = e.kadm.DeleteTopics(context.Background(), e.made...)
	}
	e.admin.Close()
}

// client is a client of its own, as a process has.
func (e *env) client(o ...kgo.Opt) *kgo.Client {
	e.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(e.seeds...), kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond })}, o...)...)
	if err != nil {
		e.t.Fatal(err)
	}
	return cl
}

// topic makes a topic under a name that was not used before.
func (e *env) topic(ctx context.Context, what string, partitions int32, configs map[string]*string) (string, error) {
	e.mu.Lock()
	e.serial++
	name := fmt.Sprintf("%s-%s-%d", e.name, what, e.serial)
	e.made = append(e.made, name)
	e.mu.Unlock()
	resp, err := e.kadm.CreateTopic(ctx, partitions, 1, configs, name)
	if err == nil {
		err = resp.Err
	}
	for err == nil { // brokers hear of a new topic one after the other
		var m kadm.Metadata
		if m, err = e.kadm.Metadata(ctx, name); err == nil && m.Topics[name].Err == nil && len(m.Topics[name].Partitions) == int(partitions) {
			break
		}
	}
	return name, err
}

const partitions = 3

// into is the target of one of the suite's tables.
func into(t *changelog.Table, topic string) string {
	var columns []string
	for _, c := range t.Schema.Columns {
		columns = append(columns, "`"+c.Name+"` "+c.Type.SQL())
	}
	with := "'connector' = 'kafka', 'format' = 'json'"
	if len(t.Schema.Key) > 0 {
		columns = append(columns, "PRIMARY KEY (`"+t.Schema.Columns[t.Schema.Key[0]].Name+"`) NOT ENFORCED")
		with = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
	}
	return fmt.Sprintf("CREATE TABLE `%s` (%s) WITH (%s, 'topic' = '%s', 'properties.bootstrap.servers' = 'x')", t.Name, strings.Join(columns, ", "), with, topic)
}

func (e *env) reset(ctx context.Context, t *changelog.Table, parts int32) error {
	topic, err := e.topic(ctx, t.Name, parts, nil)
	if err != nil {
		return err
	}
	table, err := ddl.Find(into(t, topic), "")
	if err != nil { // a type that no CREATE TABLE can have, and so no target: one of text stands for all that there can be
		other := *t.Schema
		other.Columns = slices.Clone(t.Schema.Columns)
		other.Columns[1].Type = changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength}
		table, err = ddl.Find(into(&changelog.Table{Name: t.Name, Schema: &other}, topic), "")
	}
	if err != nil {
		return err
	}
	d, err := format.New(table, all.Formats(), nil)
	if err != nil {
		return err
	}
	letters, err := e.topic(ctx, "letters", 2, nil)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.letterTopic, e.letterBox = letters, &reader{e: e, topic: letters}
	e.targets[t.Name] = &target{table: table, reader: &reader{e: e, topic: topic, decoder: d}}
	return nil
}

func (e *env) target(t *changelog.Table) *target {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.targets[t.Name]
}

// reader is a read_committed consumer that goes on where it was, and knows what the table is.
type reader struct {
	e       *env
	topic   string
	decoder changelog.Decoder
	next    []int64
	rows    map[string]changelog.Row // by key
	list    []changelog.Row          // of a table without a key
	records []*kgo.Record            // all that were read
}

// read reads on to the last stable offset of each partition.
func (r *reader) read(ctx context.Context) error {
	if r.rows == nil {
		r.rows = make(map[string]changelog.Row)
	}
	ends, err := r.e.kadm.ListCommittedOffsets(ctx, r.topic)
	for err == nil && errors.Is(ends.Error(), kerr.NotLeaderForPartition) { // it moved
		ends, err = r.e.kadm.ListCommittedOffsets(ctx, r.topic)
	}
	if err != nil {
		return err
	}
	var failed error
	ends.Each(func(o kadm.ListedOffset) {
		if failed == nil {
			failed = errors.Join(o.Err)
		}
		for failed == nil && int(o.Partition) >= len(r.next) {
			r.next = append(r.next, 0)
		}
		for failed == nil && r.next[o.Partition] < o.Offset {
			failed = r.fetch(ctx, o.Partition)
		}
	})
	return failed
}

func (r *reader) fetch(ctx context.Context, partition int32) error {
	meta, err := r.e.kadm.Metadata(ctx, r.topic)
	if err != nil {
		return err
	}
	t := meta.Topics[r.topic]
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel, req.SessionEpoch = 0, 0, 50<<20, 1, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = r.topic, t.ID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = partition, r.next[partition], 50<<20, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	shard, err := r.e.admin.Broker(int(t.Partitions[partition].Leader)).RetriableRequest(ctx, req)
	if err != nil {
		return err
	}
	got := &shard.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); errors.Is(err, kerr.NotLeaderForPartition) {
		return nil // it moved: once more
	} else if err != nil {
		return err
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: r.next[partition], IsolationLevel: kgo.ReadCommitted(), Topic: r.topic, Partition: partition},
		got, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		return fp.Err
	}
	if next <= r.next[partition] {
		return fmt.Errorf("partition %d of %s does not go on behind offset %d", partition, r.topic, next)
	}
	for _, rec := range fp.Records {
		r.records = append(r.records, rec)
		if err := r.apply(rec); err != nil {
			return err
		}
	}
	r.next[partition] = next
	return nil
}

func (r *reader) apply(rec *kgo.Record) error {
	if r.decoder == nil {
		return nil
	}
	b := changelog.NewBatch(r.decoder.Table())
	cr := changelog.Record{Partition: changelog.Partition{Topic: rec.Topic, Partition: rec.Partition}, Offset: rec.Offset, Timestamp: rec.Timestamp.UnixMilli(), Key: rec.Key, Value: rec.Value}
	for _, h := range rec.Headers {
		cr.Headers = append(cr.Headers, changelog.Header{Key: h.Key, Value: h.Value})
	}
	if err := r.decoder.Decode(b, &cr); err != nil {
		return err
	}
	schema := r.decoder.Table().Schema
	for _, c := range b.Changes {
		if len(schema.Key) == 0 {
			r.list = append(r.list, c.Row)
			continue
		}
		key := string(changelog.AppendKey(nil, schema, c.Row))
		if c.Kind.Adds() {
			r.rows[key] = c.Row
		} else {
			delete(r.rows, key)
		}
	}
	return nil
}

func (r *reader) values(ctx context.Context) ([]changelog.Row, error) {
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	out := slices.Clone(r.list)
	for _, row := range r.rows {
		out = append(out, row)
	}
	return out, nil
}

func (e *env) rows(ctx context.Context, t *changelog.Table) ([]sinktest.Row, error) {
	values, err := e.target(t).reader.values(ctx)
	var out []sinktest.Row
	for _, v := range values {
		out = append(out, sinktest.Row{ID: v[0].Int(), V: v[1].Str()})
	}
	return out, err
}

func (e *env) letters(ctx context.Context) (out []sink.DeadLetter, err error) {
	if err := e.letterBox.read(ctx); err != nil {
		return nil, err
	}
	for _, r := range e.letterBox.records {
		l, cut, err := kafka.ParseDeadLetter(r)
		if err != nil || cut != 0 {
			return nil, fmt.Errorf("%w, %d bytes are cut off", err, cut)
		}
		out = append(out, l)
	}
	return out, nil
}

package s3_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
)

// A bridge of files alone makes a checkpoint every few minutes, whatever passes meanwhile, and its files are as large as that; what is held in memory stays within the
// lane's budget all the same. Where rows have to be kept for it (Upsert), and where the options say so, checkpoints come earlier.
func TestPace(t *testing.T) {
	k, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "topic"))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	producer, err := kgo.NewClient(kgo.SeedBrokers(k.ListenAddrs()...), kgo.DefaultProduceTopic("topic"))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	const rows, budget = 2000, 256 << 10
	for i := range rows {
		producer.Produce(t.Context(), &kgo.Record{Key: fmt.Appendf(nil, `{"id":%d}`, i), Value: fmt.Appendf(nil, `{"id":%d,"v":"some text of a row, so that it takes room"}`, i)}, nil)
	}
	if err := producer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	source := `'topic' = 'topic', 'properties.bootstrap.servers' = '` + k.ListenAddrs()[0] + `', `
	appended := `CREATE TABLE events (id BIGINT, v STRING) WITH ('connector' = 'kafka', ` + source + `'format' = 'json')`
	keyed := `CREATE TABLE events (id BIGINT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', ` + source + `'key.format' = 'json', 'value.format' = 'json')`
	for _, c := range []struct {
		name, ddl   string
		kind        s3.Kind
		o           bridge.Options
		interval    time.Duration
		least, most int64 // checkpoints with rows
	}{
		{"by itself", appended, s3.AppendOnly, bridge.Options{}, s3.DefaultInterval, 1, 1},
		{"every change", keyed, s3.Changelog, bridge.Options{}, s3.DefaultInterval, 1, 1},
		{"rows are kept", keyed, s3.Upsert, bridge.Options{}, s3.DefaultInterval, 3, rows},
		{"an interval of its own", appended, s3.AppendOnly, bridge.Options{Interval: time.Hour}, time.Hour, 1, 1},
		{"a number of changes", appended, s3.AppendOnly, bridge.Options{Changes: rows / 4}, s3.DefaultInterval, 2, rows},
		{"a size", appended, s3.AppendOnly, bridge.Options{Bytes: budget / 2}, s3.DefaultInterval, 3, rows},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newFake(t)
			tb, err := ddl.Find(c.ddl, "events")
			if err != nil {
				t.Fatal(err)
			}
			d, err := format.New(tb, []changelog.Format{json.Format{}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			in, err := bridge.FromTable(tb, d)
			if err != nil {
				t.Fatal(err)
			}
			o := c.o
			o.UntilEnd, o.ByteBudget, o.Group = true, budget, "pace"
			if o.Store, err = s3.NewStore(e.client(nil), e.bucket, "lake", s3.Settings{}); err != nil {
				t.Fatal(err)
			}
			var made atomic.Int64
			o.Hooks.Saved = func(r sink.Report) {
				if r.Counters.Applied > 0 {
					made.Add(1)
				}
			}
			b, err := bridge.New("bridge", in, e.sink(&s3.Options{Manifest: true, Kind: c.kind}), &o)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := made.Load(); n < c.least || n > c.most {
				t.Errorf("%d checkpoints, expected %d to %d", n, c.least, c.most)
			}
			if d := b.Status().Interval; d != c.interval {
				t.Errorf("interval %s", d)
			}
			if _, files := e.manifests(); c.most == 1 && files != 1 {
				t.Errorf("%d files", files)
			}
			if s := b.Status(); s.Counters.Applied != rows {
				t.Errorf("%d rows applied", s.Counters.Applied)
			}
		})
	}
}

package kafkatopic_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/debezium"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/flinksink/flinksink/sink/sinktest/kafkatopic"
)

func newLog(t *testing.T, connector string) *sinktest.Log {
	t.Helper()
	table, err := ddl.Find(`CREATE TABLE orders (id BIGINT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('topic' = 'orders', `+connector+`)`, "orders")
	if err != nil {
		t.Fatal(err)
	}
	enc, err := format.NewEncoder(table, []changelog.Format{json.Format{}, debezium.Format{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sinktest.NewLog(enc)
}

// What a consumer reads from a broker is what the Log says, with the same offsets, whatever transactions did.
func TestWrite_OnKfake(t *testing.T) {
	for name, connector := range map[string]string{
		"upsert-kafka":  `'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'`,
		"debezium-json": `'connector' = 'kafka', 'format' = 'debezium-json'`,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			l := newLog(t, connector)
			l.Insert(0, 1, "a")
			aborted, committed := l.Begin(), l.Begin()
			aborted.Insert(0, 2, "never")
			committed.UpdateBefore(0, 1, "a")
			committed.UpdateAfter(0, 1, "b")
			committed.Insert(1, 3, nil)
			aborted.Insert(1, 4, "never")
			aborted.Abort()
			committed.Commit()
			l.Delete(0, 1, "b")
			l.Raw(1, []byte("{}"), nil)
			hanging := l.Begin()
			hanging.Insert(0, 5, "not yet")
			l.Insert(0, 6, "behind it")

			broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
			if err != nil {
				t.Fatal(err)
			}
			defer broker.Close()
			end, err := kafkatopic.Write(ctx, broker.ListenAddrs(), l)
			if err != nil {
				t.Fatal(err)
			}
			defer end()
			var want []string
			for p := range int32(2) {
				rs, err := l.Records(p)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range rs {
					want = append(want, fmt.Sprintf("%d@%d %q %q", r.Partition.Partition, r.Offset, r.Key, r.Value))
				}
			}
			cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics("orders"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			var got []string
			for len(got) < len(want) {
				fs := cl.PollFetches(ctx)
				if err := fs.Err(); err != nil {
					t.Fatalf("%v; read so far: %q, expected %q", err, got, want)
				}
				fs.EachRecord(func(r *kgo.Record) {
					got = append(got, fmt.Sprintf("%d@%d %q %q", r.Partition, r.Offset, r.Key, r.Value))
				})
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("a consumer reads\n%q\nthe log says\n%q", got, want)
			}
		})
	}
}

func TestWrite_RefusesHoles(t *testing.T) {
	l := newLog(t, `'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'`)
	l.Compacted(0, 3)
	if _, err := kafkatopic.Write(t.Context(), nil, l); err == nil {
		t.Error("holes were written")
	}
}

package kafka_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/internal/capture"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/google/go-cmp/cmp"
)

// What a real Flink job wrote is carried to another topic of the same encoding by a bridge. What a read_committed reader gets there is, record by record and
// partition by partition, what Flink wrote and committed: the same bytes, in the same partitions, which Flink's own producer chose.
func TestCopy(t *testing.T) {
	for _, name := range []string{"upsert_json_3_partitions", "upsert_csv_composite", "upsert_raw_key_3_partitions", "txn_upsert_failover", "debezium_groupby", "canal_groupby", "txn_append_failover"} {
		for _, m := range modes() {
			t.Run(name+"/"+string(m), func(t *testing.T) { copyCapture(t, newFake(t), name, m) })
		}
	}
}

func TestCopy_Real(t *testing.T) {
	for _, m := range modes() {
		t.Run(string(m), func(t *testing.T) { copyCapture(t, newReal(t), "upsert_json_3_partitions", m) })
	}
}

func copyCapture(t *testing.T, e *env, name string, m mode) {
	folder := filepath.Join("..", "..", "testdata", "flink", name)
	text, err := os.ReadFile(filepath.Join(folder, "ddl.sql"))
	must(t, err)
	records, err := capture.ReadFile(filepath.Join(folder, "topic.jsonl"))
	must(t, err)
	parts := int32(1)
	for _, r := range records {
		parts = max(parts, r.Partition.Partition+1)
	}
	from, to := e.name+"-from", e.name+"-to"
	e.made = append(e.made, from)
	must(t, capture.Load(t.Context(), e.seeds, from, int(parts), records))
	to, err = e.topic(t.Context(), "to", parts, nil)
	must(t, err)
	table := func(topic string) *ddl.Table {
		found, err := ddl.Find(string(text), "")
		must(t, err)
		sql := strings.ReplaceAll(strings.ReplaceAll(found.SQLWithSecrets(), found.Options["topic"], topic), found.Options["properties.bootstrap.servers"], e.seeds[0])
		found, err = ddl.Find(sql, "")
		must(t, err)
		return found
	}
	decoder, err := format.New(table(from), all.Formats(), nil)
	must(t, err)
	in, err := bridge.FromTable(table(from), decoder)
	must(t, err)
	cl := e.client()
	defer cl.Close()
	o := &kafka.Options{Prefix: e.name[max(0, len(e.name)-80):], Topic: e.name + "-store", Group: e.name}
	e.made = append(e.made, o.Topic)
	make := kafka.TwoPhase
	if m == inOneTransact {
		make = kafka.InTransaction
	}
	s, err := make(cl, table(to), all.Formats(), o)
	must(t, err)
	b, err := bridge.New(e.name, in, s, &bridge.Options{UntilEnd: true, Group: e.name, Unordered: true, Interval: 20 * time.Millisecond})
	must(t, err)
	if g := b.Guarantee(); g.Level != sink.ExactlyOnce {
		t.Errorf("the guarantee is %s", g)
	}
	must(t, b.Run(t.Context()))

	text1 := func(key, value []byte) string {
		return fmt.Sprintf("%s (null: %t) = %s (null: %t)", key, key == nil, value, value == nil)
	}
	want := map[int32][]string{}
	for i := range records {
		if r := &records[i]; r.Visible() {
			want[r.Partition.Partition] = append(want[r.Partition.Partition], text1(r.Key, r.Value))
		}
	}
	reader := &reader{e: e, topic: to, decoder: decoder}
	got := map[int32][]string{}
	must(t, reader.read(t.Context()))
	for _, r := range reader.records {
		got[r.Partition] = append(got[r.Partition], text1(r.Key, r.Value))
	}
	if records[0].Key == nil { // without a key there is no partition to keep
		want, got = map[int32][]string{0: flatten(want)}, map[int32][]string{0: flatten(got)}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("- what Flink wrote, + the copy:\n%s", d)
	}
}

func flatten(m map[int32][]string) (out []string) {
	for p := range int32(len(m)) {
		out = append(out, m[p]...)
	}
	return out
}

package kafka_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
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
			t.Run(name+"/"+string(m), func(t *testing.T) { copyCapture(t, newFake(t), carriage{name: name, mode: m}) })
			t.Run(name+"/"+string(m)+"/EncodedAnew", func(t *testing.T) { copyCapture(t, newFake(t), carriage{name: name, mode: m, anew: true}) })
		}
	}
}

func TestCopy_Real(t *testing.T) {
	for _, m := range modes() {
		t.Run(string(m), func(t *testing.T) { copyCapture(t, newReal(t), carriage{name: "upsert_json_3_partitions", mode: m}) })
	}
}

// carriage is a bridge from a topic that Flink wrote to one of the same encoding.
type carriage struct {
	name    string // of the topic's folder
	mode    mode
	anew    bool   // Options.EncodeAnew
	to      string // the topic, which is there; "": a new one
	changes int    // of a checkpoint at most, 0: whatever comes in its interval
	source  func(sql string) string
	target  func(sql string) string
	options func(o *bridge.Options)
}

// captured returns what Flink wrote, and how many partitions its topic has.
func captured(t *testing.T, name string) (records []capture.Record, parts int32) {
	t.Helper()
	folder := filepath.Join("..", "..", "testdata", "flink", name)
	records, err := capture.ReadFile(filepath.Join(folder, "topic.jsonl"))
	must(t, err)
	text, err := os.ReadFile(filepath.Join(folder, "case.json"))
	must(t, err)
	var c struct{ Partitions int32 }
	must(t, json.Unmarshal(text, &c))
	return records, max(c.Partitions, 1)
}

// ferry runs the bridge to the end of what Flink wrote, and returns that, and a reader of the copy that has read it.
func ferry(t *testing.T, e *env, c carriage) (records []capture.Record, out *reader, log string) {
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "flink", c.name, "ddl.sql"))
	must(t, err)
	records, parts := captured(t, c.name)
	from := e.name + "-from"
	e.made = append(e.made, from)
	must(t, capture.Load(t.Context(), e.seeds, from, int(parts), records))
	if c.to == "" {
		c.to, err = e.topic(t.Context(), "to", parts, nil)
		must(t, err)
	}
	table := func(topic string, edit func(string) string) *ddl.Table {
		found, err := ddl.Find(string(text), "")
		must(t, err)
		sql := strings.ReplaceAll(strings.ReplaceAll(found.SQLWithSecrets(), found.Options["topic"], topic), found.Options["properties.bootstrap.servers"], e.seeds[0])
		if edit != nil {
			sql = edit(sql)
		}
		found, err = ddl.Find(sql, "")
		must(t, err)
		return found
	}
	decoder, err := format.New(table(from, c.source), all.Formats(), nil)
	must(t, err)
	in, err := bridge.FromTable(table(from, c.source), decoder)
	must(t, err)
	cl := e.client()
	defer cl.Close()
	o := &kafka.Options{Prefix: e.name[max(0, len(e.name)-80):], Topic: e.name + "-store", Group: e.name, EncodeAnew: c.anew}
	e.made = append(e.made, o.Topic)
	make := kafka.TwoPhase
	if c.mode == inOneTransact {
		make = kafka.InTransaction
	}
	s, err := make(cl, table(c.to, c.target), all.Formats(), o)
	must(t, err)
	var lines strings.Builder
	bo := &bridge.Options{UntilEnd: true, Group: e.name, Unordered: true, Interval: 20 * time.Millisecond, Changes: c.changes, Logger: slog.New(slog.NewTextHandler(&lines, nil))}
	if c.options != nil {
		c.options(bo)
	}
	b, err := bridge.New(e.name, in, s, bo)
	must(t, err)
	if g := b.Guarantee(); g.Level != sink.ExactlyOnce {
		t.Errorf("the guarantee is %s", g)
	}
	must(t, b.Run(t.Context()))
	read, err := format.New(table(c.to, c.target), all.Formats(), nil)
	must(t, err)
	out = &reader{e: e, topic: c.to, decoder: read}
	must(t, out.read(t.Context()))
	return records, out, lines.String()
}

const handedOn = "values are handed on"

func copyCapture(t *testing.T, e *env, c carriage) {
	records, reader, log := ferry(t, e, c)
	tells := !strings.Contains(c.name, "_csv_") // the other formats of this test tell whether a message holds more than its rows
	if told := strings.Contains(log, handedOn); told != (tells && !c.anew) {
		t.Errorf("that values are handed on is told: %t\n%s", told, log)
	}
	want := map[int32][]string{}
	for i := range records {
		if r := &records[i]; r.Visible() {
			want[r.Partition.Partition] = append(want[r.Partition.Partition], spelled(r.Key, r.Value))
		}
	}
	got := map[int32][]string{}
	for _, r := range reader.records {
		got[r.Partition] = append(got[r.Partition], spelled(r.Key, r.Value))
	}
	if records[0].Key == nil { // without a key there is no partition to keep
		want, got = map[int32][]string{0: flatten(want)}, map[int32][]string{0: flatten(got)}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("- what Flink wrote, + the copy:\n%s", d)
	}
}

func spelled(key, value []byte) string {
	return fmt.Sprintf("%s (null: %t) = %s (null: %t)", key, key == nil, value, value == nil)
}

func flatten(m map[int32][]string) (out []string) {
	for p := range int32(len(m)) {
		out = append(out, m[p]...)
	}
	return out
}

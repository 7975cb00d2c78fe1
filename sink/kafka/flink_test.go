package kafka_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/internal/capture"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Topics that this sink wrote to a real broker, in several transactions behind one that was aborted, were read by Flink 2.2 with 'properties.isolation.level' =
// 'read_committed'. testdata/flink has them: topic.jsonl is the log, read.jsonl what Flink's connector and format made of each record, final.jsonl what
// SELECT gave at the end, in the form that testdata/flink/README.md at the top describes. It is made by
//
//	FLINKSINK_KAFKA=localhost:9092 go test ./sink/kafka -run TestFlink_Write -flink FOLDER
//
// which leaves the topics there and FOLDER with a ddl.sql and a case.json for each; then Flink reads each table as those captures were read. The topics
// sink_kafka_* can be deleted afterwards.
var flinkFolder = flag.String("flink", "", "write topics for Flink to read, and what it needs for that into this folder")

// forFlink are the topics: each is carried over from what a Flink job wrote, whose reading by Flink is what is expected.
func forFlink() []carriage {
	return []carriage{
		{name: "upsert_json_3_partitions", mode: twoPhase},
		{name: "debezium_keyed", mode: inOneTransact},
		{name: "debezium_types", mode: twoPhase},
		{name: "json_types", mode: inOneTransact},
	}
}

func TestFlink_Write(t *testing.T) {
	if *flinkFolder == "" {
		t.Skip("-flink FOLDER writes the topics that Flink is to read")
	}
	for _, c := range forFlink() {
		t.Run(c.name, func(t *testing.T) {
			e := newReal(t)
			c.to, c.anew, c.changes = "sink_kafka_"+c.name, true, 5
			records, parts := captured(t, c.name)
			_, _ = e.kadm.DeleteTopics(t.Context(), c.to)
			_, err := e.kadm.CreateTopic(t.Context(), parts, 1, nil, c.to)
			must(t, err)
			abort(t, e, c.to, records)
			ferry(t, e, c)

			folder := filepath.Join(*flinkFolder, c.name)
			must(t, os.MkdirAll(folder, 0o755))
			ddl, err := os.ReadFile(filepath.Join("..", "..", "testdata", "flink", c.name, "ddl.sql"))
			must(t, err)
			topic := fmt.Sprintf("'topic' = '%s'", c.name)
			if strings.Count(string(ddl), topic) != 1 {
				t.Fatalf("the table has no %s", topic)
			}
			sql := strings.ReplaceAll(string(ddl), topic, fmt.Sprintf("'topic' = '%s',\n  'properties.isolation.level' = 'read_committed'", c.to))
			must(t, os.WriteFile(filepath.Join(folder, "ddl.sql"), []byte(sql), 0o644))
			note := fmt.Sprintf("{\n  \"note\": \"written by sink/kafka, %s, encoded anew, from the topic of the same name that Flink wrote\",\n  \"partitions\": %d\n}\n", c.mode, parts)
			must(t, os.WriteFile(filepath.Join(folder, "case.json"), []byte(note), 0o644))
		})
	}
}

// abort leaves records in a topic that nobody may read who is read_committed.
func abort(t *testing.T, e *env, topic string, records []capture.Record) {
	t.Helper()
	cl := e.client(kgo.TransactionalID(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	must(t, cl.BeginTransaction())
	for i := range records[:3] {
		must(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: records[i].Partition.Partition, Key: records[i].Key, Value: records[i].Value}).FirstErr())
	}
	must(t, cl.EndTransaction(t.Context(), kgo.TryAbort))
}

// What is written today is, byte by byte, what Flink read, and what Flink read is what it reads of its own topic.
func TestFlink_ReadBack(t *testing.T) {
	for _, c := range forFlink() {
		folder, oracle := filepath.Join("testdata", "flink", c.name), filepath.Join("..", "..", "testdata", "flink", c.name)
		t.Run(c.name, func(t *testing.T) {
			golden, err := capture.ReadFile(filepath.Join(folder, "topic.jsonl"))
			must(t, err)
			want, aborted := map[int32][]string{}, 0
			for i := range golden {
				if r := &golden[i]; r.Visible() {
					want[r.Partition.Partition] = append(want[r.Partition.Partition], spelled(r.Key, r.Value))
				} else {
					aborted++
				}
			}
			if aborted == 0 {
				t.Error("the log that Flink read has no aborted record, so it shows nothing of isolation")
			}
			for _, m := range modes() {
				for _, anew := range []bool{true, false} {
					c.mode, c.anew = m, anew
					_, out, _ := ferry(t, newFake(t), c)
					got := map[int32][]string{}
					for _, r := range out.records {
						got[r.Partition] = append(got[r.Partition], spelled(r.Key, r.Value))
					}
					if d := cmp.Diff(want, got); d != "" {
						t.Errorf("%s, encoded anew: %t; - what Flink read, + what is written:\n%s", m, anew, d)
					}
				}
			}
			if d := cmp.Diff(rowsOf(t, oracle, "read.jsonl"), rowsOf(t, folder, "read.jsonl")); d != "" {
				t.Errorf("- what Flink reads of its own topic, + of ours:\n%s", d)
			}
			if _, err := os.Stat(filepath.Join(oracle, "final.jsonl")); err == nil {
				if d := cmp.Diff(rowsOf(t, oracle, "final.jsonl"), rowsOf(t, folder, "final.jsonl")); d != "" {
					t.Errorf("- Flink's SELECT at the end from its own topic, + from ours:\n%s", d)
				}
			}
		})
	}
}

// rowsOf reads what Flink read, by partition, without offsets.
func rowsOf(t *testing.T, folder, name string) map[int32][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(folder, name))
	must(t, err)
	defer f.Close()
	out := map[int32][]string{}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var line struct {
			Op        string          `json:"op"`
			Partition int32           `json:"partition"`
			Row       json.RawMessage `json:"row"`
			Error     string          `json:"error"`
		}
		must(t, json.Unmarshal(s.Bytes(), &line))
		if line.Error != "" {
			t.Errorf("%s: Flink failed: %s", name, line.Error)
		}
		out[line.Partition] = append(out[line.Partition], line.Op+" "+string(line.Row))
	}
	must(t, s.Err())
	if len(out) == 0 {
		t.Errorf("%s is empty", filepath.Join(folder, name))
	}
	return out
}

package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/internal/capture"
)

//go:embed captured
var captured embed.FS

// topic is a captured topic, how it is made longer, and the table it is to become.
type topic struct {
	name       string // of the topic, the one in the Flink table
	table      string // in Postgres, without schema
	create     string // its columns in Postgres
	partitions int
	folder     string   // below captured
	copies     int      // how often the capture is written
	field      string   // a text field that is in every key, or in every value where there are no keys
	columns    []string // as in rows.jsonl
}

// topics are the two tables of this demonstration.
//
// What Flink wrote is short: 83 and 540 records, which a bridge reads in a moment, and a kill would hit nothing. So the captures are
// written many times over, one after another, in the same order, transactions and aborted records included; the nth copy has a
// text of its own in front of one field, so that its rows are rows of their own. What a copy must become in the end is what Flink
// says the capture becomes, with the same text in front.
func topics() []topic {
	return []topic{
		{name: "upsert_json_3_partitions", table: "counts", create: "g text PRIMARY KEY, n bigint, s integer", partitions: 3, folder: "counts", copies: 600, field: "g", columns: []string{"g", "n", "s"}},
		{name: "txn_append_failover", table: "events", create: "id bigint, v text", partitions: 1, folder: "events", copies: 100, field: "v", columns: []string{"id", "v"}},
	}
}

// progressTopic is the one whose table only grows, so that its rows tell how far a program is.
func progressTopic() topic { return topics()[1] }

// ddl is the CREATE TABLE of the Flink job, with the broker of this demonstration in it. Flink calls the table t.
func (t topic) ddl(broker string) (string, error) {
	text, err := captured.ReadFile("captured/" + t.folder + "/ddl.sql")
	return strings.ReplaceAll(string(text), "localhost:9092", broker), err
}

// prefix is the text in front of field in the nth copy.
func (t topic) prefix(n int) string { return fmt.Sprintf("copy-%03d/", n) }

// records are those of all copies, each with the offset at which it is to stand.
func (t topic) records() ([]capture.Record, error) {
	f, err := captured.Open("captured/" + t.folder + "/topic.jsonl")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	once, err := capture.Read(f)
	if err != nil {
		return nil, err
	}
	// Where a copy begins: behind the one before, and, in a topic of transactions, behind the marker that ends its last one.
	length := map[int32]int64{}
	markers := false
	for i, r := range once {
		p := r.Partition.Partition
		length[p] = r.Offset + 1
		markers = markers || r.Aborted || i > 0 && once[i-1].Partition == r.Partition && r.Offset != once[i-1].Offset+1
	}
	all := make([]capture.Record, 0, t.copies*len(once))
	for n := range t.copies {
		from, to := []byte(`"`+t.field+`":"`), []byte(`"`+t.field+`":"`+t.prefix(n))
		for _, r := range once {
			stride := length[r.Partition.Partition]
			if markers {
				stride++
			}
			r.Offset += int64(n) * stride
			r.Key, r.Value = renamed(r.Key, from, to), renamed(r.Value, from, to)
			all = append(all, r)
		}
	}
	return all, nil
}

// renamed keeps null null.
func renamed(b, from, to []byte) []byte {
	if b == nil {
		return nil
	}
	return bytes.Replace(b, from, to, 1)
}

// row is a row of a table as text, the same for what Flink says and for what Postgres holds.
type row string

func makeRow(values []string) row { return row(strings.Join(values, "\x00")) }

// expected is what the table must hold in the end, by Flink's own word, and how often each row.
func (t topic) expected() (map[row]int, error) {
	text, err := captured.ReadFile("captured/" + t.folder + "/rows.jsonl")
	if err != nil {
		return nil, err
	}
	rows := map[row]int{}
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var line struct{ Row map[string]string }
		if err := d.Decode(&line); err != nil {
			return nil, fmt.Errorf("captured/%s/rows.jsonl: %w", t.folder, err)
		}
		for n := range t.copies {
			values := make([]string, len(t.columns))
			for i, c := range t.columns {
				values[i] = line.Row[c]
				if c == t.field {
					values[i] = t.prefix(n) + values[i]
				}
			}
			rows[makeRow(values)]++
		}
	}
	return rows, nil
}

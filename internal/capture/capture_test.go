package capture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/changelog"
)

func TestRead_Errors(t *testing.T) {
	const good = `{"partition":0,"offset":3,"timestamp":1,"key":null,"value":"","headers":[]}`
	for _, c := range []struct{ name, in, want string }{
		{"no JSON", good + "\nnope", "line 2"},
		{"cut off", `{"partition":0,`, "line 1"},
		{"two values", good + good, "more than one JSON value"},
		{"unknown field", `{"partition":0,"offset":3,"timestamp":1,"key":null,"value":"","header":[]}`, "header"},
		{"no partition", `{"offset":3,"timestamp":1,"key":null,"value":""}`, "partition"},
		{"negative partition", good + "\n" + `{"partition":-1,"offset":3,"timestamp":1,"key":null,"value":"","headers":[]}`, "line 2: field partition: -1, and a partition is a number from 0 to 999"},
		{"huge partition", good + "\n\n" + `{"partition":70000,"offset":3,"timestamp":1,"key":null,"value":"","headers":[]}`, "line 3: field partition: 70000, and a partition is a number from 0 to 999"},
		{"negative offset", `{"partition":0,"offset":-3,"timestamp":1,"key":null,"value":""}`, "offset"},
		{"no timestamp", `{"partition":0,"offset":3,"key":null,"value":""}`, "timestamp"},
		{"no key", `{"partition":0,"offset":3,"timestamp":1,"value":""}`, "key: missing"},
		{"no value", `{"partition":0,"offset":3,"timestamp":1,"key":""}`, "value: missing"},
		{"key is no text", `{"partition":0,"offset":3,"timestamp":1,"key":7,"value":""}`, "key: expected base64"},
		{"value is no base64", `{"partition":0,"offset":3,"timestamp":1,"key":null,"value":"%"}`, "value: illegal base64"},
		{"short header", `{"partition":0,"offset":3,"timestamp":1,"key":null,"value":"","headers":[["a"]]}`, "headers[0]"},
		{"header without a name", `{"partition":0,"offset":3,"timestamp":1,"key":null,"value":"","headers":[[null,null]]}`, "headers[0]"},
		{"aborted and open", `{"partition":0,"offset":3,"timestamp":1,"key":null,"value":"","aborted":true,"open":true}`, "cannot be both"},
		{"offsets go back", good + "\n\n" + good, "line 3: offset 3 of partition 0 comes after offset 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.in))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "absent")); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Fatalf("a file that is not there: %v", err)
	}
}

func TestRead_NullIsNotEmpty(t *testing.T) {
	recs, err := Read(strings.NewReader(`{"partition":2,"offset":3,"timestamp":-5,"key":null,"value":"","headers":[["a",null],["a",""],["b","AQ=="]],"aborted":true}` + "\n" +
		`{"partition":2,"offset":7,"timestamp":5,"key":"","value":null,"open":true}`))
	if err != nil {
		t.Fatal(err)
	}
	p := changelog.Partition{Partition: 2}
	want := []Record{
		{Aborted: true, Record: changelog.Record{Partition: p, Offset: 3, LeaderEpoch: -1, Timestamp: -5, Value: []byte{}, Headers: []changelog.Header{{Key: "a"}, {Key: "a", Value: []byte{}}, {Key: "b", Value: []byte{1}}}}},
		{Open: true, Record: changelog.Record{Partition: p, Offset: 7, LeaderEpoch: -1, Timestamp: 5, Key: []byte{}}},
	}
	if d := cmp.Diff(want, recs); d != "" {
		t.Fatal(d)
	}
}

// history makes records from a picture: c committed, a aborted, o open, . an offset without a record.
func history(picture string) (recs []Record) {
	for i, c := range picture {
		if c != '.' {
			recs = append(recs, Record{Aborted: c == 'a', Open: c == 'o', Record: changelog.Record{Offset: int64(i), Timestamp: 1, Value: []byte{byte(i)}}})
		}
	}
	return recs
}

// A message of 64 MiB is longer than that in base64.
func TestRead_LargeMessage(t *testing.T) {
	const size = 64 << 20
	line := io.MultiReader(strings.NewReader(`{"partition":0,"offset":0,"timestamp":1,"key":null,"value":"`), io.LimitReader(repeat('A'), (size+2)/3*4), strings.NewReader(`"}`))
	recs, err := Read(line)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(recs[0].Value); n < size {
		t.Errorf("%d bytes", n)
	}
}

// repeat is a reader of one byte without an end.
type repeat byte

func (r repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

func TestPlan(t *testing.T) {
	for _, c := range []struct{ picture, want string }{
		{"", ""},
		{"ccc", "0: 3 records, plain"},
		{"cc.c", "0: 2 records, commit; 2: marker, commit; 3: 1 records, commit; 4: marker, commit"},
		{"aa.c.", "0: 2 records, abort; 2: marker, abort; 3: 1 records, commit; 4: marker, commit"},
		// An aborted run with no gap behind it stays pending until the next one.
		{"acc.", "0: 1 records, abort; 1: 2 records, commit; 3: marker, abort; 4: marker, commit"},
		{"acac..c", "0: 1 records, abort; 1: 1 records, commit; 2: 1 records, abort; 3: 1 records, commit; 4: marker, abort; 5: marker, commit; 6: 1 records, commit; 7: marker, commit"},
		// More missing offsets than transactions: markers of transactions without records.
		{"..c...c", "0: marker, empty; 1: marker, empty; 2: 1 records, commit; 3: marker, commit; 4: marker, empty; 5: marker, empty; 6: 1 records, commit; 7: marker, commit"},
		{"c.oo.o", "0: 1 records, commit; 1: marker, commit; 2: 2 records, open; 4: marker, empty; 5: 1 records, open"},
		{"coa", "0: 1 records, commit; 1: 1 records, open; 2: 1 records, abort; 3: marker, commit; 4: marker, abort"},
	} {
		t.Run(c.picture, func(t *testing.T) {
			var got []string
			for _, s := range plan(history(c.picture)) {
				got = append(got, s.String())
			}
			if g := strings.Join(got, "; "); g != c.want {
				t.Fatalf("got  %s\nwant %s", g, c.want)
			}
		})
	}
}

// seen is what a consumer can tell about a record.
type seen struct {
	Partition  int32
	Offset     int64
	Timestamp  int64
	Key, Value []byte
	Headers    []changelog.Header
}

func expected(recs []Record, visible func(*Record) bool) (out []seen) {
	for i := range recs {
		if r := &recs[i]; visible(r) {
			out = append(out, seen{r.Partition.Partition, r.Offset, r.Timestamp, r.Key, r.Value, r.Headers})
		}
	}
	return out
}

// consume reads the topic to its end: the last stable offset for committed, else the high watermark.
func consume(t *testing.T, ctx context.Context, brokers []string, topic string, partitions int, committed bool, recs []Record) (out []seen) {
	t.Helper()
	type at struct {
		partition int32
		offset    int64
	}
	hidden := map[at]bool{}
	for _, r := range recs {
		hidden[at{r.Partition.Partition, r.Offset}] = committed && r.Aborted
	}
	level := kgo.ReadUncommitted()
	if committed {
		level = kgo.ReadCommitted()
	}
	offsets := map[int32]kgo.Offset{}
	for p := range partitions {
		offsets[int32(p)] = kgo.NewOffset().At(0)
	}
	// Without fetch sessions: kgo 1.22.3 reads a session's id in Close while a fetch that is just ending may write it.
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}), kgo.FetchIsolationLevel(level),
		kgo.KeepControlRecords(), kgo.DisableFetchSessions())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	list := adm.ListEndOffsets
	if committed {
		list = adm.ListCommittedOffsets
	}
	ends, err := list(ctx, topic)
	if err != nil || ends.Error() != nil {
		t.Fatal(err, ends.Error())
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		end := o.Offset
		// Aborted records directly before an open one: nothing comes that shows that they were passed.
		for hidden[at{o.Partition, end - 1}] {
			end--
		}
		if end > 0 {
			left[o.Partition] = end
		}
	})
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachPartition(func(ft kgo.FetchTopicPartition) {
			for _, r := range ft.Records {
				if !r.Attrs.IsControl() {
					s := seen{r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, nil}
					for _, h := range r.Headers {
						s.Headers = append(s.Headers, changelog.Header{Key: h.Key, Value: h.Value})
					}
					out = append(out, s)
				}
				if r.Offset+1 >= left[r.Partition] {
					delete(left, r.Partition)
				}
			}
		})
	}
	slices.SortFunc(out, func(a, b seen) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return out
}

func check(t *testing.T, ctx context.Context, brokers []string, topic string, partitions int, recs []Record) {
	t.Helper()
	if err := Load(ctx, brokers, topic, partitions, recs); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(expected(recs, (*Record).Visible), consume(t, ctx, brokers, topic, partitions, true, recs)); d != "" {
		t.Errorf("read_committed differs (-want +got):\n%s", d)
	}
	if d := cmp.Diff(expected(recs, func(*Record) bool { return true }), consume(t, ctx, brokers, topic, partitions, false, recs)); d != "" {
		t.Errorf("read_uncommitted differs (-want +got):\n%s", d)
	}
}

// info is the part of info.json that says what the broker had.
type info struct {
	Partitions []struct {
		Partition  int32
		End        int64
		LastStable int64
	}
}

const golden = "../../testdata/flink"

// brokers are the ones every Load test runs against: an in-process broker, and a real one where the environment names it.
func brokers(t *testing.T) map[string][]string {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	m := map[string][]string{"kfake": c.ListenAddrs()}
	if a := os.Getenv("FLINKSINK_KAFKA"); a != "" {
		m["kafka"] = strings.Split(a, ",")
	}
	return m
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// topicName is new at each run: a real broker keeps topics, and open transactions in them.
func topicName(t *testing.T, ctx context.Context, brokers []string, base string) string {
	name := fmt.Sprintf("capture-%s-%d", base, time.Now().UnixNano())
	t.Cleanup(func() {
		cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
		if err == nil {
			defer cl.Close()
			_, _ = kadm.NewClient(cl).DeleteTopics(context.WithoutCancel(ctx), name)
		}
	})
	return name
}

// Every golden case comes out of a broker as it went in, and the last stable offset is where Flink's broker had it.
func TestLoad_GoldenCases(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(golden, "*", "topic.jsonl"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d golden topics below %s, %v", len(files), golden, err)
	}
	ctx := testContext(t)
	for broker, addrs := range brokers(t) {
		for i, f := range files {
			name := filepath.Base(filepath.Dir(f))
			t.Run(broker+"/"+name, func(t *testing.T) {
				// A topic takes a real broker a second, and what is in its messages does not matter to it; transactions do.
				if broker == "kafka" && i%5 != 0 && !strings.HasPrefix(name, "txn") && os.Getenv("FLINKSINK_LONG") == "" {
					return
				}
				recs, err := ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				var in info
				text, err := os.ReadFile(filepath.Join(filepath.Dir(f), "info.json"))
				if err == nil {
					err = json.Unmarshal(text, &in)
				}
				if err != nil {
					t.Fatal(err)
				}
				topic := topicName(t, ctx, addrs, name)
				check(t, ctx, addrs, topic, len(in.Partitions), recs)

				cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
				if err != nil {
					t.Fatal(err)
				}
				defer cl.Close()
				stable, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range in.Partitions {
					o, _ := stable.Lookup(topic, p.Partition)
					open := slices.ContainsFunc(recs, func(r Record) bool { return r.Open && r.Partition.Partition == p.Partition })
					// Without an open transaction the end may miss markers that stood behind the last record.
					if open && o.Offset != p.LastStable || o.Offset > p.End {
						t.Errorf("partition %d: last stable offset %d, captured %d of %d", p.Partition, o.Offset, p.LastStable, p.End)
					}
				}
			})
		}
	}
}

// All short histories, so that no order of fates and gaps is forgotten.
func TestLoad_SmallHistories(t *testing.T) {
	ctx := testContext(t)
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n := 0
	var walk func(string)
	walk = func(p string) {
		if len(p) == 4 {
			n++
			recs := history(p)
			// An open record puts all committed ones behind it out of reach, so a capture never has such.
			if i := strings.IndexByte(p, 'o'); i >= 0 && strings.ContainsAny(p[i:], "ca") {
				return
			}
			t.Run(p, func(t *testing.T) { check(t, ctx, c.ListenAddrs(), fmt.Sprintf("h%d", n), 1, recs) })
			return
		}
		for _, f := range "cao." {
			walk(p + string(f))
		}
	}
	walk("")
}

func TestLoad_Refuses(t *testing.T) {
	ctx := testContext(t)
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "two"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	one := history("c")
	if err := Load(ctx, c.ListenAddrs(), "full", 1, one); err != nil {
		t.Fatal(err)
	}
	back := slices.Concat(history(".c"), history("c"))
	for _, tc := range []struct {
		topic      string
		partitions int
		recs       []Record
		want       string
	}{
		{"two", 1, one, "exists with 2 partitions"},
		{"full", 1, one, "not empty"},
		{"new", 0, one, "at least 1"},
		{"new", 70001, one, "at most 1000"},
		{"new", 1, []Record{{Record: changelog.Record{Partition: changelog.Partition{Partition: 1}}}}, "a record of partition 1"},
		{"new", 1, back, "offset 0 comes after offset 1"},
	} {
		err := Load(ctx, c.ListenAddrs(), tc.topic, tc.partitions, tc.recs)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s/%d: got %v, want %q", tc.topic, tc.partitions, err, tc.want)
		}
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := Load(canceled, c.ListenAddrs(), "never", 1, one); err == nil {
		t.Error("Load with an ended context succeeded")
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"txn_open_transaction", "json_key_fields", "upsert_json_3_partitions"} {
		text, err := os.ReadFile(filepath.Join(golden, name, "topic.jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:min(len(text), 2000)])
		first, _, _ := bytes.Cut(text, []byte("\n"))
		f.Add(first)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		recs, err := Read(bytes.NewReader(text))
		if err != nil {
			if !strings.Contains(err.Error(), "line ") {
				t.Fatalf("an error without its line: %v", err)
			}
			return
		}
		if len(recs) > 64 {
			return
		}
		for _, r := range recs {
			if r.Offset > 1000 {
				return // plan makes a marker of each missing offset
			}
		}
		next := int64(0)
		one := slices.DeleteFunc(recs, func(r Record) bool { return r.Partition.Partition != 0 })
		for _, s := range plan(one) {
			if s.at != next {
				t.Fatalf("step %s begins at %d", s, next)
			}
			if next++; !s.end {
				next += int64(len(s.recs)) - 1
			}
		}
	})
}

package ledger

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

var parts = []changelog.Partition{{Topic: "orders", Partition: 0}, {Topic: "orders", Partition: 7}}

func at(offset int64) (ps []changelog.Position) {
	for _, p := range parts {
		ps = append(ps, changelog.Position{Partition: p, Offset: offset, LeaderEpoch: 3, TopicID: changelog.TopicID{1, 15: 2}})
	}
	return ps
}

func request() sink.AcquireRequest {
	return sink.AcquireRequest{Bridge: "orders", Fingerprint: "f", Owner: "host/1", Partitions: parts, GroupGeneration: 4}
}

// someContent uses every field of the format.
func someContent(t testing.TB) *Content {
	t.Helper()
	now := time.Date(2026, 11, 30, 1, 2, 3, 4000, time.UTC)
	c := &Content{Format: Version, Bridges: map[string]*bridge{}}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cut := func(gen sink.Generation, id sink.CheckpointID, from, to int64, settled ...sink.GenerationID) {
		t.Helper()
		do(c.Save(gen, sink.Checkpoint{ID: id, From: at(from), To: at(to), Counters: sink.Counters{Records: 6, Read: 5, Applied: 2, Superseded: 1, DeadLettered: 1, Skipped: 1},
			Settled: settled, Committables: []sink.Committable{{Sink: "s", Generation: gen.ID, Checkpoint: id, Version: 1, Data: []byte{0, 255}, From: at(from), To: at(to)}}}, now))
	}
	one, err := c.Acquire(request(), now)
	do(err)
	cut(one.Generation, 1, 0, 1)
	two, err := c.Acquire(request(), now)
	do(err)
	cut(two.Generation, 1, 1, 2, one.Generation.ID)
	three := request()
	three.Partitions = parts[:1]
	_, err = c.Acquire(three, now)
	do(err)
	c.Bridges["orders"].Incarnation = 2
	return c
}

// What a release wrote once is read for ever. A new version of the format adds a file and alters none.
func TestFormat_Fixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/v*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(b)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		want := someContent(t)
		if d := cmp.Diff(want, got, cmp.AllowUnexported(Content{}, bridge{}, generation{}, partition{}, saved{}, place{}, position{})); d != "" {
			t.Errorf("%s: %s", f, d)
		}
		if f == "testdata/v1.json" { // the newest: what is written is that, byte by byte
			if again, _ := want.Bytes(); string(again) != string(b) {
				t.Errorf("the content is written as\n%s", again)
			}
		}
	}
}

// No bytes make the reader panic, and what it accepts can be worked with.
func FuzzParse(f *testing.F) {
	good, _ := someContent(f).Bytes()
	f.Add(good)
	f.Add([]byte(`{"format": 1, "bridges": {"orders": {"next": 2, "generations": {"1": {"partitions": [{"topic": "orders"}]}}, "partitions": [{"topic": "orders", "owner": 1}]}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Parse(b)
		if err != nil {
			return
		}
		if c.Bridges == nil {
			c.Bridges = map[string]*bridge{}
		}
		for name := range c.Bridges {
			_, _ = c.Read(name)
			_, _, _ = c.End(sink.Generation{Bridge: name, ID: 1})
		}
		r := request()
		claim, err := c.Acquire(r, time.Time{})
		if err == nil {
			_ = c.Save(claim.Generation, sink.Checkpoint{ID: 1, From: at(0), To: at(1)}, time.Time{})
		}
		if _, err := c.Bytes(); err != nil {
			t.Error(err)
		}
	})
}

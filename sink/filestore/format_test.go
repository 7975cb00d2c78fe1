package filestore

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flinksink/flinksink/sink"
)

// someContent uses every field of the format.
func someContent(t testing.TB) *content {
	t.Helper()
	now := time.Date(2026, 11, 30, 1, 2, 3, 4000, time.UTC)
	c := &content{Format: formatVersion, Bridges: map[string]*bridge{}}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cut := func(gen sink.Generation, id sink.CheckpointID, from, to int64, settled ...sink.GenerationID) {
		t.Helper()
		do(c.save(gen, sink.Checkpoint{ID: id, From: at(from), To: at(to), Counters: sink.Counters{Records: 6, Read: 5, Applied: 2, Superseded: 1, DeadLettered: 1, Skipped: 1},
			Settled: settled, Committables: []sink.Committable{{Sink: "s", Generation: gen.ID, Checkpoint: id, Version: 1, Data: []byte{0, 255}, From: at(from), To: at(to)}}}, now))
	}
	one, err := c.acquire(request(), now)
	do(err)
	cut(one.Generation, 1, 0, 1)
	two, err := c.acquire(request(), now)
	do(err)
	cut(two.Generation, 1, 1, 2, one.Generation.ID)
	three := request()
	three.Partitions = parts[:1]
	_, err = c.acquire(three, now)
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
		got, err := parse(b)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		want := someContent(t)
		if d := cmp.Diff(want, got, cmp.AllowUnexported(content{}, bridge{}, generation{}, partition{}, saved{}, place{}, position{})); d != "" {
			t.Errorf("%s: %s", f, d)
		}
		if f == "testdata/v1.json" { // the newest: what is written is that, byte by byte
			if again, _ := want.bytes(); string(again) != string(b) {
				t.Errorf("the content is written as\n%s", again)
			}
		}
	}
}

// No bytes make the reader panic, and what it accepts can be worked with.
func FuzzParse(f *testing.F) {
	good, _ := someContent(f).bytes()
	f.Add(good)
	f.Add([]byte(`{"format": 1, "bridges": {"orders": {"next": 2, "generations": {"1": {"partitions": [{"topic": "orders"}]}}, "partitions": [{"topic": "orders", "owner": 1}]}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parse(b)
		if err != nil {
			return
		}
		if c.Bridges == nil {
			c.Bridges = map[string]*bridge{}
		}
		for name := range c.Bridges {
			_, _ = c.read(name)
			_, _, _ = c.endOf(sink.Generation{Bridge: name, ID: 1})
		}
		r := request()
		claim, err := c.acquire(r, time.Time{})
		if err == nil {
			_ = c.save(claim.Generation, sink.Checkpoint{ID: 1, From: at(0), To: at(1)}, time.Time{})
		}
		if _, err := c.bytes(); err != nil {
			t.Error(err)
		}
	})
}

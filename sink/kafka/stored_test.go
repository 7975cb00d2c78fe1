package kafka

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/google/go-cmp/cmp"
)

// storedLine is a record of the store's topic.
type storedLine struct {
	Key   json.RawMessage `json:"key"`
	Value json.RawMessage `json:"value"`
}

// storedWorld is a bridge with a generation that is settled, one that has ended with something decided, and an owner.
func storedWorld(t *testing.T) (records []stateRecord, want sink.State) {
	t.Helper()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := func(n int32) changelog.Partition { return changelog.Partition{Topic: "orders", Partition: n} }
	pos := func(n int32, offset int64) changelog.Position {
		return changelog.Position{Partition: p(n), Offset: offset, LeaderEpoch: 4, TopicID: changelog.TopicID{1, 2, 3}}
	}
	k := newKnown()
	r := sink.AcquireRequest{Bridge: "copy", Fingerprint: "f", Owner: "host", Partitions: []changelog.Partition{p(0), p(1)}, GroupGeneration: 5}
	var b *bridgeRecord
	for range 3 {
		b, _, _ = k.acquire(r, "flinksink", at)
		k.bridge = b
		r.Partitions = r.Partitions[:1]
	}
	receipt := sink.Committable{Sink: "s", Generation: 2, Checkpoint: 9, Version: 1, Data: []byte("receipt"), From: []changelog.Position{pos(0, 5)}, To: []changelog.Position{pos(0, 7)}}
	cp := sink.Checkpoint{ID: 9, From: receipt.From, To: receipt.To, Counters: sink.Counters{Records: 2, Read: 2, Applied: 2}, Committables: []sink.Committable{receipt}, Settled: []sink.GenerationID{1}}
	values := []struct {
		key stateKey
		v   any
	}{
		{stateKey{kind: "bridge", bridge: "copy"}, b},
		{stateKey{kind: "generation", bridge: "copy", generation: 2}, savedOf(cp)},
		{stateKey{kind: "position", bridge: "copy", partition: p(0)}, positionRecord{storedFormat, positionsIn(cp.To)[0], 2, 9, at, countersJSON(cp.Counters)}},
		{stateKey{kind: "settled", bridge: "copy", generation: 1}, settledRecord{storedFormat, 4}},
		{stateKey{kind: "generation", bridge: "copy", generation: 1}, nil},
	}
	for _, v := range values {
		rec := stateRecord{key: v.key}
		if v.v != nil {
			value, err := json.Marshal(v.v)
			if err != nil {
				t.Fatal(err)
			}
			rec.value = value
		}
		records = append(records, rec)
	}
	want = sink.State{Bridge: "copy", Format: 1, Fingerprint: "f", Pending: []sink.Committable{receipt},
		Generations: []sink.GenerationState{
			{ID: 2, Owner: "host", Ended: true, Partitions: []changelog.Partition{p(0)}, Last: 9, Acquired: at},
			{ID: 3, Owner: "host", Partitions: []changelog.Partition{p(0)}, Acquired: at}},
		Positions: []sink.StoredPosition{{Position: pos(0, 7), Generation: 2, Checkpoint: 9, Owner: 3, Saved: at, Counters: cp.Counters}}}
	return records, want
}

// Records of each version that was ever written stay readable; the file is what a release wrote and is not made anew.
func TestStored(t *testing.T) {
	records, want := storedWorld(t)
	golden := filepath.Join("testdata", "store_v1.jsonl")
	var lines []byte
	for _, r := range records {
		value := json.RawMessage("null")
		if r.value != nil {
			value = r.value
		}
		line, err := json.Marshal(storedLine{r.key.encode(), value})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	if os.Getenv("FLINKSINK_UPDATE") != "" {
		if err := os.WriteFile(golden, lines, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(golden)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k := newKnown()
	var stored []byte
	for in := bufio.NewScanner(f); in.Scan(); {
		stored = append(append(stored, in.Bytes()...), '\n')
		var line storedLine
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		key, err := parseKey(line.Key)
		if err != nil {
			t.Fatal(err)
		}
		if string(line.Value) == "null" {
			line.Value = nil
		}
		if err := k.apply(key, line.Value); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(string(stored), string(lines)); d != "" {
		t.Errorf("written differently than it was (- stored, + now):\n%s", d)
	}
	got, err := k.state()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if last, ok := k.settled[1]; !ok || last != 4 {
		t.Errorf("generation 1 is settled with checkpoint %d (%t)", last, ok)
	}
}

func TestStored_Newer(t *testing.T) {
	for _, c := range []struct {
		key   stateKey
		value string
	}{{stateKey{kind: "bridge", bridge: "b"}, `{"format":2}`}, {stateKey{kind: "lease", bridge: "b"}, `{"format":1}`}} {
		if err := newKnown().apply(c.key, []byte(c.value)); !errors.Is(sink.ClassOf(err), sink.ErrConfig) {
			t.Errorf("%s %s: %v", c.key.kind, c.value, err)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, k := range []stateKey{{kind: "bridge", bridge: "b"}, {kind: "generation", bridge: "b", generation: 3}, {kind: "position", bridge: "b", partition: changelog.Partition{Topic: "t", Partition: 1}}} {
		f.Add(k.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := parseKey(b)
		if err != nil {
			return
		}
		_ = newKnown().apply(k, []byte(`{"format":1}`))
	})
}

// P97: however many generations come and go, what is stored of a bridge stays bounded.
func TestStored_Bounded(t *testing.T) {
	k := newKnown()
	r := sink.AcquireRequest{Bridge: "b", Partitions: []changelog.Partition{{Topic: "t"}}, GroupGeneration: -1}
	for range remembered + 500 {
		b, gen, gone := k.acquire(r, "", time.Now())
		k.bridge = b
		for _, key := range gone {
			if err := k.apply(key, nil); err != nil {
				t.Fatal(err)
			}
		}
		for id, g := range b.Generations {
			if g.Ended {
				k.settled[id] = 1
			}
		}
		k.saved[gen.ID] = &savedRecord{ID: 1}
	}
	if len(k.bridge.Generations) > 3 || len(k.saved) > 3 || len(k.settled) > remembered+2 {
		t.Errorf("%d generations, %d checkpoints, %d settled", len(k.bridge.Generations), len(k.saved), len(k.settled))
	}
}

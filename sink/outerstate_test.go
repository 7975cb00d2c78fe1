package sink_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// someState uses every part of the format.
func someState() sink.OuterState {
	p := func(n int32, offset int64, epoch int32) changelog.Position {
		return changelog.Position{Partition: changelog.Partition{Topic: "orders-ö", Partition: n}, Offset: offset, LeaderEpoch: epoch, TopicID: changelog.TopicID{1, 15: 255}}
	}
	from := []changelog.Position{p(0, 0, -1), p(7, 1<<40, 3)}
	to := []changelog.Position{p(0, 128, 0), p(7, 1<<40+1, 3)}
	return sink.OuterState{Bridge: "orders", Fingerprint: "group=g topics=orders", ID: 300, Generation: 17, Checkpoint: 2,
		Counters: sink.Counters{Records: 6, Read: 5, Applied: 2, Superseded: 1, DeadLettered: 1, Skipped: 1}, From: from, To: to,
		Committables: []sink.Committable{
			{Sink: "a", Generation: 17, Checkpoint: 2, Version: 3, Data: []byte{0, 1, 0xff}, From: from, To: to},
			{Sink: "b", Generation: 16, Checkpoint: 9, Version: 1, Data: []byte("x")},
		}}
}

// What a release wrote once is read for ever. The fixtures are hex, 32 bytes a line; a new version of the format adds a file and alters none.
func TestOuterState_Fixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/outerstate/v*.hex")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		var got sink.OuterState
		if err := got.UnmarshalBinary(b); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if d := cmp.Diff(someState(), got); d != "" {
			t.Errorf("%s: %s", f, d)
		}
		if f == "testdata/outerstate/v1.hex" { // the newest: what is written is that, byte by byte
			s := someState()
			if again, _ := s.MarshalBinary(); !bytes.Equal(again, b) {
				t.Errorf("the state is written as\n%x\nand the fixture is\n%x", again, b)
			}
		}
	}
}

func TestOuterState_RefusesWhatItCannotRead(t *testing.T) {
	s := someState()
	good, _ := s.MarshalBinary()
	later := bytes.Clone(good)
	later[4] = 2
	cases := map[string][]byte{"version 2 of the format": later, "no checkpoint of an External": []byte("FS"), "checksum does not fit": append(bytes.Clone(good), 0)}
	for n := 9; n < len(good); n++ {
		cases["checksum"] = good[:n]
		var got sink.OuterState
		if err := got.UnmarshalBinary(good[:n]); !errors.Is(err, sink.ErrConfig) {
			t.Errorf("the first %d bytes of %d: %v", n, len(good), err)
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		var got sink.OuterState
		if err := got.UnmarshalBinary(bad); !errors.Is(err, sink.ErrConfig) {
			t.Errorf("byte %d altered: %v", i, err)
		}
		if got.ID != 0 {
			t.Error("a state that cannot be read was altered")
		}
	}
	for want, b := range cases {
		var got sink.OuterState
		if err := got.UnmarshalBinary(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q in it", err, want)
		}
	}
	for want, spoil := range map[string]func(s *sink.OuterState){
		"below 1":             func(s *sink.OuterState) { s.ID = 0 },
		"same partitions":     func(s *sink.OuterState) { s.To = s.To[:1] },
		"partitions, sorted":  func(s *sink.OuterState) { s.From[0], s.From[1] = s.From[1], s.From[0] },
		"goes back":           func(s *sink.OuterState) { s.To[1].Offset = 0 },
		"committable that is": func(s *sink.OuterState) { s.Committables[0].Data = nil },
	} {
		s := someState()
		spoil(&s)
		b, _ := s.MarshalBinary()
		var got sink.OuterState
		if err := got.UnmarshalBinary(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q in it", err, want)
		}
	}
}

// No bytes make the decoder panic or take much memory, and what it accepts it writes again.
func FuzzOuterState(f *testing.F) {
	s := someState()
	good, _ := s.MarshalBinary()
	f.Add(good[5 : len(good)-4])
	f.Add([]byte{})
	f.Add([]byte{0, 0, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, body []byte) {
		var s sink.OuterState
		if s.UnmarshalBinary(sink.SealOuterState(body)) != nil {
			return
		}
		b, err := s.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var again sink.OuterState
		if err := again.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s, again); d != "" {
			t.Error(d)
		}
	})
}

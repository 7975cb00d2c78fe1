package filestore_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/filestore"
)

func TestRewind(t *testing.T) {
	s, err := filestore.New(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := s.Rewind(ctx, "b"); !errors.Is(err, sink.ErrConfig) {
		t.Fatal(err)
	}
	p := []changelog.Partition{{Topic: "t", Partition: 0}}
	acquire := func() sink.Claim {
		t.Helper()
		claim, err := s.Acquire(ctx, sink.AcquireRequest{Bridge: "b", Fingerprint: "f", Partitions: p, GroupGeneration: -1})
		if err != nil {
			t.Fatal(err)
		}
		return claim
	}
	first := acquire()
	at := func(n int64) []changelog.Position {
		return []changelog.Position{{Partition: p[0], Offset: n, LeaderEpoch: -1}}
	}
	if err := s.Save(ctx, first.Generation, sink.Checkpoint{ID: 1, From: at(0), To: at(7)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Rewind(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	// The one that ran is fenced, the next begins anew, above it.
	if err := s.Save(ctx, first.Generation, sink.Checkpoint{ID: 2, From: at(7), To: at(9)}); !errors.Is(err, sink.ErrFenced) {
		t.Fatal(err)
	}
	next := acquire()
	if len(next.Positions) != 0 || next.Incarnation != first.Incarnation+1 || next.Generation.ID <= first.Generation.ID {
		t.Fatalf("%+v", next)
	}
	if err := s.Save(ctx, next.Generation, sink.Checkpoint{ID: 1, From: at(0), To: at(3)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Rewind(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	if c := acquire(); c.Incarnation != 2 || len(c.Positions) != 0 {
		t.Fatalf("%+v", c)
	}
}

package filestore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

func TestLaws(t *testing.T) {
	var path string
	sinktest.RunStore(t, sinktest.StoreHarness{
		Reset: func(context.Context) error {
			path = filepath.Join(t.TempDir(), "checkpoints.json")
			return nil
		},
		Connect: func(context.Context) (sink.Store, error) { return New(path) },
	})
}

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

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func is(t *testing.T, err, class error, what string) {
	t.Helper()
	if sink.ClassOf(err) != class {
		t.Errorf("%s: got %v, expected class %v", what, err, class)
	}
}

// A file that is gone, damaged or of a later release is never a fresh start.
func TestStore_RefusesWhatItCannotRead(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "c.json")
	s := open(t, path)
	_, err := s.Acquire(ctx, request())
	is(t, err, nil, "Acquire")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		content string
		class   error
	}{
		"empty":               {"", sink.ErrLost},
		"cut off":             {string(good[:len(good)/2]), sink.ErrLost},
		"of another program":  {`{"name": "package"}`, sink.ErrConfig},
		"of a later release":  {strings.Replace(string(good), `"format": 1`, `"format": 2`, 1), sink.ErrConfig},
		"of a later field":    {strings.Replace(string(good), `"next"`, `"later": 1, "next"`, 1), sink.ErrLost},
		"twice":               {string(good) + string(good), sink.ErrLost},
		"without its owner":   {strings.Replace(string(good), `"1": {`, `"5": {`, 1), sink.ErrLost},
		"with a null bridge":  {`{"format": 1, "bridges": {"orders": null}}`, sink.ErrLost},
		"with null in a list": {`{"format": 1, "bridges": {"orders": {"next": 1, "partitions": [null]}}}`, sink.ErrLost},
	} {
		if c.content == string(good) {
			t.Fatalf("%s: nothing was altered", what)
		}
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.Acquire(ctx, request())
		is(t, err, c.class, "Acquire of a file that is "+what)
		_, err = s.Read(ctx, "orders")
		is(t, err, c.class, "Read of a file that is "+what)
		if after, _ := os.ReadFile(path); string(after) != c.content {
			t.Errorf("a file that is %s was altered", what)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = s.Acquire(ctx, request())
	is(t, err, sink.ErrLost, "Acquire of a file that is gone")
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	c, err := s.Acquire(ctx, request())
	is(t, err, nil, "Acquire after both were deleted")
	if c.Generation.ID != 1 {
		t.Errorf("it is generation %d", c.Generation.ID)
	}
}

func TestNew_Refuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", filepath.Join(t.TempDir(), "missing", "c.json"), filepath.Join(file, "c.json")} {
		_, err := New(path)
		is(t, err, sink.ErrConfig, "New of "+path)
	}
}

// A lock that somebody holds is waited for as long as the context lasts.
func TestStore_WaitsForTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	s, other := open(t, path), open(t, path)
	l, err := other.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Acquire(ctx, request())
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, sink.ErrTransient) {
		t.Errorf("got %v", err)
	}
	go func() {
		_, err := s.Acquire(t.Context(), request())
		done <- err
	}()
	l.unlock()
	is(t, <-done, nil, "Acquire after the lock was given back")
}

// What no lane should send changes nothing.
func TestStore_RefusesNonsense(t *testing.T) {
	ctx := t.Context()
	s := open(t, filepath.Join(t.TempDir(), "c.json"))
	_, err := s.Acquire(ctx, sink.AcquireRequest{Bridge: "orders"})
	is(t, err, sink.ErrConfig, "Acquire of nothing")
	c, err := s.Acquire(ctx, request())
	is(t, err, nil, "Acquire")
	for what, cp := range map[string]sink.Checkpoint{
		"of one partition":                   {ID: 1, From: at(0)[:1], To: at(1)[:1]},
		"that settles itself":                {ID: 1, From: at(0), To: at(1), Settled: []sink.GenerationID{c.Generation.ID}},
		"that settles what never was":        {ID: 1, From: at(0), To: at(1), Settled: []sink.GenerationID{99}},
		"that settles a number that is none": {ID: 1, From: at(0), To: at(1), Settled: []sink.GenerationID{-1}},
	} {
		is(t, s.Save(ctx, c.Generation, cp), sink.ErrConfig, "Save "+what)
	}
	is(t, s.Save(ctx, c.Generation, sink.Checkpoint{From: at(0), To: at(1)}), sink.ErrFenced, "Save without a number")
	_, err = s.End(ctx, sink.Generation{Bridge: "orders", ID: 99})
	is(t, err, sink.ErrConfig, "End of what never was")
	_, err = s.End(ctx, sink.Generation{Bridge: "nobody", ID: 1})
	is(t, err, sink.ErrConfig, "End for a bridge that never was")
	is(t, s.Save(ctx, c.Generation, sink.Checkpoint{ID: 1, From: at(0), To: at(1)}), nil, "Save")
}

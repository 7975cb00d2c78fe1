package sink_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// seekable is the least of a source.
type seekable struct{ sought []changelog.Position }

func (s *seekable) Begin(ctx context.Context, ps []changelog.Partition) (out []changelog.Position, err error) {
	for _, p := range ps {
		out = append(out, changelog.Position{Partition: p})
	}
	return out, nil
}

func (s *seekable) Seek(ctx context.Context, to []changelog.Position) error {
	s.sought = append(s.sought, to...)
	return nil
}

func (s *seekable) Pause(...changelog.Partition)  {}
func (s *seekable) Resume(...changelog.Partition) {}

var zero = changelog.Partition{Topic: "t"}

func batchOf(t *changelog.Table, from, to int64) (*changelog.Batch, sink.Progress) {
	b := changelog.NewBatch(t)
	for o := from; o < to; o++ {
		row := b.NewRow()
		row[0] = changelog.IntValue(o)
		b.Append(changelog.Change{Partition: zero, Offset: o, Row: row})
	}
	return b, sink.Progress{To: []changelog.Position{{Partition: zero, Offset: to}}, Records: to - from}
}

// A Save whose answer is lost, and an End that nobody answers before the caller's patience ends: the next claim shows that it was the decision,
// and its changes are counted, once.
func TestCoordinator_CountsAnUnclearSaveThatWasTheDecision(t *testing.T) {
	srv := sinktest.NewServer()
	table := sinktest.Appended()
	store := &lossy{Store: sinktest.NewStore(srv)}
	var reports []sink.Report
	c, err := sink.NewCoordinator(t.Context(), sink.Options{Bridge: "b", Source: &seekable{}, Tables: []*changelog.Table{table}, Store: store,
		Backoff: func(int) time.Duration { return 0 }, Sinks: []sink.Declared{{Name: "s", Sink: sinktest.NewSink(srv, nil)}},
		Hooks: sink.Hooks{Saved: func(r sink.Report) { reports = append(reports, r) }}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Assign(t.Context(), []changelog.Partition{zero}); err != nil {
		t.Fatal(err)
	}
	b, p := batchOf(table, 0, 7)
	if err := c.Write(t.Context(), b, p); err != nil {
		t.Fatal(err)
	}
	reports = nil
	ctx, cancel := context.WithCancel(t.Context())
	store.loseSave, store.refuseEnd = true, cancel
	if _, err := c.Checkpoint(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	store.loseSave, store.refuseEnd = false, nil
	if _, err := c.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n int64
	for _, r := range reports {
		n = max(n, r.Counters.Applied) // a report sums up over its request
	}
	if n != 7 || len(srv.Table(table.Name)) != 7 {
		t.Errorf("%d changes counted, %d rows: want 7 of both", n, len(srv.Table(table.Name)))
	}
}

// lossy loses the answer to Save and refuses End.
type lossy struct {
	sink.Store
	loseSave  bool
	refuseEnd func()
}

func (l *lossy) Save(ctx context.Context, g sink.Generation, cp sink.Checkpoint) error {
	err := l.Store.Save(ctx, g, cp)
	if l.loseSave && err == nil {
		return errors.New("the answer was lost")
	}
	return err
}

func (l *lossy) End(ctx context.Context, g sink.Generation) (sink.CheckpointID, error) {
	if l.refuseEnd != nil {
		l.refuseEnd()
		return 0, errors.New("no answer")
	}
	return l.Store.End(ctx, g)
}

func TestCoordinator_RefusesWhatCannotWork(t *testing.T) {
	srv := sinktest.NewServer()
	own := sinktest.NewSink(srv, &sinktest.SinkOptions{InTransaction: true})
	two := sinktest.NewSink(srv, nil)
	tables := []*changelog.Table{sinktest.Appended()}
	src := &seekable{}
	for name, o := range map[string]sink.Options{
		"nothing at all":                  {},
		"no store":                        {Bridge: "b", Source: src, Tables: tables, Sinks: []sink.Declared{{Name: "s", Sink: two}}},
		"two stores":                      {Bridge: "b", Source: src, Tables: tables, Store: sinktest.NewStore(srv), Sinks: []sink.Declared{{Name: "s", Sink: own}}},
		"two sinks that are their stores": {Bridge: "b", Source: src, Tables: tables, Sinks: []sink.Declared{{Name: "s", Sink: own}, {Name: "r", Sink: own}}},
		"one name twice":                  {Bridge: "b", Source: src, Tables: tables, Store: sinktest.NewStore(srv), Sinks: []sink.Declared{{Name: "s", Sink: two}, {Name: "s", Sink: two}}},
	} {
		if _, err := sink.NewCoordinator(t.Context(), o); !errors.Is(err, sink.ErrConfig) {
			t.Errorf("%s: got %v, want ErrConfig", name, err)
		}
	}
}

func TestCoordinator_AfterClose(t *testing.T) {
	srv := sinktest.NewServer()
	table := sinktest.Appended()
	c, err := sink.NewCoordinator(t.Context(), sink.Options{Bridge: "b", Source: &seekable{}, Tables: []*changelog.Table{table}, Store: sinktest.NewStore(srv),
		Sinks: []sink.Declared{{Name: "s", Sink: sinktest.NewSink(srv, nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b, p := batchOf(table, 0, 1)
	if err := c.Write(t.Context(), b, p); !errors.Is(err, sink.ErrConfig) {
		t.Errorf("Write: %v", err)
	}
	if _, err := c.Checkpoint(t.Context()); !errors.Is(err, sink.ErrConfig) {
		t.Errorf("Checkpoint: %v", err)
	}
	if _, err := c.Assign(t.Context(), []changelog.Partition{zero}); !errors.Is(err, sink.ErrConfig) {
		t.Errorf("Assign: %v", err)
	}
}

// Decided work of a sink that is no longer declared would never be committed by anybody.
func TestCoordinator_RefusesToOrphanDecidedWork(t *testing.T) {
	srv := sinktest.NewServer()
	table := sinktest.Appended()
	options := func(name string, h sink.Hooks) sink.Options {
		return sink.Options{Bridge: "b", Source: &seekable{}, Tables: []*changelog.Table{table}, Store: sinktest.NewStore(srv), Hooks: h,
			Sinks: []sink.Declared{{Name: name, Sink: sinktest.NewSink(srv, nil)}}}
	}
	type crash struct{}
	var armed bool
	c, err := sink.NewCoordinator(t.Context(), options("old", sink.Hooks{Saved: func(sink.Report) {
		if armed {
			panic(crash{})
		}
	}}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Assign(t.Context(), []changelog.Partition{zero}); err != nil {
		t.Fatal(err)
	}
	b, p := batchOf(table, 0, 3)
	if err := c.Write(t.Context(), b, p); err != nil {
		t.Fatal(err)
	}
	armed = true
	func() {
		defer func() { _ = recover().(crash) }()
		_, _ = c.Checkpoint(t.Context()) // dies between Save and Commit
	}()
	renamed, err := sink.NewCoordinator(t.Context(), options("new", sink.Hooks{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := renamed.Assign(t.Context(), []changelog.Partition{zero}); !errors.Is(err, sink.ErrConfig) {
		t.Fatalf("got %v, want ErrConfig", err)
	}
	again, err := sink.NewCoordinator(t.Context(), options("old", sink.Hooks{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Assign(t.Context(), []changelog.Partition{zero}); err != nil {
		t.Fatal(err)
	}
	if n := len(srv.Table(table.Name)); n != 3 {
		t.Errorf("%d rows after the decided work was committed, want 3", n)
	}
}

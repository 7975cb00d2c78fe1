package sink_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// member answers for a consumer group.
type member struct {
	yes   bool
	asked int
}

func (m *member) Generation() int32 { return 1 }
func (m *member) Confirm(context.Context) (bool, error) {
	m.asked++
	return m.yes, nil
}

// away is a store that is not there for some Acquires.
type away struct {
	sink.Store
	fails    int
	acquires int
}

func (a *away) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	a.acquires++
	if a.fails > 0 {
		a.fails--
		return sink.Claim{}, &sink.Error{Op: "acquire", Class: sink.ErrTransient, Err: errors.New("the store is away")}
	}
	return a.Store.Acquire(ctx, r)
}

// While a lane waited for its store the group gave its partitions to another member: an Acquire would fence that one, so none is sent, and the error
// is a fence, with what was wrong before in it.
func TestCoordinator_AsksTheGroupBeforeItTriesAgain(t *testing.T) {
	srv := sinktest.NewServer()
	table := sinktest.Appended()
	store, group := &away{Store: sinktest.NewStore(srv), fails: 1}, &member{}
	c, err := sink.NewCoordinator(t.Context(), sink.Options{Bridge: "b", Source: &seekable{}, Tables: []*changelog.Table{table}, Store: store, Group: group,
		Backoff: func(int) time.Duration { return 0 }, Sinks: []sink.Declared{{Name: "s", Sink: sinktest.NewSink(srv, nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Assign(t.Context(), []changelog.Partition{zero})
	if sink.ClassOf(err) != sink.ErrFenced || !errors.Is(err, sink.ErrTransient) {
		t.Errorf("got %v: want a fence that tells of the store", err)
	}
	if store.acquires != 1 || group.asked != 1 {
		t.Errorf("%d acquires and %d questions, want one of each", store.acquires, group.asked)
	}
}

// Somebody else took the partitions although the group assigns them to this lane, as a late request may. The lane takes them back, and the
// fence is told once.
func TestCoordinator_TellsOfAFenceThatItSurvives(t *testing.T) {
	srv := sinktest.NewServer()
	table := sinktest.Appended()
	store, group, fences := sinktest.NewStore(srv), &member{yes: true}, 0
	source := &seekable{}
	c, err := sink.NewCoordinator(t.Context(), sink.Options{Bridge: "b", Source: source, Tables: []*changelog.Table{table}, Store: store, Group: group,
		Backoff: func(int) time.Duration { return 0 }, Sinks: []sink.Declared{{Name: "s", Sink: sinktest.NewSink(srv, nil)}},
		Hooks: sink.Hooks{Fenced: func(error) { fences++ }}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Assign(t.Context(), []changelog.Partition{zero}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Acquire(t.Context(), sink.AcquireRequest{Bridge: "b", Partitions: []changelog.Partition{zero}, GroupGeneration: 1}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first of them is dropped with the fenced generation, and read again
		b, p := batchOf(table, 0, 7)
		if err := c.Write(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if fences != 1 || len(srv.Table(table.Name)) != 7 {
		t.Errorf("%d fences told, %d rows: want 1 and 7", fences, len(srv.Table(table.Name)))
	}
}

// The store goes back while the process runs, and gives a number that was used: the lane is over with an error that says so.
func TestCoordinator_StoreWentBack(t *testing.T) {
	srv := sinktest.NewServer()
	table := sinktest.Appended()
	store := &swapped{Store: sinktest.NewStore(srv.Clone())}
	c, err := sink.NewCoordinator(t.Context(), sink.Options{Bridge: "b", Source: &seekable{}, Tables: []*changelog.Table{table}, Store: store, Group: always{},
		Backoff: func(int) time.Duration { return 0 }, Sinks: []sink.Declared{{Name: "s", Sink: sinktest.NewSink(sinktest.NewServer(), nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Assign(t.Context(), []changelog.Partition{zero}); err != nil {
		t.Fatal(err)
	}
	store.Store = sinktest.NewStore(srv.Clone())
	b, p := batchOf(table, 0, 7)
	err = c.Write(t.Context(), b, p)
	if err == nil {
		_, err = c.Checkpoint(t.Context())
	}
	if sink.ClassOf(err) != sink.ErrLost || !strings.Contains(err.Error(), "the store went back") || !strings.Contains(err.Error(), "Start the bridge again") {
		t.Fatalf("got %v", err)
	}
}

type swapped struct{ sink.Store }

type always struct{}

func (always) Generation() int32                     { return 1 }
func (always) Confirm(context.Context) (bool, error) { return true, nil }

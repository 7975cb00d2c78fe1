package sink_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// stubborn is a memory sink whose Commit fails at first, and that counts its open committers.
type stubborn struct {
	sink.Sink
	name  string
	fails int
	open  *int
	calls *[]string
}

func (s *stubborn) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := s.Sink.Lane(ctx, l)
	*s.open++
	return &stubbornCommitter{c, s, false}, err
}

type stubbornCommitter struct {
	sink.Committer
	s      *stubborn
	closed bool
}

func (c *stubbornCommitter) Commit(ctx context.Context, r sink.Committable) error {
	*c.s.calls = append(*c.s.calls, c.s.name)
	if c.s.fails > 0 {
		c.s.fails--
		return fmt.Errorf("%s will not", c.s.name)
	}
	return c.Committer.Commit(ctx, r)
}

func (c *stubbornCommitter) Close(ctx context.Context) error {
	if !c.closed {
		*c.s.open--
	}
	c.closed = true
	return c.Committer.Close(ctx)
}

// Three committables are decided, and Commit of one fails: the other two are committed all the same, the error is told and the one tried again
// until it succeeds; a thousand times over, and nothing stays open (P32).
func TestCommit_OneOfThreeFails(t *testing.T) {
	table := sinktest.Appended()
	open := 0
	goroutines := runtime.NumGoroutine()
	for round := range 1000 {
		bad := round % 3
		names := []string{"a", "b", "c"}
		var calls []string
		var servers []*sinktest.Server
		var sinks []sink.Declared
		for i, name := range names {
			srv := sinktest.NewServer()
			s := &stubborn{Sink: sinktest.NewSink(srv, nil), name: name, open: &open, calls: &calls}
			if i == bad {
				s.fails = 2
			}
			servers, sinks = append(servers, srv), append(sinks, sink.Declared{Name: name, Sink: s})
		}
		var retried []string
		c, err := sink.NewCoordinator(t.Context(), sink.Options{Bridge: "b", Source: &seekable{}, Tables: []*changelog.Table{table}, Sinks: sinks, Store: sinktest.NewStore(sinktest.NewServer()),
			Backoff: func(int) time.Duration {
				for i, srv := range servers { // while the bad one waits for its next try
					if n := len(srv.Table(table.Name)); i != bad && n != 3 || i == bad && n != 0 {
						t.Fatalf("round %d: sink %s shows %d rows while %s fails", round, names[i], n, names[bad])
					}
				}
				return 0
			},
			Hooks: sink.Hooks{Retry: func(err error, _ int) {
				var e *sink.Error
				if errors.As(err, &e) {
					retried = append(retried, e.Op+" "+e.Sink)
				}
			}}})
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
		calls = nil
		if _, err := c.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := "commit " + names[bad]; len(retried) != 2 || retried[0] != want || retried[1] != want {
			t.Fatalf("round %d: told %q, expected %q twice", round, retried, want)
		}
		if len(calls) != 5 { // three, and twice the bad one
			t.Fatalf("round %d: commits %q", round, calls)
		}
		for i, srv := range servers {
			if n := len(srv.Table(table.Name)); n != 3 {
				t.Fatalf("round %d: sink %s holds %d rows", round, names[i], n)
			}
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if open != 0 {
		t.Errorf("%d committers are open", open)
	}
	for range 10_000 { // timers that were stopped end by themselves
		if runtime.NumGoroutine() <= goroutines {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
}

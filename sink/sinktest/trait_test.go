package sinktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// refusesKinds takes inserts and nothing else.
type refusesKinds struct{ sink.Committer }

func (c refusesKinds) Write(ctx context.Context, b *changelog.Batch) error {
	for _, ch := range b.Changes {
		if ch.Kind != changelog.Insert {
			return &sink.Error{Op: "write", Class: sink.ErrRejected, Err: fmt.Errorf("only +I here")}
		}
	}
	return c.Committer.Write(ctx, b)
}

// A sink that is weaker in one respect keeps all other laws, breaks those of what it does not declare, and is told why a law is left out.
func TestTraits(t *testing.T) {
	for name, c := range map[string]struct {
		wrong   mistake
		declare func(h *Harness)
		breaks  string // undeclared
	}{
		"NoDeletes": {mistake{committer: func(_ *process, c sink.Committer) sink.Committer { return refusesKinds{c} }}, func(h *Harness) { h.NoDeletes = true }, "L25"},
		"Unfenced":  {mistake{committer: func(_ *process, c sink.Committer) sink.Committer { return noSettling{c} }}, func(h *Harness) { h.Unfenced = true }, "L29"},
		"NotAtomic": {mistake{committer: func(p *process, c sink.Committer) sink.Committer { return inTwoSteps{c.(*committer), p.looks} }}, func(h *Harness) { h.NotAtomic = true }, "L45"},
	} {
		t.Run(name, func(t *testing.T) {
			h := c.wrong.harness(false)
			var v *Violation
			if err := lawCalled(t, c.breaks).check(t.Context(), h); !errors.As(err, &v) {
				t.Errorf("undeclared, %s is kept: %v", c.breaks, err)
			}
			c.declare(&h)
			// Texts and types are written as updates by their laws, and both of these sinks are looked at elsewhere.
			h.Values = nil
			for _, l := range Laws() {
				if h.skips(l) != "" || name == "NotAtomic" && l.ID > "L09" { // slow commits, and those will do
					continue
				}
				if err := l.check(t.Context(), h); err != nil && !errors.As(err, new(*notApplicable)) {
					t.Error(err)
				}
			}
			if why := h.skips(lawCalled(t, c.breaks)); why == "" {
				t.Errorf("%s is not skipped", c.breaks)
			}
		})
	}
}

// Readers see what was there some time ago.
func TestDelay(t *testing.T) {
	lag := time.Hour // longer than any law takes
	h := mistake{}.harness(false)
	type shot struct {
		at   time.Time
		rows []Row
	}
	var shots []shot
	now := h.Rows
	h.Rows = func(ctx context.Context, table *changelog.Table) ([]Row, error) {
		rows, err := now(ctx, table)
		shots = append(shots, shot{time.Now(), rows})
		seen := shots[0].rows
		for _, s := range shots {
			if time.Since(s.at) >= lag {
				seen = s.rows
			}
		}
		return seen, err
	}
	l := lawCalled(t, "L01")
	if err := l.check(t.Context(), h); err == nil {
		t.Error("a reader that lags is not noticed")
	}
	// Once the suite waits, the reader is asked twice as often as it is held to: it has caught up.
	shots, lag = nil, 2*time.Millisecond
	h.Delay = 10 * lag
	ask := h.Rows
	h.Rows = func(ctx context.Context, table *changelog.Table) ([]Row, error) {
		if _, err := ask(ctx, table); err != nil {
			return nil, err
		}
		pause(ctx, lag)
		return ask(ctx, table)
	}
	if err := l.check(t.Context(), h); err != nil {
		t.Error(err)
	}
}

// A violation of a law that plays at random tells the seed, and the seed alone repeats it.
func TestSeed(t *testing.T) {
	h := mistake{committer: func(p *process, c sink.Committer) sink.Committer { return commitDoubles{c, p} }}.harness(false)
	l := lawCalled(t, "L53")
	h.Seed = 1000
	var first, second *Violation
	if err := l.check(t.Context(), h); !errors.As(err, &first) || first.Seed < 1000 || !strings.Contains(err.Error(), fmt.Sprintf("seed: %d", first.Seed)) {
		t.Fatalf("got %v", err)
	}
	h.Seed = first.Seed
	if err := l.check(t.Context(), h); !errors.As(err, &second) || second.Error() != first.Error() {
		t.Errorf("the seed gives\n%v\nafter\n%v", second, first)
	}
	if n := len(first.History); n > 20 {
		t.Errorf("the history was not made short: %d calls", n)
	}
}

func TestRunStore(t *testing.T) {
	var srv *Server
	RunStore(t, StoreHarness{
		Reset:   func(context.Context) error { srv = NewServer(); return nil },
		Connect: func(context.Context) (sink.Store, error) { return NewStore(srv), nil },
	})
}

// Goroutines that others start meanwhile, as tests that run at the same time do, are no leak of the sink under test.
func TestNothingLeft_OfOthers(t *testing.T) {
	others, stop := make(chan struct{}), make(chan struct{})
	defer close(stop)
	defer close(others)
	go func() {
		for range others {
			go func() { <-stop }()
		}
	}()
	h := mistake{committer: func(_ *process, c sink.Committer) sink.Committer {
		others <- struct{}{}
		return c
	}}.harness(false)
	if err := lawCalled(t, "L42").check(t.Context(), h); err != nil {
		t.Error(err)
	}
}

package bridge

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

func away(op string) error {
	return &sink.Error{Op: op, Class: sink.ErrTransient, Err: errors.New("made up")}
}

func wantGivenUp(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, errGivenUp) || !errors.Is(err, sink.ErrTransient) || strings.Count(err.Error(), "without a last checkpoint") != 1 {
		t.Fatalf("got %v", err)
	}
}

// A bridge that is stopped in an outage does not wait for its end, in whichever pause it is.
func TestStop_InOutage(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	k.put(0, "a")
	k.put(1, "a")
	o := options(g)
	o.Lanes = 2
	asleep := make(chan struct{}, 2)
	o.backoff = func(n int) time.Duration {
		if n < stopTries {
			return time.Millisecond
		}
		asleep <- struct{}{}
		return time.Hour
	}
	g.on(func(op string) error {
		if op == "prepare" {
			return away(op)
		}
		return nil
	})
	r := start(t, k.bridge(g, o))
	wait(t, "a long pause", asleep)
	wait(t, "another lane's", asleep)
	r.stop()
	wantGivenUp(t, r.wait())
}

// An outage that begins when the bridge stops, or is new, is given some tries.
func TestStop_OutageBegins(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	o := options(g)
	o.Interval = time.Hour
	o.backoff = func(int) time.Duration { return time.Millisecond }
	written := make(chan struct{}, 1)
	o.Hooks.Written = func(string, int, int) { signal(written) }
	tries := 0
	o.Hooks.Retry = func(error, int) { tries++ }
	r := start(t, k.bridge(g, o))
	wait(t, "the row", written)
	g.on(away)
	r.stop()
	wantGivenUp(t, r.wait())
	if tries != stopTries {
		t.Errorf("%d tries", tries)
	}
	g.on(nil)
	o = options(g)
	again := start(t, k.bridge(g, o))
	g.wantValues(t, []string{"a"}, again)
}

// An outage that ends during the stop: the lane is in order again, but the last checkpoint was dropped, and Run says so.
func TestStop_OutageEnds(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	o := options(g)
	o.Interval = time.Hour
	o.backoff = func(int) time.Duration { return time.Millisecond }
	written := make(chan struct{}, 1)
	o.Hooks.Written = func(string, int, int) { signal(written) }
	o.Hooks.Retry = func(_ error, n int) {
		if n == stopTries-1 {
			g.on(nil)
		}
	}
	r := start(t, k.bridge(g, o))
	wait(t, "the row", written)
	g.on(away)
	r.stop()
	err := r.wait()
	wantGivenUp(t, err)
	if !strings.Contains(err.Error(), "reads texts/0 again from offset 0") {
		t.Error(err)
	}
	again := start(t, k.bridge(g, options(g)))
	g.wantValues(t, []string{"a"}, again)
	again.end()
}

// The answer to the last Save is lost, and it was the decision: there is nothing to say.
func TestStop_LastSaveUnclear(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	o := options(g)
	o.Interval = time.Hour
	o.backoff = func(int) time.Duration { return time.Millisecond }
	o.Store = sinktest.Faulty(sinktest.Fault{Call: "save", At: 2, When: sinktest.After}).Store(o.Store) // the first saves where it begins
	written := make(chan struct{}, 1)
	o.Hooks.Written = func(string, int, int) { signal(written) }
	r := start(t, k.bridge(g, o))
	wait(t, "the row", written)
	r.end()
	g.wantValues(t, []string{"a"})
}

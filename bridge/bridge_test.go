package bridge

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

func TestRun_EveryRowOnce(t *testing.T) {
	for _, lanes := range []int{1, 2, 4} {
		k, g := newCluster(t, 3), newTarget()
		var want []string
		for p := range int32(3) {
			vs := numbered(string(rune('a'+p)), 0, 3000)
			k.put(p, vs...)
			want = append(want, vs...)
		}
		o := options(g)
		o.Lanes = lanes
		o.Changes = 500
		r := start(t, k.bridge(g, o))
		g.wantValues(t, want, r)
		more := numbered("z", 0, 10)
		k.put(1, more...)
		g.wantValues(t, append(want, more...), r)
		r.end()
		if got := g.positions(t, "test"); got[0] != 3000 || got[1] != 3010 || got[2] != 3000 {
			t.Fatalf("lanes %d: saved positions %v", lanes, got)
		}
		if st := r.b.Status(); st.Running || st.Counters.Applied != 9010 || st.Counters.Records != 9010 || !st.Counters.Balanced() || st.Lag() != 0 {
			t.Fatalf("status %+v", st)
		}
	}
}

func TestRun_OwnStore(t *testing.T) {
	k := newCluster(t, 2)
	srv := sinktest.NewServer()
	k.put(0, numbered("a", 0, 100)...)
	o := options(newTarget())
	o.Store = nil
	o.UntilEnd = true
	b, err := New("test", k.input(), sinktest.NewSink(srv, &sinktest.SinkOptions{InTransaction: true}), o)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := start(t, b).wait(); err != nil {
			t.Fatal(err)
		}
		if n := len(srv.Table(sinktest.AppendTable)); n != 100 {
			t.Fatalf("%d rows", n)
		}
	}
}

func TestStop_EndsWithACheckpoint(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 100)...)
	written := make(chan struct{})
	o := options(g)
	o.Interval = 1 << 40
	o.Hooks.Written = func(string, int, int) { close(written) }
	r := start(t, k.bridge(g, o))
	wait(t, "the write", written)
	if n := len(g.values()); n != 0 {
		t.Fatalf("%d rows are visible before a checkpoint", n)
	}
	r.end()
	g.wantValues(t, numbered("a", 0, 100))
}

// signal.NotifyContext gives its context a cause since Go 1.26: an orderly stop is no error, whoever asked for it.
func TestStop_WithACauseIsNoError(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	mine := errors.New("mine")
	ctx, cancel := context.WithCancelCause(t.Context())
	o := options(g)
	o.Hooks.Started = func(sink.Guarantee) { cancel(mine) }
	if err := k.bridge(g, o).Run(ctx); err != nil {
		t.Fatalf("got %v", err)
	}
}

func TestRun_Twice(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	b := k.bridge(g, options(g))
	started := make(chan struct{})
	b.o.Hooks.Started = func(sink.Guarantee) { close(started) }
	r := start(t, b)
	wait(t, "the start", started)
	if err := b.Run(t.Context()); !errors.Is(err, sink.ErrConfig) {
		t.Fatalf("a second Run: %v", err)
	}
	r.end()
}

// Nothing that Run started outlives it.
func TestRun_LeavesNoGoroutine(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	k.put(0, "a")
	for range 5 {
		r := start(t, k.bridge(g, options(g)))
		g.wantValues(t, []string{"a"}, r)
		r.end()
	}
	until(t, "the end of all goroutines", func() bool {
		buf := make([]byte, 1<<20)
		stacks := string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(stacks, "bridge.(*run)") && !strings.Contains(stacks, "bridge.(*lane)") && !strings.Contains(stacks, "bridge.(*fetcher)")
	})
}

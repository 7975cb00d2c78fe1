package bridge

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// slowReads is a store whose Read, once it is told to, takes until its context ends, and then says so as a driver does.
type slowReads struct {
	sink.Store
	slow    atomic.Bool
	reading chan struct{}
	cut     error // why the last slow Read ended; of the lane's goroutine
}

func (s *slowReads) Read(ctx context.Context, bridge string) (sink.State, error) {
	if !s.slow.Load() {
		return s.Store.Read(ctx, bridge)
	}
	signal(s.reading)
	<-ctx.Done()
	s.cut = context.Cause(ctx)
	return sink.State{}, &sink.Error{Op: "read", Bridge: bridge, Class: sink.ErrTransient, Err: ctx.Err()}
}

// slowAcquires is the same of Acquire.
type slowAcquires struct {
	sink.Store
	slow      atomic.Bool
	acquiring chan struct{}
}

func (s *slowAcquires) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	if !s.slow.Load() {
		return s.Store.Acquire(ctx, r)
	}
	signal(s.acquiring)
	<-ctx.Done()
	return sink.Claim{}, &sink.Error{Op: "acquire", Bridge: r.Bridge, Class: sink.ErrTransient, Err: ctx.Err()}
}

// A bridge that has saved everything is given one more partition, and is stopped while its store is slow to hand it out: it has nothing to save and
// nothing to wait for, so it does not say that its last checkpoint is missing, though it holds no generation any more. (Found by TestSurvive.)
func TestStop_WhileItAcquires(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	k.put(0, "a")
	k.put(1, "b")
	o := options(g)
	o.Grace = 50 * time.Millisecond
	store := &slowAcquires{Store: o.Store, acquiring: make(chan struct{}, 1)}
	o.Store = store
	r := start(t, k.bridge(g, o))
	other := start(t, k.bridge(g, options(g)))
	until(t, "a partition each", func() bool { return len(r.b.Status().Partitions) == 1 && len(other.b.Status().Partitions) == 1 }, r, other)
	g.wantValues(t, []string{"a", "b"}, r, other)
	until(t, "its own saved", func() bool { ps := r.b.Status().Partitions; return len(ps) == 1 && ps[0].Saved == 1 && ps[0].Read == 1 }, r, other)
	store.slow.Store(true)
	other.end()
	wait(t, "the other's partition", store.acquiring)
	r.end()
}

// A bridge that looks, for UntilEnd, how far the others are does not finish that look first when it is stopped.
func TestUntilEnd_StopsWhileItLooksElsewhere(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	k.put(0, "a")
	k.put(1, "b")
	o := options(g)
	o.UntilEnd = true
	o.Watch = time.Hour // so that it looks for no other reason
	store := &slowReads{Store: o.Store, reading: make(chan struct{}, 1)}
	o.Store = store
	slow := &target{srv: g.srv}
	slow.on(func(op string) error {
		if op == "write" {
			return away(op)
		}
		return nil
	})
	other := start(t, k.bridge(slow, options(slow)))
	until(t, "the other's partitions", func() bool { return len(other.b.Status().Partitions) == 2 }, other)
	r := start(t, k.bridge(g, o))
	until(t, "a partition each", func() bool { return len(r.b.Status().Partitions) == 1 && len(other.b.Status().Partitions) == 1 }, r, other)
	until(t, "its own saved", func() bool { ps := r.b.Status().Partitions; return len(ps) == 1 && ps[0].Saved == 1 }, r, other)
	store.slow.Store(true)
	wait(t, "a look", store.reading)
	r.end()
	if !errors.Is(store.cut, errInterrupted) {
		t.Errorf("the look ended because of %v", store.cut)
	}
	other.leave()
}

// A lane that has nothing to save looks into the store now and then. A stop or a rebalance in the middle of that is no failure: the call was
// cut short by the bridge itself. Nor does a store that takes for ever to tell keep it from what it has to do. (Found by TestSimulate.)
func TestCompare_CutShort(t *testing.T) {
	for _, name := range []string{"by a stop", "by a rebalance", "by its own end"} {
		t.Run(name, func(t *testing.T) {
			k, g := newCluster(t, 2), newTarget()
			o := options(g)
			o.Grace = patience / 3 // a stop does not wait for it
			if name == "by a rebalance" {
				o.Grace = time.Second // half of it
			}
			store := &slowReads{Store: o.Store, reading: make(chan struct{}, 1)}
			o.Store = store
			k.put(0, "a")
			if name == "by its own end" {
				o.Connect = 2 * time.Second
			}
			r := start(t, k.bridge(g, o))
			g.wantValues(t, []string{"a"}, r)
			store.slow.Store(true)
			wait(t, "a look into the store", store.reading)
			switch name {
			case "by a stop":
				r.end()
			case "by its own end":
				k.put(0, "b") // which the lane turns to, though the store does not answer
				g.wantValues(t, []string{"a", "b"}, r)
				store.slow.Store(false)
				r.end()
			case "by a rebalance": // another member joins, and the first has to give a partition up
				r2 := start(t, k.bridge(g, options(g)))
				until(t, "a partition each", func() bool { return len(r.b.Status().Partitions) == 1 && len(r2.b.Status().Partitions) == 1 }, r, r2)
				r.end()
				k.put(0, "b")
				k.put(1, "c")
				g.wantValues(t, []string{"a", "b", "c"}, r2)
				r2.end()
			}
		})
	}
}

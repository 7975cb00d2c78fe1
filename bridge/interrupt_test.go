package bridge

import (
	"context"
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
}

func (s *slowReads) Read(ctx context.Context, bridge string) (sink.State, error) {
	if !s.slow.Load() {
		return s.Store.Read(ctx, bridge)
	}
	signal(s.reading)
	<-ctx.Done()
	return sink.State{}, &sink.Error{Op: "read", Bridge: bridge, Class: sink.ErrTransient, Err: ctx.Err()}
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

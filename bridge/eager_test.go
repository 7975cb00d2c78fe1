package bridge

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// With an eager assignor (properties.partition.assignment.strategy names one) every rebalance takes all partitions from everybody and gives them
// out anew. Members join, leave in order, die, and come back to a group that went on, static ones among them: each row is there once.
func TestRebalance_Eager(t *testing.T) {
	for name, static := range map[string]bool{"dynamic": false, "static": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, g := newCluster(t, 4), newTarget()
			var want []string
			feed := func(tag string) {
				for p := range int32(4) {
					vs := numbered(tag+string(rune('a'+p)), 0, 200)
					k.put(p, vs...)
					want = append(want, vs...)
				}
			}
			member := func(id string, more ...kgo.Opt) *running {
				o := options(g, append(more, kgo.Balancers(kgo.RangeBalancer()), kgo.HeartbeatInterval(100*time.Millisecond), kgo.SessionTimeout(6*time.Second))...)
				o.Lanes = 2
				if static {
					o.InstanceID = id
				}
				return start(t, k.bridge(g, o))
			}
			held := func(r *running) int { return len(r.b.Status().Partitions) }
			shared := func(a, b *running) {
				t.Helper()
				until(t, "two partitions each", func() bool { return held(a) == 2 && held(b) == 2 }, a, b)
			}
			feed("1")
			r1 := member("one")
			feed("2")
			var w wire
			r2 := member("two", kgo.Dialer(w.dial))
			shared(r1, r2)
			feed("3")
			g.wantValues(t, want, r1, r2)

			// It dies; the group gives its partitions to the other when its session is over, or to its successor of the same instance id.
			w.kill()
			feed("4")
			r3 := member("two")
			shared(r1, r3)
			g.wantValues(t, want, r1, r3)
			r2.stop()
			<-r2.done // its network is gone: how it ends does not matter, but it does end

			feed("5")
			r1.end()
			if !static { // a static member that ends keeps its place until its session is over
				until(t, "all of them", func() bool { return held(r3) == 4 }, r3)
			}
			feed("6")
			g.wantValues(t, want, r3)
			r3.end()
		})
	}
}

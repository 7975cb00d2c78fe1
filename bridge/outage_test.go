package bridge

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// registryTexts are texts of which those that begin with r need a system that may not be there.
type registryTexts struct {
	texts
	out   atomic.Bool
	tries chan int64 // offsets that were tried while it was out
}

func (d *registryTexts) Decode(b *changelog.Batch, r *changelog.Record) error {
	if d.out.Load() && strings.HasPrefix(string(r.Value), "r") {
		select {
		case d.tries <- r.Offset:
		default:
		}
		return &changelog.UnavailableError{Partition: r.Partition, Offset: r.Offset, Reason: "the registry is down", Err: errors.New("connection refused")}
	}
	return d.texts.Decode(b, r)
}

func (k *cluster) withRegistry(g *target, policy DataPolicy) (*Bridge, *registryTexts) {
	k.t.Helper()
	d := &registryTexts{texts: texts{sinktest.Appended()}, tries: make(chan int64)}
	d.out.Store(true)
	in := k.input()
	in.Decoder = d
	b, err := New("test", in, g, &Options{Store: sinktest.NewStore(g.srv), OnData: policy, Interval: time.Millisecond, backoff: func(int) time.Duration { return time.Millisecond }})
	if err != nil {
		k.t.Fatal(err)
	}
	return b, d
}

// An outage of what a decoder needs is waited out, whatever the data policy: what came before is saved meanwhile, and no message is dropped.
func TestOutage_IsWaitedOut(t *testing.T) {
	for _, policy := range []DataPolicy{Halt, Skip} {
		t.Run(policy.String(), func(t *testing.T) {
			k, g := newCluster(t, 1), newTarget()
			k.put(0, "a", "b", "r1", "c", "r2")
			b, d := k.withRegistry(g, policy)
			run := start(t, b)
			for range 3 {
				if at := k.tried(d); at != 2 {
					t.Fatalf("offset %d was tried", at)
				}
			}
			until(t, "the rows before it", func() bool { return slices.Equal(g.values(), []string{"a", "b"}) }, run)
			if s := b.Status(); !slices.ContainsFunc(s.Lanes, func(l LaneStatus) bool { return l.Retries > 0 && outage(l.LastError) }) {
				t.Errorf("the status does not tell: %+v", s.Lanes)
			}
			d.out.Store(false)
			until(t, "all rows", func() bool { return len(g.values()) == 5 }, run)
			run.stop()
			if err := run.wait(); err != nil {
				t.Fatal(err)
			}
			if got, want := g.values(), []string{"a", "b", "c", "r1", "r2"}; !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// A bridge that waits stops when it is told to.
func TestOutage_Stops(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "r1", "a")
	b, d := k.withRegistry(g, Halt)
	run := start(t, b)
	k.tried(d)
	run.stop()
	if err := run.wait(); err != nil {
		t.Fatal(err)
	}
	if got := g.values(); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

func (k *cluster) tried(d *registryTexts) int64 {
	k.t.Helper()
	over, stop := expires()
	defer stop()
	select {
	case at := <-d.tries:
		return at
	case <-over:
		k.t.Fatal("nothing was tried")
		return 0
	}
}

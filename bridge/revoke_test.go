package bridge

import (
	"context"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// slowLanes is a target whose lanes wait in every Write until they are let go.
type slowLanes struct {
	*target
	waits [4]chan struct{}
}

func (s *slowLanes) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := s.target.Lane(ctx, l)
	return &slowLane{c, s.waits[l.Number]}, err
}

type slowLane struct {
	sink.Committer
	wait chan struct{}
}

func (c *slowLane) Write(ctx context.Context, b *changelog.Batch) error {
	select {
	case <-c.wait:
		return c.Committer.Write(ctx, b)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A lane that has given its partition back goes on before the group does, which waits for the other lanes: what was read of the partition
// before is on its way to the lane, and must not be written.
func TestRevoke_DropsWhatIsOnItsWay(t *testing.T) {
	k, g := newCluster(t, 4), newTarget()
	s := &slowLanes{target: g}
	for i := range s.waits {
		s.waits[i] = make(chan struct{})
	}
	var want []string
	feed := func(tag string, n int) {
		for p := range int32(4) {
			vs := numbered(tag+string(rune('a'+p)), 0, n)
			k.put(p, vs...)
			want = append(want, vs...)
		}
	}
	o := options(g)
	o.Lanes = 4
	b, err := New("test", k.input(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	r1 := start(t, b)
	every := func(ok func(l *lane) bool) func() bool {
		return func() bool {
			if len(r1.b.Status().Partitions) != 4 {
				return false
			}
			for _, l := range r1.b.cur.lanes {
				if !ok(l) {
					return false
				}
			}
			return true
		}
	}
	until(t, "four partitions", every(func(*lane) bool { return true }), r1)
	feed("1", 10)
	writing := func(l *lane) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.cancel != nil && !l.idle // what was fetched in a second piece waits already
	}
	until(t, "every lane in its first Write", every(writing), r1)
	feed("2", 10)
	until(t, "more on its way to every lane", every(func(l *lane) bool { return l.queue.size() > 0 }), r1)

	r2 := start(t, k.bridge(g, options(g)))
	var asked []*lane
	until(t, "two lanes asked to give back", func() bool {
		asked = nil
		for _, l := range r1.b.cur.lanes {
			l.mu.Lock()
			if len(l.events) > 0 && l.events[0].kind == evRevoke {
				asked = append(asked, l)
			}
			l.mu.Unlock()
		}
		return len(asked) == 2
	}, r1, r2)
	close(s.waits[asked[0].n])
	until(t, "the first lane beyond what was on its way", func() bool { return asked[0].queue.size() == 0 }, r1, r2)
	for _, l := range r1.b.cur.lanes {
		if l != asked[0] {
			close(s.waits[l.n])
		}
	}
	g.wantValues(t, want, r1, r2)
	r1.end()
	r2.end()
}

package bridge

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fences remembers what Hooks.Fenced told.
type fences struct {
	mu  sync.Mutex
	all []error
}

func (f *fences) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, err)
}

func (f *fences) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all)
}

// want demands that there was one, an ErrFenced that says a word, and that the status counts it.
func (f *fences) want(t *testing.T, r *running, word string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) != 1 || !errors.Is(f.all[0], sink.ErrFenced) || !strings.Contains(f.all[0].Error(), word) {
		t.Fatalf("fenced: %v, want one that says %q", f.all, word)
	}
	if l := r.b.Status().Lanes[0]; l.Fenced != 1 || !errors.Is(l.LastError, sink.ErrFenced) {
		t.Fatalf("status of the lane %+v", l)
	}
}

func (g *target) generations(t *testing.T) []sink.GenerationState {
	t.Helper()
	st, err := sinktest.NewStore(g.srv).Read(context.Background(), "test")
	if err != nil {
		t.Fatal(err)
	}
	return st.Generations
}

// A lane that is fenced and then acquires its partitions again has ended the old generation in an ErrFenced that everybody can see.
func TestFenced_IsTold(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	var f fences
	o := options(g)
	o.Watch = time.Hour
	o.Hooks.Fenced = f.note
	r := start(t, k.bridge(g, o))
	g.wantValues(t, []string{"a"}, r)
	if _, err := g.steal(r); err != nil {
		t.Fatal(err)
	}
	k.put(0, "b")
	g.wantValues(t, []string{"a", "b"}, r)
	f.want(t, r, "fenced")
	r.end()
}

// A member that the group threw out has lost its generation, whether anybody has taken it yet or not.
func TestFenced_ThrownOut(t *testing.T) {
	for _, halt := range []bool{false, true} {
		k, g := newCluster(t, 1), newTarget()
		k.put(0, "a")
		var e events
		var f fences
		o := options(g)
		o.Hooks = e.hooks()
		o.Hooks.Fenced = f.note
		o.HaltWhenFenced = halt
		r := start(t, k.bridge(g, o))
		g.wantValues(t, []string{"a"}, r)
		for !e.has("lost")() { // see TestLost_JoinsAgain
			id, _ := r.b.cur.cl.GroupMetadata()
			k.leave("test", id)
			until(t, "the loss, or another member id", func() bool {
				now, _ := r.b.cur.cl.GroupMetadata()
				return e.has("lost")() || now != "" && now != id
			}, r)
		}
		if halt {
			if err := r.wait(); !errors.Is(err, sink.ErrFenced) || !strings.Contains(err.Error(), "threw this member out") {
				t.Fatalf("got %v", err)
			}
		} else {
			k.put(0, "b")
			g.wantValues(t, []string{"a", "b"}, r)
		}
		f.want(t, r, "threw this member out")
		if !halt {
			r.end()
		}
	}
}

// With HaltWhenFenced a process does not take back what another one has taken, although the group still says that it is its own.
func TestFenced_Halts(t *testing.T) {
	for _, busy := range []bool{true, false} { // learnt from Save, or from a look at the store
		k, g := newCluster(t, 1), newTarget()
		k.put(0, "a")
		var f fences
		o := options(g)
		o.HaltWhenFenced = true
		o.Hooks.Fenced = f.note
		if busy {
			o.Watch = time.Hour
		}
		r := start(t, k.bridge(g, o))
		g.wantValues(t, []string{"a"}, r)
		claim, err := g.steal(r)
		if err != nil {
			t.Fatal(err)
		}
		if busy {
			k.put(0, "b")
		}
		if err := r.wait(); !errors.Is(err, sink.ErrFenced) {
			t.Fatalf("got %v", err)
		}
		f.want(t, r, "")
		gs := g.generations(t)
		if last := gs[len(gs)-1]; last.ID != claim.Generation.ID || last.Ended {
			t.Fatalf("the thief's generation %d was ended: %+v", claim.Generation.ID, gs)
		}
		g.wantValues(t, []string{"a"})
	}
}

// A lane with nothing to save notices all the same that its generation was ended, and goes on in a new one.
func TestIdle_NoticesAnotherOwner(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	var f fences
	o := options(g)
	o.Hooks.Fenced = f.note
	r := start(t, k.bridge(g, o))
	g.wantValues(t, []string{"a"}, r)
	claim, err := g.steal(r)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a new generation", func() bool { return r.b.Status().Lanes[0].Generation > claim.Generation.ID }, r)
	f.want(t, r, "")
	k.put(0, "b")
	g.wantValues(t, []string{"a", "b"}, r)
	r.end()
	if f.count() != 1 {
		t.Fatalf("fenced %v", f.all)
	}
}

// A position that is moved by hand while nothing comes is gone to at once, not with the next record.
func TestIdle_NoticesAMovedPosition(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	all := numbered("a", 0, 10)
	k.put(0, all...)
	o := options(g)
	var log logged
	o.Logger = log.logger()
	o.Store = reading{o.Store, func(p *sink.StoredPosition) {
		if p.Offset == 5 {
			p.Generation, p.Checkpoint = 0, 0 // by hand
		}
	}}
	r := start(t, k.bridge(g, o))
	until(t, "10 saved", func() bool { return g.positions(t, "test")[0] == 10 }, r)
	moved := make(chan struct{}) // a bridge that notices the thief before he has moved anything would take its partition back from him
	move := sync.OnceFunc(func() { close(moved) })
	t.Cleanup(move)
	g.on(func(op string) error {
		if op == "acquire" {
			<-moved
		}
		return nil
	})
	claim, err := g.steal(r)
	if err != nil {
		t.Fatal(err)
	}
	from := claim.Positions[0]
	to := from
	to.Offset = 5
	err = sinktest.NewStore(g.srv).Save(t.Context(), claim.Generation, sink.Checkpoint{ID: 1,
		From: append(claim.Positions[:0:0], from), To: append(claim.Positions[:0:0], to)})
	if err != nil {
		t.Fatal(err)
	}
	move()
	g.wantValues(t, append(all, all[5:]...), r)
	r.end()
	if log.count("went back") > 0 || log.count("moved by hand while the bridge ran") != 1 {
		t.Fatal(log.buf.String())
	}
}

// slowRead is a store whose Read waits.
type slowRead struct {
	sink.Store
	read, proceed chan struct{}
}

func (s slowRead) Read(ctx context.Context, bridge string) (sink.State, error) {
	signal(s.read)
	<-s.proceed
	return s.Store.Read(ctx, bridge)
}

// A process that slept between the group's word and its Acquire does not end the generation of the one that has replaced it, which
// no group generation tells apart from it: they have one instance id.
func TestAcquire_AfterALongPause(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	o := options(g, kgo.HeartbeatInterval(30*time.Second))
	o.InstanceID = "one"
	o.longPause = time.Nanosecond
	slow := slowRead{o.Store, make(chan struct{}, 1), make(chan struct{})}
	o.Store = slow
	var log logged
	o.Logger = log.logger()
	zombie := start(t, k.bridge(g, o))
	proceed := sync.OnceFunc(func() { close(slow.proceed) })
	t.Cleanup(proceed)
	wait(t, "the zombie's look", slow.read)

	var f fences
	o2 := options(g)
	o2.InstanceID = "one"
	o2.Hooks.Fenced = f.note
	heir := start(t, k.bridge(g, o2))
	g.wantValues(t, []string{"a"}, heir)
	proceed()
	until(t, "the zombie's question", func() bool { return log.count("does not confirm the lane's partitions") > 0 || f.count() > 0 }, heir)
	k.put(0, "b")
	g.wantValues(t, []string{"a", "b"}, heir)
	if f.count() > 0 {
		t.Fatalf("the zombie ended its heir's generation: %v", f.all)
	}
	heir.end()
	zombie.stop()
	<-zombie.done
}

// commits is a target whose Commit fails the way it is told to.
type commits struct {
	*target
	fail func() error
}

func (s commits) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := s.target.Lane(ctx, l)
	return failingCommit{c, s.fail}, err
}

type failingCommit struct {
	sink.Committer
	fail func() error
}

func (c failingCommit) Commit(ctx context.Context, r sink.Committable) error {
	if err := c.fail(); err != nil {
		return err
	}
	return c.Committer.Commit(ctx, r)
}

// A coordinator that waits for its sink pauses its partitions. If it is fenced meanwhile, by a group that does not confirm it, the one that
// acquires them in the next session has not paused anything, and reads them.
func TestFenced_WhilePaused(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	var armed, denies atomic.Bool
	var tries, beats atomic.Int32
	k.c.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.c.KeepControl()
		beats.Add(1)
		if !denies.CompareAndSwap(true, false) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = kerr.IllegalGeneration.Code
		return resp, nil, true
	})
	s := commits{g, func() error {
		switch {
		case !armed.Load():
			return nil
		case tries.Add(1) == 1:
			return &sink.Error{Op: "commit", Class: sink.ErrTransient, Err: errors.New("away")}
		}
		armed.Store(false)
		denies.Store(true)
		return &sink.Error{Op: "commit", Class: sink.ErrFenced, Err: errors.New("made up")}
	}}
	var f fences
	o := options(g, kgo.HeartbeatInterval(20*time.Second), kgo.SessionTimeout(time.Minute)) // so that it is the lane that is denied
	o.Watch = time.Hour
	o.backoff = func(int) time.Duration { return time.Millisecond }
	o.Hooks.Fenced = f.note
	b, err := New("test", k.input(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, b)
	g.wantValues(t, []string{"a"}, r)
	until(t, "the heartbeat that the client sends soon after it joined", func() bool { return beats.Load() > 0 }, r)
	armed.Store(true)
	k.put(0, "b")
	until(t, "a fence", func() bool { return f.count() == 1 && !denies.Load() }, r) // it is told before the group is asked
	if tries.Load() < 2 {
		t.Fatalf("fenced after %d tries, not because the group denied it", tries.Load())
	}
	k.put(0, "c")
	r.b.cur.cl.ForceRebalance()
	g.wantValues(t, []string{"a", "b", "c"}, r)
	r.end()
}

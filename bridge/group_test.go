package bridge

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// log remembers what hooks told.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) add(s string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, s)
}

func (e *events) has(s string) func() bool {
	return func() bool { return e.count(s) > 0 }
}

func (e *events) count(s string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, x := range e.all {
		if strings.HasPrefix(x, s) {
			n++
		}
	}
	return n
}

func (e *events) hooks() Hooks {
	var h Hooks
	h.Assigned = func(p []changelog.Partition) { e.add("assigned " + strings.Join(names(p), " ")) }
	h.Revoked = func(p []changelog.Partition, lost bool) {
		if lost {
			e.add("lost " + strings.Join(names(p), " "))
			return
		}
		e.add("revoked " + strings.Join(names(p), " "))
	}
	h.Acquired = func(c sink.Claim) { e.add("acquired " + strings.Join(names(c.Generation.Partitions), " ")) }
	return h
}

func (s Status) lanes() map[int]int {
	out := make(map[int]int)
	for _, p := range s.Partitions {
		out[p.Lane]++
	}
	return out
}

// Two bridges of one name share a topic; one joins and leaves while rows flow. Each row is there once. What a member keeps is neither
// revoked nor acquired anew: with a lane for each partition, the lanes that stay do not notice.
func TestRebalance_Cooperative(t *testing.T) {
	k, g := newCluster(t, 4), newTarget()
	var want []string
	feed := func(tag string, n int) {
		for p := range int32(4) {
			vs := numbered(tag+string(rune('a'+p)), 0, n)
			k.put(p, vs...)
			want = append(want, vs...)
		}
	}
	feed("1", 300)
	var e1, e2 events
	o1 := options(g)
	o1.Lanes = 4
	o1.Hooks = e1.hooks()
	r1 := start(t, k.bridge(g, o1))
	g.wantValues(t, want, r1)
	before := r1.b.Status()
	if len(before.lanes()) != 4 {
		t.Fatalf("4 partitions are spread over lanes %v", before.lanes())
	}

	o2 := options(g)
	o2.Hooks = e2.hooks()
	r2 := start(t, k.bridge(g, o2))
	feed("2", 300)
	until(t, "two partitions each", func() bool {
		return len(r1.b.Status().Partitions) == 2 && len(r2.b.Status().Partitions) == 2
	}, r1, r2)
	feed("3", 300)
	g.wantValues(t, want, r1, r2)
	after := r1.b.Status()
	for _, p := range after.Partitions {
		i := slices.IndexFunc(before.Partitions, func(q PartitionStatus) bool { return q.Partition == p.Partition })
		if before.Partitions[i].Lane != p.Lane {
			t.Fatalf("%s moved from lane %d to %d", p.Partition, before.Partitions[i].Lane, p.Lane)
		}
		if n := e1.count("acquired " + p.Partition.String()); n != 1 {
			t.Fatalf("%s stayed and was acquired %d times: %v", p.Partition, n, e1.all)
		}
	}
	if e1.count("revoked") == 0 || e1.count("lost") > 0 || e2.count("lost") > 0 {
		t.Fatalf("events %v and %v", e1.all, e2.all)
	}
	r2.end()
	feed("4", 300)
	g.wantValues(t, want, r1)
	r1.end()
}

// What was written of a partition before it is revoked is checkpointed, and the next owner goes on after it.
func TestRevoke_Checkpoints(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	var want []string
	for p := range int32(2) {
		vs := numbered(string(rune('a'+p)), 0, 50)
		k.put(p, vs...)
		want = append(want, vs...)
	}
	var e1 events
	o1 := options(g)
	o1.Interval = 1 << 40
	o1.Hooks = e1.hooks()
	r1 := start(t, k.bridge(g, o1))
	until(t, "all written", func() bool {
		s := r1.b.Status()
		return len(s.Partitions) == 2 && s.Partitions[0].Read == 50 && s.Partitions[1].Read == 50
	}, r1)
	if n := len(g.values()); n != 0 {
		t.Fatalf("%d rows without a checkpoint", n)
	}
	var reread int
	var mu sync.Mutex
	o2 := options(g)
	o2.Hooks.Written = func(_ string, n, _ int) { mu.Lock(); reread += n; mu.Unlock() }
	r2 := start(t, k.bridge(g, o2))
	until(t, "one partition each", func() bool {
		return len(r1.b.Status().Partitions) == 1 && len(r2.b.Status().Partitions) == 1 && r2.b.Status().Partitions[0].Saved == 50
	}, r1, r2)
	g.wantValues(t, want, r1, r2)
	r2.end()
	r1.end()
	mu.Lock()
	defer mu.Unlock()
	if reread != 0 {
		t.Fatalf("the next owner read %d rows again", reread)
	}
	g.wantValues(t, want)
}

// A lane that hangs in its sink gives its partitions back in bounds, without a checkpoint; the next owner reads them again.
func TestRevoke_HangingSink(t *testing.T) {
	k, slow := newCluster(t, 2), newTarget()
	quick := &target{srv: slow.srv}
	var want []string
	for p := range int32(2) {
		vs := numbered(string(rune('a'+p)), 0, 50)
		k.put(p, vs...)
		want = append(want, vs...)
	}
	hang := make(chan struct{})
	hung := make(chan struct{}, 100)
	slow.on(func(op string) error {
		if op != "prepare" {
			return nil
		}
		select {
		case hung <- struct{}{}:
		default:
		}
		<-hang
		return &sink.Error{Op: op, Class: sink.ErrTransient, Err: errors.New("made up")}
	})
	o1 := options(slow)
	o1.Grace = 100 * time.Millisecond
	r1 := start(t, k.bridge(slow, o1))
	release := sync.OnceFunc(func() { close(hang) })
	t.Cleanup(release)
	wait(t, "a checkpoint", hung)
	r2 := start(t, k.bridge(quick, options(quick)))
	until(t, "the other bridge's share", func() bool {
		s := r2.b.Status()
		return len(s.Partitions) == 1 && s.Partitions[0].Saved == 50
	}, r2)
	slow.on(nil)
	release()
	slow.wantValues(t, want, r1, r2)
	r1.end()
	r2.end()
	slow.wantValues(t, want)
}

// A static member that is killed and comes back with its id gets its partitions at once, without a rebalance: the group's generation
// stays.
func TestStatic_RestartIsNoRebalance(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	k.put(0, "a")
	var w wire
	o1 := options(g, kgo.Dialer(w.dial))
	o1.InstanceID = "one"
	r1 := start(t, k.bridge(g, o1))
	g.wantValues(t, []string{"a"}, r1)
	generation := r1.b.Status().Generation
	w.kill()
	o2 := options(g)
	o2.InstanceID = "one"
	r2 := start(t, k.bridge(g, o2))
	k.put(1, "b")
	g.wantValues(t, []string{"a", "b"}, r2)
	if s := r2.b.Status(); s.Generation != generation || len(s.Partitions) != 2 {
		t.Fatalf("back in generation %d, it was %d: %+v", s.Generation, generation, s.Partitions)
	}
	r2.end()
	r1.stop()
	<-r1.done // its network is gone: how it ends does not matter, but it does end
}

// The same beside another member: that one is not asked for anything. (The in-process broker begins a new generation where the Java
// broker does not; see TestJava_StaticRestart.)
func TestStatic_RestartBesideAnother(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	var want []string
	feed := func(tag string) {
		for p := range int32(2) {
			vs := numbered(tag+string(rune('a'+p)), 0, 100)
			k.put(p, vs...)
			want = append(want, vs...)
		}
	}
	feed("1")
	var e2 events
	var w wire
	o1 := options(g, kgo.Dialer(w.dial))
	o1.InstanceID = "one"
	r1 := start(t, k.bridge(g, o1))
	o2 := options(g)
	o2.InstanceID = "two"
	o2.Hooks = e2.hooks()
	r2 := start(t, k.bridge(g, o2))
	until(t, "one partition each", func() bool {
		return len(r1.b.Status().Partitions) == 1 && len(r2.b.Status().Partitions) == 1
	}, r1, r2)
	g.wantValues(t, want, r1, r2)
	mine := r1.b.Status().Partitions[0].Partition
	revoked := e2.count("revoked")
	w.kill()
	o3 := options(g)
	o3.InstanceID = "one"
	r3 := start(t, k.bridge(g, o3))
	feed("2")
	g.wantValues(t, want, r2, r3)
	if s := r3.b.Status(); len(s.Partitions) != 1 || s.Partitions[0].Partition != mine {
		t.Fatalf("the member came back with %v, it had %s", s.Partitions, mine)
	}
	if e2.count("revoked") > revoked || e2.count("lost") > 0 {
		t.Fatalf("the other member: %v", e2.all)
	}
	r3.end()
	r2.end()
	r1.stop()
	<-r1.done
}

func TestStatic_TwoOfOneID(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	o := options(g)
	o.InstanceID = "one"
	r1 := start(t, k.bridge(g, o))
	g.wantValues(t, []string{"a"}, r1)
	r2 := start(t, k.bridge(g, o))
	err := r1.wait()
	if !errors.Is(err, sink.ErrFenced) || errors.Is(err, sink.ErrConfig) || !strings.Contains(err.Error(), "InstanceID") {
		t.Fatalf("the older of two: %v", err)
	}
	k.put(0, "b")
	g.wantValues(t, []string{"a", "b"}, r2)
	r2.end()
}

// A member that the group has thrown out joins again; meanwhile another one has taken over.
func TestLost_JoinsAgain(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	var e1 events
	o1 := options(g)
	o1.Hooks = e1.hooks()
	r1 := start(t, k.bridge(g, o1))
	k.put(0, "a")
	g.wantValues(t, []string{"a"}, r1)
	// The group forgets its member. One that is joining at that moment learns it from its join, which costs it nothing that it
	// holds and is no loss: then the next one is for its heartbeat.
	for !e1.has("lost")() {
		id, _ := r1.b.cur.cl.GroupMetadata()
		k.leave("test", id)
		until(t, "the loss, or another member id", func() bool {
			now, _ := r1.b.cur.cl.GroupMetadata()
			return e1.has("lost")() || now != "" && now != id
		}, r1)
	}
	until(t, "a new assignment", func() bool { return e1.count("assigned") == 1+e1.count("lost") }, r1)
	k.put(1, "b")
	g.wantValues(t, []string{"a", "b"}, r1)
	r1.end()
}

// A lane that another process fenced while the group still gives it the partitions takes them back.
func TestFenced_WhileAssigned(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	r := start(t, k.bridge(g, options(g)))
	g.wantValues(t, []string{"a"}, r)
	if _, err := g.steal(r); err != nil {
		t.Fatal(err)
	}
	k.put(0, "b")
	g.wantValues(t, []string{"a", "b"}, r)
	r.end()
}

// A lane that is fenced by the rightful owner, before its member hears of it, waits until the group gives it something again.
func TestFenced_AndThrownOut(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	var e events
	var fenced atomic.Bool
	o := options(g, kgo.HeartbeatInterval(time.Second))
	o.Hooks = e.hooks()
	o.Hooks.Fenced = func(err error) {
		if !strings.Contains(err.Error(), "threw this member out") {
			fenced.Store(true)
		}
	}
	r := start(t, k.bridge(g, o))
	want := []string{"a"}
	g.wantValues(t, want, r)
	// A member that hears of it before the store tells it is no such case; then it is tried again.
	for i := 0; !fenced.Load(); i++ {
		until(t, "a lane", func() bool { return len(r.b.Status().Partitions) == 1 }, r)
		id, _ := r.b.cur.cl.GroupMetadata()
		k.leave("test", id)
		g.steals(r)
		k.put(0, "b"+strconv.Itoa(i))
		want = append(want, "b"+strconv.Itoa(i))
		g.wantValues(t, want, r)
	}
	r.end()
	if e.count("assigned") != 1+e.count("lost") {
		t.Fatalf("events %v", e.all)
	}
}

// A lane that is fenced between two sessions of the group, and keeps its partitions in the next, acquires them again then.
func TestFenced_BetweenSessions(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	var stolen atomic.Bool
	beat, refused := make(chan struct{}, 1), make(chan struct{}, 1)
	k.c.ControlKey(int16(kmsg.Heartbeat), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.c.KeepControl()
		signal(beat)
		if !stolen.CompareAndSwap(true, false) {
			return nil, nil, false
		}
		resp := kreq.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = kerr.IllegalGeneration.Code
		signal(refused)
		return resp, nil, true
	})
	var e events
	o := options(g, kgo.HeartbeatInterval(30*time.Second))
	o.Hooks = e.hooks()
	r := start(t, k.bridge(g, o))
	g.wantValues(t, []string{"a"}, r)
	wait(t, "the one heartbeat that the client sends by itself", beat)
	stolen.Store(true)
	if _, err := g.steal(r); err != nil {
		t.Fatal(err)
	}
	k.put(0, "b")
	wait(t, "the refusal", refused)
	r.b.cur.cl.ForceRebalance()
	g.wantValues(t, []string{"a", "b"}, r)
	r.end()
	if e.count("lost") != 0 || e.count("revoked") != 1 || e.count("assigned") != 1 { // revoked: by the end
		t.Fatalf("events %v", e.all)
	}
}

// Group offsets are committed after the decision, for monitors.
func TestHint_GroupOffsets(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 10)...)
	r := start(t, k.bridge(g, options(g)))
	until(t, "the group's offset", func() bool {
		o, err := k.adm.FetchOffsets(t.Context(), "test")
		if err != nil {
			return false
		}
		x, ok := o.Lookup(k.topic, 0)
		return ok && x.At == 10
	}, r)
	k.put(0, "b")
	g.wantValues(t, append(numbered("a", 0, 10), "b"), r)
	r.end()
	o, err := k.adm.FetchOffsets(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	if x, _ := o.Lookup(k.topic, 0); x.At != 11 {
		t.Fatalf("the group's offset after the end is %d", x.At)
	}
}

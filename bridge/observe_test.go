package bridge

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A failure that is tried again shows, and goes when a checkpoint is decided; what failed is still told.
func TestStatus_Failing(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	var away atomic.Bool
	away.Store(true)
	g.on(func(op string) error {
		if op == "save" && away.Load() {
			return &sink.Error{Op: "save", Class: sink.ErrTransient, Err: errors.New("the server is away")}
		}
		return nil
	})
	o := options(g)
	o.backoff = func(int) time.Duration { return time.Millisecond }
	b := k.bridge(g, o)
	if s := b.Status(); s.Running || !s.Started.IsZero() || s.Err != nil {
		t.Fatalf("before Run: %+v", s)
	}
	r := start(t, b)
	until(t, "a failing lane", func() bool {
		s := b.Status()
		return len(s.Lanes) == 1 && !s.Lanes[0].FailingSince.IsZero() && s.Lanes[0].Retries > 1
	}, r)
	until(t, "a partition that stands", func() bool {
		s := b.Status()
		return len(s.Partitions) == 1 && !s.Partitions[0].StandsSince.IsZero() && !s.Asked.IsZero()
	}, r)
	s := b.Status()
	if l := s.Lanes[0]; l.LastError == nil || !strings.Contains(l.LastError.Error(), "away") || l.LastErrorAt.Before(l.FailingSince) || l.Checkpoint != 0 || l.Generation == 0 {
		t.Errorf("lane: %+v", l)
	}
	away.Store(false)
	until(t, "a working lane", func() bool {
		l := b.Status().Lanes[0]
		return l.FailingSince.IsZero() && l.Checkpoint > 0 && b.Status().Partitions[0].StandsSince.IsZero()
	}, r)
	r.end()
	s = b.Status()
	if l := s.Lanes[0]; l.LastError == nil || l.Retries != s.Retries || l.Decided.IsZero() {
		t.Errorf("lane afterwards: %+v", l)
	}
	if s.Running || s.Err != nil || s.Ended.IsZero() || s.Ended.Before(s.Started) {
		t.Errorf("afterwards: %+v", s)
	}
}

func TestStatus_Err(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "bad")
	b := k.bridge(g, options(g))
	err := start(t, b).wait()
	if s := b.Status(); err == nil || s.Err != err || s.Running {
		t.Errorf("Run: %v, Status: %+v", err, s)
	}
}

// stuck is a target whose commits fail for a while.
type stuck struct {
	*target
	fail atomic.Bool
}

func (g *stuck) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := g.target.Lane(ctx, l)
	return &stuckLane{c, g}, err
}

type stuckLane struct {
	sink.Committer
	g *stuck
}

func (c *stuckLane) Commit(ctx context.Context, r sink.Committable) error {
	if c.g.fail.Load() {
		return errors.New("stuck")
	}
	return c.Committer.Commit(ctx, r)
}

func TestStatus_Uncommitted(t *testing.T) {
	k, g := newCluster(t, 1), &stuck{target: newTarget()}
	k.put(0, "a")
	g.fail.Store(true)
	o := options(g.target)
	o.backoff = func(int) time.Duration { return time.Millisecond }
	b, err := New("test", k.input(), g, o)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, b)
	until(t, "an alarm", func() bool { s := b.Status(); return len(s.Lanes) == 1 && s.Lanes[0].Uncommitted != nil }, r)
	if s := b.Status(); s.Checkpoints == 0 {
		t.Error("no checkpoint is decided")
	}
	g.fail.Store(false)
	until(t, "the commit", func() bool { return b.Status().Lanes[0].Uncommitted == nil }, r)
	g.wantValues(t, []string{"a"}, r)
	r.end()
}

// An open transaction that was told of stays in the status until it ends.
func TestStatus_Open(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	cl := k.begin("upstream", 0, "a")
	o := options(g)
	o.OpenFor = 10 * time.Millisecond
	b := k.bridge(g, o)
	r := start(t, b)
	until(t, "the open transaction", func() bool { return len(b.Status().Open) == 1 }, r)
	if got := b.Status().Open[0]; got.Partition.Topic != k.topic || got.LastStableOffset != 0 || got.HighWatermark < 1 || got.For < o.OpenFor {
		t.Errorf("%+v", got)
	}
	if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	until(t, "its end", func() bool { return len(b.Status().Open) == 0 }, r)
	r.end()
}

func TestPace(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, b := changelog.Partition{Topic: "t"}, changelog.Partition{Topic: "t", Partition: 1}
	part := func(p changelog.Partition, saved, high int64) PartitionStatus {
		return PartitionStatus{Partition: p, Saved: saved, LastStableOffset: high, HighWatermark: high}
	}
	one := func(saved, high int64) []PartitionStatus { return []PartitionStatus{part(a, saved, high)} }

	var p pace
	if got := p.until(at, one(0, 100)); got != (Pace{}) {
		t.Errorf("nothing measured: %+v", got)
	}
	for i := range int64(200) { // a second each: ten saved, one produced
		p.add(at.Add(time.Duration(i)*time.Second), one(10*i, 5000+i))
	}
	now := at.Add(200 * time.Second)
	got := p.until(now, one(2000, 5200))
	if got.Saved != 10 || got.Arrived != 1 || got.Over < paceOver || got.Over > paceOver+2*paceEvery {
		t.Errorf("steady: %+v", got)
	}
	if len(p.samples) > int(paceOver/paceEvery)+2 {
		t.Errorf("%d samples are kept", len(p.samples))
	}
	s := Status{Partitions: one(2000, 5200), Pace: got}
	if left, ok := s.TimeLeft(); !ok || left.Round(time.Second) != 356*time.Second { // 3200 offsets at 9 a second
		t.Errorf("time left: %s, %t", left, ok)
	}
	if got := p.until(now, []PartitionStatus{part(a, 2000, 5200), part(b, 0, 10)}); got != (Pace{}) {
		t.Errorf("a partition that just came: %+v", got)
	}
	if got := p.until(now, one(5, 5200)); got.Over != 0 {
		t.Errorf("a position that went back: %+v", got)
	}

	for _, c := range []struct {
		name string
		s    Status
		want time.Duration
		ok   bool
	}{
		{"nothing held", Status{}, 0, false},
		{"position unknown", Status{Partitions: one(-1, 10)}, 0, false},
		{"end unknown", Status{Partitions: one(1, -1)}, 0, false},
		{"all saved", Status{Partitions: one(10, 10)}, 0, true},
		{"no pace", Status{Partitions: one(0, 10)}, 0, false},
		{"producers are faster", Status{Partitions: one(0, 10), Pace: Pace{Over: 1, Saved: 5, Arrived: 6}}, 0, false},
		{"longer than a Duration", Status{Partitions: one(0, 1<<62), Pace: Pace{Over: 1, Saved: 1e-9}}, 0, false},
		{"only an open transaction is left", Status{Partitions: []PartitionStatus{{Saved: 5, LastStableOffset: 5, HighWatermark: 9}}}, 0, true},
	} {
		if got, ok := c.s.TimeLeft(); got != c.want || ok != c.ok {
			t.Errorf("%s: %s, %t", c.name, got, ok)
		}
	}
}

// A partition stands when two looks find it at the same place with more to read, and not when it is merely behind.
func TestPartition_Look(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := &partition{saved: -1, last: -1}
	for i, c := range []struct {
		saved, last int64
		holds       hold
		stands      int // the look it stands since, -1: it does not
	}{
		{-1, -1, holdStart, -1}, // nothing known
		{-1, 9, holdStart, -1},
		{-1, 9, holdStart, 1}, // its lane cannot even begin
		{0, 9, 0, -1},
		{3, 9, 0, -1}, // behind, and moving
		{6, 12, 0, -1},
		{6, 15, holdSink, 5},
		{6, 18, holdSink, 5},
		{18, 18, 0, -1},
		{18, 20, holdEnd, -1}, // read as far as asked
		{18, 20, holdEnd, -1},
	} {
		p.saved, p.last, p.holds = c.saved, c.last, c.holds
		p.look(at.Add(time.Duration(i) * time.Second))
		want := time.Time{}
		if c.stands >= 0 {
			want = at.Add(time.Duration(c.stands) * time.Second)
		}
		if !p.stands.Equal(want) {
			t.Errorf("look %d: stands since %v, want %v", i, p.stands, want)
		}
	}
}

package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/debezium"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kgo"
)

// stopAt runs a bridge whose loads hold a message each, with a checkpoint after each, until its nth write, which fails: there the process
// ends.
func (k *cluster) stopAt(g *target, in Input, n int) {
	k.t.Helper()
	var mu sync.Mutex
	var stop context.CancelFunc
	g.on(func(op string) error {
		mu.Lock()
		defer mu.Unlock()
		if op != "write" {
			return nil
		}
		if n--; n > 0 {
			return nil
		}
		stop()
		return &sink.Error{Op: op, Class: sink.ErrTransient, Err: errors.New("the process ends here")}
	})
	defer g.on(nil)
	o := options(g)
	o.ByteBudget, o.Bytes, o.Changes = 8, 1, 1
	b, err := New("test", in, g, o)
	if err != nil {
		k.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(k.t.Context())
	defer cancel()
	mu.Lock()
	stop = cancel
	mu.Unlock()
	if err := b.Run(ctx); err != nil {
		k.t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if n > 0 {
		k.t.Fatalf("the bridge ended %d writes early", n)
	}
}

// Three rows of one transaction of the source have one log position (lsn) there; the process ends after the first of them. All three are there
// once, also the one that equals the first: only the position in the topic tells a duplicate (P07).
func TestRestart_OneSourcePositionForAll(t *testing.T) {
	tab, err := ddl.Find("CREATE TABLE `rows` "+`(id BIGINT, v STRING) WITH ('connector' = 'kafka', 'topic' = 'texts', 'properties.bootstrap.servers' = 'a:1',
		'format' = 'debezium-json')`, "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := format.New(tab, []changelog.Format{debezium.Format{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, g := newCluster(t, 1), newTarget()
	for _, row := range []string{`{"id":1,"v":"a"}`, `{"id":2,"v":"b"}`, `{"id":1,"v":"a"}`} {
		k.put(0, `{"op":"c","before":null,"after":`+row+`,"ts_ms":1700000000000,"source":{"lsn":4711,"txId":9,"ts_ms":1700000000000,"snapshot":"false"}}`)
	}
	in := k.input()
	in.Decoder = d
	k.stopAt(g, in, 2)
	if got := g.rows(); !slices.Equal(got, []string{"1 a"}) {
		t.Fatalf("rows %q before the restart", got)
	}
	o := options(g)
	o.UntilEnd = true
	b, err := New("test", in, g, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	if got := g.rows(); !slices.Equal(got, []string{"1 a", "1 a", "2 b"}) {
		t.Errorf("rows %q", got)
	}
}

// A process is killed with changes in its open checkpoint, and comes back with other settings of size, number and memory: an ordinary
// recovery, in which everything is there once (P31).
func TestRestart_OtherSettings(t *testing.T) {
	k, g := newCluster(t, 3), newTarget()
	var want []string
	for p := range int32(3) {
		vs := numbered(string(rune('a'+p)), 0, 200)
		k.put(p, vs...)
		want = append(want, vs...)
	}
	var w wire
	o := options(g, kgo.Dialer(w.dial))
	o.Interval, o.Grace = 1<<40, 50*time.Millisecond
	r := start(t, k.bridge(g, o))
	until(t, "all of it written", func() bool {
		ps := r.b.Status().Partitions
		return len(ps) == 3 && !slices.ContainsFunc(ps, func(p PartitionStatus) bool { return p.Read != 200 })
	}, r)
	g.on(func(string) error {
		return &sink.Error{Class: sink.ErrTransient, Err: errors.New("the process is dead")}
	})
	id, _ := r.b.cur.cl.GroupMetadata()
	w.kill()
	k.leave("test", id) // its session is over
	r.stop()
	r.wait()
	g.on(nil)
	if got := g.values(); len(got) > 0 {
		t.Fatalf("%d rows of a checkpoint that nobody saved", len(got))
	}
	for _, change := range []func(o *Options){
		func(o *Options) { o.Lanes, o.Changes, o.Bytes, o.ByteBudget = 3, 7, 300, 4000 },
		func(o *Options) { o.Lanes, o.Changes, o.SinkName = 1, 0, "" },
	} {
		o := options(g)
		change(o)
		o.UntilEnd = true
		if err := start(t, k.bridge(g, o)).wait(); err != nil {
			t.Fatal(err)
		}
		g.wantValues(t, want)
	}
}

// The offsets of the group expired, or its coordinator forgot all of it: positions are in the store, and a bridge goes on there, neither
// from the start nor from the end (P93).
func TestRestart_GroupForgotten(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 10)...)
	k.read(g)
	if _, err := k.adm.DeleteGroup(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	k.put(0, numbered("b", 0, 10)...)
	k.read(g)
	g.wantValues(t, append(numbered("a", 0, 10), numbered("b", 0, 10)...))
}

// A position beyond the end of the log, which was cut off or is another one: said with what is gone, and not taken for caught up (P93).
func TestSeek_BeyondTheEnd(t *testing.T) {
	for _, untilEnd := range []bool{false, true} {
		k, g := newCluster(t, 1), newTarget()
		k.put(0, numbered("a", 0, 10)...)
		r := start(t, k.bridge(g, options(g)))
		g.wantValues(t, numbered("a", 0, 10), r)
		until(t, "the saved position", func() bool { return g.positions(t, "test")[0] == 10 }, r)
		r.stop()
		r.wait()
		claim, err := g.steal(r)
		if err != nil {
			t.Fatal(err)
		}
		to := slices.Clone(claim.Positions)
		to[0].Offset = 15
		if err := sinktest.NewStore(g.srv).Save(t.Context(), claim.Generation, sink.Checkpoint{ID: 1, From: claim.Positions, To: to}); err != nil {
			t.Fatal(err)
		}
		o := options(g)
		o.UntilEnd = untilEnd
		lostError(t, start(t, k.bridge(g, o)).wait(), "texts/0@15", "asked for offset 15", "offsets 0 to 9", "offsets 10 to 14", "5 of them")
	}
}

// The audit that a user can run: at any moment every offset below a saved position is there once, and none above it, over keyed partitions and
// more lanes than one, with members that come, go and die (P100).
func TestAudit_OffsetsAndPositions(t *testing.T) {
	const partitions = 8
	k, g := newCluster(t, partitions), newTarget()
	feed := func(tag string) {
		for p := range int32(partitions) {
			k.put(p, numbered(fmt.Sprint(p, "/", tag), 0, 100)...)
		}
	}
	// The store and the rows are read one after the other, so positions may only be behind the rows and ahead of them before and after. What is
	// decided and may not be committed yet does not have to be there; in the end it has to.
	audit := func(exactly bool) {
		t.Helper()
		before := g.positions(t, "test")
		if !exactly {
			for _, c := range g.pending(t, "test") {
				for _, from := range c.From {
					before[from.Partition.Partition] = min(before[from.Partition.Partition], from.Offset)
				}
			}
		}
		have := make(map[string]int) // of a partition and an offset
		for _, r := range g.srv.Table(sinktest.AppendTable) {
			have[r[1].Str()[:1]+"@"+fmt.Sprint(r[0].Int())]++
		}
		after := g.positions(t, "test")
		total := int64(0)
		for p := range int32(partitions) {
			for o := range before[p] {
				if n := have[fmt.Sprintf("%d@%d", p, o)]; n != 1 {
					t.Fatalf("partition %d: offset %d is below the saved position %d, and there %d times", p, o, before[p], n)
				}
			}
			total += after[p]
		}
		if int64(len(have)) > total {
			t.Fatalf("%d rows, and the saved positions say %d at most", len(have), total)
		}
		if exactly && total != partitions*300 {
			t.Fatalf("positions %v in the end", after)
		}
	}
	o := func() *Options {
		// A member that dies while it joins is waited for this long.
		o := options(g, kgo.HeartbeatInterval(time.Second), kgo.SessionTimeout(6*time.Second), kgo.RebalanceTimeout(6*time.Second))
		o.Lanes, o.Changes = 5, 30
		return o
	}
	feed("1")
	var w wire
	dead := o()
	dead.Client = append(dead.Client, kgo.Dialer(w.dial))
	r1, r2 := start(t, k.bridge(g, o())), start(t, k.bridge(g, dead))
	until(t, "a first checkpoint", func() bool { audit(false); return len(g.positions(t, "test")) > 2 }, r1, r2)
	feed("2")
	until(t, "two members", func() bool { audit(false); return len(r2.b.Status().Partitions) > 0 }, r1, r2)
	id, _ := r2.b.cur.cl.GroupMetadata()
	w.kill()
	k.leave("test", id)
	r2.stop()
	r2.wait()
	feed("3")
	r1.stop()
	r1.wait()
	audit(false)
	last := o()
	last.UntilEnd = true
	if err := start(t, k.bridge(g, last)).wait(); err != nil {
		t.Fatal(err)
	}
	audit(true)
}

// absent is a target whose lanes cannot be made for a while, as long as the sink does not answer.
type absent struct {
	*target
	left int
	mu   sync.Mutex
}

func (a *absent) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	a.mu.Lock()
	a.left--
	away := a.left >= 0
	a.mu.Unlock()
	if away {
		return nil, &sink.Error{Op: "start", Class: sink.ErrTransient, Err: errors.New("the server dropped an idle connection")}
	}
	return a.target.Lane(ctx, l)
}

// A lane that was fenced is made anew; the first thing that does is a look at the server. If that fails for a while it is done again, as any
// other call that reaches the server (P42).
func TestFenced_WhileTheSinkIsAway(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	s := &absent{target: g}
	b, err := New("test", k.input(), s, options(g))
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, b)
	g.wantValues(t, []string{"a"}, r)
	s.mu.Lock()
	s.left = 3
	s.mu.Unlock()
	// Fenced and refused by the group at once, so that the lane has to wait for another session.
	for tries := 0; ; tries++ {
		id, _ := r.b.cur.cl.GroupMetadata()
		k.leave("test", id)
		g.steals(r)
		k.put(0, fmt.Sprint("b", tries))
		until(t, "the row", func() bool { return slices.Contains(g.values(), fmt.Sprint("b", tries)) }, r)
		s.mu.Lock()
		left := s.left
		s.mu.Unlock()
		if left < 0 {
			break
		}
		until(t, "a lane", func() bool { return len(r.b.Status().Partitions) == 1 }, r)
	}
	r.end()
}

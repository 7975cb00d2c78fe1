package bridge

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// failing is a store that fails over: to another server, which may hold an older state.
type failing struct {
	mu  sync.Mutex
	now sink.Store
}

func (s *failing) to(srv *sinktest.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = sinktest.NewStore(srv)
}

func (s *failing) store() sink.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *failing) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	return s.store().Acquire(ctx, r)
}
func (s *failing) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	return s.store().Save(ctx, gen, cp)
}
func (s *failing) End(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	return s.store().End(ctx, gen)
}
func (s *failing) Read(ctx context.Context, bridge string) (sink.State, error) {
	return s.store().Read(ctx, bridge)
}
func (s *failing) Close(context.Context) error { return nil }

// reading is a store whose positions look otherwise.
type reading struct {
	sink.Store
	change func(p *sink.StoredPosition)
}

func (s reading) Read(ctx context.Context, bridge string) (sink.State, error) {
	st, err := s.Store.Read(ctx, bridge)
	for i := range st.Positions {
		s.change(&st.Positions[i])
	}
	return st, err
}

// lostCommits is a bridge that was at 5 when its server was copied, and is at 10 now.
func lostCommits(t *testing.T) (k *cluster, g *target, older *sinktest.Server) {
	t.Helper()
	k, g = newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 5)...)
	k.read(g)
	older = g.srv.Clone()
	k.put(0, numbered("b", 0, 5)...)
	k.read(g)
	return k, g, older
}

// A store that a failover took back is found at the next start: the rows stand, so nothing is applied again in silence.
func TestWentBack_AtStart(t *testing.T) {
	k, g, older := lostCommits(t)
	all := append(numbered("a", 0, 5), numbered("b", 0, 5)...)
	var told []WentBack
	o := options(g)
	o.Store = sinktest.NewStore(older)
	o.Hooks.WentBack = func(w WentBack) { told = append(told, w) }
	for range 2 { // it is not forgotten by the first try
		lostError(t, start(t, k.bridge(g, o)).wait(), "the store went back", "saved with offset 10", "it now holds 5", "offsets 5 to 9", "flinksink positions set texts:0:5")
	}
	if len(told) != 2 || told[0] != told[1] || told[0].Stored != 5 || told[0].Was != 10 || told[0].Together || told[0].Partition.Topic != "texts" {
		t.Fatalf("told %+v", told)
	}
	g.wantValues(t, all)

	// The target was taken back too, and the position accepted by hand: it reads them again.
	g = &target{srv: older}
	hand := options(g)
	hand.UntilEnd = true
	hand.Store = reading{hand.Store, func(p *sink.StoredPosition) { p.Generation, p.Checkpoint = 0, 0 }}
	if err := start(t, k.bridge(g, hand)).wait(); err != nil {
		t.Fatal(err)
	}
	g.wantValues(t, all)
}

// What is no store that went back.
func TestWentBack_Not(t *testing.T) {
	for name, change := range map[string]func(p *sink.StoredPosition){
		// The position was set back, a later generation saved less than the hint, and was killed before it wrote its own.
		"a later generation":         func(p *sink.StoredPosition) { p.Generation += 5; p.Checkpoint = 1 },
		"a later checkpoint":         func(p *sink.StoredPosition) { p.Generation++; p.Checkpoint += 50 },
		"another topic of this name": func(p *sink.StoredPosition) { p.TopicID[0]++ },
	} {
		t.Run(name, func(t *testing.T) {
			k, _, older := lostCommits(t)
			g := &target{srv: older}
			var log logged
			o := options(g)
			o.Logger = log.logger()
			o.UntilEnd = true
			o.Store = reading{o.Store, change}
			if err := start(t, k.bridge(g, o)).wait(); err != nil {
				t.Fatal(err)
			}
			if log.count("went back") > 0 {
				t.Fatal(log.buf.String())
			}
			g.wantValues(t, append(numbered("a", 0, 5), numbered("b", 0, 5)...))
		})
	}
}

// Rows and positions that went back together are right again once what was lost has been read again: that is done, and said.
func TestWentBack_Together(t *testing.T) {
	k := newCluster(t, 1)
	srv := sinktest.NewServer()
	ctx, end := k.owned(t, srv, nil)
	k.put(0, numbered("a", 0, 5)...)
	until(t, "5 rows", func() bool { return len(srv.Table(sinktest.AppendTable)) == 5 }, ctx)
	end()
	older := srv.Clone()
	ctx, end = k.owned(t, srv, nil)
	k.put(0, numbered("b", 0, 5)...)
	until(t, "10 rows", func() bool { return len(srv.Table(sinktest.AppendTable)) == 10 }, ctx)
	end()

	var mu sync.Mutex
	var told []WentBack
	var log logged
	ctx, end = k.owned(t, older, func(o *Options) {
		o.Logger = log.logger()
		o.Hooks.WentBack = func(w WentBack) { mu.Lock(); defer mu.Unlock(); told = append(told, w) }
	})
	k.put(0, "c")
	want := slices.Sorted(slices.Values(append(append(numbered("a", 0, 5), numbered("b", 0, 5)...), "c")))
	(&target{srv: older}).wantValues(t, want, ctx)
	end()
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || told[0].Stored != 5 || told[0].Was != 10 || !told[0].Together {
		t.Fatalf("told %+v", told)
	}
	if log.count("the store went back") != 1 {
		t.Fatal(log.buf.String())
	}
}

// owned starts a bridge into a sink that is its own store.
func (k *cluster) owned(t *testing.T, srv *sinktest.Server, change func(o *Options)) (*running, func()) {
	t.Helper()
	o := options(newTarget())
	o.Store = nil
	if change != nil {
		change(o)
	}
	b, err := New("test", k.input(), sinktest.NewSink(srv, &sinktest.SinkOptions{InTransaction: true}), o)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, b)
	return r, r.end
}

// The store goes back while the bridge runs: its next checkpoint is refused, and what it finds then is told as what it is.
func TestWentBack_WhileRunning(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	store := &failing{now: sinktest.NewStore(g.srv)}
	o := options(g)
	o.Store = store
	r := start(t, k.bridge(g, o))
	k.put(0, numbered("a", 0, 5)...)
	until(t, "5 saved", func() bool { return g.positions(t, "test")[0] == 5 }, r)
	older := g.srv.Clone()
	k.put(0, numbered("b", 0, 5)...)
	until(t, "10 saved", func() bool { return g.positions(t, "test")[0] == 10 }, r)
	store.to(older)
	k.put(0, "c")
	lostError(t, r.wait(), "the store went back", "this process saw offset 10 saved", "it now holds 5")
	g.wantValues(t, append(numbered("a", 0, 5), numbered("b", 0, 5)...))
}

func TestHint_Metadata(t *testing.T) {
	id := changelog.TopicID{1, 2, 3}
	for _, h := range []hint{{5, 17, id}, {1, 1, changelog.TopicID{}}, {1 << 62, 1 << 62, id}} {
		if got, ok := parseHint(h.String()); !ok || got != h {
			t.Errorf("%q: got %+v %t", h.String(), got, ok)
		}
	}
	for _, s := range []string{"", "flinksink/2 1.1 -", "flinksink/1 ", "flinksink/1 1 -", "flinksink/1 0.1 -", "flinksink/1 1.0 -", "flinksink/1 1.1 x", "flinksink/1 1.1 - x",
		"flinksink/1 a.b -", "flinksink/1 -1.1 -", "flinksink/1 99999999999999999999.1 -"} {
		if got, ok := parseHint(s); ok {
			t.Errorf("%q: got %+v", s, got)
		}
	}
}

// overtaken is a store of which somebody else saves right after the first look into it.
type overtaken struct {
	sink.Store
	once sync.Once
	then func()
}

func (s *overtaken) Read(ctx context.Context, bridge string) (sink.State, error) {
	st, err := s.Store.Read(ctx, bridge)
	s.once.Do(s.then)
	return st, err
}

// A process is stopped between its look into the store and the next step, and its successor saves meanwhile: the group's offset, which
// is then beyond what the process has seen, does not say that the store went back. (Found by TestSimulate.)
func TestWentBack_SuccessorSavedMeanwhile(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 5)...)
	k.read(g)
	k.put(0, "of the successor")
	o := options(g)
	store := &overtaken{Store: o.Store}
	o.Store = store
	b := k.bridge(g, o)
	store.then = func() {
		ctx := context.Background()
		run := b.cur
		id, generation := run.cl.GroupMetadata()
		at := changelog.Partition{Topic: k.topic}
		claim, err := store.Acquire(ctx, sink.AcquireRequest{Bridge: run.name, Fingerprint: run.fingerprint(), Partitions: []changelog.Partition{at}, Owner: "successor", GroupGeneration: generation})
		if err != nil {
			t.Error(err)
			return
		}
		from := claim.Positions[0]
		to := from
		to.Offset = 6
		if err := store.Save(ctx, claim.Generation, sink.Checkpoint{ID: 1, From: []changelog.Position{from}, To: []changelog.Position{to}}); err != nil {
			t.Error(err)
		}
		text := hint{claim.Generation.ID, 1, to.TopicID}.String()
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.MemberID, req.Generation = run.o.Group, id, generation
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Offset, rp.LeaderEpoch, rp.Metadata = to.Offset, to.LeaderEpoch, &text
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID, rt.Partitions = k.topic, to.TopicID, append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(ctx, run.cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
		if err != nil {
			t.Error(err)
		}
	}
	r := start(t, b)
	k.put(0, "z")
	g.wantValues(t, append(numbered("a", 0, 5), "z"), r)
	r.end()
}

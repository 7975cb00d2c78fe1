package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Bridge moves topics to sinks. Its name is its identity: everything it stores is keyed by it.
type Bridge struct {
	name  string
	ins   []Input
	sinks []sink.Declared
	o     Options

	mu      sync.Mutex
	cur     *run // the running or last Run, nil before the first and while one begins
	running bool
	began   time.Time // of the last Run
	ended   time.Time // zero while it runs
	err     error     // what it returned
}

// New makes a bridge of a name, what to read and where to write. It checks all settings at once, and reaches no server; nil options
// are the defaults. An error is a [sink.ErrConfig]. For several tables or several sinks see [NewMany].
func New(name string, in Input, to sink.Sink, o *Options) (*Bridge, error) {
	under := DefaultSinkName
	if o != nil && o.SinkName != "" {
		under = o.SinkName
	}
	return NewMany(name, []Input{in}, []Output{{Name: under, Sink: to}}, o)
}

// Guarantee states what source, store and sinks give together, and what a reader of each sink may see when. Before Run it is what the sinks say.
func (b *Bridge) Guarantee() sink.Guarantee {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cur != nil && b.cur.guarantee != nil {
		return *b.cur.guarantee
	}
	return sink.Combine(b.sinks...)
}

// Status describes the bridge at this moment, or as it ended.
func (b *Bridge) Status() Status {
	b.mu.Lock()
	r, now := b.cur, Status{Running: b.running, Started: b.began, Ended: b.ended, Err: b.err}
	b.mu.Unlock()
	s := Status{Bridge: b.name, Group: b.o.Group, Generation: -1}
	if r != nil {
		s = r.status()
	}
	s.Running, s.Started, s.Ended, s.Err = now.Running, now.Started, now.Ended, now.Err
	s.Interval, s.Watch = b.o.Interval, b.o.Watch
	return s
}

// Run reads and writes until ctx ends, Options.UntilEnd is reached, or it cannot go on. It blocks, and nothing that it started
// outlives it.
//
// When ctx ends, whatever its cause, reading stops and what is written is checkpointed, for at most Options.Grace; nil means that
// this was done. Any other error says why the bridge cannot go on; what was read before is checkpointed as far as possible. A second Run at the same time is refused; one after another is fine.
func (b *Bridge) Run(ctx context.Context) (err error) {
	b.mu.Lock()
	if b.running {
		b.mu.Unlock()
		return &sink.Error{Op: "run", Bridge: b.name, Class: sink.ErrConfig, Err: errors.New("the bridge is running already: call Run once at a time")}
	}
	b.running, b.began, b.ended, b.err, b.cur = true, time.Now(), time.Time{}, nil, nil
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.running, b.ended, b.err = false, time.Now(), err
		b.mu.Unlock()
	}()
	r := &run{name: b.name, ins: b.ins, sinks: b.sinks, o: b.o, log: b.o.Logger, bridge: b, stopping: make(chan struct{})}
	if err := r.open(); err != nil {
		return err
	}
	b.mu.Lock()
	b.cur = r
	b.mu.Unlock()
	return r.run(ctx)
}

// run is one Run of a bridge.
type run struct {
	bridge *Bridge
	name   string
	ins    []Input
	sinks  []sink.Declared
	o      Options
	log    *slog.Logger

	cl        *kgo.Client
	adm       *kadm.Client
	f         *fetcher
	m         *member
	hint      *hinter
	lanes     []*lane        // set once, under f.mu
	end       *ending        // set once, under f.mu
	topics    map[string]int // partitions of each topic when the bridge started
	byTopic   map[string]int // input that reads it, 0 for what is missing; set before the first partition is assigned
	grace     time.Duration
	dialed    *dialed
	guarantee *sink.Guarantee // guarded by bridge.mu
	totals    totals
	unasked   sync.Once // that topics' settings cannot be asked for was said
	pace      pace
	final     []PartitionStatus // of the moment before the partitions were given back; guarded by f.mu

	// hard is the context of the coordinators' calls. It ends a grace after the bridge began to stop, not with Run's ctx: what is
	// written when that ends is still to be checkpointed.
	hard     context.Context
	stopping chan struct{} // closed when the bridge begins to stop
	stopOnce sync.Once
	cause    error  // why it stops; set before stopping is closed
	abandon  func() // ends what the client has under way

	giveUpOnce sync.Once
	gaveUp     error // what lanes ended with that could save nothing; see the file stop.go
}

// open makes the client and everything that its callbacks use. No topic is consumed yet.
func (r *run) open() error {
	r.dialed = new(dialed)
	r.m = &member{r: r}
	r.m.generation.Store(-1)
	r.f = &fetcher{r: r, parts: make(map[changelog.Partition]*partition), done: make(chan struct{})}
	r.hint = &hinter{r: r, more: make(chan struct{}, 1), to: make(map[changelog.Partition]hinted)}
	alive, abandon := context.WithCancel(context.Background())
	r.abandon = abandon
	opts := append([]kgo.Opt{kgo.WithContext(alive)}, clientOptions(clientOf(r.ins), r.o, r.m)...)
	cl, err := kgo.NewClient(append(opts, kgo.WithHooks(r.dialed))...)
	if err != nil {
		abandon()
		return &sink.Error{Op: "start", Bridge: r.name, Class: sink.ErrConfig, Err: err}
	}
	if err := checkClient(cl); err != nil {
		cl.Close()
		abandon()
		return &sink.Error{Op: "start", Bridge: r.name, Class: sink.ErrConfig, Err: err}
	}
	r.cl, r.adm = cl, kadm.NewClient(cl)
	r.f.cl, r.f.adm = r.cl, r.adm
	rebalance, _ := cl.OptValue(kgo.RebalanceTimeout).(time.Duration)
	r.grace = r.o.Grace
	if r.grace == 0 {
		r.grace = rebalance / 3
	}
	if r.grace > rebalance/3 {
		cl.Close()
		abandon()
		return &sink.Error{Op: "start", Bridge: r.name, Class: sink.ErrConfig, Err: fmt.Errorf(
			"Options.Grace (%s) is more than a third of the group's rebalance timeout (%s): lower it, or raise kgo.RebalanceTimeout", r.grace, rebalance)}
	}
	return nil
}

// instance returns the member's instance id, "" for none.
func (r *run) instance() string {
	id, _ := r.cl.OptValue(kgo.InstanceID).(string)
	return id
}

// fingerprint tells this bridge from another that uses its name by mistake.
func (r *run) fingerprint() string {
	topics := make([]string, len(r.ins))
	for i, in := range r.ins {
		topics[i] = in.Pattern
		if in.Pattern == "" {
			topics[i] = strings.Join(slices.Sorted(slices.Values(in.Topics)), ",")
		}
	}
	slices.Sort(topics) // the order in which inputs are listed is no part of what the bridge is
	return fmt.Sprintf("group=%s topics=%s target=%s", r.o.Group, strings.Join(topics, ";"), r.o.Target)
}

// keepOpen is the user's store: who made it closes it.
type keepOpen struct{ sink.Store }

func (keepOpen) Close(context.Context) error { return nil }

// coordinator makes a lane's coordinator.
func (r *run) coordinator(ctx context.Context, l *lane) (*sink.Coordinator, error) {
	o := sink.Options{
		Bridge:      r.name,
		Lane:        l.n,
		Sinks:       r.sinks,
		Source:      source{l},
		Group:       laneGroup{r.m, l},
		Tables:      r.tables(),
		Fingerprint: r.fingerprint(),
		Owner:       r.o.Owner,
		Interval:    r.o.Interval,
		ByteBudget:  r.o.ByteBudget,
		Grace:       r.grace,
		AlarmAfter:  r.o.AlarmAfter,
		StopAfter:   r.o.StopAfter,
		Backoff:     r.pause,
		Hint:        l.hint,
		Release:     l.recycle,
		Rejected:    l.rejected,
		Hooks:       l.hooks,
		Logger:      r.log,
	}
	if r.o.Store != nil {
		o.Store = keepOpen{r.o.Store}
	}
	co, err := sink.NewCoordinator(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := r.keeps(ctx, co); err != nil {
		return nil, err
	}
	return co, nil
}

// stop begins to stop the bridge; the first cause counts.
func (r *run) stop(cause error) {
	r.stopOnce.Do(func() {
		r.cause = cause
		close(r.stopping)
	})
}

func (r *run) run(ctx context.Context) (err error) {
	defer r.leave()
	if r.topics, err = r.connect(ctx); err != nil {
		return ended(ctx, err)
	}
	if r.o.UntilEnd {
		end, err := r.f.newEnding(ctx, r.topics)
		if err != nil {
			return ended(ctx, err)
		}
		r.f.mu.Lock()
		r.end = end
		r.f.mu.Unlock()
	}
	hard, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	r.hard = hard
	defer r.closeLanes()
	lanes := make([]*lane, r.o.Lanes)
	for i := range lanes {
		lanes[i] = newLane(r, i)
		if lanes[i].co, err = r.coordinator(ctx, lanes[i]); err != nil {
			r.setLanes(lanes[:i])
			return ended(ctx, err)
		}
		lanes[i].handsOn()
	}
	r.setLanes(lanes)
	g := lanes[0].co.Guarantee()
	r.bridge.mu.Lock()
	r.guarantee = &g
	r.bridge.mu.Unlock()
	r.log.Info("flinksink: started", "bridge", r.name, "group", r.o.Group, "topics", slices.Sorted(maps.Keys(r.topics)), "lanes", len(lanes), "guarantee", g.String())
	if h := r.o.Hooks.Started; h != nil {
		h(g)
	}

	// The writers end by themselves once the bridge stops; everything else ends after them, for they still need it.
	var writers, others sync.WaitGroup
	helping, dismiss := context.WithCancel(context.WithoutCancel(ctx))
	defer others.Wait()
	defer dismiss()
	others.Go(func() {
		if err := r.f.poll(helping); err != nil {
			r.stop(err)
		}
	})
	others.Go(func() { r.hint.run(helping) })
	others.Go(func() {
		w := &watcher{r: r, began: time.Now(), stood: make(map[changelog.Partition]stand), absent: make(map[string]time.Time)}
		if err := w.run(helping); err != nil {
			r.stop(err)
		}
	})
	failed := make([]error, len(lanes))
	for i, l := range lanes {
		others.Go(func() {
			d := decoder{l: l, bad: make(map[*partition]int64)}
			d.run(helping)
		})
		writers.Go(func() {
			if failed[i] = l.write(); failed[i] != nil {
				r.stop(failed[i])
			}
		})
	}
	r.cl.AddConsumeTopics(slices.Collect(maps.Keys(r.topics))...) // all at once, or the group gives out those of the first for itself

	var reached chan struct{}
	if r.end != nil {
		reached = r.end.done
	}
	select {
	case <-ctx.Done():
		r.stop(nil)
	case <-reached:
		r.stop(nil)
	case <-r.stopping:
	}
	r.f.pauseAll()
	grace := time.AfterFunc(r.grace, func() {
		cut(fmt.Errorf("the bridge stopped without a last checkpoint: it was not done within %s (Options.Grace); nothing is lost, the next start reads again what was not saved", r.grace))
	})
	defer grace.Stop()
	for _, l := range lanes {
		l.halting()
	}
	writers.Wait()
	r.keepFinal()

	err = r.cause
	for _, e := range failed {
		switch {
		case e == nil || e == r.cause || err != nil && errors.Is(err, e): // the lanes may say the same
		case err == nil:
			err = e
		default:
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return err
	}
	return ended(ctx, nil)
}

// ended returns what Run returns for err: the end of ctx is none, also with a cause. Since Go 1.26 signal.NotifyContext gives one, and a service
// that was asked to stop and did so has not failed.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

func (r *run) setLanes(lanes []*lane) {
	r.f.mu.Lock()
	r.lanes = lanes
	r.f.mu.Unlock()
}

// closeLanes closes the coordinators, whose goroutines have ended.
func (r *run) closeLanes() {
	for _, l := range r.lanes {
		ctx, cancel := context.WithTimeout(context.Background(), r.grace)
		if err := l.co.Close(ctx); err != nil {
			r.log.Warn("flinksink: closing a lane", "bridge", r.name, "lane", l.n, "error", err)
		}
		cancel()
	}
}

// pauseAll stops fetching.
func (f *fetcher) pauseAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.parts {
		f.setHold(holdStop, true, p)
	}
}

// keepFinal keeps what Status shows of the partitions beyond their being given back.
func (r *run) keepFinal() {
	s := r.status()
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.final = append([]PartitionStatus{}, s.Partitions...)
}

package sink_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/filestore"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// early is a sink that shows rows as soon as they are written, and refuses older ones: the least of a search index. It outlives processes.
type early struct {
	docs  map[int64]doc
	calls func(call string) // nil: nobody listens
}

type doc struct {
	v      string
	offset int64
	gone   bool
}

func newEarly() *early { return &early{docs: map[int64]doc{}} }

func (e *early) Guarantee() sink.Guarantee {
	return sink.Guarantee{Level: sink.Convergent, How: "by key and offset", Visible: "early; converges", Zombie: "refused where stale", Weakest: "it has no transactions", Cure: "read elsewhere"}
}

func (e *early) Lane(context.Context, sink.Lane) (sink.Committer, error) {
	return &earlyLane{e: e}, nil
}

func (e *early) rows() []sinktest.Row {
	rows := []sinktest.Row{}
	for id, d := range e.docs {
		if !d.gone {
			rows = append(rows, sinktest.Row{ID: id, V: d.v})
		}
	}
	slices.SortFunc(rows, func(a, b sinktest.Row) int { return cmp.Compare(a.ID, b.ID) })
	return rows
}

type earlyLane struct {
	e    *early
	void int64
}

func (l *earlyLane) Open(context.Context, sink.Claim) error { return nil }
func (l *earlyLane) Write(_ context.Context, b *changelog.Batch) error {
	for _, c := range b.Changes {
		id := c.Row[0].Int()
		if c.Offset < l.e.docs[id].offset {
			l.void++
			continue
		}
		d := doc{offset: c.Offset, gone: !c.Kind.Adds()}
		if !d.gone {
			d.v = strings.Clone(c.Row[1].Str())
		}
		l.e.docs[id] = d
	}
	return nil
}
func (l *earlyLane) Prepare(context.Context, sink.Cut) (sink.Committable, error) {
	return sink.Committable{}, nil
}
func (l *earlyLane) Discard(context.Context) error                  { return nil }
func (l *earlyLane) Commit(context.Context, sink.Committable) error { return nil }
func (l *earlyLane) Abort(context.Context, sink.Committable) error  { return nil }
func (l *earlyLane) Close(context.Context) error                    { return nil }

// kept is a sink and what readers see of it, whatever becomes of processes.
type kept struct {
	name string
	sink func(alive *bool) sink.Sink
	rows func() []sinktest.Row
	wait bool // it shows nothing before the decision
	left func() int
	own  *sinktest.Server // of a sink that is its own store
}

// dies makes a process's calls fail once it is dead: a coordinator that was left by a panic makes none, so this is to be sure.
type dies struct {
	sink.Sink
	alive *bool
}

func (d dies) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	if !*d.alive {
		return nil, errors.New("a dead process calls")
	}
	return d.Sink.Lane(ctx, l)
}

func staged() kept {
	srv := sinktest.NewServer()
	return kept{sink: func(alive *bool) sink.Sink { return dies{sinktest.NewSink(srv, nil), alive} },
		rows: func() []sinktest.Row { return sinktest.FixtureRows(srv.Table(sinktest.KeyedTable)) }, wait: true, left: srv.Staged}
}

func ownStore() kept {
	srv := sinktest.NewServer()
	return kept{sink: func(alive *bool) sink.Sink {
		return dies{sinktest.NewSink(srv, &sinktest.SinkOptions{InTransaction: true}), alive}
	}, rows: func() []sinktest.Row { return sinktest.FixtureRows(srv.Table(sinktest.KeyedTable)) }, wait: true, left: srv.Staged, own: srv}
}

func index() kept {
	e := newEarly()
	return kept{sink: func(*bool) sink.Sink { return e }, rows: e.rows, left: func() int { return 0 }}
}

// several is a world of sinks under one coordinator: a topic, a store, and processes that are killed.
type several struct {
	topic   *sinktest.Topic
	sinks   []kept
	store   func() (sink.Store, error) // nil: one of the sinks is it
	read    func() (sink.State, error)
	o       sink.Options // what a test changes
	at      []changelog.Position
	reports []sink.Report
}

func newSeveral(t testing.TB, sinks []kept, file bool) *several {
	w := &several{topic: sinktest.NewTopic(sinktest.Keyed()), sinks: sinks}
	for i := range w.sinks {
		w.sinks[i].name = fmt.Sprintf("s%d", i)
	}
	w.topic.Put(0, sinktest.Insert(1, "a"), sinktest.Insert(2, "b"))
	w.topic.Put(0, sinktest.UpdateBefore(1, "a"), sinktest.UpdateAfter(1, "c"), sinktest.Insert(3, "d"))
	w.topic.Put(0, sinktest.Delete(2, "b"), sinktest.Insert(2, "e"), sinktest.DeleteKey(3))
	for _, k := range sinks {
		if k.own != nil {
			w.read = func() (sink.State, error) { return sinktest.NewStore(k.own).Read(context.Background(), "several") }
			return w
		}
	}
	srv := sinktest.NewServer()
	w.store = func() (sink.Store, error) { return sinktest.NewStore(srv), nil }
	if file {
		path := filepath.Join(t.TempDir(), "store")
		w.store = func() (sink.Store, error) { return filestore.New(path) }
	}
	w.read = func() (sink.State, error) {
		s, err := w.store()
		if err != nil {
			return sink.State{}, err
		}
		defer s.Close(context.Background())
		return s.Read(context.Background(), "several")
	}
	return w
}

func (w *several) Begin(_ context.Context, ps []changelog.Partition) (out []changelog.Position, err error) {
	return []changelog.Position{w.topic.Position(0, 0)}, nil
}
func (w *several) Seek(_ context.Context, to []changelog.Position) error {
	w.at = slices.Clone(to)
	return nil
}
func (w *several) Pause(...changelog.Partition)  {}
func (w *several) Resume(...changelog.Partition) {}

// start makes a coordinator, as a process does.
func (w *several) start(ctx context.Context, f *sinktest.Faults, alive *bool) (*sink.Coordinator, error) {
	o := w.o
	o.Bridge, o.Source, o.Tables = "several", w, []*changelog.Table{w.topic.Table}
	o.Backoff = func(int) time.Duration { return 0 }
	o.Hooks.Saved = func(r sink.Report) { w.reports = append(w.reports, r) }
	declared := o.Sinks
	o.Sinks = nil
	for i, k := range w.sinks {
		d := sink.Declared{Name: k.name}
		if declared != nil {
			d = declared[i]
			d.Name = k.name
		}
		d.Sink = f.Sink(k.sink(alive))
		o.Sinks = append(o.Sinks, d)
	}
	if w.store != nil {
		s, err := w.store()
		if err != nil {
			return nil, err
		}
		o.Store = f.Store(s)
	}
	c, err := sink.NewCoordinator(ctx, o)
	if err != nil {
		return nil, err
	}
	w.at, err = c.Assign(ctx, []changelog.Partition{w.topic.Partition(0)})
	return c, err
}

// cuts are the positions at which processes make checkpoints.
const step = 3

// run reads on to the end and makes a checkpoint at every third message.
func (w *several) run(ctx context.Context, c *sink.Coordinator) error {
	for w.at[0].Offset < w.topic.End(0).Offset {
		b, to := w.topic.Read(w.at, step)
		n := to[0].Offset - w.at[0].Offset
		w.at = to
		if err := c.Write(ctx, b, sink.Progress{To: to, Records: n}); err != nil {
			return err
		}
		if _, err := c.Checkpoint(ctx); err != nil {
			return err
		}
	}
	_, err := c.Checkpoint(ctx)
	return err
}

type killed struct{}

// life is one process: it runs until it is killed or done.
func (w *several) life(ctx context.Context, f *sinktest.Faults) (err error, dead bool) {
	alive := true
	defer func() {
		alive = false
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			dead = true
		}
	}()
	c, err := w.start(ctx, f, &alive)
	if err == nil {
		err = w.run(ctx, c)
	}
	if err == nil {
		err = c.Close(ctx)
	}
	return err, false
}

// between reports a sink in which a reader sees, at this moment, what no decided checkpoint says.
func (w *several) between() error {
	st, err := w.read()
	if err != nil {
		return err
	}
	saved := int64(0)
	for _, p := range st.Positions {
		saved = p.Offset
	}
	for _, k := range w.sinks {
		if !k.wait {
			continue
		}
		ok := false
		for o := int64(0); o <= saved; o++ {
			ok = ok || (o%step == 0 || o == w.topic.End(0).Offset) && slices.Equal(k.rows(), w.topic.Rows(w.topic.Position(0, o)))
		}
		if !ok {
			return fmt.Errorf("readers of %s see %v, which no checkpoint up to the saved offset %d holds", k.name, k.rows(), saved)
		}
	}
	return nil
}

// ended reports a sink that does not hold what the topic says, or keeps work that nobody needs.
func (w *several) ended() error {
	want := w.topic.Rows(w.topic.End(0))
	for _, k := range w.sinks {
		if got := k.rows(); !slices.Equal(got, want) {
			return fmt.Errorf("%s holds %v, want %v", k.name, got, want)
		}
		if n := k.left(); n > 0 {
			return fmt.Errorf("%s: %d pieces of work are left", k.name, n)
		}
	}
	st, err := w.read()
	if err != nil {
		return err
	}
	for _, p := range st.Pending {
		if p.Generation != st.Generations[len(st.Generations)-1].ID {
			return fmt.Errorf("the store says that checkpoint %d.%d of %s still waits", p.Generation, p.Checkpoint, p.Sink)
		}
	}
	return nil
}

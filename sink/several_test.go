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

var pairs = map[string]func() []kept{
	"two phases, two phases":                   func() []kept { return []kept{staged(), staged()} },
	"two phases, index":                        func() []kept { return []kept{staged(), index()} },
	"index, two phases":                        func() []kept { return []kept{index(), staged()} },
	"index, index":                             func() []kept { return []kept{index(), index()} },
	"own store, two phases":                    func() []kept { return []kept{ownStore(), staged()} },
	"two phases, own store":                    func() []kept { return []kept{staged(), ownStore()} },
	"own store, index":                         func() []kept { return []kept{ownStore(), index()} },
	"own store, two phases, index, two phases": func() []kept { return []kept{ownStore(), staged(), index(), staged()} },
}

// A process is killed before, or after, each call that it makes of any sink and the store, and then its successor too, at some calls of it: at
// every moment readers of the sinks that wait for the decision see a decided checkpoint, and at the end all sinks hold the same.
func TestSeveral_KilledAtEveryCall(t *testing.T) {
	for name, sinks := range pairs {
		for _, file := range []bool{false, true} {
			if file && name != "two phases, two phases" {
				continue // each call of the file store takes a disk's time, and beside other sinks it does nothing new
			}
			t.Run(fmt.Sprintf("%s, file %t", name, file), func(t *testing.T) {
				t.Parallel()
				kills := 0
				sweep := func(first, second int, when sinktest.When) (fired bool) {
					w := newSeveral(t, sinks(), file)
					for _, at := range []int{first, second} {
						if at == 0 {
							continue
						}
						f := sinktest.Faulty(sinktest.Fault{At: at, When: when, Do: func(context.Context) { panic(killed{}) }})
						err, dead := w.life(t.Context(), f)
						if err != nil {
							t.Fatalf("killed at %d and %d, %s: %v", first, second, when, err)
						}
						fired = dead
						if dead {
							kills++
						}
						if err := w.between(); err != nil {
							t.Fatalf("killed at %d and %d, %s: %v; the calls were %v", first, second, when, err, f.Calls())
						}
					}
					f := sinktest.Faulty()
					if err, _ := w.life(t.Context(), f); err != nil {
						t.Fatalf("after a kill at %d and %d, %s: %v", first, second, when, err)
					}
					if err := w.ended(); err != nil {
						t.Fatalf("after a kill at %d and %d, %s: %v; the calls were %v", first, second, when, err, f.Calls())
					}
					return fired
				}
				whens := []sinktest.When{sinktest.Before, sinktest.After}
				if file {
					whens = whens[:1]
				}
				for _, when := range whens {
					for first := 1; sweep(first, 0, when); first++ {
						// Every third call of the successor, another third each time.
						for second := 1 + first%3; !file && len(sinks()) < 4 && sweep(first, second, when); second += 3 {
						}
					}
				}
				t.Logf("%d kills", kills)
				if kills < 25 {
					t.Error("too few to say anything")
				}
			})
		}
	}
}

// A call of any sink or the store fails, before its effect or with a lost answer, and the process goes on.
func TestSeveral_FailsAtEveryCall(t *testing.T) {
	for name, sinks := range pairs {
		for _, when := range []sinktest.When{sinktest.Before, sinktest.After, sinktest.Partial} {
			t.Run(fmt.Sprintf("%s, %s", name, when), func(t *testing.T) {
				t.Parallel()
				err := sinktest.Sweep(when, func(f *sinktest.Faults) error {
					w := newSeveral(t, sinks(), false)
					err, _ := w.life(t.Context(), f)
					if err != nil && errors.Is(err, sinktest.ErrInjected) { // start, and Close, are not tried again
						err, _ = w.life(t.Context(), f)
					}
					return errors.Join(err, w.ended())
				})
				if err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// The early sink is given nothing before the others have prepared, wherever it is declared; Eager leaves it where it is.
func TestSeveral_EarlyComesLast(t *testing.T) {
	for name, c := range map[string]struct {
		sinks func() []kept
		eager bool
		want  string
	}{
		"declared first": {pairs["index, two phases"], false, "write@s1 prepare@s1 write@s0 prepare@s0 save commit@s1"},
		"declared last":  {pairs["two phases, index"], false, "write@s0 prepare@s0 write@s1 prepare@s1 save commit@s0"},
		"eager":          {pairs["index, two phases"], true, "write@s0 write@s1 prepare@s0 prepare@s1 save commit@s1"},
		"nothing else":   {pairs["index, index"], false, "write@s0 write@s1 prepare@s0 prepare@s1 save"},
		"beside the store": {func() []kept { return []kept{index(), staged(), ownStore()} }, false,
			"write@s1 write@s2 prepare@s1 prepare@s2 write@s0 prepare@s0 save commit@s1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSeveral(t, c.sinks(), false)
			if c.eager {
				w.o.Sinks = []sink.Declared{{Eager: true}, {}}
			}
			f := sinktest.Faulty()
			if err, _ := w.life(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			calls := strings.Join(f.Calls(), " ")
			if !strings.Contains(calls, c.want) {
				t.Errorf("the calls were %s, want among them %s", calls, c.want)
			}
			if err := w.ended(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What another sink refuses, or fails to prepare, was never seen in the early one.
func TestSeveral_RefusedIsNeverSeenEarly(t *testing.T) {
	for _, call := range []string{"write", "prepare"} {
		e := newEarly()
		w := newSeveral(t, []kept{{sink: func(*bool) sink.Sink { return e }, rows: e.rows, left: func() int { return 0 }}, staged()}, false)
		var seen []sinktest.Row
		f := sinktest.Faulty(sinktest.Fault{Call: call, Sink: "s1", Class: sink.ErrRejected, Do: func(context.Context) { seen = e.rows() }})
		err, _ := w.life(t.Context(), f)
		if !errors.Is(err, sink.ErrRejected) || f.Fired() != nil {
			t.Fatalf("%s: %v, %v", call, err, f.Fired())
		}
		if len(seen) > 0 || len(e.docs) > 0 {
			t.Errorf("%s: the early sink held %v, and holds %v", call, seen, e.rows())
		}
	}
}

// A Commit of one sink that fails for long: the others are done, the alarm is told, what waits is in the store; after a restart it is
// settled before anything is written.
func TestSeveral_CommitFailsForLong(t *testing.T) {
	w := newSeveral(t, []kept{staged(), staged(), index()}, false)
	var alarms []int
	var steps []string
	w.o.AlarmAfter, w.o.StopAfter = 2, 4
	w.o.Hooks.Alarm = func(err error, n int) { alarms = append(alarms, n) }
	w.o.Hooks.Step = func(s sink.SinkStep) {
		if s.Kind == sink.SinkCommitFailed && (s.Err == nil || s.Checkpoint == 0) {
			t.Errorf("step %+v", s)
		}
		steps = append(steps, fmt.Sprintf("%s %d", s.Sink, s.Kind))
	}
	f := sinktest.Faulty(sinktest.Fault{Call: "commit", Sink: "s0", Times: 1000, Class: sink.ErrTransient})
	err, _ := w.life(t.Context(), f)
	if err == nil || !strings.Contains(err.Error(), "given up after 4 tries (StopAfter)") || !errors.Is(err, sink.ErrTransient) || !errors.Is(err, sinktest.ErrInjected) {
		t.Fatalf("got %v", err)
	}
	if !slices.Equal(alarms, []int{2, 3, 4}) {
		t.Errorf("alarms %v", alarms)
	}
	first := w.topic.Rows(w.topic.Position(0, step))
	if got := w.sinks[1].rows(); !slices.Equal(got, first) {
		t.Errorf("the other sink holds %v, want %v", got, first)
	}
	if got := w.sinks[0].rows(); len(got) != 0 {
		t.Errorf("the sink that cannot commit holds %v", got)
	}
	st, err := w.read()
	if err != nil {
		t.Fatal(err)
	}
	waits := map[string]int{}
	for _, p := range st.Pending {
		waits[p.Sink]++
	}
	if waits["s0"] != 1 {
		t.Errorf("the store holds %v", waits)
	}
	for _, want := range []string{"s0 0", "s0 1", "s1 1", "s2 1", "s0 3", "s1 2"} {
		if !slices.Contains(steps, want) {
			t.Errorf("no step %s in %v", want, steps)
		}
	}

	f = sinktest.Faulty()
	w.o.Hooks = sink.Hooks{}
	if err, _ := w.life(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := w.ended(); err != nil {
		t.Error(err)
	}
	opened, written := slices.Index(f.Calls(), "open@s0"), slices.IndexFunc(f.Calls(), func(c string) bool { return strings.HasPrefix(c, "write") })
	if opened < 0 || written < opened {
		t.Errorf("the calls were %v", f.Calls())
	}
}

// Without StopAfter the lane goes on until the Commit succeeds, however long that takes, and reads nothing meanwhile.
func TestSeveral_CommitIsTriedOn(t *testing.T) {
	w := newSeveral(t, []kept{staged(), staged()}, false)
	f := sinktest.Faulty(sinktest.Fault{Call: "commit", Sink: "s1", Times: 200})
	if err, _ := w.life(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Fired(), w.ended()); err != nil {
		t.Error(err)
	}
	failing := false
	for _, c := range f.Calls() {
		if failing = strings.HasPrefix(c, "commit@s1 ("); failing {
			continue
		}
		if strings.HasPrefix(c, "write") && failing {
			t.Fatal("written while a decided checkpoint waits")
		}
	}
}

// parted is a lane of two sinks of which each is given a part.
func parted(t *testing.T, share0, share1 func(b *changelog.Batch, i int) sink.Share) (*several, sink.Counters) {
	w := newSeveral(t, []kept{staged(), index()}, false)
	w.o.Sinks = []sink.Declared{{Share: share0}, {Share: share1}}
	if err, _ := w.life(t.Context(), sinktest.Faulty()); err != nil {
		t.Fatal(err)
	}
	var n sink.Counters
	for _, r := range w.reports {
		n = n.Add(r.Counters)
	}
	if !n.Balanced() {
		t.Errorf("%+v is not balanced", n)
	}
	return w, n
}

// Each sink holds its rows; what no sink takes is counted as skipped.
func TestSeveral_Share(t *testing.T) {
	only := func(id int64) func(b *changelog.Batch, i int) sink.Share {
		return func(b *changelog.Batch, i int) sink.Share {
			if b.Changes[i].Row[0].Int() == id {
				return sink.ShareAll
			}
			return sink.ShareNone
		}
	}
	w, n := parted(t, only(1), only(2))
	if got := fmt.Sprint(w.sinks[0].rows(), w.sinks[1].rows()); got != "[{1 c}] [{2 e}]" {
		t.Errorf("the sinks hold %s", got)
	}
	if n.Read != 8 || n.Applied != 6 || n.Skipped != 2 { // +I and -D of row 3
		t.Errorf("counted %+v", n)
	}

	// Rows of which the text says where they belong: a row that leaves a sink is deleted there.
	vowel := func(want bool) func(b *changelog.Batch, i int) sink.Share {
		return func(b *changelog.Batch, i int) sink.Share {
			c := b.Changes[i]
			if !c.Kind.Adds() || strings.ContainsAny(c.Row[1].Str(), "ae") == want {
				return sink.ShareAll
			}
			return sink.ShareDelete
		}
	}
	w, n = parted(t, vowel(true), vowel(false))
	if got := fmt.Sprint(w.sinks[0].rows(), w.sinks[1].rows()); got != "[{2 e}] [{1 c}]" {
		t.Errorf("the sinks hold %s", got)
	}
	if n.Applied != 8 || n.Skipped != 0 {
		t.Errorf("counted %+v", n)
	}
}

// voids is a sink whose committer says that it passed over so many changes of each checkpoint.
type voids struct {
	sink.Sink
	n int64
}

func (v voids) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := v.Sink.Lane(ctx, l)
	return voidsLane{c, v.n}, err
}

type voidsLane struct {
	sink.Committer
	n int64
}

func (v voidsLane) Superseded() int64 { return v.n }

// A change counts as superseded where no sink wrote it by itself; where sinks are given parts, what they passed over is not taken out.
func TestSeveral_Superseded(t *testing.T) {
	all := func(*changelog.Batch, int) sink.Share { return sink.ShareAll }
	for name, c := range map[string]struct {
		voids []int64
		share func(*changelog.Batch, int) sink.Share
		want  int64
	}{
		"the smallest number":   {[]int64{2, 1}, nil, 1},
		"one that passes none":  {[]int64{2, 0}, nil, 0},
		"one is given a part":   {[]int64{2, 1}, all, 0},
		"a single one, a part":  {[]int64{2}, all, 2},
		"a single one, the lot": {[]int64{2}, nil, 2},
	} {
		srv := sinktest.NewServer()
		table := sinktest.Appended()
		var got sink.Counters
		passed := map[string]int64{}
		o := sink.Options{Bridge: "b", Source: &seekable{}, Tables: []*changelog.Table{table}, Store: sinktest.NewStore(srv),
			Hooks: sink.Hooks{Saved: func(r sink.Report) { got = r.Counters }, Step: func(s sink.SinkStep) {
				if s.Kind == sink.SinkPrepared && s.Given > 0 {
					passed[s.Sink] = s.Superseded
				}
			}}}
		for i, n := range c.voids {
			o.Sinks = append(o.Sinks, sink.Declared{Name: fmt.Sprint(i), Sink: voids{sinktest.NewSink(srv, nil), n}})
		}
		o.Sinks[0].Share = c.share
		co, err := sink.NewCoordinator(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := co.Assign(t.Context(), []changelog.Partition{zero}); err != nil {
			t.Fatal(err)
		}
		b, p := batchOf(table, 0, 5)
		if err := co.Write(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
		if _, err := co.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !got.Balanced() || got.Read != 5 || got.Superseded != c.want || got.Applied != 5-c.want {
			t.Errorf("%s: %+v", name, got)
		}
		for i, n := range c.voids {
			if passed[fmt.Sprint(i)] != n {
				t.Errorf("%s: the steps tell %v", name, passed)
			}
		}
	}
}

// The guarantee of several sinks is that of the weakest, names it, and says of each sink what a reader may see when.
func TestCombine(t *testing.T) {
	rows, files := staged().sink(new(bool)), ownStore().sink(new(bool))
	for name, c := range map[string]struct {
		sinks []sink.Declared
		level sink.Level
		want  []string
		not   string
	}{
		"one": {[]sink.Declared{{Name: "rows", Sink: rows}}, sink.ExactlyOnce, []string{"at commit, atomically"}, "one decision"},
		"two": {[]sink.Declared{{Name: "rows", Sink: rows}, {Name: "files", Sink: files}}, sink.ExactlyOnce,
			[]string{"exactly once: one decision for 2 sinks", "visible in rows at commit, atomically, then in files at commit, atomically"}, "weakest"},
		"an early one": {[]sink.Declared{{Name: "search", Sink: newEarly()}, {Name: "rows", Sink: rows}}, sink.Convergent,
			[]string{"convergent: one decision for 2 sinks", "in rows at commit, atomically, then in search early; converges (placed last: not before the others have prepared)",
				"weakest link: sink search: it has no transactions; cure: read elsewhere", "search refused where stale"}, ""},
		"an eager one": {[]sink.Declared{{Name: "search", Sink: newEarly(), Eager: true}, {Name: "rows", Sink: rows}}, sink.Convergent,
			[]string{"in search early; converges (what the others then refuse or fail to prepare has been seen), then in rows at commit"}, "placed last"},
		"none": {nil, 0, nil, "decision"},
	} {
		g := sink.Combine(c.sinks...)
		for _, want := range c.want {
			if !strings.Contains(g.String(), want) {
				t.Errorf("%s: %q does not say %q", name, g, want)
			}
		}
		if g.Level != c.level || c.not != "" && strings.Contains(g.String(), c.not) {
			t.Errorf("%s: %s", name, g)
		}
	}
}

func TestSeveral_RefusesWhatCannotWork(t *testing.T) {
	srv := sinktest.NewServer()
	two := sinktest.NewSink(srv, nil)
	table := sinktest.Appended()
	for name, d := range map[string]sink.Declared{
		"no table":       {Name: "s", Sink: two, Tables: []*changelog.Table{}},
		"a strange one":  {Name: "s", Sink: two, Tables: []*changelog.Table{sinktest.Keyed()}},
		"nothing at all": {},
	} {
		o := sink.Options{Bridge: "b", Source: &seekable{}, Tables: []*changelog.Table{table}, Store: sinktest.NewStore(srv), Sinks: []sink.Declared{d}}
		if _, err := sink.NewCoordinator(t.Context(), o); !errors.Is(err, sink.ErrConfig) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

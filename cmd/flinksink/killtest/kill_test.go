package killtest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/testbed/kafka"
	"github.com/flinksink/flinksink/testbed/postgres"
)

// patience is how long the test waits for what has to happen, from the last time that a bridge came forward. It asserts nothing about time, and is counted
// in looks: on a machine that gives this process little time it lasts longer, as everything that is waited for does there.
const (
	patience = 90 * time.Second
	every    = 50 * time.Millisecond // a look
	looks    = int(patience / every)
)

// size is how much a run does, for each of the subjects.
type size struct {
	steps   int // times that every step is died at
	random  int // deaths of flinksink run, with one lane
	lanes   int // with two lanes
	pair    int // of one or both of two processes
	vacant  int // of one of two, whose place stays vacant until the other has taken its partitions over
	changes int // of a subject, at least
	kills   int // that have to be reached, of all
}

func sizes() size {
	if os.Getenv("FLINKSINK_LONG") != "" {
		return size{steps: 3, random: 30, lanes: 15, pair: 30, vacant: 3, changes: 200_000, kills: 200}
	}
	return size{steps: 2, random: 10, lanes: 5, pair: 10, vacant: 1, changes: 60_000, kills: 50}
}

// someChanges is what the writers add at a time. They write on while bridges live and die.
const someChanges = 1200

// world is a broker, a Postgres and a program.
type world struct {
	name      string // that all names begin with
	brokers   string
	to        string
	flinksink string
	session   time.Duration // session timeout, the lowest that the broker allows
	rebalance time.Duration // rebalance timeout: how long the living wait for those who died while they joined
	size      size
	seed      uint64
}

func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("FLINKSINK_SEED")
	if text == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("FLINKSINK_SEED: %v", err)
	}
	return n
}

// server returns the connection string of the Postgres that tests may fill.
func server(t *testing.T) string {
	t.Helper()
	to := os.Getenv(postgres.Env)
	if to == "" {
		t.Skipf("%s is not set: it names a Postgres server that tests may fill, e.g. postgres://postgres@127.0.0.1:5432/postgres; ./test starts one", postgres.Env)
	}
	if !strings.Contains(to, "://") {
		t.Fatalf("%s has to be a URL here: it is handed to flinksink run --to", postgres.Env)
	}
	return to
}

// broker starts a broker in a process of its own.
func broker(t *testing.T, dir string) string {
	t.Helper()
	cmd, err := kafka.Command(t.Context(), dir, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := kafka.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	return b.Addr()
}

// Bridges are killed at every step and at random, and the tables are what was produced.
func TestKill(t *testing.T) {
	to := server(t)
	n := seed(t)
	dir := t.TempDir()
	bin, err := build(t.Context(), dir, "cmd/flinksink")
	if err != nil {
		t.Fatal(err)
	}
	w := world{to: to, flinksink: bin, size: sizes(), seed: n, rebalance: time.Minute}
	t.Run("kfake", func(t *testing.T) {
		w := w
		w.name, w.brokers, w.session = fmt.Sprintf("killtest_%d", os.Getpid()), broker(t, dir), 1500*time.Millisecond
		w.run(t)
	})
	t.Run("kafka", func(t *testing.T) {
		w := w
		if w.brokers = os.Getenv(kafka.Env); w.brokers == "" {
			t.Skipf("%s is not set: it is the address of a Kafka broker that tests may fill, e.g. localhost:9092; ./test full starts one", kafka.Env)
		}
		w.name, w.session = fmt.Sprintf("killtest_%d_kafka_%d", os.Getpid(), time.Now().UnixMilli()), 6*time.Second
		w.run(t)
	})
}

// run lets all subjects live through all deaths at once.
func (w *world) run(t *testing.T) {
	accounts := make([]account, 3)
	t.Run("topic", func(t *testing.T) {
		for i, kind := range []string{"keyed", "append", "debezium"} {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				defer func() {
					if t.Failed() {
						t.Logf("FLINKSINK_SEED=%d repeats what was produced", w.seed)
					}
				}()
				s := newSubjectOf(t, w, kind, w.seed)
				l := &life{t: t, w: w, s: s, a: &accounts[i]}
				defer func() { t.Log("\n" + l.a.write(s)) }()
				l.run()
			})
		}
	})
	kills, changes := 0, 0
	for i := range accounts {
		kills += accounts[i].total()
		changes += accounts[i].changes
	}
	t.Logf("together %d kills over %d changes", kills, changes)
	if !t.Failed() && (kills < w.size.kills || changes < 100_000) {
		t.Errorf("%d kills over %d changes: too few to say anything; %d over 100000 are wanted", kills, changes, w.size.kills)
	}
}

// life is what a subject goes through.
type life struct {
	t *testing.T
	w *world
	s *subject
	a *account
}

// The instances of a bridge's processes: static members, which have their partitions back at once.
const (
	first  = "first"
	second = "second"
)

func (l *life) run() {
	n := l.w.size
	l.steps()
	for range n.random {
		l.killOne("at random")
	}
	for range n.lanes {
		l.killOne("at random, two lanes", "--lanes", "2")
	}
	l.pair()
	l.end()
}

// steps has a bridge die at every step, in the order of a seed.
func (l *life) steps() {
	var order []int
	for range l.w.size.steps {
		order = append(order, l.s.r.Perm(len(steps()))...)
	}
	l.stepsInOrder(order)
}

// stepsInOrder has a bridge die at steps, by their numbers.
func (l *life) stepsInOrder(order []int) {
	l.t.Helper()
	for _, i := range order {
		step := stepsOf(l.s.mode)[i]
		n := 1 + l.s.r.IntN(step.most)
		l.s.feed(someChanges)
		p := l.s.dying(l.t, first, i, n)
		l.a.starts++
		l.await(p, fmt.Sprintf("step %q, occurrence %d", step.name, n))
		if !p.killed() || !strings.Contains(p.out.String(), lastWords(step)) {
			l.t.Fatalf("the bridge was to die at step %q, occurrence %d, and ended otherwise: %s", step.name, n, p.tail())
		}
		l.died(step.name, p)
	}
}

// await waits until a process ends, and has the writers write more now and then, in case it waits for that.
func (l *life) await(p *process, what string) {
	l.t.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 1; n <= looks; n++ {
		select {
		case <-p.done:
			return
		case <-tick.C:
		case <-l.s.broken.Done():
			l.t.Fatal(context.Cause(l.s.broken))
		}
		if n%int(time.Second/every) == 0 {
			l.s.feed(someChanges)
		}
	}
	p.kill()
	l.t.Fatalf("%s: not met: %s", what, p.tail())
}

// died notes a death and compares.
func (l *life) died(step string, ps ...*process) {
	l.t.Helper()
	for _, p := range ps {
		l.a.kill(step)
		if p.raced() {
			l.t.Errorf("a data race: %s", p.tail())
		}
	}
	behind := l.s.truth.behind() // before the look: what the writers add meanwhile is no lag of the dead
	moved, _, err := l.s.look(l.t.Context(), false)
	if err != nil {
		l.t.Fatalf("after death %d, %s: %v\n%s", l.a.total(), step, err, ps[0].tail())
	}
	if moved > 0 {
		l.a.moved[step]++
	}
	if behind > moved {
		l.a.behind++
	}
}

// pause waits for a random time, from the start of p or from when its bridge runs.
func (l *life) pause(p *process) {
	l.t.Helper()
	if l.s.r.IntN(4) > 0 && !p.comes(p.ready) {
		l.t.Fatalf("the bridge does not begin: %s", p.tail())
	}
	busy := time.NewTicker(10 * time.Millisecond)
	defer busy.Stop()
	for end := time.After(time.Duration(l.s.r.Int64N(int64(1500 * time.Millisecond)))); ; {
		if len(l.s.sizes) < 10 {
			l.s.feed(300) // the writers are never idle, so that p is not
		}
		select {
		case <-busy.C:
			continue
		case <-end:
		case <-p.done:
			l.t.Fatalf("a bridge ended by itself: %s", p.tail())
		case <-l.s.broken.Done():
			l.t.Fatal(context.Cause(l.s.broken))
		}
		return
	}
}

func (l *life) interval() time.Duration {
	return []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond}[l.s.r.IntN(3)]
}

// start starts flinksink run.
func (l *life) start(instance string, more ...string) *process {
	l.a.starts++
	return l.s.program(l.t, l.w, instance, l.interval(), more...)
}

// killOnceAhead kills the only process of the bridge when it has saved something that nobody has looked at.
func (l *life) killOnceAhead() {
	l.t.Helper()
	p := l.start(first)
	l.until([]*process{p}, "the bridge saves", func() (bool, error) {
		if len(l.s.sizes) < 10 {
			l.s.feed(300)
		}
		return l.s.ahead(l.t.Context())
	})
	p.kill()
	l.died("once it had saved", p)
}

// killOne kills the only process of the bridge.
func (l *life) killOne(step string, more ...string) {
	l.t.Helper()
	p := l.start(first, more...)
	l.pause(p)
	p.kill()
	l.died(step, p)
}

// pair has two processes share the partitions, and kills one of them, sometimes both.
func (l *life) pair() {
	names := []string{first, second}
	ps := make([]*process, len(names))
	begin := func(i int) { ps[i] = l.start(names[i], "--lanes", strconv.Itoa(1+i)) }
	for i := range ps {
		begin(i)
	}
	l.until(ps, "both processes have partitions", l.shared(ps))
	for round := range l.w.size.pair + l.w.size.vacant {
		victim := l.s.r.IntN(2)
		l.pause(ps[victim])
		switch {
		case round >= l.w.size.pair:
			l.until(ps, "both processes have partitions", l.shared(ps))
			l.s.feed(someChanges)
			ps[victim].kill()
			l.died("one of two, the other takes over", ps[victim])
			l.until(ps[1-victim:2-victim], "everything is saved by the other process", l.caughtUp)
		case l.s.r.IntN(5) == 0:
			ps[0].kill()
			ps[1].kill()
			l.died("both of two", ps...)
			begin(1 - victim)
		default:
			ps[victim].kill()
			l.died("one of two", ps[victim])
		}
		begin(victim)
	}
	// Their places are taken again by the processes of the end.
	for _, p := range ps {
		p.kill()
	}
	l.died("both of two", ps...)
}

// until waits until a condition holds, while ps live.
func (l *life) until(ps []*process, what string, holds func() (bool, error)) {
	l.t.Helper()
	for left, least := looks, math.MaxInt; ; left-- {
		ok, err := holds()
		if err != nil {
			l.t.Fatal(err)
		}
		if ok {
			return
		}
		if n := l.s.truth.behind(); n < least {
			left, least = looks, n
		}
		for _, p := range ps {
			if p.over() {
				l.t.Fatalf("a bridge ended by itself: %s", p.tail())
			}
		}
		if left == 0 {
			for _, p := range ps {
				p.kill()
				l.t.Log(p.tail())
			}
			l.t.Fatalf("it does not come to pass that %s", what)
		}
		select {
		case <-time.After(every):
		case <-l.s.broken.Done():
			l.t.Fatal(context.Cause(l.s.broken))
		}
	}
}

// shared reports that each process owns a partition.
func (l *life) shared(ps []*process) func() (bool, error) {
	return func() (bool, error) {
		owners, err := l.s.owners(l.t.Context(), false)
		for _, p := range ps {
			if owners[p.cmd.Process.Pid] == 0 {
				return false, err
			}
		}
		return true, err
	}
}

// caughtUp reports that everything that the writers were asked for is saved.
func (l *life) caughtUp() (bool, error) {
	_, _, err := l.s.look(l.t.Context(), false)
	return l.s.truth.behind() == 0 && len(l.s.sizes) == 0, err
}

// end reads the rest and compares everything.
func (l *life) end() {
	l.conclude(l.w.size.changes)
	l.sane()
}

// conclude has the writers write so many changes in all, has two bridges read to the end, and compares everything.
func (l *life) conclude(changes int) {
	l.t.Helper()
	ctx := l.t.Context()
	if err := l.s.finish(ctx, changes); err != nil {
		l.t.Fatal(err)
	}
	names := []string{first, second}
	for starts := 1; len(names) > 0; starts++ {
		ps := make([]*process, len(names))
		for i, name := range names {
			ps[i] = l.start(name, "--until-end")
		}
		l.until(nil, "the last bridges come to the end", func() (bool, error) {
			_, _, err := l.s.look(ctx, false)
			return !slices.ContainsFunc(ps, func(p *process) bool { return !p.over() }), err
		})
		var again []string
		for i, p := range ps {
			switch {
			case p.cmd.ProcessState.Success():
			case p.late() && starts < 10: // a third of a short rebalance timeout, which is the time for its last checkpoint, can be too little on a slow machine
				again = append(again, names[i])
			default:
				l.t.Fatalf("the last bridge failed: %s", p.tail())
			}
		}
		names = again
	}
	l.a.changes, l.a.ended = l.s.truth.changes(), true
	var err error
	if _, l.a.final, err = l.s.look(ctx, true); err != nil {
		l.t.Errorf("at the end: %v", err)
	}
	if err := l.s.ends(ctx); err != nil {
		l.t.Errorf("at the end: %v", err)
	}
	if n := l.s.truth.behind(); n > 0 {
		l.t.Errorf("%d committed changes are not below the last stable offsets: a mistake of the test", n)
	}
}

// sane makes sure that the test met what it is about.
func (l *life) sane() {
	w := l.s.truth
	if missed := l.a.missed(); len(missed) > 0 {
		l.t.Errorf("no bridge died at %q", missed)
	}
	if n, moved := l.a.total(), sum(l.a.moved); l.a.behind < n/2 || moved < n/20 {
		l.t.Errorf("of %d deaths %d left something unread and %d had moved the positions: too few happened in the middle", n, l.a.behind, moved)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	bad := map[string]int{}
	for _, class := range w.letters {
		bad[class]++
	}
	if w.aborted < w.written/20 || l.s.keyed && (w.returned < 100 || w.deletes < w.written/20) || l.s.kind == "keyed" && w.updates < w.written/10 ||
		bad[undecodable] < w.written/1000 || bad[refused] < w.written/5000 {
		l.t.Error("the changes are too few of a kind to say anything")
	}
}

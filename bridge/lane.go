package bridge

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// lane moves the records of some partitions: a queue, a decoder goroutine, a writer goroutine, and a Coordinator that only the writer
// calls. The group's callbacks reach it through events.
type lane struct {
	n          int
	r          *run
	queue      queue
	loads      chan *load // decoder to writer, without a buffer: the decoder goes on filling until the writer has time
	free       chan *changelog.Batch
	batchBytes int
	over       chan struct{} // closed when the writer has ended
	notify     chan struct{} // capacity 1: there is an event

	mu     sync.Mutex
	events []event
	cancel context.CancelCauseFunc // of the coordinator's call in progress, nil when it must not be cut short
	idle   bool                    // the call in progress saves nothing
	giveUp context.CancelCauseFunc // ends the call in progress for a stop, nil when there is none
	tries  int                     // of the call in progress that failed in a row, 0 while it works; see the file stop.go
	failed error                   // the last of them

	// What follows belongs to the writer.
	co      *sink.Coordinator
	held    map[changelog.Partition]*partition
	pending map[changelog.Partition]*partition // held, and to be acquired
	orphans map[changelog.Partition]*partition // held, and fenced: the group will say whether they are still ours
	counted sink.Counters                      // of the report of the call in progress

	holds     []bool                        // whether retractions of each input are held back; not changed
	originals []bool                        // whether batches of each input keep the values as they came; not changed once the lane runs
	tails     map[changelog.Partition]*tail // what is held back
	tailBytes int                           // of all tails

	// What the data policy needs; see the files datapolicy*.go. The decoder reads refused and searches.
	refused  atomic.Pointer[refusals]
	searches atomic.Pointer[searches]
	searched int     // searches so far
	current  content // of the current checkpoint
	writing  content // of the load that is being written
	drops    int     // checkpoints that were not decided
	spent    int     // of the data budget by limited checkpoints, see settle
	hopeless error   // why a refusal is not to be redone
	stuck    *bad    // what the lane is still to halt at
	logged   struct {
		since     time.Time
		n, silent int
	}

	status LaneStatus // what Status shows; guarded by run.totals.mu
	hooks  sink.Hooks // of its coordinators; not changed
	heard  time.Time  // when the group last said what is assigned; guarded by mu
	fenced error      // the last fence; belongs to the writer
	closed bool       // co is closed, and the bridge stopped before there was another; belongs to the writer
	looked time.Time  // when the store was last compared while nothing was to save; belongs to the writer
	given  error      // what a call was given up with by a stop; belongs to the writer
	owes   bool       // a checkpoint is decided, this lane's or one that it took over, and not known to be committed; belongs to the writer

	aborted error // why the last checkpoint that was not decided was dropped; belongs to the writer
}

type eventKind uint8

const (
	evAssign  eventKind = iota
	evSession           // the group confirmed what it did not take
	evRevoke
	evLose
)

// event is what the group says. done is closed when the writer has dealt with it.
type event struct {
	kind     eventKind
	parts    []*partition
	deadline time.Time
	done     chan struct{}
}

// errInterrupted ends a coordinator's call so that the writer can turn to an event. The lane goes on afterwards.
var errInterrupted = errors.New("interrupted by a rebalance")

func newLane(r *run, n int) *lane {
	l := &lane{
		n: n, r: r,
		queue:      queue{limit: max(r.o.ByteBudget/4, 1), more: make(chan struct{}, 1)},
		loads:      make(chan *load),
		free:       make(chan *changelog.Batch, 8),
		batchBytes: min(batchBytes, max(r.o.ByteBudget/8, 1)),
		over:       make(chan struct{}),
		notify:     make(chan struct{}, 1),
		held:       make(map[changelog.Partition]*partition),
		pending:    make(map[changelog.Partition]*partition),
		orphans:    make(map[changelog.Partition]*partition),
		tails:      make(map[changelog.Partition]*tail),
	}
	l.originals = make([]bool, len(r.ins))
	for _, t := range r.tables() {
		l.holds = append(l.holds, r.o.HoldRetractions.on(t.Mode))
	}
	user := r.o.Hooks.Hooks
	if h := r.o.Hooks.Lane; h != nil {
		user = both(user, h(n))
	}
	l.hooks = l.noteFences(r.observe(l, user))
	return l
}

// newLoad returns an empty load for what is read of an input.
func (l *lane) newLoad(in int) *load {
	t := l.r.ins[in].Decoder.Table()
	var b *changelog.Batch
	select {
	case b = <-l.free:
		b.Table = t
	default:
		b = changelog.NewBatch(t)
	}
	b.KeepOriginals = l.originals[in]
	return &load{in: in, batch: b}
}

// handsOn notes of which inputs a sink can hand values on as they came, before the lane reads the first record.
func (l *lane) handsOn() {
	for i := range l.r.ins {
		t := l.r.ins[i].Decoder.Table()
		if !asCame(l.r.ins[i].Decoder) || !l.co.TakesOriginals(t) {
			continue
		}
		l.originals[i] = true
		if l.n == 0 {
			l.r.log.Info("flinksink: values are handed on as they came, and not encoded anew, where a message holds nothing but its rows", "bridge", l.r.name, "table", t.Name)
		}
	}
}

// asCame reports a decoder whose changes are those of the messages. What a filter or a mapping has been at is not, even if it is of the same table; nor, as
// far as anybody knows, what a decoder of the user's own gives.
func asCame(d changelog.Decoder) bool {
	switch w := d.(type) {
	case *judged:
		return asCame(w.Decoder)
	case *promise:
		return asCame(w.Decoder)
	}
	o, ok := d.(changelog.OriginalDecoder)
	return ok && reflect.ValueOf(d).Comparable() && o.FillsOriginals() == d
}

// recycle takes a batch back that nothing refers to any more.
func (l *lane) recycle(b *changelog.Batch) {
	b.Reset()
	select {
	case l.free <- b:
	default:
	}
}

// send queues an event.
func (l *lane) send(e event) {
	l.mu.Lock()
	l.events = append(l.events, e)
	if e.kind == evAssign || e.kind == evSession {
		l.heard = time.Now()
	}
	l.mu.Unlock()
	signal(l.notify)
}

func (l *lane) next() (event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == 0 {
		return event{}, false
	}
	e := l.events[0]
	l.events = l.events[1:]
	return e, true
}

// interrupt ends the coordinator's call in progress, if it may be; what was not decided then is read again. With idleOnly it does so
// only if the call has nothing to save.
func (l *lane) interrupt(idleOnly bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil && (l.idle || !idleOnly) {
		l.cancel(errInterrupted)
	}
}

// call runs one call of the coordinator. It reports an error only if the lane is over with it: a call that was cut short leaves
// the coordinator usable, and one that was fenced leaves the partitions to the group. ok says that the call was served.
func (l *lane) call(f func(ctx context.Context) error) (ok bool, err error) {
	return l.calls(len(l.co.Partitions()) == 0, f)
}

// look is call for what saves nothing: a stop does not wait for it.
func (l *lane) look(f func(ctx context.Context) error) (ok bool, err error) { return l.calls(true, f) }

func (l *lane) calls(idle bool, f func(ctx context.Context) error) (ok bool, err error) {
	ctx, cancel := l.begin()
	l.mu.Lock()
	l.cancel, l.idle = cancel, idle
	l.mu.Unlock()
	defer l.end(cancel)
	select {
	case <-l.r.stopping: // halting may have come before this call did
		l.interrupt(true)
	default:
	}
	return l.outcome(ctx, f(ctx))
}

func (l *lane) outcome(ctx context.Context, err error) (ok bool, _ error) {
	l.counted = sink.Counters{}
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err())): // a store or a client tells the one, the coordinator the other
		if errors.Is(err, errGivenUp) {
			l.given = err
		}
		return false, nil
	case errors.Is(sink.ClassOf(err), sink.ErrFenced):
		return false, l.renew(err)
	}
	return false, l.explain(err)
}

// renew gives a fenced lane a coordinator that holds nothing. Whose the partitions are, the group will say: it takes them away, or it
// begins a session in which they are still ours, and then they are acquired again.
func (l *lane) renew(cause error) error {
	if l.r.o.HaltWhenFenced {
		return cause
	}
	l.r.log.Warn("flinksink: lane was fenced; waiting for the consumer group", "bridge", l.r.name, "lane", l.n, "error", cause)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.r.hard), l.r.grace)
	defer cancel()
	if err := l.co.Close(ctx); err != nil {
		l.r.log.Warn("flinksink: closing a fenced lane", "bridge", l.r.name, "lane", l.n, "error", err)
	}
	if err := l.anew(); err != nil {
		return err
	}
	l.r.f.stopReading(slices.Collect(maps.Values(l.held))...)
	source{l}.Resume(slices.Collect(maps.Keys(l.held))...) // what the old coordinator paused while it waited for its sink, the new one does not know of
	clear(l.pending)
	maps.Copy(l.orphans, l.held)
	l.dropped()
	l.gaveBack(slices.Collect(maps.Values(l.held)))
	return nil
}

// handle does what the group says.
func (l *lane) handle(e event) error {
	defer close(e.done)
	switch e.kind {
	case evAssign:
		for _, p := range e.parts {
			l.held[p.Partition], l.pending[p.Partition] = p, p
		}
		return nil
	case evSession:
		maps.Copy(l.pending, l.orphans)
		clear(l.orphans)
		return nil
	}
	var gone []changelog.Partition
	for _, p := range e.parts {
		if l.held[p.Partition] != p {
			continue
		}
		delete(l.held, p.Partition)
		delete(l.pending, p.Partition)
		delete(l.orphans, p.Partition)
		if t := l.tails[p.Partition]; t != nil {
			// Not written: the position stays before what is held, and whoever owns the partition next reads that first.
			l.dropTail(t)
		}
		if slices.Contains(l.co.Partitions(), p.Partition) {
			gone = append(gone, p.Partition)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	slices.SortFunc(gone, changelog.Partition.Compare)
	// What was read of them and is still on its way is dropped: the coordinator holds them no longer once it has given them back, and the
	// lane goes on before the group does, which forgets them only when every lane has answered.
	l.r.f.stopReading(e.parts...)
	// The group waits for this: it has its own end, and nothing cuts it short before.
	ctx, cancel := context.WithDeadline(l.r.hard, e.deadline)
	defer cancel()
	f := l.co.Revoke
	if e.kind == evLose {
		f = l.co.Lose
	}
	_, err := l.outcome(ctx, f(ctx, gone))
	l.gaveBack(e.parts)
	if err == nil && e.kind == evLose {
		err = l.thrownOut(gone)
	}
	return err
}

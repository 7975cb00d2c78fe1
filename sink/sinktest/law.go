package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Need is a set of abilities that a law needs.
type Need uint8

const (
	TwoPhase   Need = 1 << iota // receipts: not InTransaction
	Exact                       // exactly once: not Convergent
	Deletes                     // every kind of change: not NoDeletes
	Atomic                      // a checkpoint appears at once: not NotAtomic
	Fenced                      // Open stops ended writers: not Unfenced
	ReadValues                  // Harness.Values
	Unsent                      // changes without all columns: not WholeRows
	Keyless                     // tables without a key: not KeyedOnly
)

// Law is one sentence of the contract of package sink, and the way to find out.
type Law struct {
	ID       string // never renumbered
	Sentence string
	Needs    Need
	Table    string // that it is run on: KeyedTable, AppendTable, TextTable or TypeTable

	run  func(w *world)
	long int // how many times Harness.Timeout it may take; 0: once
}

// Laws returns all laws, in order of their numbers.
func Laws() []Law {
	return slices.Concat(visibilityLaws(), recoveryLaws(), fenceLaws(), storeLaws(), orderLaws(), errorLaws(), lifeLaws(), contextLaws(),
		shareLaws(), dataLaws(), letterLaws(), scheduleLaws(), sweepLaws(), lateLaws(), refusalLaws(), apartLaws())
}

// check empties the world, runs the law in it and releases all that the law opened.
func (l Law) check(ctx context.Context, h Harness) (err error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout()*time.Duration(max(l.long, 1)))
	defer cancel()
	name := l.Table
	switch {
	case h.NoDeletes && name == KeyedTable:
		name = AppendTable
	case h.KeyedOnly && name == AppendTable:
		name = KeyedTable
	}
	w := &world{ctx: ctx, law: l, h: h, srv: NewServer(), topic: NewTopic(tableNamed(name))}
	w.topic.insertsOnly = h.NoDeletes
	// A law ends at its first violation, from any depth: stop unwinds to here and no further. Panics of the implementation pass.
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stopped:
			err = p.err
		default:
			panic(p)
		}
	}()
	defer w.release()
	if err := h.Reset(ctx, w.topic.Table); err != nil {
		return fmt.Errorf("sinktest: %s: Harness.Reset: %w", l.ID, err)
	}
	l.run(w)
	return nil
}

type stopped struct{ err error }

// world is what one law plays in.
type world struct {
	ctx     context.Context
	law     Law
	h       Harness
	srv     *Server // of the memory sink or store that takes part where only the other is under test
	topic   *Topic
	seed    uint64 // of a law that plays at random
	lanes   []*lane
	history []string
}

// lane is one process with one lane. Its methods are those of its Driver, and a violation where the Driver gets an error.
type lane struct {
	*Driver
	w       *world
	client  Client
	refused error             // by Sink.Lane
	letters []sink.DeadLetter // whose memory is overwritten after Prepare
}

// fail ends the law as violated.
func (w *world) fail(format string, a ...any) {
	panic(stopped{&Violation{Law: w.law, Seen: fmt.Sprintf(format, a...), History: w.history, Seed: w.seed}})
}

func (w *world) must(err error, what string) {
	if err != nil {
		w.fail("%s failed: %v", what, err)
	}
}

// broken ends the law because of the harness.
func (w *world) broken(format string, a ...any) {
	panic(stopped{fmt.Errorf("sinktest: %s: %s", w.law.ID, fmt.Sprintf(format, a...))})
}

// skip ends the law because there is nothing to test.
func (w *world) skip(reason string) { panic(stopped{&notApplicable{reason}}) }

// ownSink skips a law that looks at nothing of a store.
func (l *lane) ownSink() {
	if l.client.Sink == nil {
		l.w.skip("needs a sink, and a store alone is under test")
	}
}

func (w *world) note(format string, a ...any) {
	w.history = append(w.history, fmt.Sprintf(format, a...))
}

// lane starts a process: a new client, its committer and its store. Nothing is acquired.
func (w *world) lane() *lane { return w.laneAs(w.ctx, sink.Lane{Bridge: Bridge}) }

// laneAs is lane for another bridge or budget. Lane is called with ctx.
func (w *world) laneAs(ctx context.Context, as sink.Lane) *lane {
	client, err := w.h.Connect(w.ctx, w.topic.Table)
	if err != nil {
		w.broken("Harness.Connect: %v", err)
	}
	l := &lane{w: w, client: client}
	w.lanes = append(w.lanes, l) // before anything can fail: it will be released
	if client.Sink == nil && client.Store == nil {
		w.broken("Harness.Connect returned neither a Sink nor a Store")
	}
	if client.Sink != nil && w.h.Rows == nil {
		w.broken("Harness.Rows is missing")
	}
	if client.Sink == nil {
		client.Sink = NewSink(w.srv, nil)
	}
	as.Number, as.Sink, as.Tables = len(w.lanes)-1, SinkName, []*changelog.Table{w.topic.Table}
	c, err := client.Sink.Lane(ctx, as)
	if err != nil {
		l.refused = err
		if w.law.Table == TextTable || w.law.Table == TypeTable {
			return l // a sink may refuse the table; the law says what is right then
		}
	}
	w.must(err, "Lane")
	store := client.Store
	if own, ok := c.(sink.Store); ok && store == nil {
		store = own
	}
	switch {
	case w.h.InTransaction && (client.Store != nil || store == nil):
		w.broken("an InTransaction sink is its own store: its committer must be a sink.Store, and Client.Store nil")
	case store == nil:
		store = NewStore(w.srv)
	}
	l.Driver = NewDriver(c, store, w.topic)
	l.Request.Bridge = as.Bridge
	l.Name = string(rune('A' + (len(w.lanes)-1)%26))
	l.Trace = func(call string) { w.note("%s", call) }
	return l
}

// release ends all clients of a law, closing what the law left open. Its own errors prove nothing about a law.
func (w *world) release() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), 10*time.Second)
	defer cancel()
	for _, l := range w.lanes {
		if l.Driver != nil {
			l.Driver.Trace = nil
			_ = l.Driver.Close(ctx)
		}
		if l.client.Release != nil {
			l.client.Release()
		}
	}
}

// crash ends the process as kill -9 does, where the harness can; else it lives on and is never heard of again.
func (l *lane) crash() {
	l.w.note("%s: killed", l.Name)
	if l.client.Release != nil {
		l.client.Release()
	}
}

func (l *lane) acquire(partitions ...int32) {
	before := l.Claim.Generation.ID
	l.w.must(l.Acquire(l.w.ctx, partitions...), "Acquire")
	g := l.Claim.Generation
	if g.ID <= before || g.Bridge != l.Request.Bridge || !slices.Equal(g.Partitions, l.partitions(partitions)) {
		l.w.fail("Acquire of %v after generation %d gave generation %d of bridge %q over %v", partitions, before, g.ID, g.Bridge, g.Partitions)
	}
}

func (l *lane) partitions(numbers []int32) []changelog.Partition {
	var ps []changelog.Partition
	for _, n := range numbers {
		ps = append(ps, l.Topic.Partition(n))
	}
	return ps
}

// begin acquires and opens.
func (l *lane) begin(partitions ...int32) {
	l.acquire(partitions...)
	l.open()
}

func (l *lane) open()    { l.w.must(l.Open(l.w.ctx), "Open") }
func (l *lane) write()   { l.w.must(l.Write(l.w.ctx, -1), "Write") }
func (l *lane) prepare() { l.w.must(l.Prepare(l.w.ctx), "Prepare") }
func (l *lane) save()    { l.w.must(l.Save(l.w.ctx), "Save") }
func (l *lane) commit()  { l.w.must(l.Commit(l.w.ctx), "Commit") }
func (l *lane) abort()   { l.w.must(l.Abort(l.w.ctx), "Abort") }
func (l *lane) discard() { l.w.must(l.Discard(l.w.ctx), "Discard") }
func (l *lane) close()   { l.w.must(l.Close(l.w.ctx), "Close") }

func (l *lane) end() sink.CheckpointID {
	id, err := l.End(l.w.ctx)
	l.w.must(err, "End")
	return id
}

// checkpoint runs all steps over everything the topic holds.
func (l *lane) checkpoint() {
	l.write()
	l.prepare()
	l.save()
	l.commit()
}

// class is a violation unless err is of the class.
func (w *world) class(err, class error, what string) {
	if err == nil {
		w.fail("%s succeeded, expected %q", what, class)
	}
	if !errors.Is(sink.ClassOf(err), class) {
		w.fail("%s gave an error of class %q, expected %q: %v", what, sink.ClassOf(err), class, err)
	}
}

// rows returns what readers see, sorted.
func (w *world) rows() []Row {
	w.delay()
	if w.h.Rows == nil {
		return FixtureRows(w.srv.Table(w.topic.Table.Name))
	}
	rows, err := w.h.Rows(w.ctx, w.topic.Table)
	if err != nil {
		w.broken("Harness.Rows: %v", err)
	}
	rows = slices.Clone(rows)
	sortRows(rows)
	return rows
}

// delay waits until readers may be held to what was committed. It is a property of the place under test, not a guess.
func (w *world) delay() {
	if w.h.Delay <= 0 {
		return
	}
	t := time.NewTimer(w.h.Delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.ctx.Done():
	}
}

// sees is a violation unless readers see exactly what the topic holds before these positions.
func (w *world) sees(when string, to ...changelog.Position) {
	w.seesRows(when, w.topic.Rows(to...))
}

func (w *world) seesRows(when string, want []Row) {
	got := w.rows()
	w.note("readers see %d rows", len(got))
	if slices.Equal(want, got) {
		return
	}
	w.fail("%s, readers see %s; expected are %s", when, sample(got), sample(want))
}

// saved is a violation unless exactly these positions are stored, as Read of a new client tells.
func (w *world) saved(when string, want ...changelog.Position) {
	state := w.read()
	var got []changelog.Position
	for _, p := range state.Positions {
		got = append(got, p.Position)
	}
	slices.SortFunc(got, func(a, b changelog.Position) int { return a.Partition.Compare(b.Partition) })
	if !slices.Equal(got, want) {
		w.fail("%s, the saved positions are %v, expected are %v", when, got, want)
	}
}

// read is Store.Read of a process of its own.
func (w *world) read() sink.State {
	l := w.lane()
	s, err := l.Store.Read(w.ctx, Bridge)
	l.tell(err, "Read = positions %v", s.Positions)
	w.must(err, "Read")
	l.close()
	return s
}

// decided returns what the claim lists as decided, by generation; missing: the generation is not listed.
func (l *lane) decided(g sink.GenerationID) (list []sink.Committable, listed bool) {
	for _, e := range l.Claim.Ended {
		if e.ID == g {
			return e.Decided, true
		}
	}
	return nil, false
}

// sample prints a few rows. They are the suite's own, so that no user's data can be in a failure's text.
func sample(rows []Row) string {
	rows = slices.Clone(rows)
	for i, r := range rows {
		if len(r.V) > 40 {
			rows[i].V = r.V[:40] + "…"
		}
	}
	if len(rows) > 12 {
		return fmt.Sprintf("%d rows, first %v", len(rows), rows[:12])
	}
	return fmt.Sprintf("%d rows %v", len(rows), rows)
}

package sinktest

import (
	"cmp"
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// shareLaws are about several bridges, sinks and readers in one place.
func shareLaws() []Law {
	return []Law{
		{ID: "L43", Table: AppendTable, Needs: Exact, run: twoBridges,
			Sentence: "Two bridges in one place do not touch each other: not their positions, generations, prepared work or what is to be settled."},
		{ID: "L44", Table: AppendTable, Needs: TwoPhase | Exact, run: twoSinks,
			Sentence: "Two sinks of one bridge, by their names, do not touch each other's prepared or decided work."},
		{ID: "L45", Table: KeyedTable, Needs: Exact | Atomic, run: atOnce,
			Sentence: "A reader sees all of a checkpoint or nothing of it, also while it is committed."},
		{ID: "L46", Table: KeyedTable, run: readTells,
			Sentence: "Read tells what is decided and not yet said to be committed, and who owns what, and it disturbs nobody."},
	}
}

// nothingLeft opens and closes lanes on one client: what grows with them is leaked. The first ones may start what is shared.
//
// Goroutines inherit the labels of the one that starts them, so those of other tests, which may run at the same time, are told from those of this law.
func nothingLeft(w *world) {
	pprof.Do(w.ctx, pprof.Labels("sinktest", fmt.Sprintf("%p", w)), func(ctx context.Context) {
		w.ctx = ctx
		openAndClose(w)
	})
}

func openAndClose(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	a := w.lane()
	a.ownSink()
	a.begin(0)
	a.checkpoint()
	a.close()
	const lanes = 12
	var before int
	for i := range lanes + 2 {
		if i == 2 { // some that are ending may be among them: the bound below is generous, a leak grows with every lane
			before = w.goroutines()
		}
		as := sink.Lane{Bridge: Bridge, Sink: SinkName, Tables: []*changelog.Table{w.topic.Table}}
		c, err := a.client.Sink.Lane(w.ctx, as)
		w.must(err, "Lane")
		store := a.Store
		if own, ok := c.(sink.Store); ok && a.client.Store == nil {
			store = own
		}
		l := &lane{Driver: NewDriver(c, store, w.topic), w: w, client: Client{Sink: a.client.Sink}}
		w.topic.Put(0, UpdateAfter(1, fmt.Sprint(i)))
		l.begin(0)
		l.write()
		l.discard()
		l.write()
		l.prepare()
		if i%3 == 0 {
			l.abort()
		} else {
			l.save()
			l.commit()
		}
		w.must(c.Close(w.ctx), "Close")
	}
	if after := w.comeDown(before + lanes/2); after > before+lanes/2 {
		w.fail("%d lanes were opened and closed, and the program has %d goroutines more", lanes, after-before)
	}
	b := w.lane()
	b.begin(0)
	b.checkpoint()
	w.sees("after all lanes", b.From...)
	b.close()
	w.nothingLeft()
}

// nothingLeft is a violation if something is left in the place after all was settled and closed.
func (w *world) nothingLeft() {
	if w.h.Leftovers == nil {
		w.note("(Harness.Leftovers is not there: what is left in the place was not looked at)")
		return
	}
	var left []string
	// A server may need a moment to notice that a session has ended, and a busy one longer: it is given up when nothing has gone for some time.
	for still, least := 0, -1; still < cmp.Or(w.h.looks, 500); still++ {
		var err error
		if left, err = w.h.Leftovers(w.ctx); err != nil {
			w.broken("Harness.Leftovers: %v", err)
		}
		if len(left) == 0 {
			return
		}
		if least < 0 || len(left) < least {
			still, least = 0, len(left)
		}
		pause(w.ctx, 20*time.Millisecond)
	}
	w.fail("after all was settled and closed there is left: %v", left)
}

// comeDown counts goroutines, after giving those that are ending the time to come down to a number: for as long as there are fewer every now and then.
func (w *world) comeDown(to int) int {
	least := w.goroutines()
	for still := 0; least > to && still < 200; still++ {
		pause(w.ctx, 10*time.Millisecond)
		if n := w.goroutines(); n < least {
			still, least = 0, n
		}
	}
	return least
}

// goroutines counts those with the label of the law.
func (w *world) goroutines() (n int) {
	var text strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1)
	same := 0 // goroutines at the stack that is being read
	for line := range strings.Lines(text.String()) {
		count, _, _ := strings.Cut(line, " @ ")
		if c, err := strconv.Atoi(count); err == nil {
			same = c
		} else if strings.HasPrefix(line, "# labels:") && strings.Contains(line, fmt.Sprintf("%q:\"%p\"", "sinktest", w)) {
			n += same
		}
	}
	return n
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func twoBridges(w *world) {
	// The other bridge reads another topic of the same name: the same generation, checkpoint and partition numbers for other rows.
	theirs := NewTopic(w.topic.Table)
	theirs.insertsOnly = w.topic.insertsOnly
	other := func() *lane {
		l := w.laneAs(w.ctx, sink.Lane{Bridge: OtherBridge})
		l.Topic = theirs
		return l
	}
	union := func(mine, their []changelog.Position) []Row {
		rows := append(w.topic.Rows(mine...), theirs.Rows(their...)...)
		sortRows(rows)
		return rows
	}
	w.topic.Put(0, Insert(1, "mine"), Insert(1, "mine"))
	theirs.Put(0, Insert(2, "theirs"), Insert(2, "theirs"), Insert(2, "theirs"))
	a, o := w.lane(), other()
	a.begin(0)
	o.begin(0)
	if len(o.Claim.Ended) > 0 || len(o.Claim.Positions) > 0 {
		w.fail("the other bridge's first claim lists %s and positions %v", endedText(o.Claim.Ended), o.Claim.Positions)
	}
	a.write()
	o.write()
	a.prepare()
	o.prepare()
	for i := range 3 { // successors of the one must leave the other's prepared work alone, and its generation
		o = other()
		o.begin(0)
		if len(o.Claim.Ended) != i+1 {
			w.fail("the other bridge had %d generations before this one, and its claim lists %s", i+1, endedText(o.Claim.Ended))
		}
	}
	a.save()
	w.seesRowsIf(a, "after one bridge's Save", union(a.From, o.From))
	a.commit()
	w.seesRows("after one bridge's checkpoint", union(a.From, o.From))
	o.write()
	o.prepare()
	o.save()
	a.crash()
	b := w.lane()
	b.begin(0)
	o.commit()
	w.seesRows("after the other bridge's checkpoint", union(b.From, o.From))
	w.topic.Put(0, Insert(3, "mine"))
	theirs.Put(0, Insert(4, "theirs"))
	b.checkpoint()
	o.checkpoint()
	w.seesRows("after one more of each", union(b.From, o.From))
	w.saved("after one more of each", b.From...)
	s, err := o.Store.Read(w.ctx, OtherBridge)
	w.must(err, "Read of the other bridge")
	if len(s.Positions) != 1 || s.Positions[0].Position != o.From[0] {
		w.fail("the other bridge's saved positions are %v, expected %v", s.Positions, o.From)
	}
}

// seesRowsIf looks only where Save alone makes rows visible.
func (w *world) seesRowsIf(l *lane, when string, want []Row) {
	if l.w.h.InTransaction {
		w.seesRows(when, want)
	}
}

func twoSinks(w *world) {
	w.topic.Put(0, Insert(1, "first"), Insert(2, "second"), Insert(3, "second"))
	a := w.lane()
	a.ownSink()
	as := sink.Lane{Bridge: Bridge, Sink: "second", Tables: []*changelog.Table{w.topic.Table}}
	open := func(l *lane) *lane {
		c, err := l.client.Sink.Lane(w.ctx, as)
		w.must(err, "Lane of the second sink")
		d := NewDriver(c, l.Store, w.topic)
		d.Name, d.Trace = l.Name+", second sink", l.Trace
		return &lane{Driver: d, w: w, client: l.client}
	}
	second := open(a)
	a.begin(0)
	second.Claim, second.From, second.To = a.Claim, a.From, a.From
	second.open()
	w.must(a.Write(w.ctx, 1), "Write")
	second.To = a.To
	second.write()
	a.prepare()
	second.prepare()
	r1, r2 := a.receipt(), carried(w, second.Receipt)
	w.must(second.Abort(w.ctx), "Abort by the second sink")
	w.must(a.CommitOne(w.ctx, r1), "Commit by the first sink of what the second aborted under the same numbers")
	w.class(second.CommitOne(w.ctx, r2), sink.ErrLost, "Commit by the second sink of what it aborted, and the first committed")
	w.sees("after one sink's Commit and the other's Abort", w.topic.Position(0, 1))
	// Decided by both, committed by none: each sink's Open settles its own.
	b := w.lane()
	second = open(b)
	b.acquire(0)
	b.open()
	second.Claim, second.From, second.To = b.Claim, b.From, b.From
	second.Topic = NewTopic(w.topic.Table)
	second.Topic.Put(0, Insert(4, "second's own"))
	second.open()
	second.write()
	second.prepare()
	r := second.Receipt
	b.ID = second.ID
	cp := b.Checkpoint()
	cp.To = second.To
	r.Sink, r.Generation, r.Checkpoint = "second", b.Claim.Generation.ID, second.ID
	cp.Committables = []sink.Committable{r}
	w.must(b.Send(w.ctx, cp), "Save of the second sink's receipt")
	c := w.lane()
	c.acquire(0)
	claim := c.Claim
	c.Claim = claimOf(claim, SinkName) // as the coordinator does: each sink is given what is its own
	c.open()
	w.sees("after the first sink's Open", w.topic.Position(0, 1))
	second = open(c)
	second.Claim = claimOf(claim, "second")
	second.open()
	want := append(w.topic.Rows(w.topic.Position(0, 1)), Row{4, "second's own"})
	sortRows(want)
	w.seesRows("after the second sink's Open", want)
}

// claimOf returns the claim with the receipts of one sink only.
func claimOf(c sink.Claim, name string) sink.Claim {
	ended := c.Ended
	c.Ended = nil
	for _, e := range ended {
		e.Decided = slices.DeleteFunc(slices.Clone(e.Decided), func(d sink.Committable) bool { return d.Sink != name })
		c.Ended = append(c.Ended, e)
	}
	return c
}

// atOnce reads without pause while a checkpoint is committed.
func atOnce(w *world) {
	const rows = 1500
	a := w.lane()
	a.begin(0)
	for round := range 3 {
		for id := range int64(rows) {
			w.topic.Put(0, UpdateAfter(id, fmt.Sprint("round ", round)))
		}
		a.write()
		a.prepare()
		before, after := w.topic.Rows(a.From...), w.topic.Rows(a.To...)
		stop, done := make(chan struct{}), make(chan string, 1)
		go func() {
			seen := ""
			defer func() {
				if p := recover(); p != nil { // of w.fail in w.rows: it belongs to the law's goroutine
					seen = fmt.Sprint(p)
				}
				done <- seen
			}()
			for {
				if got := w.rows(); !slices.Equal(got, before) && !slices.Equal(got, after) {
					seen = sample(got)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		err := a.Save(w.ctx)
		if err == nil {
			err = a.Commit(w.ctx)
		}
		close(stop)
		seen := <-done
		w.must(err, "Save or Commit")
		if seen != "" {
			w.fail("while checkpoint %d of %d rows was committed, a reader saw %s", a.ID, rows, seen)
		}
		w.sees("after the checkpoint", a.From...)
	}
}

func readTells(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	a := w.lane()
	a.begin(0)
	a.write()
	a.prepare()
	a.save()
	want := len(a.Waiting)
	tells := func(when string, pending int, owner sink.GenerationID) {
		s := w.read()
		// A store may add its target to the fingerprint.
		if s.Bridge != Bridge || !strings.Contains(s.Fingerprint, a.Request.Fingerprint) || s.Format < 1 {
			w.fail("%s, Read tells bridge %q, fingerprint %q, format %d", when, s.Bridge, s.Fingerprint, s.Format)
		}
		if len(s.Pending) != pending {
			w.fail("%s, Read tells %d receipts to be committed, expected %d", when, len(s.Pending), pending)
		}
		if len(s.Positions) != 1 || s.Positions[0].Owner != owner {
			w.fail("%s, Read tells positions %+v, expected one that generation %d owns", when, s.Positions, owner)
		}
	}
	tells("after Save", want, a.Claim.Generation.ID)
	b := w.lane()
	b.acquire(0)
	tells("after a successor's Acquire", want, b.Claim.Generation.ID)
	b.open()
	w.topic.Put(0, UpdateAfter(1, "b"))
	b.checkpoint()
	s := w.read()
	if i := slices.IndexFunc(s.Generations, func(g sink.GenerationState) bool { return g.ID == b.Claim.Generation.ID }); i < 0 ||
		s.Generations[i].Ended || s.Generations[i].Last != b.ID || !slices.Equal(s.Generations[i].Partitions, b.Claim.Generation.Partitions) {
		w.fail("Read tells generations %+v, expected the owner %d, not ended, with checkpoint %d", s.Generations, b.Claim.Generation.ID, b.ID)
	}
	for _, p := range s.Pending {
		if p.Generation == a.Claim.Generation.ID {
			w.fail("generation %d was settled, and Read still tells a receipt of it", p.Generation)
		}
	}
	w.topic.Put(0, UpdateAfter(1, "c"))
	b.checkpoint() // would fail if Read had disturbed it
	w.sees("after all", b.From...)
}

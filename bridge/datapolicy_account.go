package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// DefaultDataBudget is the default of Options.DataBudget.
const DefaultDataBudget = 100

// content is what the data policy has to know of an undecided checkpoint, or of a load on its way into it.
type content struct {
	records int64 // messages that were read
	to      map[changelog.Partition]int64
	aside   []aside // without their letters
	bytes   int     // of letters
	// While something is searched for: messages that hold a change, the last of them, and the number of the search that all of them belong to.
	changed int
	last    message
	search  int
}

// and returns what both hold together; d is younger.
func (c content) and(d content) content {
	s := content{records: c.records + d.records, to: make(map[changelog.Partition]int64, len(c.to)+len(d.to)), aside: append(c.aside, d.aside...),
		bytes: c.bytes + d.bytes, changed: c.changed + d.changed, last: c.last, search: c.search}
	if d.changed > 0 {
		s.last = d.last
		s.search = d.search
	}
	for _, m := range []map[changelog.Partition]int64{c.to, d.to} {
		for p, to := range m {
			s.to[p] = max(s.to[p], to)
		}
	}
	return s
}

// contentOf looks at a load that is about to be written.
func (l *lane) contentOf(ld *load) content {
	c := content{to: make(map[changelog.Partition]int64, len(ld.spans)), bytes: ld.asideBytes}
	for i := range ld.spans {
		c.records += ld.spans[i].records
		c.to[ld.spans[i].part.Partition] = ld.spans[i].to
	}
	for _, a := range ld.aside {
		a.letter = nil
		c.aside = append(c.aside, a)
	}
	if len(l.searching()) > 0 {
		if ld.search != nil {
			c.search = ld.search.n
		}
		cs := ld.batch.Changes
		for i := range cs {
			if m := (message{cs[i].Partition, cs[i].Offset}); !skipped(&cs[i]) && (c.changed == 0 || m != c.last) {
				c.changed++
				c.last = m
			}
		}
	}
	return c
}

// written notes a load that the coordinator took into the current checkpoint. It does nothing if the checkpoint was dropped meanwhile.
func (l *lane) written(drops int) {
	if l.drops == drops {
		l.current = l.current.and(l.writing)
	}
	l.writing = content{}
}

// dropped notes that the current checkpoint is not decided: what it held is read again.
func (l *lane) dropped() {
	l.current = content{}
	l.drops++
}

// settle notes that the current checkpoint is decided: what it set aside is told, once, and the budget begins anew. While a refused message is searched for,
// checkpoints count as one with what follows them until something is applied when nothing is searched for: if all
// messages are refused, each of them would have a budget of its own.
func (l *lane) settle(rep sink.Report) {
	if n := len(l.current.aside); len(l.searching()) > 0 || l.spent > 0 && rep.Counters.Applied == 0 {
		l.spent += n
	} else if rep.Counters.Applied > 0 {
		l.spent = 0
	}
	untold := 0
	for i := range l.current.aside {
		if !l.tell(&l.current.aside[i]) {
			untold++
		}
	}
	l.tellMore(untold)
	l.current = content{}
	l.passed(rep.To)
}

// logEvery and logAtMost bound how much is logged of what is set aside.
const (
	logEvery  = time.Second
	logAtMost = 10
)

// tell tells hook and log of a message that is set aside for good. It reports whether it was logged.
func (l *lane) tell(a *aside) bool {
	if h := l.r.o.Hooks.DataError; h != nil {
		h(a.err)
	}
	now := time.Now()
	if now.Sub(l.logged.since) >= logEvery {
		l.logged.since, l.logged.n = now, 0
	}
	if l.logged.n >= logAtMost {
		l.logged.silent++
		return false
	}
	l.logged.n++
	args := []any{"bridge", l.r.name, "lane", l.n, "partition", a.pos.Partition.String(), "offset", a.pos.Offset, "changes", a.changes, "error", a.err}
	if l.logged.silent > 0 {
		args = append(args, "notLoggedBefore", l.logged.silent)
		l.logged.silent = 0
	}
	what := "flinksink: skipped a message"
	if l.r.o.OnData == DeadLetter {
		what = "flinksink: set a message aside as a dead letter"
	}
	l.r.log.Warn(what, args...)
	return true
}

// tellMore logs how many messages of a checkpoint were not, once in each logEvery: what is left is counted by the next line.
func (l *lane) tellMore(n int) {
	if n = min(n, l.logged.silent); n == 0 || l.logged.n > logAtMost {
		return
	}
	l.logged.n++
	args := []any{"bridge", l.r.name, "lane", l.n}
	if before := l.logged.silent - n; before > 0 {
		args = append(args, "notLoggedBefore", before)
	}
	l.logged.silent = 0
	l.r.log.Warn(fmt.Sprintf("flinksink: and %d more in this checkpoint", n), args...)
}

// withinBudget cuts a load before the first message that would make the checkpoint set aside more than the budget: there the lane halts.
func (l *lane) withinBudget(ld *load) {
	left := max(l.r.o.DataBudget-l.spent-len(l.current.aside), 0)
	if len(ld.aside) <= left {
		return
	}
	cut := make(map[changelog.Partition]*aside)
	back := make(map[changelog.Partition]int64)
	for i := left; i < len(ld.aside); i++ {
		a := &ld.aside[i]
		if _, ok := back[a.pos.Partition]; !ok {
			back[a.pos.Partition], cut[a.pos.Partition] = a.pos.Offset, a
		}
	}
	first := &ld.aside[left]
	for i := range ld.spans {
		s := &ld.spans[i]
		a := cut[s.part.Partition]
		if a == nil {
			continue
		}
		s.to, s.leader, s.records = a.pos.Offset, a.pos.LeaderEpoch, a.before
		a.pos.TopicID = s.topicID
		if a == first {
			ld.bad = &bad{part: a.part, epoch: s.epoch, err: a.err, refusal: a.refusal, pos: a.pos, over: true}
		}
	}
	ld.batch.Truncate(moveBack(ld.batch.Changes, back))
	ld.moveAsideBack(back)
}

// moveAsideBack drops what was set aside of each partition at or beyond the offset given for it.
func (ld *load) moveAsideBack(from map[changelog.Partition]int64) {
	ld.aside = slices.DeleteFunc(ld.aside, func(a aside) bool {
		o, ok := from[a.pos.Partition]
		return ok && a.pos.Offset >= o
	})
	ld.weigh()
}

// weigh counts the bytes of what is set aside anew.
func (ld *load) weigh() {
	ld.asideBytes = 0
	for i := range ld.aside {
		ld.asideBytes += ld.aside[i].bytes()
	}
}

// progress adds to p what the load sets aside.
func (ld *load) progress(p *sink.Progress) {
	for i := range ld.aside {
		if a := &ld.aside[i]; a.letter != nil {
			p.Letters = append(p.Letters, *a.letter)
		} else {
			p.Skipped += int64(a.changes)
		}
	}
}

// error says why the lane halts at a message, and how to get past it. Everything before it is checkpointed.
func (b *bad) error(l *lane) error {
	at := fmt.Sprintf("%s:%d:%d", b.pos.Topic, b.pos.Partition.Partition, b.pos.Offset)
	e := &sink.Error{Op: "decode", Bridge: l.r.name, Position: &b.pos, Class: sink.ErrRejected}
	cure := "correct the table's definition or its format options if the record is as it should be"
	if x := b.refusal; x != nil {
		e.Op, e.Sink, e.Rejected = x.op, x.sink, []sink.Rejection{x.Rejection}
		cure = "change the table so that it takes the row, if the row is as it should be and a table can hold it"
	}
	if b.over {
		e.Err = fmt.Errorf("%w; this checkpoint has set aside %d already, which is what Options.DataBudget (--data-budget) allows: so many in one checkpoint look like a wrong "+
			"table definition. Everything before it is checkpointed. To get past it, %s, or raise the budget", b.err, l.r.o.DataBudget, cure)
		return e
	}
	e.Err = fmt.Errorf("%w; everything before it is checkpointed. To get past it, %s, or skip this record, %s, by 'flinksink positions skip' or the store's Skip, "+
		"or let the bridge set such records aside by Options.OnData (--on-data)", b.err, cure, at)
	return e
}

// keeps refuses DeadLetter for a sink that cannot keep dead letters.
func (r *run) keeps(ctx context.Context, co *sink.Coordinator) error {
	if r.o.OnData != DeadLetter || co.KeepsDeadLetters() {
		return nil
	}
	_ = co.Close(ctx) // it holds nothing yet
	name := ""
	if len(r.sinks) == 1 {
		name = r.sinks[0].Name
	}
	return &sink.Error{Op: "start", Sink: name, Bridge: r.name, Class: sink.ErrConfig, Err: errors.New(
		"Options.OnData is DeadLetter, and no sink of the bridge can keep dead letters (be a sink.DeadLetterKeeper): choose Halt or Skip, or a sink that can")}
}

// mayKeep reports what is missing for dead letters before there is one. A server that is away is no answer: the first write finds out.
func (l *lane) mayKeep(ctx context.Context) error {
	if l.r.o.OnData != DeadLetter {
		return nil
	}
	if err := l.co.CheckDeadLetters(ctx); errors.Is(sink.ClassOf(err), sink.ErrConfig) {
		return err
	}
	return nil
}

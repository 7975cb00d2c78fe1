package sink

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// This file is what a lane of several sinks adds to one of a single sink: their order, and which of them is given what.

// Declared is a sink under the name by which its committables are stored.
//
// A sink that shows rows before their checkpoint is decided (its Guarantee is not exactly once, or its Visible begins with "early") is placed
// last: it is given nothing, neither batches nor Prepare, before every sink that waits for the decision has prepared its part of the checkpoint. So
// what one of those refuses, or fails to prepare, was never seen in the early one; and a row that the data policy drops does not stay there for want of
// a later change that would replace it. Between the early sink's Prepare and the decision there is only Save. The price is that it does not
// work while the others do, and that batches are held until it was given them.
type Declared struct {
	Name string
	Sink Sink
	// Tables are those whose changes the sink is given, a part of [Options].Tables. Defaults to all of them.
	Tables []*changelog.Table
	// Share says what of b.Changes[i], a change of one of Tables, the sink is given. It has to answer alike for the same change in each process
	// and each time, whatever batch the change is in; the changes of its message that came before it are in the batch before it. A sink
	// that holds only some rows must be told when a row stops to be one of them, see ShareDelete. nil: everything.
	Share func(b *changelog.Batch, i int) Share
	// Eager leaves a sink that shows rows early in its declared place, where it works while the others do. What the others then refuse has
	// been seen there.
	Eager bool
}

// Share is what one sink is given of a change.
type Share uint8

const (
	ShareAll    Share = iota // the change as it is
	ShareNone                // nothing: no version of the row was ever given to the sink
	ShareDelete              // a delete of its key: the row is not, or not any more, one of the sink's. The table has a key and takes deletes
)

// SinkStep is what one sink did about a checkpoint.
type SinkStep struct {
	Sink       string // the declared name
	Kind       SinkStepKind
	Generation GenerationID
	Checkpoint CheckpointID // 0 for SinkOpened
	Took       time.Duration
	Waits      bool  // SinkPrepared: there is a receipt, so a Commit is needed after the decision
	Given      int64 // SinkPrepared: changes that the sink was given
	Superseded int64 // SinkPrepared: those of them that it did not write, because a later one made them void or it has newer
	Err        error // SinkCommitFailed: why
}

// SinkStepKind tells what a [SinkStep] is about.
type SinkStepKind uint8

const (
	SinkOpened       SinkStepKind = iota // what ended generations left of the sink is settled
	SinkPrepared                         // its part of the checkpoint is durable
	SinkCommitted                        // and visible
	SinkCommitFailed                     // the Commit is tried again, see Hooks.Alarm
)

// early reports whether readers of the sink see rows before they are decided.
func (d Declared) early() bool {
	g := d.Sink.Guarantee()
	return g.Level != ExactlyOnce || strings.HasPrefix(g.Visible, "early")
}

// placed returns sinks in the order in which they are written, prepared and committed, and how many of them are not placed last.
func placed(sinks []Declared) (ordered []Declared, before int) {
	var last []Declared
	for _, d := range sinks {
		if d.early() && !d.Eager {
			last = append(last, d)
		} else {
			ordered = append(ordered, d)
		}
	}
	before = len(ordered)
	if before == 0 { // there is nothing to wait for
		before = len(last)
	}
	return append(ordered, last...), before
}

// takes reports whether the sink is given changes of t.
func (d Declared) takes(t *changelog.Table) bool {
	return d.Tables == nil || slices.ContainsFunc(d.Tables, func(x *changelog.Table) bool { return x == t || x.Name == t.Name })
}

// lot is what one sink was given since the last checkpoint.
type lot struct {
	waiting []*changelog.Batch // of a sink that is placed last: what it is to be given by Prepare
	made    []*changelog.Batch // parts of batches; their rows live in the batches
	spare   []*changelog.Batch
	given   int64
}

// part returns what d is given of b, which may be b itself, and nil for nothing. Where taken is not nil it notes which changes d is given.
func (l *lot) part(d Declared, b *changelog.Batch, taken []bool) *changelog.Batch {
	if !d.takes(b.Table) {
		return nil
	}
	if d.Share == nil {
		for i := range taken {
			taken[i] = true
		}
		return b
	}
	var p *changelog.Batch
	for i := range b.Changes {
		s := d.Share(b, i)
		if taken != nil && s != ShareNone {
			taken[i] = true
		}
		if p == nil {
			if s == ShareAll {
				continue
			}
			p = l.newPart(b.Table)
			p.Changes = append(p.Changes, b.Changes[:i]...)
		}
		switch s {
		case ShareAll:
			p.Append(b.Changes[i])
		case ShareDelete:
			p.Append(deleteOf(p, b.Changes[i]))
		}
	}
	switch {
	case p == nil:
		return b
	case p.Len() == 0:
		return nil
	}
	return p
}

func (l *lot) newPart(t *changelog.Table) *changelog.Batch {
	var p *changelog.Batch
	if n := len(l.spare); n > 0 {
		p, l.spare = l.spare[n-1], l.spare[:n-1]
		p.Table = t
	} else {
		p = changelog.NewBatch(t)
	}
	l.made = append(l.made, p)
	return p
}

// deleteOf makes a delete of the row's key.
func deleteOf(p *changelog.Batch, c changelog.Change) changelog.Change {
	key := p.NewRow()
	for _, k := range p.Table.Schema.Key {
		key[k] = c.Row[k]
	}
	c.Kind, c.KeyOnly, c.Row = changelog.Delete, true, key
	return c
}

// drop forgets what was given in a checkpoint that is prepared or dropped.
func (l *lot) drop() { l.given = 0 }

// release makes the parts empty for use again, once no committer refers to them.
func (l *lot) release() {
	const most = 8
	for _, p := range l.made {
		if len(l.spare) < most {
			p.Reset()
			l.spare = append(l.spare, p)
		}
	}
	clear(l.made)
	clear(l.waiting)
	l.made, l.waiting = l.made[:0], l.waiting[:0]
}

// give gives every sink its part of b, and returns how many changes no sink takes. Those that are placed last get theirs by Prepare.
func (c *Coordinator) give(ctx context.Context, b *changelog.Batch) (untaken int64, sink int, err error) {
	var taken []bool
	if !slices.ContainsFunc(c.o.Sinks, func(d Declared) bool { return d.Share == nil && d.takes(b.Table) }) {
		taken = make([]bool, b.Len())
	}
	for i, d := range c.o.Sinks {
		l := &c.lots[i]
		made := len(l.made)
		p := l.part(d, b, taken)
		for _, m := range l.made[made:] {
			c.bytes += m.Bytes()
			c.written += m.Bytes()
		}
		if p == nil {
			continue
		}
		l.given += int64(p.Len())
		if i >= c.before {
			l.waiting = append(l.waiting, p)
		} else if err := c.committers[i].Write(ctx, p); err != nil {
			return 0, i, err
		}
	}
	for _, t := range taken {
		if !t {
			untaken++
		}
	}
	return untaken, 0, nil
}

// giveLast gives a sink that is placed last what it has waited for: every sink before it has prepared.
func (c *Coordinator) giveLast(ctx context.Context, sink int) error {
	for _, p := range c.lots[sink].waiting {
		if err := c.committers[sink].Write(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// step tells Hooks.Step.
func (c *Coordinator) step(s SinkStep, sink int, began time.Time) {
	if h := c.o.Hooks.Step; h != nil {
		s.Sink, s.Took = c.o.Sinks[sink].Name, time.Since(began)
		h(s)
	}
}

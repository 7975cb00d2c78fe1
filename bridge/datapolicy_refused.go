package bridge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// This file is what a lane does about a checkpoint in which the sink refuses a change. The checkpoint is dropped and done again from the saved
// positions (sink.Options.Rejected), and the decoder leaves out what is known to be refused. Where that is not known, the checkpoints are
// made smaller until it is.
//
// Nothing of this is stored: a process that begins anew is refused anew. Each yes to the coordinator adds a change to those that are known,
// or lowers the limit, and both come to an end: a known change does not reach the sink again, and if the sink names it all the same the
// lane halts.

// message names a message.
type message struct {
	changelog.Partition
	offset int64
}

// refusals are the refused changes that are still ahead of the saved positions, by message. The writer replaces the map whole, as the
// decoder may be reading it. It does so before the Seek that makes the messages come again.
type refusals map[message][]*refusal

// limiting is the search for a refused message that the sink does not name.
type limiting struct {
	// until is where the refused checkpoint ended: once everything before it is saved there is nothing left to find.
	until map[changelog.Partition]int64
}

// rejected answers the coordinator, in the writer's goroutine, what is to become of a refused checkpoint.
func (l *lane) rejected(err *sink.Error) bool {
	l.r.totals.mu.Lock()
	l.status.LastError, l.status.LastErrorAt = err, time.Now()
	l.r.totals.mu.Unlock()
	named := err.Rejected
	if len(named) == 0 && err.Position != nil {
		named = []sink.Rejection{{Partition: err.Position.Partition, Offset: err.Position.Offset, Index: -1, Reason: err.Err}}
	}
	if len(named) == 0 {
		return l.halve(err)
	}
	added := false
	for _, x := range named {
		if l.held[x.Partition] == nil {
			continue // being given back: its next owner is refused for itself
		}
		if !l.refuse(x, err) {
			return false
		}
		added = true
	}
	return added
}

// refuse remembers a refused change. It reports false for one that is known and should not have come to the sink again.
func (l *lane) refuse(x sink.Rejection, err *sink.Error) bool {
	known := l.refused.Load()
	next := refusals{}
	if known != nil {
		next = maps.Clone(*known)
	}
	m := message{x.Partition, x.Offset}
	n := &refusal{Rejection: x, op: err.Op, sink: err.Sink, cause: err.Err}
	for _, old := range next[m] {
		if old.Index < 0 || old.Index == x.Index {
			l.hopeless = fmt.Errorf("%w: it was left out of the checkpoint after it was refused before, and is refused again, so that nothing is gained by trying once more", n)
			return false
		}
	}
	if x.Index < 0 {
		next[m] = []*refusal{n}
	} else {
		next[m] = append(slices.Clone(next[m]), n)
	}
	l.refused.Store(&next)
	return true
}

// halve makes the checkpoints smaller after a refusal that names nothing. One that holds a single message with changes names it.
func (l *lane) halve(err *sink.Error) bool {
	c := l.current.and(l.writing)
	limit := int(l.limit.Load())
	switch n := c.changed; {
	case limit == 0:
		// Nobody counted which messages hold a change: there may be fewer than were read, and never more.
		limit = max(1, int(c.records/2))
	case n == 0:
		l.hopeless = fmt.Errorf("the checkpoint holds no change: what is refused are its positions or its dead letters")
		return false
	case n == 1:
		l.lift()
		return l.refuse(sink.Rejection{Partition: c.last.Partition, Offset: c.last.offset, Index: -1, Reason: err.Err}, err)
	default:
		// More than the limit are there when a load was on its way, of partitions that were not sought, when it was set. They are sought now.
		limit = min(limit, n/2)
	}
	if l.limiting == nil {
		l.limiting = &limiting{until: make(map[changelog.Partition]int64)}
		l.r.log.Warn("flinksink: the sink refuses a checkpoint and does not say which change: doing it again in smaller ones", "bridge", l.r.name, "lane", l.n, "error", err)
	}
	for p, to := range c.to {
		l.limiting.until[p] = max(l.limiting.until[p], to)
	}
	l.limit.Store(int64(limit))
	return true
}

// lift ends the search.
func (l *lane) lift() {
	l.limiting = nil
	l.limit.Store(0)
}

// passed forgets what lies before saved positions.
func (l *lane) passed(saved []changelog.Position) {
	at := make(map[changelog.Partition]int64, len(saved))
	for _, p := range saved {
		at[p.Partition] = p.Offset
	}
	l.forget(func(m message) bool {
		to, ok := at[m.Partition]
		return ok && to > m.offset
	}, func(p changelog.Partition, until int64) bool {
		to, ok := at[p]
		return ok && to >= until
	})
}

// gaveBack forgets what is known of partitions that are somebody else's now.
func (l *lane) gaveBack(gone []*partition) {
	is := func(p changelog.Partition) bool {
		return slices.ContainsFunc(gone, func(x *partition) bool { return x.Partition == p })
	}
	l.forget(func(m message) bool { return is(m.Partition) }, func(p changelog.Partition, _ int64) bool { return is(p) })
}

func (l *lane) forget(refused func(m message) bool, searched func(p changelog.Partition, until int64) bool) {
	if known := l.refused.Load(); known != nil {
		next := maps.Clone(*known)
		maps.DeleteFunc(next, func(m message, _ []*refusal) bool { return refused(m) })
		switch {
		case len(next) == 0:
			l.refused.Store(nil)
		case len(next) < len(*known):
			l.refused.Store(&next)
		}
	}
	if l.limiting != nil {
		maps.DeleteFunc(l.limiting.until, searched)
		if len(l.limiting.until) == 0 {
			l.lift()
		}
	}
}

// explain adds to a refusal that ends the lane why it was not tried again.
func (l *lane) explain(err error) error {
	if l.hopeless == nil {
		return err
	}
	return &sink.Error{Op: "redo", Bridge: l.r.name, Class: sink.ErrRejected, Err: fmt.Errorf("%w; %w", l.hopeless, err)}
}

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
// Only the checkpoint that was refused is made smaller. What else the lane reads, of other partitions or further on, goes on in checkpoints of the usual
// size, which hold nothing that is searched: at one message a checkpoint, the backlog of another partition would take hours before the next suspect is met.
// If one of those is refused too, that is a search of its own.
//
// Nothing of this is stored: a process that begins anew is refused anew. Each yes to the coordinator adds a change to those that are known,
// begins a search of messages that were in none, or lowers the limit of one, and all three come to an end: a known change does not reach the sink again, and if the sink
// names it all the same the lane halts.

// message names a message.
type message struct {
	changelog.Partition
	offset int64
}

// refusals are the refused changes that are still ahead of the saved positions, by message. The writer replaces the map whole, as the
// decoder may be reading it. It does so before the Seek that makes the messages come again.
type refusals map[message][]*refusal

// search is for a refused message that the sink does not name. It is not changed once the decoder may know of it.
type search struct {
	n     int // they are numbered from 1
	limit int // messages with changes that a checkpoint of the search may hold
	// until is where the last checkpoint ended that was refused: once everything before it is saved there is nothing left to find.
	until map[changelog.Partition]int64
}

// searches are those of a lane, oldest first. The writer replaces them whole, before the Seek that makes their messages come again.
type searches []*search

// of returns the search that a message belongs to, nil for none.
func (all searches) of(p changelog.Partition, offset int64) *search {
	for _, s := range all {
		if until, ok := s.until[p]; ok && offset < until {
			return s
		}
	}
	return nil
}

// limit is the smallest of them, 0 without any.
func (all searches) limit() int {
	least := 0
	for _, s := range all {
		if least == 0 || s.limit < least {
			least = s.limit
		}
	}
	return least
}

// searching returns what is searched for now.
func (l *lane) searching() searches {
	if s := l.searches.Load(); s != nil {
		return *s
	}
	return nil
}

func (l *lane) search(all searches) {
	if len(all) == 0 {
		l.searches.Store(nil)
		return
	}
	l.searches.Store(&all)
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
	all := l.searching()
	next := &search{until: c.to}
	switch n := c.changed; {
	case len(all) == 0:
		// Nobody counted which messages hold a change: there may be fewer than were read, and never more.
		next.limit = max(1, int(c.records/2))
	case n == 0:
		l.hopeless = fmt.Errorf("the checkpoint holds no change: what is refused are its positions or its dead letters")
		return false
	case n == 1:
		l.search(slices.DeleteFunc(slices.Clone(all), func(s *search) bool { return s.n == c.search }))
		return l.refuse(sink.Rejection{Partition: c.last.Partition, Offset: c.last.offset, Index: -1, Reason: err.Err}, err)
	default:
		next.limit = n / 2
	}
	if i := slices.IndexFunc(all, func(s *search) bool { return s.n == c.search }); i >= 0 {
		next.n = c.search
		all = slices.Clone(all)
		all[i] = next
	} else {
		l.searched++
		next.n = l.searched
		all = append(slices.Clone(all), next)
		l.r.log.Warn("flinksink: the sink refuses a checkpoint and does not say which change: doing it again in smaller ones", "bridge", l.r.name, "lane", l.n, "error", err)
	}
	l.search(all)
	return true
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
	var left searches
	for _, s := range l.searching() {
		until := maps.Clone(s.until)
		maps.DeleteFunc(until, searched)
		if len(until) > 0 {
			left = append(left, &search{s.n, s.limit, until})
		}
	}
	l.search(left)
}

// explain adds to a refusal that ends the lane why it was not tried again.
func (l *lane) explain(err error) error {
	if l.hopeless == nil {
		return err
	}
	return &sink.Error{Op: "redo", Bridge: l.r.name, Class: sink.ErrRejected, Err: fmt.Errorf("%w; %w", l.hopeless, err)}
}

package bridge

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

// HoldPolicy says whether deletes at the end of what was read wait for what follows them; see [Options].
type HoldPolicy uint8

const (
	HoldByMode HoldPolicy = iota // if the table's mode holds -U, as that of every retract encoding does
	HoldAlways                   // whatever the mode
	HoldNever                    // readers may see a row vanish while it is updated
)

// on decides HoldByMode.
func (h HoldPolicy) on(m changelog.Mode) bool {
	return h == HoldAlways || h == HoldByMode && m.Contains(changelog.UpdateBefore)
}

const (
	// tailRecords bounds a tail. A join retracts all rows of an update before it puts any back, hence more than one; so many deletes
	// in a row are deletes.
	tailRecords = 1000
	// tailShare is the part of a lane's budget (one in so many) that all its tails may take.
	tailShare = 32
)

// tail is what was read last of a partition and is not yet written: a run of messages that begins with one that ends by taking a row
// away, and in which none ends by putting one there. If the first of them is half of an update, the other half comes after them.
//
// The partition's position stays before it while it is held, so to lose a tail, or the process, costs nothing: whoever goes on reads it
// again. It is kept as messages, whole ones, in memory of its own: no batch and no fetch buffer is kept alive by it. It belongs to
// the writer, like everything that decides where a checkpoint is cut.
type tail struct {
	span    // of the end of the tail: what is written when it is
	records []kept
	bytes   int
}

// kept is a message of a tail.
type kept struct {
	record record
	at     time.Time // when it was held
}

// follow notes in the span what the message did that was just read; b holds its changes from n on.
func (s *span) follow(r record, b *changelog.Batch, n int) {
	puts := false
	if l := b.Len(); l > n {
		puts = b.Changes[l-1].Kind.Adds()
		if !puts && s.first < 0 {
			s.first = len(s.tail)
		}
	}
	if puts || len(s.tail) == tailRecords {
		s.tail, s.first, s.parted = s.tail[:0], -1, true
		if puts {
			return
		}
		if b.Len() > n {
			s.first = 0
		}
	}
	// A message without a change (a tombstone after a delete) says nothing about the row: it neither begins a tail nor ends one.
	s.tail = append(s.tail, r)
}

// holdBack takes the tails out of a load, and puts those in front that the load's messages have released. Afterwards the load is as if the
// decoder had read so far and no further.
func (l *lane) holdBack(ld *load) error {
	var freed []*tail
	back := make(map[changelog.Partition]int64) // changes from this offset on stay back
	for i := range ld.spans {
		s := &ld.spans[i]
		t := l.tailOf(s.part)
		if t != nil && !l.goesOn(t, s, ld.bad) {
			freed, t = append(freed, l.dropTail(t)), nil
		}
		if t == nil {
			if s.first < 0 {
				continue
			}
			s.tail = l.fitting(s.tail[s.first:])
			if s.ends(ld.bad) || len(s.tail) == 0 {
				continue
			}
		}
		if len(s.tail) > 0 {
			back[s.part.Partition] = s.tail[0].Offset
		}
		l.keep(t, s)
	}
	ld.spans = slices.DeleteFunc(ld.spans, func(s span) bool { return s.to < 0 })
	if b := ld.bad; b != nil && !b.stale() {
		// What cannot be decoded follows the tail, and everything before it is to be checkpointed.
		if t := l.tailOf(b.part); t != nil {
			freed = append(freed, l.dropTail(t))
			ld.spans = append(ld.spans, t.span)
		}
	}
	if len(back) > 0 {
		ld.batch.Truncate(moveBack(ld.batch.Changes, back))
		ld.moveAsideBack(back)
	}
	return l.putInFront(ld, freed)
}

// ends reports that nothing of the partition will follow that a tail could wait for.
func (s *span) ends(b *bad) bool {
	return s.part.bound >= 0 && s.to >= s.part.bound || b != nil && b.part == s.part
}

// goesOn reports whether everything that the span holds belongs to the tail, and may.
func (l *lane) goesOn(t *tail, s *span, b *bad) bool {
	return !s.parted && !s.ends(b) && len(t.records)+len(s.tail) <= tailRecords && l.tailBytes+sizeOf(s.tail) <= l.tailLimit()
}

// keep moves the tail of a span to t, or to a new one if t is nil.
func (l *lane) keep(t *tail, s *span) {
	known := t != nil
	if !known {
		t = new(tail)
		l.tails[s.part.Partition] = t
	}
	now := time.Now()
	for _, r := range s.tail {
		t.records = append(t.records, kept{own(r), now})
	}
	n := sizeOf(s.tail)
	t.bytes += n
	l.tailBytes += n
	s.records -= int64(len(s.tail))
	s.tail = nil
	t.span = *s
	t.span.records = 0 // they are counted when they are written
	s.to, s.leader = t.start()
	if known {
		s.to = -1 // nothing is left of it
	}
}

// putInFront adds what tails held to the front of a load that has spans of their partitions: what is older goes first.
func (l *lane) putInFront(ld *load, freed []*tail) error {
	n, asides := ld.batch.Len(), len(ld.aside)
	for _, t := range freed {
		for i := range ld.aside[:asides] {
			if a := &ld.aside[i]; a.part == t.part {
				a.before += int64(len(t.records))
			}
		}
		if err := l.decode(ld, t.part, t.records); err != nil {
			return err
		}
		for i := range ld.spans {
			if s := &ld.spans[i]; s.part == t.part {
				s.records += int64(len(t.records))
			}
		}
	}
	ld.aside = slices.Concat(ld.aside[asides:], ld.aside[:asides])
	cs := ld.batch.Changes
	older := slices.Clone(cs[n:])
	copy(cs[len(older):], cs[:n])
	copy(cs, older)
	return nil
}

// fitting returns the last of the messages, as many as there is room for.
func (l *lane) fitting(rs []record) []record {
	n := sizeOf(rs)
	for len(rs) > 0 && l.tailBytes+n > l.tailLimit() {
		n -= recordSize(rs[0])
		rs = rs[1:]
	}
	return rs
}

func sizeOf(rs []record) (n int) {
	for _, r := range rs {
		n += recordSize(r)
	}
	return n
}

// moveBack drops the changes of each partition that lie at or beyond the offset given for it, and returns how many are left.
func moveBack(cs []changelog.Change, from map[changelog.Partition]int64) int {
	n := 0
	for i := range cs {
		if o, ok := from[cs[i].Partition]; !ok || cs[i].Offset < o {
			cs[n] = cs[i]
			n++
		}
	}
	return n
}

// start is the position before the tail. The leader epoch is that of the message there: it is not older than the one before it, and a log
// that still has everything before the offset ends that epoch at the offset or later, so source.check can compare it.
func (t *tail) start() (to int64, leader int32) {
	return t.records[0].record.Offset, t.records[0].record.LeaderEpoch
}

// tailOf returns the partition's tail, nil for none. One of an ended epoch is dropped: its messages are read again.
func (l *lane) tailOf(p *partition) *tail {
	t := l.tails[p.Partition]
	if t != nil && (t.part != p || t.stale()) {
		l.dropTail(t)
		return nil
	}
	return t
}

func (l *lane) dropTail(t *tail) *tail {
	delete(l.tails, t.part.Partition)
	l.tailBytes -= t.bytes
	return t
}

func (l *lane) tailLimit() int { return max(l.r.o.ByteBudget/tailShare, 1) }

// decode decodes messages of a tail of part again, and the data policy decides again what becomes of them. They were decoded before, so an
// error is a decoder that does not answer alike twice.
func (l *lane) decode(ld *load, part *partition, ks []kept) error {
	d := decoder{l: l, ld: ld}
	for i, k := range ks {
		if err := d.message(part, k.record, int64(i)); err != nil {
			return &sink.Error{Op: "decode", Bridge: l.r.name, Class: sink.ErrRejected, Err: fmt.Errorf(
				"a held message of %s/%d at offset %d was decoded before and is refused now: %w", k.record.Topic, k.record.Partition, k.record.Offset, err)}
		}
	}
	return nil
}

// own copies a message out of its fetch buffer. Nil stays nil.
func own(r record) record {
	c := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch, Timestamp: r.Timestamp, Attrs: r.Attrs,
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Headers: slices.Clone(r.Headers)}
	for i := range c.Headers {
		c.Headers[i].Value = bytes.Clone(c.Headers[i].Value)
	}
	return c
}

// overdue returns when the first held message has waited long enough.
func (l *lane) overdue() (at time.Time, ok bool) {
	for _, t := range l.tails {
		if due := t.records[0].at.Add(l.r.o.Interval); !ok || due.Before(at) {
			at, ok = due, true
		}
	}
	return at, ok
}

// release makes a load of what is held of one input and has waited for an interval, or of all that is held of it; nil if nothing of any input is. What has
// not waited so long stays: it may be half of an update that is just being read. The load has at most most messages, 0: no bound.
func (l *lane) release(all bool, most int) (*load, error) {
	var ld *load
	now, messages := time.Now(), 0
	for _, p := range slices.SortedFunc(maps.Keys(l.tails), changelog.Partition.Compare) {
		t := l.tails[p]
		if l.tailOf(t.part) == nil {
			continue
		}
		n := len(t.records)
		if !all {
			n = 0
			for n < len(t.records) && !t.records[n].at.Add(l.r.o.Interval).After(now) {
				n++
			}
		}
		if most > 0 {
			n = min(n, most-messages)
		}
		if n == 0 || ld != nil && ld.in != t.part.in {
			continue
		}
		if ld == nil {
			ld = l.newLoad(t.part.in)
		}
		messages += n
		s := t.span
		s.records = int64(n)
		out := t.records[:n]
		if n == len(t.records) {
			l.dropTail(t)
		} else {
			t.records = t.records[n:]
			for _, k := range out {
				t.bytes -= recordSize(k.record)
				l.tailBytes -= recordSize(k.record)
			}
			s.to, s.leader = t.start()
		}
		if err := l.decode(ld, s.part, out); err != nil {
			return nil, err
		}
		ld.spans = append(ld.spans, s)
	}
	return ld, nil
}

// expire writes and checkpoints what has waited for an interval.
func (l *lane) expire() (saved bool, err error) {
	ld, err := l.release(false, l.searching().limit())
	if err != nil || ld == nil {
		return false, err
	}
	return l.through(ld)
}

// through writes and checkpoints a load of what was held.
func (l *lane) through(ld *load) (saved bool, err error) {
	l.withinBudget(ld)
	if ok, err := l.put(ld, l.call); err != nil || !ok {
		return false, err
	}
	if ld.bad != nil && !ld.bad.stale() {
		return true, l.halt(ld.bad)
	}
	return l.checkpoint()
}

// releaseLimited writes and checkpoints all that is held, in checkpoints as small as those of a search. While there is one nothing is held: what
// is written together must not be more than one message in the end, or the one that is refused is never found.
func (l *lane) releaseLimited() error {
	for len(l.tails) > 0 {
		ld, err := l.release(true, l.searching().limit())
		if err != nil || ld == nil {
			return err
		}
		if _, err := l.through(ld); err != nil {
			return err
		}
	}
	return nil
}

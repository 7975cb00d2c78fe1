package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

// This file is the decoder's side of the data policy: it decides what of a message gets into the batch.

// message decodes a message of part, and drops of it what cannot be decoded or was refused. before is how many messages of the
// partition the load holds. An error (Halt) leaves the batch as it was.
func (d *decoder) message(part *partition, r record, before int64) error {
	n := d.ld.batch.Len()
	if err := d.record(r); err != nil {
		if d.l.r.o.OnData == Halt || outage(err) {
			return err
		}
		d.setAside(part, r, before, 1, dataError(part, r, err), nil)
		return nil
	}
	known := d.l.refused.Load()
	if known == nil {
		return nil
	}
	for _, x := range (*known)[message{part.Partition, r.Offset}] {
		dropped := d.drop(n, x.Index)
		if dropped == 0 {
			continue // a filter took it out meanwhile, or the sink named a change that is not there: then it is refused again
		}
		if d.l.r.o.OnData == Halt {
			d.ld.batch.Truncate(n)
			return x
		}
		d.setAside(part, r, before, dropped, x.dataError(), x)
	}
	return nil
}

// drop takes a change of the last message, whose changes begin at n, out of the batch: the one with this number, together with the
// other half of its update, or for -1 all that a filter let through. It returns how many those were.
func (d *decoder) drop(n int, index int32) int {
	b := d.ld.batch
	cs := b.Changes[n:]
	gone := func(i int) bool { return !skipped(&cs[i]) }
	if index >= 0 {
		i := 0
		for i < len(cs) && cs[i].Index != index {
			i++
		}
		if i == len(cs) {
			return 0
		}
		from, to := i, i
		switch {
		case cs[i].Kind == changelog.UpdateBefore && i+1 < len(cs) && cs[i+1].Kind == changelog.UpdateAfter:
			to++
		case cs[i].Kind == changelog.UpdateAfter && i > 0 && cs[i-1].Kind == changelog.UpdateBefore:
			from--
		}
		gone = func(i int) bool { return from <= i && i <= to }
	}
	kept := 0
	for i := range cs {
		if !gone(i) {
			cs[kept] = cs[i]
			kept++
		}
	}
	b.Truncate(n + kept)
	return len(cs) - kept
}

// setAside notes what was dropped, with a letter where the policy asks for one. The letter has memory of its own: the message's may be a
// small part of a large fetch buffer.
func (d *decoder) setAside(part *partition, r record, before int64, changes int, err *changelog.DataError, x *refusal) {
	a := aside{part: part, before: before, changes: changes, err: err, refusal: x,
		pos: changelog.Position{Partition: part.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch}}
	if d.l.r.o.OnData == DeadLetter {
		a.letter = letter(r, err, x)
		a.letter.Changes = changes
	}
	d.ld.aside = append(d.ld.aside, a)
	d.ld.asideBytes += a.bytes()
}

func letter(r record, err *changelog.DataError, x *refusal) *sink.DeadLetter {
	short := *err
	short.Topic = "" // the letter has the coordinates
	m := &sink.DeadLetter{Partition: changelog.Partition{Topic: r.Topic, Partition: r.Partition}, Offset: r.Offset, Index: -1,
		Column: err.Field, Class: "data", Error: strings.TrimPrefix(short.Error(), "changelog: "),
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
	if x != nil {
		m.Index, m.Class, m.Error = x.Index, "rejected", x.reason()
	}
	if timestampType(r.Attrs) != changelog.NoTimestamp {
		m.Timestamp = r.Timestamp
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, changelog.Header{Key: strings.Clone(h.Key), Value: bytes.Clone(h.Value)})
	}
	return m
}

// dataError gives what a decoder reported the coordinates of its message.
func dataError(part *partition, r *kgo.Record, err error) *changelog.DataError {
	var de *changelog.DataError
	if !errors.As(err, &de) {
		de = &changelog.DataError{Reason: "cannot be decoded", Err: err}
	}
	at := *de
	at.Partition, at.Offset = part.Partition, r.Offset
	return &at
}

// full reports that the load should be handed on: it has as many changes or bytes as are good at once, more messages set aside than a
// checkpoint may hold, or as many messages as a checkpoint of its search may hold.
func (d *decoder) full() bool {
	ld := d.ld
	if ld.batch.Len() >= batchChanges || ld.batch.Bytes()+ld.asideBytes >= d.l.batchBytes || len(ld.aside) > min(d.l.r.o.DataBudget, batchChanges) {
		return true
	}
	return ld.search != nil && ld.changed >= ld.search.limit
}

// turns reports that the message at offset is not to be in one checkpoint with the load: it belongs to another search, or to one and the load to none. Else the load is
// of the message's search from here on.
func (d *decoder) turns(p changelog.Partition, offset int64) bool {
	s := d.l.searching().of(p, offset)
	if d.ld.messages == 0 {
		d.ld.search = s
		return false
	}
	if s == nil || d.ld.search == nil {
		return s != d.ld.search
	}
	if s.n != d.ld.search.n {
		return true
	}
	d.ld.search = s // its limit may be lower by now
	return false
}

// refusal is a change that a sink refused.
type refusal struct {
	sink.Rejection
	op, sink string // of the error that named it
	cause    error  // of that error
}

// Error makes a refusal what ends the decoding of a partition under Halt.
func (x *refusal) Error() string { return x.dataError().Error() }

func (x *refusal) reason() string {
	switch {
	case x.Reason != nil:
		return x.Reason.Error()
	case x.cause != nil:
		return x.cause.Error()
	}
	return "refused"
}

func (x *refusal) dataError() *changelog.DataError {
	e := &changelog.DataError{Partition: x.Partition, Offset: x.Offset, Field: x.Column, Reason: "the sink refuses the message", Err: x.Reason}
	if x.Index >= 0 {
		e.Reason = fmt.Sprintf("the sink refuses change %d of the message (they count from 0)", x.Index)
	}
	if e.Err == nil {
		e.Err = x.cause
	}
	var known *changelog.DataError
	if errors.As(e.Err, &known) {
		e.Class = known.Class
	}
	return e
}

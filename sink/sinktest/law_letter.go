package sinktest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// letterLaws are about the interfaces that a committer may have beside its own.
func letterLaws() []Law {
	return []Law{
		{ID: "L51", Table: AppendTable, Needs: Exact, run: lettersFollow,
			Sentence: "Dead letters become visible with the checkpoint that they are written in, or not at all, each once, whatever is in them."},
		{ID: "L52", Table: KeyedTable, run: supersededCounts,
			Sentence: "Superseded tells how many changes since the last Prepare were not written because of a later one of their key: never more than there were."},
		{ID: "L55", Table: KeyedTable, run: spiltBatchesAreFree,
			Sentence: "After Spill the batches written so far are the caller's again, and their rows are in the checkpoint as they were."},
	}
}

// someLetters hold what a careless keeper refuses or alters.
func someLetters(p changelog.Partition, from int64) []sink.DeadLetter {
	at := time.UnixMilli(1_700_000_000_123).UTC()
	return []sink.DeadLetter{
		{Partition: p, Offset: from, Index: -1, Class: "data", Error: "no JSON", Timestamp: at, Key: []byte("k"), Value: []byte("{"), Changes: 1},
		{Partition: p, Offset: from + 1, Index: 2, Column: `"v"`, Class: "rejected", Error: "too long", Key: []byte{}, Value: nil, Changes: 3,
			Headers: []changelog.Header{{Key: "h", Value: []byte{0xff, 0}}, {Key: "h", Value: nil}, {Key: "", Value: []byte{}}}},
		{Partition: p, Offset: from + 2, Index: -1, Class: "data", Error: "a NUL", Timestamp: at, Key: nil, Value: []byte("a\x00b\xff\xfe"), Changes: 1},
		{Partition: p, Offset: from + 3, Index: 0, Class: "data", Error: "long", Timestamp: at, Value: bytes.Repeat([]byte{0, 'x', 0x80}, 100_000), Changes: 1},
	}
}

func lettersFollow(w *world) {
	a := w.lane()
	a.ownSink()
	keeper := func(l *lane) sink.DeadLetterKeeper {
		k, ok := l.Committer.(sink.DeadLetterKeeper)
		if !ok {
			w.skip("the committer is no sink.DeadLetterKeeper")
		}
		return k
	}
	keeper(a)
	if w.h.Letters == nil {
		w.fail("the committer is a sink.DeadLetterKeeper, and Harness.Letters is not there to read what it keeps")
	}
	var visible []sink.DeadLetter
	sees := func(when string) {
		w.delay()
		got, err := w.h.Letters(w.ctx)
		if err != nil {
			w.broken("Harness.Letters: %v", err)
		}
		got = slices.Clone(got)
		slices.SortFunc(got, func(x, y sink.DeadLetter) int { return int(x.Offset - y.Offset) })
		w.note("readers see %d dead letters", len(got))
		if x, y := lettersText(got), lettersText(visible); x != y {
			w.fail("%s, readers see dead letters %s; expected are %s", when, x, y)
		}
	}
	write := func(l *lane, letters []sink.DeadLetter) {
		given := make([]sink.DeadLetter, len(letters))
		for i, x := range letters { // memory of its own, which is overwritten after Prepare
			x.Key, x.Value, x.Headers = bytes.Clone(x.Key), bytes.Clone(x.Value), slices.Clone(x.Headers)
			given[i] = x
		}
		err := keeper(l).WriteDeadLetters(w.ctx, given)
		l.tell(err, "WriteDeadLetters of %d letters from offset %d", len(given), given[0].Offset)
		w.must(err, "WriteDeadLetters")
		l.spoilLater(given)
		l.To[0].Offset = given[len(given)-1].Offset + 1
		for _, x := range given {
			l.counters = l.counters.Add(sink.Counters{Records: 1, Read: int64(x.Changes), DeadLettered: int64(x.Changes)})
		}
	}
	prepare := func(l *lane) {
		l.prepare()
		l.spoilLetters()
	}
	p := w.topic.Partition(0)

	a.begin(0)
	first := someLetters(p, 0)
	write(a, first)
	sees("after WriteDeadLetters")
	prepare(a)
	sees("after Prepare")
	a.save()
	a.commit()
	visible = first
	sees("after a checkpoint of nothing but dead letters")
	w.sees("after a checkpoint of nothing but dead letters")

	second := someLetters(p, a.To[0].Offset)
	write(a, second)
	a.discard()
	a.spoilLetters()
	sees("after Discard")
	write(a, second)
	prepare(a)
	a.abort()
	sees("after Abort")
	a.begin(0)
	write(a, second)
	prepare(a)
	a.crash()
	b := w.lane()
	b.begin(0)
	sees("after the process died before Save, and its successor's Open")
	write(b, second[:2])
	write(b, second[2:])
	prepare(b)
	b.save()
	b.crash()
	c := w.lane()
	c.begin(0)
	c.open()
	visible = append(visible, second...)
	sees("after the process died behind Save, and its successor's Open, twice")

	// A zombie's letters go with its checkpoint.
	third := someLetters(p, c.To[0].Offset)
	write(c, third)
	prepare(c)
	d := w.lane()
	d.begin(0)
	if c.Save(w.ctx) == nil {
		w.fail("Save of the ended generation %d succeeded", c.Claim.Generation.ID)
	}
	sees("after an ended generation tried to save dead letters")
	write(d, third)
	prepare(d)
	d.save()
	d.commit()
	visible = append(visible, third...)
	sees("at the end")
}

// lettersText prints letters with everything that has to come through; what is long, by its length and its end.
func lettersText(ls []sink.DeadLetter) string {
	b := func(b []byte) string {
		switch {
		case b == nil:
			return "null"
		case len(b) > 40:
			return fmt.Sprintf("%d bytes to %q", len(b), b[len(b)-10:])
		}
		return fmt.Sprintf("%q", b)
	}
	var s []string
	for _, l := range ls {
		ms := "none"
		if !l.Timestamp.IsZero() {
			ms = fmt.Sprint(l.Timestamp.UnixMilli())
		}
		h := ""
		for _, x := range l.Headers {
			h += fmt.Sprintf(" %q=%s", x.Key, b(x.Value))
		}
		s = append(s, fmt.Sprintf("(%s@%d.%d %q %s %q, time %s, key %s, value %s, headers%s, %d changes)", l.Partition, l.Offset, l.Index, l.Column, l.Class, l.Error,
			ms, b(l.Key), b(l.Value), h, l.Changes))
	}
	return fmt.Sprintf("%d %s", len(ls), strings.Join(s, " "))
}

// spoilLater remembers letters whose memory is the suite's again after Prepare or Discard.
func (l *lane) spoilLater(ls []sink.DeadLetter) { l.letters = append(l.letters, ls...) }

func (l *lane) spoilLetters() {
	for _, x := range l.letters {
		for i := range x.Key {
			x.Key[i] = '#'
		}
		for i := range x.Value {
			x.Value[i] = '#'
		}
	}
	l.letters = nil
}

func supersededCounts(w *world) {
	a := w.lane()
	a.ownSink()
	s, ok := a.Committer.(sink.Superseder)
	if !ok {
		w.skip("the committer is no sink.Superseder")
	}
	a.begin(0)
	between := func(when string, most int64) {
		n := s.Superseded()
		w.note("Superseded = %d", n)
		if n < 0 || n > most {
			w.fail("%s, Superseded tells %d, which can be 0 to %d", when, n, most)
		}
	}
	finish := func() {
		a.save()
		a.commit()
		w.sees("after the checkpoint", a.From...)
	}
	w.topic.Put(0, Insert(1, "a"), UpdateAfter(1, "b"), UpdateAfter(1, "c"), Insert(2, "a"))
	a.write()
	a.prepare()
	between("after 4 changes of 2 keys in one batch", 2)
	finish()
	w.topic.Put(0, UpdateAfter(1, "d"), UpdateAfter(2, "d"), Insert(3, "d"))
	a.write()
	a.prepare()
	between("after 3 changes of 3 keys", 0)
	finish()
	w.topic.Put(0, UpdateAfter(1, "e"), UpdateAfter(1, "f"))
	a.write()
	a.discard() // what was discarded is counted when it comes again
	a.write()
	a.prepare()
	between("after 2 changes of one key, discarded and written again", 1)
	finish()
	a.prepare()
	between("after a checkpoint of nothing", 0)
	a.save()
	a.commit()
}

func spiltBatchesAreFree(w *world) {
	a := w.lane()
	s, ok := a.Committer.(sink.Spiller)
	if !ok {
		w.skip("the committer is no sink.Spiller")
	}
	a.begin(0)
	spill := func() {
		s.Spill()
		w.note("Spill")
		a.spoil()
	}
	w.topic.Put(0, Insert(1, "a"), Insert(2, "a"))
	a.write()
	spill()
	w.topic.Put(0, UpdateAfter(1, "b"), Insert(3, "b"))
	a.write()
	spill()
	a.discard()
	a.write()
	spill()
	w.topic.Put(0, Delete(2, "a"), Insert(4, "c"))
	a.write()
	a.prepare()
	a.save()
	a.commit()
	w.sees("after a checkpoint that was spilt in its middle", a.From...)
	spill()
	w.topic.Put(0, UpdateAfter(4, "d"))
	a.write()
	a.prepare()
	a.save()
	a.commit()
	w.sees("after the next checkpoint", a.From...)
}

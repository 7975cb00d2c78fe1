package sinktest

import (
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// apartLaws are about things that a sink may take for one because some of their numbers are the same.
func apartLaws() []Law {
	return []Law{
		{ID: "L62", Table: AppendTable, Needs: Exact | Keyless, run: manyInAMessage,
			Sentence: "Changes of one message, and of one offset in two partitions or two topics, are changes apart: each is there once, equal rows too, in one checkpoint and through one that is done again."},
		{ID: "L63", Table: AppendTable, Needs: Exact, run: sameNumbers,
			Sentence: "Two bridges whose generations, checkpoints and offsets have the same numbers do not take each other's work for their own, whoever comes first."},
		{ID: "L64", Table: TextTable, Needs: Deletes, run: refusalNames,
			Sentence: "A refusal (ErrRejected) names, if any, the change that it refuses, by topic, partition, offset and index within its message, and none beside it."},
		{ID: "L65", Table: AppendTable, Needs: TwoPhase | Exact, run: unknownReceipt,
			Sentence: "A receipt in a version of its format that is not known is refused as ErrConfig by Commit, and what it stands for stays as it is."},
	}
}

// manyInAMessage is for a sink that names rows by where they come from, since they have no key.
func manyInAMessage(w *world) {
	a := w.lane()
	a.begin(0, 1)
	for i := range int64(3) {
		w.topic.putOne(0, Insert(i, "a"), Insert(i, "b"), Insert(i, "a"), Insert(i+10, "c"))
		w.topic.putOne(1, Insert(i, "a"), Insert(i, "a"))
		a.write()
		a.prepare()
		if i == 1 {
			a.abort()
			a.begin(0, 1)
			a.checkpoint()
			continue
		}
		a.save()
		a.commit()
		w.sees(fmt.Sprintf("after checkpoint %d", i+1), a.From...)
	}
	a.crash()
	b := w.lane()
	b.begin(0, 1)
	w.sees("after the next lane's Open", b.From...)
	w.saved("after all", w.topic.End(0), w.topic.End(1))
	// Another topic of the same table, from its first offset on, in the same bridge.
	second := NewTopic(w.topic.Table)
	second.name, second.insertsOnly = "sinktest_second", w.topic.insertsOnly
	for i := range int64(3) {
		second.putOne(0, Insert(i, "a"), Insert(i, "other"))
	}
	c := w.lane()
	c.Topic = second
	err := c.Acquire(w.ctx, 0)
	if err == nil {
		c.open()
		c.write()
		c.prepare()
		err = c.Save(w.ctx)
	}
	if errors.Is(sink.ClassOf(err), sink.ErrConfig) {
		w.note("(the store keeps no positions of a topic that is not there)")
		return
	}
	w.must(err, "Acquire or Save of another topic of the table")
	c.commit()
	rows := append(w.topic.Rows(b.From...), second.Rows(c.From...)...)
	sortRows(rows)
	w.seesRows("after a checkpoint of another topic of the table", rows)
}

// sameNumbers runs two bridges in step, each from its first generation and checkpoint on, over topics of one name.
func sameNumbers(w *world) {
	theirs := NewTopic(w.topic.Table)
	theirs.insertsOnly = w.topic.insertsOnly
	w.topic.Put(0, Insert(1, "mine"), Insert(2, "mine"))
	theirs.Put(0, Insert(3, "theirs"), Insert(4, "theirs"), Insert(5, "theirs"))
	other := func() *lane {
		l := w.laneAs(w.ctx, sink.Lane{Bridge: OtherBridge})
		l.Topic = theirs
		return l
	}
	sees := func(when string, a, o *lane) {
		rows := append(w.topic.Rows(a.From...), theirs.Rows(o.From...)...)
		sortRows(rows)
		w.seesRows(when, rows)
	}
	a, o := w.lane(), other()
	a.begin(0)
	o.begin(0)
	a.checkpoint()
	sees("after the first bridge's first checkpoint", a, o)
	o.checkpoint()
	sees("after the other's, of the same numbers", a, o)
	// Decided by both under the same numbers, and committed by their successors.
	w.topic.Put(0, Insert(6, "mine"))
	theirs.Put(0, Insert(7, "theirs"))
	for _, l := range []*lane{a, o} {
		l.write()
		l.prepare()
		l.save()
		l.crash()
	}
	decided := [2]*lane{a, o}
	if !w.h.InTransaction {
		a, o = w.lane(), other()
		o.begin(0)
		a.begin(0)
	}
	for i, l := range []*lane{a, o} {
		if l.From[0] != decided[i].From[0] {
			w.fail("what bridge %s decided ends at %v, and its successor goes on from %v", l.Request.Bridge, decided[i].From, l.From)
		}
	}
	sees("after the successors' Open", a, o)
	// Prepared by both, and rolled back by one.
	w.topic.Put(0, Insert(8, "mine"))
	theirs.Put(0, Insert(9, "theirs"))
	if w.h.InTransaction {
		a, o = w.lane(), other()
		a.begin(0)
		o.begin(0)
	}
	a.write()
	o.write()
	a.prepare()
	o.prepare()
	o.abort()
	a.save()
	a.commit()
	sees("after one bridge's checkpoint, and the other's Abort of the same numbers", a, o)
}

// refusalNames has a row refused that no sink can write, a new one of which a column was not sent, in the middle of a message: what is named goes to the
// dead letters, and a wrong name would take another change there and leave the bad one.
func refusalNames(w *world) {
	a := w.lane()
	a.ownSink()
	w.must(a.refused, "Lane")
	a.begin(0)
	b := changelog.NewBatch(w.topic.Table)
	at := a.To[0]
	for i, v := range []changelog.Value{changelog.StringValue("a"), changelog.UnchangedValue(), changelog.StringValue("c")} {
		row := b.NewRow()
		for k, v := range textRow(fmt.Sprint(i), v, changelog.Value{}) {
			row[k] = intoArena(b, v)
		}
		b.Append(changelog.Change{Partition: at.Partition, Offset: at.Offset + 7, Index: int32(i), Kind: changelog.UpdateAfter, Row: row})
	}
	a.batches = append(a.batches, b)
	err := a.Committer.Write(w.ctx, b)
	a.tell(err, "Write of a message of 3 changes at offset %d, of which change 1 lacks a column of a new row", at.Offset+7)
	a.To[0].Offset = at.Offset + 8
	if err == nil {
		err = a.Prepare(w.ctx)
	}
	if err == nil {
		err = a.Save(w.ctx)
	}
	var e *sink.Error
	if !errors.Is(sink.ClassOf(err), sink.ErrRejected) || !errors.As(err, &e) {
		w.skip("the sink refuses no change by itself here; L59 says what it must not do")
	}
	for _, r := range e.Rejected {
		if r.Partition != at.Partition || r.Offset != at.Offset+7 || r.Index != 1 && r.Index != -1 {
			w.fail("the refusal names change %d of %s@%d, and it is change 1 of %s@%d", r.Index, r.Partition, r.Offset, at.Partition, at.Offset+7)
		}
		if r.Reason == nil {
			w.fail("the refusal of change %d of %s@%d has no reason", r.Index, r.Partition, r.Offset)
		}
	}
}

// unknownReceipt hands over a receipt as a newer release would have written it.
func unknownReceipt(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(1, "a"))
	a := w.lane()
	a.begin(0)
	a.write()
	a.prepare()
	r := a.receipt()
	a.save()
	before := w.rows()
	newer := carried(w, r)
	newer.Version += 1000
	b := w.lane()
	w.class(b.CommitOne(w.ctx, newer), sink.ErrConfig, "Commit of a receipt in a version of its format that is not known")
	w.seesRows("after that Commit", before)
	a.commit()
	w.sees("after Commit of the receipt itself", a.From...)
}

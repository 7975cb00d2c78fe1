package sinktest

import (
	"errors"
	"strings"

	"github.com/flinksink/flinksink/sink"
)

// lateLaws are about calls that come later than they should: a process was stopped between two of them, and others went on.
func lateLaws() []Law {
	return []Law{
		{ID: "L56", Table: AppendTable, Needs: Exact | Fenced, run: lateOpen,
			Sentence: "A generation that opens after its successor did is refused as ErrFenced, or nothing that it then prepares can ever become visible."},
		{ID: "L57", Table: KeyedTable, Needs: TwoPhase | Exact, run: lateCommit,
			Sentence: "A Commit that comes again after later checkpoints of the same keys, by whomever, is nil (or ErrFenced to an ended generation) and brings no old row back."},
		{ID: "L61", Table: KeyedTable, Needs: Fenced, run: fencedTells,
			Sentence: "After its successor's Open an ended generation is told ErrFenced by Open, Write and Prepare, or nothing wrong, but no class that makes it try again; by Save, ErrFenced."},
		{ID: "L66", Table: AppendTable, Needs: Exact, run: writtenLate, long: 4,
			Sentence: "What an ended generation writes after its successor's Open, and leaves there as it dies, is in no checkpoint of others, and once later generations have opened and closed nothing is left of it."},
	}
}

// lateOpen stops a process between Acquire and Open. Its claim is as good as its successor's was, so it settles the same generation, fences
// it, and would write from the same positions. Only Save protects it from a decision; what could be committed all the same is asked
// for, as in rolledBack.
func lateOpen(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(1, "a"))
	first := w.lane()
	first.begin(0)
	first.write()
	first.prepare()
	first.save() // and not committed: both claims list it
	first.crash()
	decided := first.From
	late := w.lane()
	late.acquire(0)
	b := w.lane()
	b.begin(0)
	w.sees("after the successor's Open", decided...)
	w.topic.Put(0, Insert(2, "b"), Insert(2, "b"))
	wake := func(when string) {
		if err := late.Open(w.ctx); err != nil {
			w.class(err, sink.ErrFenced, "Open of an ended generation "+when)
		}
		late.To = late.From
		if late.Write(w.ctx, 1) == nil && late.Prepare(w.ctx) == nil {
			if !late.Receipt.Empty() {
				_ = late.CommitOne(w.ctx, late.Receipt)
				_ = b.CommitOne(w.ctx, late.Receipt)
			}
			if late.Save(w.ctx) == nil {
				w.fail("Save of the ended generation %d succeeded %s", late.Claim.Generation.ID, when)
			}
		}
		_ = late.Discard(w.ctx)
	}
	wake("before its successor writes")
	w.sees("after an ended generation opened late, prepared, and its receipt was committed", decided...)
	b.write()
	b.prepare()
	wake("while its successor has prepared")
	w.sees("after it tried again while its successor has prepared", decided...)
	b.save()
	b.commit()
	wake("after its successor's checkpoint")
	w.sees("after it tried again behind its successor's checkpoint", b.From...)
	w.topic.Put(0, Insert(3, "c"))
	b.checkpoint()
	w.sees("after the successor's next checkpoint", b.From...)
	w.saved("after the successor's next checkpoint", b.From...)
}

// lateCommit repeats Commits as late as they can come. A checkpoint is written after the Commit of the one before it was answered with nil, by
// the same lane, or inside Open by a successor: so the first Commit of a later checkpoint never comes before that of an earlier
// one, and what comes late is always a repeat. It comes from the lane that lost an answer, from a process that lives on, and from a successor
// that acquired in time and opens late.
func lateCommit(w *world) {
	w.topic.Put(0, Insert(1, "old"), Insert(2, "old"), Insert(3, "old"))
	a := w.lane()
	a.begin(0, 1)
	a.write()
	a.prepare()
	one := a.receipt()
	a.save()
	w.must(a.CommitOne(w.ctx, one), "Commit")
	w.note("(its answer is lost)")
	a.commit()
	w.topic.Put(0, UpdateAfter(1, "new"), Delete(2, "old"), DeleteKey(3), Insert(3, "new"), Insert(4, "new"))
	a.checkpoint()
	over := false // a's generation is
	again := func(l *lane, r sink.Committable, who string) {
		err := l.CommitOne(w.ctx, r)
		if !over || l != a || !errors.Is(sink.ClassOf(err), sink.ErrFenced) {
			w.must(err, "Commit of an earlier checkpoint by "+who)
		}
		w.sees("after a Commit of an earlier checkpoint by "+who, w.topic.End(0), w.topic.Position(1, 0))
	}
	again(a, one, "its own lane, after a later checkpoint")
	w.topic.Put(0, UpdateAfter(1, "newer"), Delete(4, "new"), Insert(2, "back"))
	a.write()
	a.prepare()
	three := a.receipt()
	a.save()
	w.note("(%s is stopped before it commits)", a.Name)
	b, c := w.lane(), w.lane()
	b.acquire(0)
	c.acquire(1)
	over = true
	b.open()
	again(b, one, "a successor that has opened")
	w.topic.Put(0, UpdateAfter(1, "newest"), Delete(2, "back"), Insert(4, "newest"))
	b.checkpoint()
	w.sees("after the successor's checkpoint", w.topic.End(0), w.topic.Position(1, 0))
	c.open()
	w.sees("after another successor of the same generation opened behind that checkpoint", w.topic.End(0), w.topic.Position(1, 0))
	again(a, three, "the ended generation, woken")
	again(c, three, "another successor")
	again(b, one, "another process, once more")
	c.checkpoint()
	w.sees("at the end", w.topic.End(0), w.topic.End(1))
}

// fencedTells: a lane that is told ErrTransient or ErrUncertain acquires anew, and so takes the partitions away from whom they were given to.
func fencedTells(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	idle, wrote, writes, prepared := w.lane(), w.lane(), w.lane(), w.lane()
	for _, l := range []*lane{idle, wrote, writes, prepared} {
		l.begin(0)
		if l != idle {
			l.write()
		}
	}
	prepared.prepare()
	b := w.lane()
	b.begin(0)
	w.topic.Put(0, Insert(2, "b"))
	told := func(err error, what string) {
		if err != nil {
			w.class(err, sink.ErrFenced, what)
		}
	}
	told(idle.Write(w.ctx, -1), "Write of an ended generation that had written nothing")
	told(writes.Write(w.ctx, -1), "Write of an ended generation that had written")
	told(wrote.Prepare(w.ctx), "Prepare of an ended generation")
	w.class(prepared.Save(w.ctx), sink.ErrFenced, "Save of an ended generation")
	for _, l := range []*lane{idle, wrote, writes, prepared} {
		_ = l.Discard(w.ctx)
		told(l.Open(w.ctx), "Open of an ended generation")
	}
	b.checkpoint()
	w.sees("after the successor's checkpoint", b.From...)
}

// writtenLate is for sinks whose Write already leaves something in the place: a file, an upload, rows in a staging table. Nobody discards it, and no Open before it
// could sweep it: by the time of the next one the generation may be settled, and in no claim any more. What it wrote differs from what its successor writes, and is large, so that
// a sink which gathers does not keep it in memory.
func writtenLate(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(1, "a"), Insert(2, "b"))
	other := NewTopic(w.topic.Table)
	other.insertsOnly = w.topic.insertsOnly
	for i := range int64(6) {
		other.Put(0, Insert(100+i, strings.Repeat("z", 1<<20)))
	}
	var zombies []*lane
	for range 5 {
		z := w.lane()
		z.ownSink()
		z.Topic = other
		z.begin(0)
		zombies = append(zombies, z)
	}
	b := w.lane()
	b.begin(0)
	late := func() {
		z := zombies[0]
		zombies = zombies[1:]
		_ = z.Write(w.ctx, -1)
		if s, ok := z.Committer.(sink.Spiller); ok {
			s.Spill()
		}
		z.crash()
	}
	late()
	w.sees("after an ended generation wrote")
	b.write()
	late()
	w.sees("after another wrote beside its successor")
	b.prepare()
	late()
	w.sees("after another wrote while its successor has prepared")
	b.save()
	late()
	b.commit()
	w.sees("after the successor's checkpoint", b.From...)
	late()
	w.topic.Put(0, Insert(3, "c"))
	b.checkpoint()
	w.sees("after the successor's next checkpoint", b.From...)
	b.crash()
	for _, when := range []string{"after the next generation's Open", "after the Open of one behind it"} {
		c := w.lane()
		c.begin(0)
		w.sees(when, c.From...)
		w.topic.Put(0, Insert(4, "d"))
		c.checkpoint()
		w.sees("after its checkpoint", c.From...)
		w.saved("after its checkpoint", c.From...)
		c.close()
	}
	w.nothingLeft()
}

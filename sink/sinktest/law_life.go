package sinktest

import (
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/sink"
)

// lifeLaws follow a bridge through its life: the first start, restarts, successors, partitions that move.
func lifeLaws() []Law {
	return []Law{
		{ID: "L30", Table: KeyedTable, run: emptyOpen,
			Sentence: "In an empty place a lane opens, checkpoints nothing, discards nothing and closes, and leaves no rows and no positions but those it saved."},
		{ID: "L31", Table: AppendTable, Needs: Exact, run: restart,
			Sentence: "After every client was closed, or killed, what was committed is there once, and the next lane goes on from it."},
		{ID: "L32", Table: AppendTable, Needs: TwoPhase | Exact | Fenced, run: zombieCommits,
			Sentence: "An ended generation that commits what it decided, whenever it does, does it once, and never what it prepared afterwards."},
		{ID: "L33", Table: AppendTable, Needs: Exact, run: twoSuccessors,
			Sentence: "Two successors of one generation may each settle what it decided; each row is there once, and both go on."},
		{ID: "L34", Table: AppendTable, Needs: Exact, run: otherBoundaries,
			Sentence: "Changes that are read again come in other batches and other checkpoints, and each is there once."},
		{ID: "L35", Table: KeyedTable, Needs: Deletes, run: acrossCheckpoints,
			Sentence: "The last change of a key wins where each change has a checkpoint of its own, and where its lane changes between them."},
		{ID: "L36", Table: KeyedTable, Needs: Deletes, run: deleteOfNothing,
			Sentence: "A delete of a row that is not there, by its key or as a whole, is fine, as often as it comes, and deletes nothing else."},
		{ID: "L37", Table: KeyedTable, run: partitionsMove,
			Sentence: "Partitions that move from lane to lane one by one, and back, lose no change and no position."},
	}
}

func emptyOpen(w *world) {
	a := w.lane()
	a.close() // before anything
	b := w.lane()
	b.acquire(0)
	if len(b.Claim.Ended) > 0 || len(b.Claim.Positions) > 0 {
		w.fail("the first claim of an empty place lists %s and positions %v", endedText(b.Claim.Ended), b.Claim.Positions)
	}
	b.open()
	b.discard()
	w.must(b.Abort(w.ctx), "Abort with nothing prepared")
	w.sees("after the first Open")
	w.saved("after the first Open")
	b.checkpoint() // of nothing: the begin is saved
	w.sees("after a checkpoint of nothing")
	w.saved("after a checkpoint of nothing", w.topic.Position(0, 0))
	b.close()
	c := w.lane()
	c.begin(0)
	w.topic.Put(0, Insert(1, "a"))
	c.checkpoint()
	w.sees("after the first rows", c.From...)
}

func restart(w *world) {
	for i := range int64(4) {
		w.topic.Put(0, Insert(i, "a"), Insert(i, "a"))
		w.topic.Put(1, Insert(i, "b"))
		a := w.lane()
		a.begin(0, 1)
		if i > 0 {
			w.sees("after a restart", a.From...)
		}
		a.checkpoint()
		if i%2 == 0 {
			a.close()
		} else {
			a.crash()
		}
		w.sees("after the process ended", w.topic.End(0), w.topic.End(1))
		w.saved("after the process ended", w.topic.End(0), w.topic.End(1))
	}
}

func zombieCommits(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(1, "a"))
	a := w.lane()
	a.begin(0)
	a.write()
	a.prepare()
	r := a.receipt()
	a.save()
	first := a.From
	w.topic.Put(0, Insert(2, "b"))
	b := w.lane()
	b.acquire(0)
	w.must(a.CommitOne(w.ctx, r), "Commit by an ended generation, before its successor's Open")
	w.sees("after the ended generation's Commit", first...)
	_ = a.Write(w.ctx, -1)
	if a.Prepare(w.ctx) != nil {
		_ = a.Discard(w.ctx)
	}
	// The same session, or the same name, now holds work that nobody decided: to commit the first must not commit the second.
	_ = a.CommitOne(w.ctx, r)
	w.sees("after the ended generation prepared more and committed again what it had decided", first...)
	b.open()
	_ = a.CommitOne(w.ctx, r)
	w.sees("after the successor's Open and one more Commit", first...)
	b.write()
	b.prepare()
	_ = a.CommitOne(w.ctx, r)
	w.sees("after one more Commit, while the successor has prepared", first...)
	b.save()
	b.commit()
	_ = a.CommitOne(w.ctx, r)
	w.sees("at the end", b.From...)
}

func twoSuccessors(w *world) {
	w.topic.Put(0, Insert(10, "a"), Insert(10, "a"))
	w.topic.Put(1, Insert(11, "a"), Insert(11, "a"))
	a := w.lane()
	a.begin(0, 1)
	a.write()
	a.prepare()
	a.save()
	a.crash()
	g, both := a.Claim.Generation.ID, slices.Clone(a.From)
	b, c := w.lane(), w.lane()
	b.acquire(0)
	c.acquire(1)
	for _, l := range []*lane{b, c} {
		if list, listed := l.decided(g); !listed || len(list) != len(a.Waiting) {
			w.fail("generation %d decided %d receipts; the claim of its successor %d lists %s", g, len(a.Waiting), l.Claim.Generation.ID, endedText(l.Claim.Ended))
		}
	}
	b.open()
	w.sees("after one successor's Open", both...)
	c.open()
	w.sees("after the other one's Open", both...)
	w.topic.Put(0, Insert(20, "b"))
	w.topic.Put(1, Insert(21, "b"))
	b.checkpoint() // both say that the generation is settled
	c.checkpoint()
	w.sees("after a checkpoint of each", w.topic.End(0), w.topic.End(1))
	w.saved("after a checkpoint of each", w.topic.End(0), w.topic.End(1))
	d := w.lane()
	d.begin(0, 1)
	if _, listed := d.decided(g); listed {
		w.fail("generation %d was settled by both successors, and a claim still lists it: %s", g, endedText(d.Claim.Ended))
	}
	w.sees("after the next owner of both", w.topic.End(0), w.topic.End(1))
}

func otherBoundaries(w *world) {
	for i := range int64(24) {
		w.topic.Put(int32(i%2), Insert(i/4, "a"))
	}
	// Each lane writes further than the one before had saved, in batches and checkpoints of another size, and dies at another step.
	for i, l := range []struct {
		batch, checkpoints int
		dies               string
	}{{5, 1, "Write"}, {2, 1, "Save"}, {3, 2, "Prepare"}, {1, 3, "Save"}, {12, 0, "Prepare"}} {
		a := w.lane()
		a.begin(0, 1)
		w.sees(fmt.Sprintf("after lane %d opened", i+1), a.From...)
		for range l.checkpoints {
			w.must(a.Write(w.ctx, l.batch), "Write")
			a.prepare()
			a.save()
			a.commit()
		}
		w.must(a.Write(w.ctx, l.batch), "Write")
		w.must(a.Write(w.ctx, l.batch), "Write")
		if l.dies != "Write" {
			a.prepare()
		}
		if l.dies == "Save" {
			a.save()
		}
		a.crash()
	}
	b := w.lane()
	b.begin(0, 1)
	b.checkpoint()
	w.sees("after all was read", w.topic.End(0), w.topic.End(1))
}

func acrossCheckpoints(w *world) {
	a := w.lane()
	a.begin(0)
	opened := len(w.history)
	for i, run := range keyRuns() {
		w.history = w.history[:opened]
		w.note("%s, in a checkpoint a change:", run.name)
		w.topic.Put(0, DeleteKey(3), DeleteKey(4), Insert(1, "old"), Insert(2, "old"))
		a.checkpoint()
		for j, e := range run.events {
			w.topic.Put(0, e)
			if e.Kind == UpdateBefore(0, "").Kind && j+1 < len(run.events) {
				continue // no cut between the halves of an update
			}
			a.checkpoint()
			w.sees("after "+run.name, a.From...)
			if i%4 == 0 { // its successor has nothing of it in memory
				a.close()
				a = w.lane()
				a.begin(0)
				opened = 0
			}
		}
	}
}

func deleteOfNothing(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(2, "b"))
	a := w.lane()
	a.begin(0)
	a.checkpoint()
	for range 2 {
		w.topic.Put(0, DeleteKey(9), Delete(8, "x"), DeleteKey(9), Delete(2, "other text"), Delete(2, "b"))
		a.checkpoint()
		w.sees("after deletes, some of rows that are not there", a.From...)
		w.topic.Put(0, DeleteKey(2))
		a.checkpoint()
		w.sees("after a checkpoint of nothing but a delete of nothing", a.From...)
	}
	w.topic.Put(0, DeleteKey(1), DeleteKey(1), Insert(9, "c"))
	a.checkpoint()
	w.sees("after the last row was deleted and one that never was is inserted", a.From...)
}

func partitionsMove(w *world) {
	const parts = 4
	a, b := w.lane(), w.lane()
	next := int64(0)
	more := func() {
		for p := range int32(parts) {
			id := next*parts + int64(p)
			w.topic.Put(p, Insert(id, "a"), UpdateAfter(id, "b"))
			if next > 0 {
				w.topic.Put(p, UpdateAfter(id-parts, fmt.Sprint("c", next)))
			}
		}
		next++
	}
	held := map[*lane][]int32{a: {0, 1, 2, 3}}
	turn := func(when string) {
		for _, l := range []*lane{a, b} {
			if len(held[l]) > 0 {
				l.begin(held[l]...)
			}
		}
		more()
		var ends []sink.Generation
		for _, l := range []*lane{b, a} {
			if len(held[l]) > 0 {
				l.checkpoint()
				ends = append(ends, l.Claim.Generation)
			}
		}
		if len(ends) == 2 && ends[0].ID == ends[1].ID {
			w.fail("%s, two lanes have generation %d", when, ends[0].ID)
		}
		w.sees(when, w.topic.End(0), w.topic.End(1), w.topic.End(2), w.topic.End(3))
		w.saved(when, w.topic.End(0), w.topic.End(1), w.topic.End(2), w.topic.End(3))
	}
	turn("after the first checkpoint")
	for _, to := range []*lane{b, a} {
		from := a
		if to == a {
			from = b
		}
		for p := range int32(parts) {
			held[from] = slices.DeleteFunc(slices.Clone(held[from]), func(q int32) bool { return q == p })
			held[to] = append(slices.Clone(held[to]), p)
			slices.Sort(held[to])
			turn(fmt.Sprintf("after partition %d moved", p))
		}
	}
}

package sinktest

import (
	"fmt"

	"github.com/flinksink/flinksink/sink"
)

// visibilityLaws say when rows appear, and how often.
func visibilityLaws() []Law {
	return []Law{
		{ID: "L01", Table: KeyedTable, Needs: Exact, run: nothingEarly,
			Sentence: "Nothing that was written or prepared is visible before its checkpoint is decided."},
		{ID: "L02", Table: KeyedTable, run: allOfIt,
			Sentence: "All of a checkpoint is visible once it is committed, and Prepare needs the memory of its batches no longer."},
		{ID: "L03", Table: AppendTable, Needs: Exact, run: discardDrops,
			Sentence: "Discard drops what was written and not prepared, and nothing else; with nothing written it is fine."},
		{ID: "L04", Table: AppendTable, Needs: Exact, run: abortDrops,
			Sentence: "Abort drops what was prepared, may be repeated, and the checkpoint that is done again has each row once."},
		{ID: "L05", Table: KeyedTable, run: guaranteeHolds,
			Sentence: "The guarantee that the sink states is the one it is declared with, and a weaker one says why and what would help."},
	}
}

func nothingEarly(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(2, "b"))
	a := w.lane()
	a.begin(0)
	a.checkpoint()
	was := a.From
	w.sees("after the first checkpoint", was...)
	w.topic.Put(0, UpdateAfter(1, "z"), Delete(2, "b"), Insert(3, "c"))
	a.write()
	w.sees("after Write", was...)
	a.prepare()
	w.sees("after Prepare", was...)
	a.save()
	a.commit()
	w.sees("after Commit", a.From...)
}

func allOfIt(w *world) {
	const rows, each = 400, 50
	a := w.lane()
	a.begin(0, 1)
	for round := range 3 {
		for id := range int64(rows) {
			v := fmt.Sprintf("row %d of round %d", id, round)
			switch {
			case round == 0:
				w.topic.Put(int32(id%2), Insert(id, v))
			case (id+int64(round))%5 == 0:
				w.topic.Put(int32(id%2), DeleteKey(id))
			default:
				w.topic.Put(int32(id%2), UpdateAfter(id, v))
			}
		}
		for range rows / each {
			w.must(a.Write(w.ctx, each/2), "Write")
		}
		a.prepare()
		a.save()
		a.commit()
		w.sees(fmt.Sprintf("after checkpoint %d", a.ID), a.From...)
	}
	w.saved("after three checkpoints", w.topic.End(0), w.topic.End(1))
}

func discardDrops(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(2, "b"), Insert(3, "c"))
	a := w.lane()
	a.begin(0)
	a.discard()
	w.must(a.Write(w.ctx, 1), "Write")
	a.prepare()
	a.save()
	a.commit()
	a.write()
	a.discard()
	a.discard()
	w.sees("after Discard", a.From...)
	w.must(a.Write(w.ctx, 1), "Write after Discard")
	a.prepare()
	a.save()
	a.commit()
	w.sees("after what was discarded was written again in part", a.From...)
	a.checkpoint()
	w.sees("after all was written again", a.From...)
}

func abortDrops(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(1, "a"), Insert(2, "b"))
	a := w.lane()
	a.begin(0)
	a.write()
	a.prepare()
	a.abort()
	w.sees("after Abort")
	a.abort()
	w.saved("after Abort")
	a.begin(0) // to open again is to acquire anew
	a.checkpoint()
	w.sees("after the checkpoint was done again", a.From...)
	w.topic.Put(0, Insert(3, "c"))
	a.checkpoint()
	w.sees("after the next checkpoint", a.From...)
}

func guaranteeHolds(w *world) {
	a := w.lane()
	if a.client.Sink == nil {
		return // the guarantee is the suite's own
	}
	g := a.client.Sink.Guarantee()
	w.note("Guarantee = %s", g)
	switch {
	case !w.h.Convergent && g.Level != sink.ExactlyOnce:
		w.fail("the sink states %q and the Harness does not say Convergent", g.Level)
	case w.h.Convergent && g.Level != sink.Convergent:
		w.fail("the sink states %q and the Harness says Convergent", g.Level)
	case g.How == "" || g.Visible == "" || g.Zombie == "":
		w.fail("How, Visible and Zombie are not all filled: %+v", g)
	case g.Level != sink.ExactlyOnce && (g.Weakest == "" || g.Cure == ""):
		w.fail("Weakest and Cure are not filled: %+v", g)
	}
}

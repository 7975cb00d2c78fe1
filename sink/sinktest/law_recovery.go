package sinktest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/flinksink/flinksink/sink"
)

// recoveryLaws say what is left when a process ends, and what its successor does with it.
func recoveryLaws() []Law {
	return []Law{
		{ID: "L06", Table: AppendTable, Needs: TwoPhase | Exact, run: commitRepeats,
			Sentence: "Commit may be repeated, in any process that has nothing but the receipt, at any later time, and does it once."},
		{ID: "L07", Table: AppendTable, Needs: TwoPhase | Exact, run: abortElsewhere,
			Sentence: "The receipt alone is enough for another process to abort, and what was aborted is ErrLost to Commit, never done."},
		{ID: "L08", Table: AppendTable, Needs: Exact, run: crashBeforeSave,
			Sentence: "A process that ends before Save leaves no rows and no moved positions, and its successor has each row once."},
		{ID: "L09", Table: AppendTable, Needs: Exact, run: crashAfterSave,
			Sentence: "What was decided and not committed when the process ended is visible after the successor's Open, once, however often it is opened."},
		{ID: "L10", Table: AppendTable, Needs: Exact, run: claimsGoOn,
			Sentence: "An ended generation is in every claim that its partitions lead to, until it is settled, and in none afterwards."},
		{ID: "L11", Table: AppendTable, Needs: Exact, run: closeDecidesNothing,
			Sentence: "Close decides nothing, before Save or after it, and twice is harmless."},
	}
}

// carried returns a receipt as a store hands it to another process.
func carried(w *world, c sink.Committable) sink.Committable {
	var there sink.Committable
	b, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(b, &there)
	}
	if err != nil || !bytes.Equal(c.Data, there.Data) {
		w.fail("the receipt cannot be carried to another process: %v", err)
	}
	return there
}

// receipt checks the receipt of prepared rows.
func (l *lane) receipt() sink.Committable {
	r, g := l.Receipt, l.Claim.Generation
	switch {
	case r.Empty():
		l.w.fail("the receipt of rows that were prepared is empty (an InTransaction sink must be declared so)")
	case len(r.Data) > 64<<10:
		l.w.fail("a receipt of %d bytes; more than 64 KiB belong beside the store", len(r.Data))
	case r.Sink != SinkName || r.Generation != g.ID || r.Checkpoint != l.ID:
		l.w.fail("the receipt of checkpoint %d of generation %d of sink %q says checkpoint %d of generation %d of sink %q",
			l.ID, g.ID, SinkName, r.Checkpoint, r.Generation, r.Sink)
	}
	return carried(l.w, r)
}

func commitRepeats(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(1, "a"), Insert(2, "b"))
	a := w.lane()
	a.begin(0)
	a.write()
	a.prepare()
	r := a.receipt()
	a.save()
	a.crash()
	first := a.From
	for range 2 {
		b := w.lane()
		for range 2 {
			w.must(b.CommitOne(w.ctx, r), "Commit in another process")
			w.sees("after Commit in another process", first...)
		}
	}
	c := w.lane()
	c.begin(0)
	w.topic.Put(0, Insert(3, "c"))
	c.checkpoint()
	w.must(c.CommitOne(w.ctx, r), "Commit of a generation that is settled")
	w.sees("after late Commits", c.From...)
}

func abortElsewhere(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	a := w.lane()
	a.begin(0)
	a.write()
	a.prepare()
	r := a.receipt()
	b := w.lane()
	for range 2 {
		err := b.Committer.Abort(w.ctx, r)
		b.tell(err, "Abort in another process")
		w.must(err, "Abort in another process")
	}
	w.class(b.CommitOne(w.ctx, r), sink.ErrLost, "Commit of what was aborted")
	w.class(a.CommitOne(w.ctx, r), sink.ErrLost, "Commit of what another process aborted")
	w.sees("after Abort and Commit")
}

func crashBeforeSave(w *world) {
	for i, step := range []string{"Write", "Prepare"} {
		for j, end := range []string{"killed", "abandoned"} {
			w.topic.Put(0, Insert(int64(10*i+j), "a"), Insert(int64(10*i+j), "a"))
			a := w.lane()
			a.begin(0)
			before := a.From
			a.write()
			if step == "Prepare" {
				a.prepare()
			}
			if end == "killed" {
				a.crash()
			}
			b := w.lane()
			b.acquire(0)
			if b.From[0] != before[0] {
				w.fail("a process %s after %s: its successor begins at %v, not at %v", end, step, b.From, before)
			}
			b.open()
			w.sees(fmt.Sprintf("a process %s after %s", end, step), before...)
			b.checkpoint()
			w.sees(fmt.Sprintf("a process %s after %s, then its successor's checkpoint", end, step), b.From...)
			b.close()
		}
	}
}

func crashAfterSave(w *world) {
	for i, end := range []string{"killed", "abandoned"} {
		w.topic.Put(0, Insert(int64(i), "a"), Insert(int64(i), "a"))
		a := w.lane()
		a.begin(0)
		a.write()
		a.prepare()
		a.save()
		if end == "killed" {
			a.crash()
		}
		b := w.lane()
		b.acquire(0)
		if b.From[0] != a.From[0] {
			w.fail("Save told that %v are saved, the successor begins at %v", a.From, b.From)
		}
		list, listed := b.decided(a.Claim.Generation.ID)
		if !listed || len(list) != len(a.Waiting) {
			w.fail("generation %d was ended with %d decided receipts, the claim has %d (listed: %t)", a.Claim.Generation.ID, len(a.Waiting), len(list), listed)
		}
		b.open()
		w.sees("after the successor's Open", b.From...)
		b.open()
		w.sees("after the successor's second Open", b.From...)
		c := w.lane() // b dies before it could say that a's generation is settled
		c.begin(0)
		w.sees("after the second successor's Open", c.From...)
		w.topic.Put(0, Insert(int64(100+i), "b"))
		c.checkpoint()
		w.sees("after the second successor's checkpoint", c.From...)
	}
}

func claimsGoOn(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	first := w.lane()
	first.begin(0)
	first.write()
	first.prepare()
	first.save()
	g1 := first.Claim.Generation.ID
	second := w.lane() // takes more, and dies before Open
	second.acquire(0, 1)
	g2 := second.Claim.Generation.ID
	second.crash()
	third := w.lane() // holds nothing that the first one held
	third.acquire(1)
	list, listed := third.decided(g1)
	if _, also := third.decided(g2); !listed || !also || len(list) != len(first.Waiting) {
		w.fail("generation %d held partition 0, %d held 0 and 1; the claim of 1 lists %s, expected both, with %d receipts of the first",
			g1, g2, endedText(third.Claim.Ended), len(first.Waiting))
	}
	for i, e := range third.Claim.Ended {
		if i > 0 && third.Claim.Ended[i-1].ID >= e.ID {
			w.fail("the claim does not list the oldest generation first: %s", endedText(third.Claim.Ended))
		}
	}
	third.open()
	w.sees("after the Open of a generation that the claim leads to", w.topic.End(0))
	third.checkpoint() // nothing was read; it says that both are settled
	fourth := w.lane()
	fourth.begin(0)
	if len(fourth.Claim.Ended) > 0 {
		w.fail("generations %d and %d were settled, the next claim lists %s", g1, g2, endedText(fourth.Claim.Ended))
	}
	if fourth.From[0] != w.topic.End(0) {
		w.fail("partition 0 begins at %v, saved was %v", fourth.From[0], w.topic.End(0))
	}
	w.topic.Put(1, Insert(2, "b"))
	third.checkpoint()
	w.sees("after all", w.topic.End(0), w.topic.End(1))
}

func closeDecidesNothing(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	for _, step := range []string{"Open", "Write", "Prepare"} {
		a := w.lane()
		a.begin(0)
		if step != "Open" {
			a.write()
		}
		if step == "Prepare" {
			a.prepare()
		}
		a.close()
		a.close()
		w.sees("after Close that followed "+step, a.From...)
	}
	a := w.lane()
	a.begin(0)
	w.sees("after the Open that followed Close")
	a.write()
	a.prepare()
	a.save()
	a.close()
	a.close()
	b := w.lane()
	b.begin(0)
	w.sees("after Close that followed Save, and the successor's Open", a.From...)
	b.checkpoint()
	w.sees("after the successor's checkpoint", a.From...)
}

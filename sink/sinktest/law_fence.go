package sinktest

import (
	"github.com/flinksink/flinksink/sink"
)

// fenceLaws say what a process can do that lives on while another owns its partitions, and what it cannot do to others.
func fenceLaws() []Law {
	return []Law{
		{ID: "L12", Table: KeyedTable, run: fencedSave,
			Sentence: "Save of a generation that was ended is ErrFenced and changes nothing, also before its successor's Open."},
		{ID: "L13", Table: AppendTable, Needs: Exact | Fenced, run: zombie,
			Sentence: "After its successor's Open nothing that an ended generation does becomes visible or changes what its successor does."},
		{ID: "L14", Table: KeyedTable, run: neighbours,
			Sentence: "Generations over different partitions do not disturb each other, nor does Open what a neighbour has prepared."},
		{ID: "L15", Table: KeyedTable, run: endedWhole,
			Sentence: "Who acquires one partition of a generation ends all of it: nothing is saved for its other partitions either."},
		{ID: "L16", Table: KeyedTable, run: openAgain,
			Sentence: "Open may be called again with the same claim, and again with a new one on the same committer."},
	}
}

func fencedSave(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	a := w.lane()
	a.begin(0)
	a.checkpoint()
	first := a.From
	w.topic.Put(0, UpdateAfter(1, "b"), Insert(2, "c"))
	a.write()
	a.prepare()
	b := w.lane()
	b.acquire(0)
	w.class(a.Save(w.ctx), sink.ErrFenced, "Save of the older generation after Acquire")
	w.saved("after the fenced Save", first...)
	if !w.h.Convergent {
		w.sees("after the fenced Save", first...)
	}
	b.open()
	if err := a.Save(w.ctx); err == nil {
		w.fail("Save of the older generation succeeded after the successor's Open")
	}
	w.saved("after the second fenced Save", first...)
	if !w.h.Convergent {
		w.sees("after the second fenced Save", first...)
	}
	b.checkpoint()
	w.saved("after the successor's checkpoint", b.From...)
	w.sees("after the successor's checkpoint", b.From...)
}

// zombie wakes one three times: before its successor writes, while the successor has work prepared, and after all is committed. What it
// is told does not matter, but for Save, which must not succeed.
func zombie(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(1, "a"), Insert(2, "b"))
	wake := func(z *lane, when string, deeds ...string) {
		for _, deed := range deeds {
			switch deed {
			case "write":
				_ = z.Write(w.ctx, -1)
			case "prepare":
				if r := z.Receipt; z.Prepare(w.ctx) != nil {
					z.Receipt = r // what it prepared before is still in its memory
				}
			case "save":
				if z.Save(w.ctx) == nil {
					w.fail("%s: Save of the ended generation %d succeeded", when, z.Claim.Generation.ID)
				}
			case "abort":
				_ = z.Abort(w.ctx)
			case "discard":
				_ = z.Discard(w.ctx)
			case "open":
				_ = z.Open(w.ctx)
			}
		}
	}
	// One has nothing written yet, one has written, one has prepared.
	var zombies []*lane
	for _, step := range []string{"Open", "Write", "Prepare"} {
		z := w.lane()
		z.begin(0)
		if step != "Open" {
			z.write()
		}
		if step == "Prepare" {
			z.prepare()
		}
		zombies = append(zombies, z)
	}
	b := w.lane()
	b.begin(0)
	for i, z := range zombies {
		if i < 2 {
			wake(z, "before the successor writes", "write", "prepare")
		}
		wake(z, "before the successor writes", "save", "discard", "open", "write", "prepare", "save")
	}
	w.sees("after ended generations wrote, prepared and tried to save")
	w.saved("after ended generations tried to save")
	b.write()
	b.prepare()
	for _, z := range zombies {
		wake(z, "while the successor has prepared", "save", "abort", "discard", "open")
	}
	b.save()
	b.commit()
	w.sees("after the successor's checkpoint", b.From...)
	for _, z := range zombies {
		z.To = z.From
		wake(z, "after the successor's checkpoint", "open", "write", "prepare", "save", "abort", "write", "discard")
	}
	w.sees("after ended generations tried once more", b.From...)
	w.topic.Put(0, Insert(3, "c"))
	b.checkpoint()
	w.sees("after the successor's next checkpoint", b.From...)
	w.saved("after the successor's next checkpoint", b.From...)
}

func neighbours(w *world) {
	w.topic.Put(0, Insert(10, "a"))
	w.topic.Put(1, Insert(11, "a"))
	a, b := w.lane(), w.lane()
	a.begin(0)
	b.begin(1)
	a.write()
	b.write()
	a.prepare()
	b.prepare()
	c := w.lane() // takes over from a, while b has work prepared
	c.begin(0)
	if len(c.Claim.Ended) != 1 || c.Claim.Ended[0].ID != a.Claim.Generation.ID {
		w.fail("the claim of partition 0 lists %s, expected generation %d alone", endedText(c.Claim.Ended), a.Claim.Generation.ID)
	}
	b.save()
	b.commit()
	p0, p1 := w.topic.Position(0, 0), w.topic.End(1)
	if !w.h.Convergent {
		w.sees("after the checkpoint of partition 1", p0, p1)
	}
	c.checkpoint()
	for round := range 3 {
		w.topic.Put(0, UpdateAfter(10, "b"), Insert(int64(100+10*round), "c"))
		w.topic.Put(1, UpdateAfter(11, "b"), Insert(int64(101+10*round), "c"))
		b.write()
		c.write()
		c.prepare()
		b.prepare()
		b.save()
		c.save()
		c.commit()
		b.commit()
		w.sees("after a checkpoint of either lane", w.topic.End(0), w.topic.End(1))
	}
	w.saved("after all", w.topic.End(0), w.topic.End(1))
}

func endedWhole(w *world) {
	w.topic.Put(0, Insert(10, "a"))
	w.topic.Put(1, Insert(11, "a"))
	a := w.lane()
	a.begin(0, 1)
	a.checkpoint()
	first := a.From
	w.topic.Put(0, Insert(20, "b"))
	w.topic.Put(1, UpdateAfter(11, "b"))
	a.write()
	a.prepare()
	b := w.lane()
	b.acquire(1)
	if b.From[0] != first[1] {
		w.fail("partition 1 begins at %v, saved was %v", b.From[0], first[1])
	}
	w.class(a.Save(w.ctx), sink.ErrFenced, "Save of a generation that lost one of two partitions")
	w.saved("after the fenced Save", first...)
	b.open()
	c := w.lane()
	c.begin(0)
	if c.From[0] != first[0] {
		w.fail("partition 0 begins at %v, saved was %v", c.From[0], first[0])
	}
	if !w.h.Convergent {
		w.sees("after the fenced Save", first...)
	}
	b.checkpoint()
	c.checkpoint()
	w.sees("after the successors' checkpoints", w.topic.End(0), w.topic.End(1))
	w.saved("after the successors' checkpoints", w.topic.End(0), w.topic.End(1))
}

func openAgain(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	a := w.lane()
	for range 3 {
		a.acquire(0)
		a.open()
		a.open()
		a.checkpoint()
		w.sees("after a checkpoint", a.From...)
		w.topic.Put(0, UpdateAfter(1, "b"), Insert(int64(a.Claim.Generation.ID)+10, "c"))
	}
	a.write()
	a.prepare()
	a.acquire(0) // neither aborted nor saved: the outcome was unclear, and the claim settles it
	a.open()
	a.open()
	a.checkpoint()
	w.sees("after a checkpoint that was prepared and given up", a.From...)
	w.saved("after a checkpoint that was prepared and given up", a.From...)
}

package sinktest

import (
	"errors"
	"reflect"

	"github.com/flinksink/flinksink/sink"
)

// storeLaws say what the store decides, and when it refuses.
func storeLaws() []Law {
	return []Law{
		{ID: "L17", Table: KeyedTable, run: positionsComeBack,
			Sentence: "Acquire and Read return the last saved positions, whole, and none for what was never saved; generation numbers rise."},
		{ID: "L18", Table: KeyedTable, run: saveCompares,
			Sentence: "Save succeeds only if the stored positions are the checkpoint's From, for all partitions at once, else it is ErrFenced and changes nothing."},
		{ID: "L19", Table: AppendTable, Needs: Exact, run: sameAgain,
			Sentence: "The very same checkpoint may be saved again and changes nothing; an older one that arrives late moves no position back."},
		{ID: "L20", Table: KeyedTable, run: endTells,
			Sentence: "End tells the last checkpoint saved for its generation, as often as asked, also for one that others ended or settled."},
		{ID: "L21", Table: KeyedTable, run: endEnds,
			Sentence: "After End nothing is saved for the generation, also not what it had prepared, and no other generation is touched."},
		{ID: "L22", Table: KeyedTable, run: emptyMoves,
			Sentence: "A checkpoint without changes moves the positions and nothing else."},
		{ID: "L23", Table: KeyedTable, run: fingerprintTells,
			Sentence: "An Acquire with another fingerprint is ErrConfig and disturbs nobody."},
		{ID: "L24", Table: KeyedTable, run: groupGenerationRises,
			Sentence: "An Acquire of an older consumer group generation is ErrFenced with a StaleGroupError and disturbs nobody; GroupRestarted is accepted only for the number that is stored."},
	}
}

func positionsComeBack(w *world) {
	l := w.lane()
	state, err := l.Store.Read(w.ctx, "sinktest-never-acquired")
	w.must(err, "Read of a bridge that was never acquired")
	if !reflect.DeepEqual(state, sink.State{}) {
		w.fail("Read of a bridge that was never acquired has positions %v and generations %v, expected a zero State", state.Positions, state.Generations)
	}
	w.topic.Put(0, Insert(1, "a"))
	w.topic.Put(1, Insert(2, "a"), Insert(3, "a"))
	var last sink.GenerationID
	rises := func(l *lane) {
		if l.Claim.Generation.ID <= last {
			w.fail("generation %d came after generation %d", l.Claim.Generation.ID, last)
		}
		last = l.Claim.Generation.ID
	}
	a := w.lane()
	a.acquire(1)
	rises(a)
	if len(a.Claim.Positions) > 0 {
		w.fail("the first claim has positions %v", a.Claim.Positions)
	}
	a.open()
	a.write()
	a.To[0].LeaderEpoch = 7
	a.prepare()
	a.save()
	a.commit()
	want := w.topic.End(1)
	want.LeaderEpoch = 7
	w.saved("after the first checkpoint", want)
	for range 3 {
		b := w.lane()
		b.acquire(0, 1)
		rises(b)
		if len(b.Claim.Positions) != 1 || b.Claim.Positions[0] != want {
			w.fail("the claim has positions %+v, expected %+v alone", b.Claim.Positions, want)
		}
	}
	b := w.lane()
	b.begin(0, 1)
	rises(b)
	b.checkpoint()
	w.saved("after a checkpoint of both partitions", w.topic.End(0), want)
	w.sees("after a checkpoint of both partitions", b.From...)
}

func saveCompares(w *world) {
	w.topic.Put(0, Insert(10, "a"), Insert(20, "a"))
	w.topic.Put(1, Insert(11, "a"), Insert(21, "a"))
	a := w.lane()
	a.begin(0, 1)
	a.checkpoint()
	first := a.From
	for _, wrong := range []struct {
		partition int
		offset    int64
	}{{0, 1}, {0, 3}, {1, 0}, {1, 1}} {
		w.topic.Put(0, UpdateAfter(10, "b"))
		w.topic.Put(1, UpdateAfter(11, "b"))
		a.write()
		a.prepare()
		cp := a.Checkpoint()
		cp.From[wrong.partition].Offset = wrong.offset
		w.class(a.Send(w.ctx, cp), sink.ErrFenced, "Save from positions that are not the stored ones")
		w.saved("after a Save that compared", first...)
		if !w.h.Convergent {
			w.sees("after a Save that compared", first...)
		}
		a.abort()
		a.begin(0, 1)
	}
	a.checkpoint()
	w.saved("after all was done again", a.From...)
	w.sees("after all was done again", a.From...)
}

func sameAgain(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(1, "a"))
	a := w.lane()
	a.begin(0)
	a.write()
	a.prepare()
	one := a.Checkpoint()
	a.save()
	w.must(a.Send(w.ctx, one), "Save of the very same checkpoint, before Commit")
	a.commit()
	w.must(a.Send(w.ctx, one), "Save of the very same checkpoint, after Commit")
	w.saved("after the same Save again", one.To...)
	w.sees("after the same Save again", one.To...)
	w.topic.Put(0, Insert(2, "b"))
	a.checkpoint()
	two := a.From
	if a.Send(w.ctx, one) == nil {
		w.fail("Save of checkpoint 1 succeeded after checkpoint 2 was saved")
	}
	w.saved("after checkpoint 1 arrived late", two...)
	w.sees("after checkpoint 1 arrived late", two...)
	b := w.lane()
	b.begin(0)
	w.topic.Put(0, Insert(3, "c"))
	b.checkpoint()
	w.sees("after the successor's checkpoint", b.From...)
}

func endTells(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	never := w.lane()
	never.begin(0)
	tells := func(l *lane, asked *lane, want sink.CheckpointID, when string) {
		id, err := asked.Store.End(w.ctx, l.Claim.Generation)
		asked.tell(err, "End generation %d = %d", l.Claim.Generation.ID, id)
		w.must(err, "End "+when)
		if id != want {
			w.fail("End of generation %d %s told %d, expected %d", l.Claim.Generation.ID, when, id, want)
		}
	}
	tells(never, never, 0, "that saved nothing")
	tells(never, never, 0, "that saved nothing, asked again")
	a := w.lane()
	a.begin(0)
	a.checkpoint()
	w.topic.Put(0, UpdateAfter(1, "b"))
	a.checkpoint()
	b := w.lane()
	b.acquire(0)
	tells(a, a, 2, "that another ended")
	b.open()
	tells(a, b, 2, "that another ended, asked by its successor")
	w.topic.Put(0, UpdateAfter(1, "c"))
	b.checkpoint() // says that never and a are settled
	tells(a, a, 2, "that is settled")
	tells(never, a, 0, "that is settled and saved nothing")
	w.topic.Put(0, UpdateAfter(1, "d"))
	b.checkpoint() // would fail if one of the questions had ended b
	tells(b, b, 2, "that was never ended")
	tells(b, b, 2, "asked again")
	w.saved("after all", b.From...)
	w.sees("after all", b.From...)
}

func endEnds(w *world) {
	w.topic.Put(0, Insert(10, "a"))
	w.topic.Put(1, Insert(11, "a"))
	a, b := w.lane(), w.lane()
	a.begin(0)
	b.begin(1)
	a.checkpoint()
	b.checkpoint()
	first := a.From
	w.topic.Put(0, Insert(20, "b"))
	w.topic.Put(1, Insert(21, "b"))
	a.write()
	a.prepare()
	late := a.Checkpoint()
	if id := a.end(); id != 1 {
		w.fail("End told checkpoint %d, saved was 1", id)
	}
	w.class(a.Send(w.ctx, late), sink.ErrFenced, "Save after End")
	b.checkpoint()
	w.saved("after End and the neighbour's checkpoint", first[0], w.topic.End(1))
	a.begin(0) // the same process goes on under a new generation; until then what it has prepared may hold readers back, as a Kafka transaction does
	if !w.h.Convergent {
		w.sees("after End, the neighbour's checkpoint and the successor's Open", first[0], w.topic.End(1))
	}
	a.checkpoint()
	b.checkpoint()
	w.sees("after all", w.topic.End(0), w.topic.End(1))
}

func emptyMoves(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	a := w.lane()
	a.begin(0)
	a.checkpoint()
	rows := a.From
	for range 2 {
		a.To[0].Offset += 5 // aborted or filtered messages, no change
		a.prepare()
		a.save()
		a.commit()
		w.saved("after a checkpoint without changes", a.To...)
		w.sees("after a checkpoint without changes", rows...)
	}
	b := w.lane()
	b.begin(0)
	if b.From[0] != a.From[0] {
		w.fail("the successor begins at %v, saved was %v", b.From, a.From)
	}
	b.prepare()
	b.save() // nothing read at all: it settles
	b.commit()
	w.saved("after a checkpoint that only settles", a.From...)
	w.sees("after a checkpoint that only settles", rows...)
}

func fingerprintTells(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	a := w.lane()
	a.begin(0)
	a.write()
	b := w.lane()
	b.Request.Fingerprint = "another bridge"
	for _, p := range []int32{0, 1} {
		w.class(b.Acquire(w.ctx, p), sink.ErrConfig, "Acquire with another fingerprint")
	}
	a.prepare()
	a.save()
	a.commit()
	w.sees("after the checkpoint that was under way", a.From...)
	b.Request.Fingerprint = a.Request.Fingerprint
	b.begin(0)
	b.checkpoint()
}

func groupGenerationRises(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	w.topic.Put(1, Insert(2, "a"))
	a := w.lane()
	a.Request.GroupGeneration = 5
	a.begin(0)
	a.write()
	b := w.lane()
	refused := func(asked, restarted, stored int32, partitions ...int32) {
		b.Request.GroupGeneration, b.Request.GroupRestarted = asked, restarted
		w.note("group generation %d, restarted %d:", asked, restarted)
		err := b.Acquire(w.ctx, partitions...)
		w.class(err, sink.ErrFenced, "Acquire of an older group generation")
		var stale *sink.StaleGroupError
		if !errors.As(err, &stale) || *stale != (sink.StaleGroupError{Asked: asked, Stored: stored}) {
			w.fail("Acquire of group generation %d, stored %d, gave %v, expected a StaleGroupError with both", asked, stored, err)
		}
	}
	accepted := func(asked, restarted int32, partitions ...int32) {
		b.Request.GroupGeneration, b.Request.GroupRestarted = asked, restarted
		w.note("group generation %d, restarted %d:", asked, restarted)
		w.must(b.Acquire(w.ctx, partitions...), "Acquire of the current group generation")
	}
	refused(4, 0, 5, 0)
	refused(4, 0, 5, 0, 1)
	refused(1, 4, 5, 0)
	a.prepare()
	a.save() // nobody was disturbed
	a.commit()
	w.sees("after the checkpoint that was under way", a.From...)
	accepted(5, 0, 0) // a lane that does it again has the same one
	accepted(1, 5, 0) // the broker forgot the group
	refused(0, 0, 1, 0)
	accepted(2, 0, 0, 1)
	refused(1, 5, 2, 0) // the same once more, late
	refused(1, 5, 2, 1)
	b.Request.GroupGeneration, b.Request.GroupRestarted = 2, 0
	b.begin(0, 1)
	b.checkpoint()
	w.sees("after the checkpoint of the last owner", b.From...)
}

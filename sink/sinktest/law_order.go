package sinktest

import "fmt"

// orderLaws say which change of a key wins.
func orderLaws() []Law {
	return []Law{
		{ID: "L25", Table: KeyedTable, Needs: Deletes, run: lastWins,
			Sentence: "The last change of a key wins, across kinds and batches, in one checkpoint as in many."},
		{ID: "L26", Table: AppendTable, Needs: Exact | Keyless, run: eachOnce,
			Sentence: "A table without a key has each row as often as it was inserted, equal rows too, through checkpoints that are done again."},
	}
}

// keyRuns are runs of changes on a table that holds (1, "old") and (2, "old"), made to trip a sink that groups changes by kind.
func keyRuns() []struct {
	name   string
	events []Event
} {
	return []struct {
		name   string
		events []Event
	}{
		{"delete, then insert", []Event{Delete(1, "old"), Insert(1, "new")}},
		{"delete by key, then insert", []Event{DeleteKey(1), Insert(1, "new")}},
		{"insert, then delete", []Event{Insert(3, "new"), Delete(3, "new")}},
		{"insert, delete, insert", []Event{Insert(3, "b"), DeleteKey(3), Insert(3, "c")}},
		{"update, delete", []Event{UpdateAfter(1, "b"), Delete(1, "b")}},
		{"update, delete, insert, update", []Event{UpdateAfter(1, "b"), Delete(1, "b"), Insert(1, "c"), UpdateAfter(1, "d")}},
		{"-U and +U of one key", []Event{UpdateBefore(1, "old"), UpdateAfter(1, "b")}},
		{"-U and +U of one key, twice", []Event{UpdateBefore(1, "old"), UpdateAfter(1, "b"), UpdateBefore(1, "b"), UpdateAfter(1, "c")}},
		{"-U and +U to another key", []Event{UpdateBefore(1, "old"), UpdateAfter(3, "b")}},
		{"-U and +U to a key that is there", []Event{UpdateBefore(1, "old"), UpdateAfter(2, "b")}},
		{"two keys change places", []Event{UpdateBefore(1, "old"), UpdateBefore(2, "old"), UpdateAfter(2, "b"), UpdateAfter(1, "c")}},
		{"there and back", []Event{UpdateBefore(1, "old"), UpdateAfter(3, "b"), UpdateBefore(3, "b"), UpdateAfter(1, "c")}},
		{"insert of what is there", []Event{Insert(1, "b"), Insert(1, "c")}},
		{"update of what is not there", []Event{UpdateAfter(3, "b")}},
		{"delete of what is not there", []Event{DeleteKey(3), Delete(4, "x")}},
		{"delete twice", []Event{Delete(1, "old"), DeleteKey(1)}},
		{"empty text", []Event{UpdateAfter(1, "")}},
	}
}

func lastWins(w *world) {
	a := w.lane()
	a.begin(0)
	// Each run in a checkpoint of its own, first as one batch, then as a batch a change. Readers saw the right rows before each, so its
	// history begins there.
	opened := len(w.history)
	passed := 0
	for _, run := range keyRuns() {
		for _, batch := range []struct {
			how  string
			most int
		}{{"in one batch", -1}, {"in a batch a change", 1}} {
			w.history = w.history[:opened]
			if passed > 0 {
				w.note("(%d runs of changes, after each of which readers saw the right rows)", passed)
			}
			w.note("%s, %s:", run.name, batch.how)
			w.topic.Put(0, DeleteKey(3), DeleteKey(4), Insert(1, "old"), Insert(2, "old"))
			a.checkpoint()
			w.topic.Put(0, run.events...)
			for range run.events {
				w.must(a.Write(w.ctx, batch.most), "Write")
			}
			a.prepare()
			a.save()
			a.commit()
			w.sees(fmt.Sprintf("after %s (%s)", run.name, batch.how), a.From...)
			passed++
		}
	}
	w.history = w.history[:opened]
	w.note("(%d runs of changes, after each of which readers saw the right rows)", passed)
	// All of them on many keys in one checkpoint, and one key very often.
	for k := range int64(10) {
		base := 100 + 10*k
		for _, run := range keyRuns() {
			for _, e := range run.events {
				e.ID += base
				w.topic.Put(0, e)
			}
		}
	}
	for i := range 1000 {
		w.topic.Put(0, UpdateAfter(1, fmt.Sprint(i)))
	}
	for range 20 {
		w.must(a.Write(w.ctx, 100), "Write")
	}
	a.checkpoint()
	w.sees("after all runs and one key 1000 times in one checkpoint", a.From...)
}

func eachOnce(w *world) {
	a := w.lane()
	a.begin(0, 1)
	for i := range int64(6) {
		w.topic.Put(0, Insert(i/2, "a"), Insert(i/2, "a"))
		w.topic.Put(1, Insert(i/2, "a"))
		a.write()
		a.prepare()
		if i%2 == 1 {
			a.abort()
			a.begin(0, 1)
			a.checkpoint()
			continue
		}
		a.save()
		a.commit()
		w.sees("after a checkpoint", a.From...)
	}
	w.sees("after all", a.From...)
	w.saved("after all", w.topic.End(0), w.topic.End(1))
}

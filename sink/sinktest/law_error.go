package sinktest

import (
	"context"
	"errors"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// errorLaws say what the world is like after a call that failed.
func errorLaws() []Law {
	return []Law{
		{ID: "L27", Table: AppendTable, Needs: Exact, run: endedContext,
			Sentence: "A call whose context has ended says so, and leaves what the class of its error says; the lane acquires anew and each row is there once."},
		{ID: "L28", Table: AppendTable, Needs: Exact, run: contextEndsDuring,
			Sentence: "When the context ends during Save, End tells what became of it, and rows and positions agree with End."},
		{ID: "L29", Table: AppendTable, Needs: TwoPhase | Exact | Fenced, run: rolledBack,
			Sentence: "Open rolls back what ended generations prepared and did not decide, whenever they prepare it: there is nothing left that could be committed."},
	}
}

// contextClass checks the class of an error that an ended context gave.
func (w *world) contextClass(err error, call string) {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		w.fail("%s with an ended context gave an error that hides it from errors.Is: %v", call, err)
	}
	switch c := sink.ClassOf(err); c {
	case sink.ErrTransient, sink.ErrUncertain:
	default:
		w.fail("%s with an ended context gave class %q, expected %q or %q", call, c, sink.ErrTransient, sink.ErrUncertain)
	}
}

func endedContext(w *world) {
	gone, cancel := context.WithCancel(w.ctx)
	cancel()
	a := w.lane()
	a.begin(0)
	id := int64(0)
	// undo is what a lane does after an error before Save: drop what there is and acquire anew.
	undo := func() {
		a.discard()
		a.begin(0)
	}
	for _, call := range []string{"Acquire", "Open", "Write", "Prepare", "Save", "Commit", "Discard", "Abort", "End", "Read", "Close"} {
		id++
		w.topic.Put(0, Insert(id, "a"), Insert(id, "a"))
		before := a.From
		w.note("%s with an ended context:", call)
		switch call {
		case "Acquire":
			if err := a.Acquire(gone, 0); err != nil {
				w.contextClass(err, call)
			}
			undo() // an Acquire that nobody knows the answer of may have ended the generation
		case "Open":
			a.acquire(0)
			if err := a.Open(gone); err != nil {
				w.contextClass(err, call)
				undo()
			}
		case "Write":
			if err := a.Write(gone, -1); err != nil {
				w.contextClass(err, call)
				w.sees("after Write with an ended context", before...)
				undo()
			}
		case "Prepare":
			a.write()
			if err := a.Prepare(gone); err != nil {
				w.contextClass(err, call)
				w.sees("after Prepare with an ended context", before...)
				undo()
			} else {
				a.save()
				a.commit()
			}
		case "Save":
			a.write()
			a.prepare()
			w.outcome(a, gone)
			a.begin(0)
		case "Commit":
			a.write()
			a.prepare()
			a.save()
			if err := a.Commit(gone); err != nil {
				w.contextClass(err, call)
			}
			a.commit() // the only way is forward
		case "Discard", "Abort":
			a.write()
			drop := a.Discard
			if call == "Abort" {
				a.prepare()
				drop = a.Abort
			}
			if err := drop(gone); err != nil {
				w.contextClass(err, call)
			}
			undo() // what could not be dropped, the next Open rolls back
		case "End":
			a.checkpoint()
			id, err := a.End(gone)
			if err != nil {
				w.contextClass(err, call)
			} else if id != a.ID {
				w.fail("End with an ended context told %d, saved was %d", id, a.ID)
			}
			a.begin(0)
		case "Read":
			if _, err := a.Store.Read(gone, Bridge); err != nil {
				w.contextClass(err, call)
			}
		case "Close":
			a.write()
			_ = a.Close(gone) // whatever it says, nothing is decided
			a = w.lane()
			a.begin(0)
		}
		a.checkpoint()
		w.sees("after the lane went on", a.From...)
		w.saved("after the lane went on", a.From...)
	}
}

// contextEndsDuring does not know where in Save the context ends, and need not: every outcome that End confirms is right.
func contextEndsDuring(w *world) {
	a := w.lane()
	a.begin(0)
	for i, after := range []time.Duration{0, 20 * time.Microsecond, 100 * time.Microsecond, 500 * time.Microsecond, 2 * time.Millisecond, 10 * time.Millisecond} {
		w.topic.Put(0, Insert(int64(i), "a"), Insert(int64(i), "a"))
		a.write()
		a.prepare()
		ctx, cancel := context.WithTimeout(w.ctx, after)
		w.outcome(a, ctx)
		cancel()
		a.begin(0)
		a.checkpoint()
		w.sees("after the lane went on", a.From...)
	}
}

// outcome sends the prepared checkpoint under ctx and holds its answer against End, positions and, after the next Open, rows. It
// does not abort: the answer was unclear.
func (w *world) outcome(a *lane, ctx context.Context) {
	before, after, decided := a.From, a.To, a.ID
	err := a.Save(ctx)
	if err != nil {
		w.contextClass(err, "Save")
	}
	id := a.end()
	switch {
	case id != decided && err == nil:
		w.fail("Save of checkpoint %d succeeded, End tells %d", decided, id)
	case id == decided && errors.Is(sink.ClassOf(err), sink.ErrTransient):
		w.fail("Save of checkpoint %d is %q, surely nothing is durable, but End tells it is saved", decided, sink.ErrTransient)
	case id != decided:
		after = before
	}
	saved := after
	if saved[0].Offset == 0 {
		saved = nil // nothing ever was
	}
	w.saved("after End told the outcome", saved...)
	b := w.lane()
	b.begin(0)
	w.sees("after End told the outcome and a successor opened", after...)
	b.close()
}

// rolledBack asks for a Commit that no lane would send: it is the only way to see whether the work is still there.
func rolledBack(w *world) {
	w.topic.Put(0, Insert(1, "a"))
	a := w.lane()
	a.begin(0)
	a.write()
	a.prepare()
	early := a.receipt()
	late := w.lane()
	late.begin(0)
	late.write()
	b := w.lane()
	b.begin(0)
	w.class(b.CommitOne(w.ctx, early), sink.ErrLost, "Commit of what an ended generation had prepared before Open")
	if late.Prepare(w.ctx) == nil && !late.Receipt.Empty() {
		w.class(b.CommitOne(w.ctx, late.Receipt), sink.ErrLost, "Commit of what an ended generation prepared after Open")
	}
	w.sees("after Open")
	b.checkpoint()
	w.sees("after the successor's checkpoint", b.From...)
}

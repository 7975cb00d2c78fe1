package sinktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// contextLaws say what the end of a context does, what an error tells, and what is left of a committer that was closed.
func contextLaws() []Law {
	return []Law{
		{ID: "L38", Table: AppendTable, Needs: Exact, run: contextEndsAfter,
			Sentence: "A context that ends after its call has returned changes nothing: what the call did stays done."},
		{ID: "L39", Table: AppendTable, Needs: Exact, run: contextEndsDuringAny,
			Sentence: "When the context ends during any call, the call returns, and the lane that acquires anew has each row once."},
		{ID: "L40", Table: KeyedTable, run: errorsTell,
			Sentence: "Every error is a sink.Error with an operation, a class and a cause, and no row value is in its text."},
		{ID: "L41", Table: AppendTable, Needs: Exact, run: afterClose,
			Sentence: "After Close a call neither panics nor makes anything visible, and Close again is nil."},
		{ID: "L42", Table: KeyedTable, run: nothingLeft,
			Sentence: "A lane that was closed leaves no goroutine, and once all is settled there is no session, transaction or temporary object left."},
	}
}

func contextEndsAfter(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(1, "a"), Insert(2, "b"))
	during := func(what string, call func(ctx context.Context) error) {
		ctx, cancel := context.WithCancel(w.ctx)
		err := call(ctx)
		cancel()
		w.must(err, what)
		w.note("(the context of %s has ended)", what)
	}
	var a *lane
	during("Lane", func(ctx context.Context) error { a = w.laneAs(ctx, sink.Lane{Bridge: Bridge}); return nil })
	for range 2 {
		during("Acquire", func(ctx context.Context) error { return a.Acquire(ctx, 0) })
		during("Open", a.Open)
		for range 3 {
			during("Write", func(ctx context.Context) error { return a.Write(ctx, 1) })
		}
		during("Prepare", a.Prepare)
		during("Save", a.Save)
		during("Commit", a.Commit)
		w.sees("after a checkpoint whose every call had a context of its own", a.From...)
		w.saved("after a checkpoint whose every call had a context of its own", a.From...)
		w.topic.Put(0, Insert(3, "c"), Insert(3, "c"), Insert(3, "c"))
	}
}

func contextEndsDuringAny(w *world) {
	a := w.lane()
	a.begin(0)
	undo := func() { a.discard(); a.begin(0) }
	id := int64(0)
	for _, after := range []time.Duration{time.Microsecond, 50 * time.Microsecond, 400 * time.Microsecond, 3 * time.Millisecond} {
		for _, call := range []string{"Acquire", "Open", "Write", "Prepare", "Commit", "Discard", "Abort"} {
			id++
			w.topic.Put(0, Insert(id, "a"), Insert(id, "a"))
			w.note("%s with a context that ends after %v:", call, after)
			ctx, cancel := context.WithTimeout(w.ctx, after)
			switch call {
			case "Acquire":
				if err := a.Acquire(ctx, 0); err != nil {
					w.contextClass(err, call)
				}
				undo()
			case "Open":
				a.acquire(0)
				if err := a.Open(ctx); err != nil {
					w.contextClass(err, call)
					undo()
				}
			case "Write":
				if err := a.Write(ctx, -1); err != nil {
					w.contextClass(err, call)
					undo()
				}
			case "Prepare":
				a.write()
				if err := a.Prepare(ctx); err != nil {
					w.contextClass(err, call)
					undo()
				} else {
					a.save()
					a.commit()
				}
			case "Commit":
				a.write()
				a.prepare()
				a.save()
				if err := a.Commit(ctx); err != nil {
					w.contextClass(err, call)
				}
				a.commit()
			case "Discard":
				a.write()
				_ = a.Discard(ctx) // whatever it answers, the next Open sees to what is left
				undo()
			case "Abort":
				a.write()
				a.prepare()
				_ = a.Abort(ctx)
				undo()
			}
			cancel()
			a.checkpoint()
			w.sees("after the lane went on", a.From...)
		}
	}
}

// errorsTell provokes the errors that any implementation must give.
func errorsTell(w *world) {
	const secret = "s3cret-row-value"
	w.topic.Put(0, Insert(1, secret))
	told := func(err error, what string, must bool) {
		var e *sink.Error
		switch {
		case err == nil && must:
			w.fail("%s succeeded", what)
		case err == nil:
		case !errors.As(err, &e):
			w.fail("%s gave an error that is no *sink.Error: %T", what, err)
		case e.Op == "":
			w.fail("%s gave an error without an operation", what)
		case e.Class == nil:
			w.fail("%s gave an error without a class", what)
		case e.Err == nil:
			w.fail("%s gave an error without a cause: nobody can tell what to do", what)
		case !errors.Is(err, e.Class) || !errors.Is(err, e.Err):
			w.fail("%s gave an error that hides its class or its cause from errors.Is", what)
		case strings.Contains(err.Error(), secret):
			w.fail("%s gave an error whose text holds a row's value", what)
		}
	}
	a := w.lane()
	a.begin(0)
	a.write()
	a.prepare()
	b := w.lane()
	b.Request.Fingerprint = "another bridge"
	told(b.Acquire(w.ctx, 0), "Acquire with another fingerprint", true)
	b.Request.Fingerprint = a.Request.Fingerprint
	b.begin(0)
	told(a.Save(w.ctx), "Save of an ended generation", true)
	told(a.Abort(w.ctx), "Abort by an ended generation", false)
	told(a.Discard(w.ctx), "Discard by an ended generation", false)
	a.To = a.From
	told(a.Write(w.ctx, -1), "Write by an ended generation", false)
	told(a.Prepare(w.ctx), "Prepare by an ended generation", false)
	told(a.Open(w.ctx), "Open by an ended generation", false)
	gone, cancel := context.WithCancel(w.ctx)
	cancel()
	told(b.Write(gone, -1), "Write with an ended context", false)
	told(b.Discard(w.ctx), "Discard", false)
	c := w.lane()
	c.Request.GroupGeneration = 5
	c.acquire(0)
	c.Request.GroupGeneration = 4
	told(c.Acquire(w.ctx, 0), "Acquire of an older group generation", true)
	c.Request.GroupGeneration = 5
	if !w.h.InTransaction && !w.h.Convergent {
		c.begin(0)
		c.write()
		c.prepare()
		c.abort()
		told(c.CommitOne(w.ctx, c.receipt()), "Commit of what was aborted", true)
	}
	c.begin(0)
	c.checkpoint()
	w.sees("after the errors", c.From...)
}

func afterClose(w *world) {
	w.topic.Put(0, Insert(1, "a"), Insert(1, "a"))
	for _, step := range []string{"nothing", "Open", "Write", "Prepare", "Save"} {
		w.note("closed after %s:", step)
		a := w.lane()
		before := []changelog.Position{w.topic.Position(0, 0)}
		if step != "nothing" {
			a.begin(0)
			before = a.From
		}
		if step == "Write" || step == "Prepare" || step == "Save" {
			a.write()
		}
		if step == "Prepare" || step == "Save" {
			a.prepare()
		}
		if step == "Save" {
			a.save()
			before = a.From
		}
		a.close()
		a.calm(func() {
			_ = a.Open(w.ctx)
			_ = a.Write(w.ctx, -1)
			_ = a.Prepare(w.ctx)
			_ = a.Abort(w.ctx)
			_ = a.Discard(w.ctx)
		})
		a.close()
		b := w.lane()
		b.begin(0)
		w.sees("after Close that followed "+step+", calls after it, and the successor's Open", before...)
		b.close()
	}
	c := w.lane()
	c.begin(0)
	c.checkpoint()
	w.sees("after the last successor's checkpoint", c.From...)
}

// calm makes a violation of a panic.
func (l *lane) calm(f func()) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stopped:
			panic(p)
		default:
			l.w.fail("a call after Close panicked: %s", fmt.Sprint(p))
		}
	}()
	f()
}

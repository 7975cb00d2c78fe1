package bridge

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// This file is the writer of a lane: what it does with what was read, and when it makes checkpoints.

// write is the writer goroutine. An error is why the bridge cannot go on.
func (l *lane) write() error {
	defer close(l.over)
	timer := time.NewTimer(l.r.o.Interval)
	defer timer.Stop()
	held := time.NewTimer(l.r.o.Interval)
	defer held.Stop()
	for {
		select {
		case <-l.r.stopping:
			return l.finish()
		default:
		}
		if e, ok := l.next(); ok {
			if err := l.handle(e); err != nil {
				return err
			}
			continue
		}
		if len(l.pending) > 0 {
			if err := l.acquire(); err != nil {
				return err
			}
			continue
		}
		if b := l.stuck; b != nil {
			l.stuck = nil
			if !b.stale() {
				if err := l.halt(b); err != nil {
					return err
				}
				continue
			}
		}
		if at, ok := l.overdue(); ok {
			held.Reset(time.Until(at))
		} else {
			held.Stop()
		}
		var err error
		saved := false
		select {
		case <-l.notify:
		case <-l.r.stopping:
		case ld := <-l.loads:
			saved, err = l.take(ld)
		case <-timer.C:
			saved = true
			ok := false
			if ok, err = l.checkpoint(); err == nil && l.n == 0 {
				l.elsewhere()
			}
			if ok && err == nil { // else it may have acquired anew without hearing of it
				err = l.compare()
			}
		case <-held.C:
			saved, err = l.expire()
		}
		if err != nil {
			return err
		}
		if saved {
			timer.Reset(l.r.o.Interval)
		}
	}
}

// take writes a load, and checkpoints when enough has come together.
func (l *lane) take(ld *load) (saved bool, err error) {
	ld.drop()
	l.queue.release(ld.bytes)
	l.r.f.drained(l)
	limited := len(l.searching()) > 0
	switch {
	case l.holds[ld.in] && limited:
		if err := l.releaseLimited(); err != nil {
			return false, err
		}
		ld.drop()
	case l.holds[ld.in]:
		if err := l.holdBack(ld); err != nil {
			return false, err
		}
	}
	l.withinBudget(ld)
	if ok, err := l.put(ld, l.call); err != nil || !ok {
		return false, err
	}
	if ld.bad != nil && !ld.bad.stale() {
		return true, l.halt(ld.bad)
	}
	changes, bytes := l.co.Pending()
	if limited || changes >= l.r.o.Changes || bytes+l.current.bytes >= l.r.o.Bytes || l.co.Held()+l.current.bytes >= l.r.o.ByteBudget/2 || l.r.end != nil && l.r.f.ended(l) {
		_, err := l.checkpoint()
		return true, err
	}
	return false, nil
}

// put writes a load, from which what is stale was dropped, by way of call.
func (l *lane) put(ld *load, call func(func(ctx context.Context) error) (bool, error)) (ok bool, err error) {
	if len(ld.spans) == 0 {
		l.recycle(ld.batch)
		return true, nil
	}
	p := sink.Progress{To: make([]changelog.Position, 0, len(ld.spans))}
	for _, s := range ld.spans {
		p.To = append(p.To, s.position())
		p.Records += s.records
	}
	slices.SortFunc(p.To, func(a, b changelog.Position) int { return a.Partition.Compare(b.Partition) })
	b := ld.batch
	l.writing = l.contentOf(ld)
	ld.progress(&p)
	p.Skipped += l.r.dropSkipped(ld.in, b)
	if b.Len() == 0 {
		l.recycle(b)
		b = nil
	}
	l.r.f.gives(ld)
	// From here the coordinator owns the batch, whatever comes out.
	drops := l.drops
	if ok, err = call(func(ctx context.Context) error { return l.co.Write(ctx, b, p) }); err != nil || !ok {
		l.writing = content{}
		return false, err
	}
	l.written(drops)
	for _, s := range ld.spans {
		if !s.stale() {
			l.r.f.note(s.part, s.to)
		}
	}
	return true, nil
}

func (l *lane) checkpoint() (ok bool, err error) {
	if len(l.co.Partitions()) == 0 {
		return true, nil
	}
	return l.call(func(ctx context.Context) error {
		_, err := l.co.Checkpoint(ctx)
		return err
	})
}

// halt ends the bridge at a record, once everything before it is checkpointed. If that was not to be, the partition was sent back, and the
// record comes again.
func (l *lane) halt(b *bad) error {
	ok, err := l.checkpoint()
	if err == nil && !ok {
		// Cut short by an event, which comes first. A partition of which nothing was in the checkpoint is not sent back: the record would
		// not come again.
		l.stuck = b
	}
	if err != nil || !ok || b.stale() {
		return err
	}
	if h := l.r.o.Hooks.DataError; h != nil {
		h(b.err)
	}
	return b.error(l)
}

// acquire adds the pending partitions to the coordinator and starts reading them. When it is cut short they stay pending: to acquire
// again is harmless.
func (l *lane) acquire() error {
	parts := slices.SortedFunc(maps.Keys(l.pending), changelog.Partition.Compare)
	var at []changelog.Position
	ours := true
	ok, err := l.calls(l.allSaved(), func(ctx context.Context) (err error) {
		if ours, err = l.ground(ctx, parts); err != nil || !ours {
			return err
		}
		if at, err = l.co.Assign(ctx, parts); err != nil {
			return err
		}
		if err := l.mayKeep(ctx); err != nil {
			return err
		}
		return source{l}.Seek(ctx, at)
	})
	if err != nil || !ok {
		return err
	}
	if !ours {
		maps.Copy(l.orphans, l.pending)
		clear(l.pending)
		return nil
	}
	clear(l.pending)
	l.r.saved(at)
	return nil
}

// finish ends the lane with a checkpoint of what is written. What is held belongs to it only at the end of UntilEnd: after an ordinary stop the
// next run reads it again, and until then readers see the row as it was before its update. Hard ends when the grace is over.
func (l *lane) finish() error {
	if len(l.co.Partitions()) == 0 || l.closed || errors.Is(l.r.cause, sink.ErrFenced) { // a checkpoint that fails acquires anew
		return nil
	}
	if l.given != nil { // what was written is dropped: there is nothing to save
		return l.given
	}
	failing := l.failing()
	ctx, cancel := l.begin()
	defer l.end(cancel)
	var halt *bad
	var err error
	for l.r.end != nil && err == nil && halt == nil {
		var ld *load
		if ld, err = l.release(true, 0); err != nil || ld == nil {
			break
		}
		l.withinBudget(ld)
		_, err = l.put(ld, func(f func(ctx context.Context) error) (bool, error) {
			err := f(ctx)
			return err == nil, err
		})
		halt = ld.bad
	}
	if err == nil && (failing || !l.allSaved()) {
		written := l.r.f.written(l)
		l.aborted = nil
		if _, err = l.co.Checkpoint(ctx); err == nil {
			err = l.r.f.unsaved(written, l.aborted)
		}
	}
	l.counted = sink.Counters{}
	if err != nil && errors.Is(sink.ClassOf(err), sink.ErrFenced) {
		l.r.log.Warn("flinksink: fenced while stopping: the new owner reads again what was not saved", "bridge", l.r.name, "lane", l.n, "error", err)
		return nil
	}
	if err == nil && halt != nil {
		return halt.error(l)
	}
	return l.explain(err)
}

package sinktest

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/sink"
)

// sweepLaws put a fault at each call in turn.
func sweepLaws() []Law {
	return []Law{
		{ID: "L54", Table: AppendTable, Needs: Exact, run: anyFault, long: 4,
			Sentence: "A lane that meets one fault, at any call, before its effect, after it, late or in its middle, goes on by the rules, and each change is there once."},
	}
}

func anyFault(w *world) {
	for _, when := range []When{Before, After, Late, Partial} {
		if err := Sweep(when, w.sweep); err != nil {
			w.fail("%v", err)
		}
	}
}

// sweep is a scenario of [Sweep]: a lane in its simplest form carries the topic over, whatever fails, by the rules of package sink.
func (w *world) sweep(f *Faults) error {
	w.release()
	w.lanes, w.history, w.srv = nil, nil, NewServer()
	w.topic = NewTopic(w.topic.Table)
	w.topic.Put(0, Insert(1, "a"), Insert(1, "a"), Insert(2, "b"))
	w.topic.Put(1, Insert(1, "a"), Insert(3, "c"))
	if err := w.h.Reset(w.ctx, w.topic.Table); err != nil {
		w.broken("Harness.Reset: %v", err)
	}
	l := w.lane()
	_, own := l.Committer.(sink.Store)
	l.Committer = f.Committer(SinkName, l.Committer)
	if s, ok := l.Committer.(sink.Store); ok && own && l.client.Store == nil {
		l.Store = s
	} else {
		l.Store = f.Store(l.Store)
	}
	if err := l.carry(w.ctx, f); err != nil {
		return err
	}
	f.Stop()
	_ = f.Deliver(w.ctx)
	w.sees("after the lane had met its fault", w.topic.End(0), w.topic.End(1))
	w.saved("after the lane had met its fault", w.topic.End(0), w.topic.End(1))
	return nil
}

// carry reads to the end of both partitions, two messages a checkpoint.
func (l *lane) carry(ctx context.Context, f *Faults) error {
	for range 20 {
		_ = f.Deliver(ctx) // a late request comes when it comes: here before a new generation, below before Commit
		if l.Acquire(ctx, 0, 1) != nil || l.Open(ctx) != nil {
			continue
		}
		for !l.carried() {
			if l.Write(ctx, 1) != nil || l.Write(ctx, 1) != nil {
				_ = l.Discard(ctx)
				break
			}
			if l.Prepare(ctx) != nil {
				_ = l.Discard(ctx) // it may be prepared all the same: the next Open settles it
				break
			}
			if l.Save(ctx) != nil {
				_, _ = l.End(ctx)
				_ = l.Discard(ctx)
				break
			}
			_ = f.Deliver(ctx)
			// Decided: the only way is forward, as often as it takes.
			for try := 0; l.Commit(ctx) != nil; try++ {
				if try == 20 {
					return fmt.Errorf("Commit fails without a fault")
				}
			}
		}
		if l.carried() {
			return nil
		}
	}
	return fmt.Errorf("the lane is still at %v after 20 generations", l.From)
}

func (l *lane) carried() bool {
	return len(l.From) == 2 && l.From[0] == l.Topic.End(0) && l.From[1] == l.Topic.End(1) && len(l.Settle) == 0
}

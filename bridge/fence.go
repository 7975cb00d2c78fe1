package bridge

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// This file is about what a lane does that is not, or may not be, the owner of its partitions any more.
//
// The rule: a generation that another one ended is over with an ErrFenced, which Hooks.Fenced and the status tell, and all that it had not
// saved is dropped. Only then may the process acquire partitions again, as a member that the group has given them to; with
// Options.HaltWhenFenced not even then.

// defaultLongPause is how old the group's word may be before a lane asks again whether its partitions are its own. A process that was stopped
// between the two would else end the generation of its rightful successor before it hears of it.
const defaultLongPause = time.Second

// laneGroup is what the lane's coordinator has of the group.
type laneGroup struct {
	*member
	l *lane
}

// Confirm denies everything to a lane that halts when it is fenced.
func (g laneGroup) Confirm(ctx context.Context) (bool, error) {
	if g.l.r.o.HaltWhenFenced && g.l.fenced != nil {
		return false, nil
	}
	return g.member.Confirm(ctx)
}

// noteFences has the lane remember that it was fenced.
func (l *lane) noteFences(h sink.Hooks) sink.Hooks {
	told := h.Fenced
	h.Fenced = func(err error) {
		l.fenced = err
		if told != nil {
			told(err)
		}
	}
	return h
}

// anew makes the lane's next coordinator, which reaches the sink's server: for as long as it takes, as everything else that does.
func (l *lane) anew() error {
	for n := 1; ; n++ {
		co, err := l.r.coordinator(l.r.hard, l)
		if err == nil {
			l.co = co
			return nil
		}
		if c := sink.ClassOf(err); c != sink.ErrTransient && c != sink.ErrUncertain {
			return err
		}
		if h := l.hooks.Retry; h != nil {
			h(err, n)
		}
		l.r.log.Warn("flinksink: beginning a lane anew failed, and is tried again", "bridge", l.r.name, "lane", l.n, "try", n, "error", err)
		select {
		case <-time.After(l.r.pause(n)):
		case <-l.r.stopping:
			l.closed = true
			return nil
		case <-l.r.hard.Done():
			l.closed = true
			return nil
		}
	}
}

// stillOurs asks the group, before partitions are acquired, if what it said of them is not quite new. When it says no, a session that begins
// gives or takes them.
func (l *lane) stillOurs(ctx context.Context) (bool, error) {
	l.mu.Lock()
	heard := l.heard
	l.mu.Unlock()
	if time.Since(heard) < l.r.o.longPause {
		return true, nil
	}
	for n := 1; ; n++ {
		ours, err := l.r.m.Confirm(ctx)
		if err == nil {
			if !ours {
				l.r.log.Warn("flinksink: the consumer group does not confirm the lane's partitions; waiting for it", "bridge", l.r.name, "lane", l.n)
			}
			return ours, nil
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		l.r.log.Warn("flinksink: cannot ask the consumer group whether the partitions are still ours", "bridge", l.r.name, "lane", l.n, "error", err)
		select {
		case <-time.After(l.r.pause(n)):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// thrownOut ends, as fenced, what a lane held of partitions that the group took from this member without asking.
func (l *lane) thrownOut(gone []changelog.Partition) error {
	err := &sink.Error{Op: "group", Bridge: l.r.name, Class: sink.ErrFenced, Err: fmt.Errorf(
		"the consumer group %q threw this member out: it was stopped, or cut off, for longer than its session lasts. Somebody else may own %v; "+
			"what was not saved of them is dropped, and read again by their owner", l.r.o.Group, names(gone))}
	l.hooks.Fenced(err)
	if l.r.o.HaltWhenFenced {
		return err
	}
	return nil
}

// replaced is how a static member ends that another process with its instance id has taken the place of: whether it was stopped meanwhile, or
// two processes have one id by mistake, only the newer one is the owner.
func (r *run) replaced(cause error) error {
	err := &sink.Error{Op: "group", Bridge: r.name, Class: sink.ErrFenced, Err: fmt.Errorf(
		"another process joined group %q with the instance id %q and has taken this one's place. If it is the replacement of this process, all is well; "+
			"if both are to run, Options.InstanceID must be unique in the group: %w", r.o.Group, r.instance(), cause)}
	if h := r.o.Hooks.Fenced; h != nil {
		h(err)
	}
	return err
}

// compare compares, now and then while there is nothing to save, what is stored with what the lane has. A lane that has something to
// save learns from the answer to Save that its positions were moved by hand, or that its generation was ended; one that has nothing
// would learn it with the next record, which may be a long time.
func (l *lane) compare() error {
	l.r.totals.mu.Lock()
	generation, decided := l.status.Generation, l.status.Decided
	l.r.totals.mu.Unlock()
	held := l.co.Partitions()
	if now := time.Now(); len(held) == 0 || now.Sub(decided) < l.r.o.Watch || now.Sub(l.looked) < l.r.o.Watch {
		return nil
	}
	l.looked = time.Now()
	var st sink.State
	ok, err := l.look(func(ctx context.Context) (err error) {
		// A store that does not answer must not keep the lane from its work: the next look asks again.
		ask, cancel := context.WithTimeout(ctx, l.r.o.Connect)
		defer cancel()
		st, err = l.co.Store().Read(ask, l.r.name)
		if err != nil && ctx.Err() == nil {
			l.r.log.Debug("flinksink: comparing the stored positions failed", "bridge", l.r.name, "lane", l.n, "error", err)
			return nil
		}
		return err
	})
	if err != nil || !ok || st.Bridge == "" {
		return err
	}
	cause := l.r.f.differs(st, generation, held)
	if cause == nil {
		return nil
	}
	ours, asked := false, false
	ok, err = l.look(func(ctx context.Context) (err error) {
		ask, cancel := context.WithTimeout(ctx, l.r.o.Connect)
		defer cancel()
		ours, err = l.r.m.Confirm(ask)
		asked = err == nil
		if err != nil && ctx.Err() == nil {
			l.r.log.Warn("flinksink: cannot ask the consumer group whether the partitions are still ours", "bridge", l.r.name, "lane", l.n, "error", err)
			return nil
		}
		return err
	})
	if err != nil || !ok || !asked { // the next look finds it again
		return err
	}
	fence := &sink.Error{Op: "watch", Bridge: l.r.name, Class: sink.ErrFenced, Err: cause}
	l.hooks.Fenced(fence)
	if err := l.renew(fence); err != nil {
		return err
	}
	if ours {
		maps.Copy(l.pending, l.orphans)
		clear(l.orphans)
	}
	return nil
}

// differs says in what a store differs from what the generation has, nil for nothing.
func (f *fetcher) differs(st sink.State, generation sink.GenerationID, held []changelog.Partition) error {
	for _, g := range st.Generations {
		if g.ID == generation && g.Ended {
			return fmt.Errorf("generation %d was ended: its partitions were acquired by another one, or its positions moved by hand", generation)
		}
	}
	stored := make(map[changelog.Partition]sink.StoredPosition, len(st.Positions))
	for _, p := range st.Positions {
		stored[p.Position.Partition] = p
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range held {
		part := f.parts[p]
		if part == nil || part.saved < 0 {
			continue
		}
		switch sp, ok := stored[p]; {
		case !ok:
			return fmt.Errorf("the position of %s was forgotten: this lane had saved %d", p, part.saved)
		case sp.Owner != 0 && sp.Owner != generation:
			return fmt.Errorf("%s belongs to generation %d, this one is %d", p, sp.Owner, generation)
		case sp.Offset != part.saved:
			return fmt.Errorf("the stored position of %s is %d, and this lane had saved %d", p, sp.Offset, part.saved)
		}
	}
	return nil
}

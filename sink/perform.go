package sink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/flinksink/flinksink/sink/internal/protocol"
)

// This file is the shell around the protocol machine: it performs effects and turns their outcome into events.

// drive serves one request to its end.
func (c *Coordinator) drive(ctx context.Context, e protocol.Event) error {
	if c.over != nil {
		return c.over
	}
	if _, ok := e.(protocol.WriteFailed); !ok { // which comes with its error
		c.err = nil
	}
	c.report = Report{}
	return c.run(ctx, e)
}

// run feeds events until the request that they belong to is served, or waits for an outer decision.
func (c *Coordinator) run(ctx context.Context, e protocol.Event) error {
	interrupted := false
	for {
		if !interrupted && ctx.Err() != nil {
			c.m.Step(protocol.Interrupt{})
			interrupted = true
		}
		var next protocol.Event
		for _, fx := range c.m.Step(e) {
			switch fx := fx.(type) {
			case protocol.Done:
				if !fx.Owned && len(c.m.Partitions()) > 0 && ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return nil
			case protocol.Halt:
				c.over = c.err
				if fx.Tries > 0 {
					c.over = c.leftDecided(fx.Tries)
				}
				return c.over
			}
			if a := c.perform(ctx, fx); a != nil {
				next = a
			}
		}
		if next == nil && c.outer.undecided() {
			return nil
		}
		e = next
	}
}

// perform does one effect and returns the answer, nil where none is wanted.
//
// Which context an effect runs under is part of the protocol: what comes before the decision ends with the caller's; a Save, once
// sent, and what follows it has a grace of its own, because its outcome must be learnt.
func (c *Coordinator) perform(ctx context.Context, fx protocol.Effect) protocol.Event {
	switch fx := fx.(type) {
	case protocol.Acquire:
		return c.acquire(ctx, fx)
	case protocol.Open:
		began := time.Now()
		if err := c.committers[fx.Sink].Open(ctx, c.claim.of(c.o.Sinks[fx.Sink].Name)); err != nil {
			return c.fail("open", fx.Sink, err)
		}
		c.step(SinkStep{Kind: SinkOpened, Generation: c.claim.Generation.ID}, fx.Sink, began)
		return protocol.Opened{Sink: fx.Sink}
	case protocol.Begin:
		ps, err := c.o.Source.Begin(ctx, fx.Partitions)
		if err == nil {
			err = covers(ps, fx.Partitions)
		}
		if err != nil {
			return c.fail("begin", -1, err)
		}
		return protocol.Begun{Positions: ps}
	case protocol.Seek:
		c.counters, c.written = Counters{}, 0
		if err := c.o.Source.Seek(ctx, fx.To); err != nil {
			return c.fail("seek", -1, err)
		}
		return protocol.Sought{}
	case protocol.Prepare:
		return c.prepare(ctx, fx)
	case protocol.Save:
		return c.save(ctx, fx)
	case protocol.Commit:
		return c.commit(ctx, fx)
	case protocol.End:
		ctx, cancel := c.grace(ctx)
		defer cancel()
		last, err := c.store.End(ctx, c.claim.Generation)
		if err != nil {
			return c.fail("end", -1, err)
		}
		if c.unclear && last == c.cut.Checkpoint {
			c.decided() // the unclear Save was the decision
		}
		c.unclear = false
		return protocol.AllEnded{Last: int64(last)}
	case protocol.Discard:
		ctx, cancel := c.grace(ctx)
		defer cancel()
		err := c.committers[fx.Sink].Discard(ctx)
		c.lots[fx.Sink].drop()
		if fx.Sink == len(c.committers)-1 {
			c.releaseAll()
			if !c.unclear { // else the next claim tells whether it was decided
				c.counters, c.written = Counters{}, 0
				if h := c.o.Hooks.Aborted; h != nil {
					h(c.cut, c.err)
				}
			}
		}
		if err != nil {
			c.log.Warn("flinksink: discard failed; the next generation rolls back what is left", "generation", c.claim.Generation.ID, "sink", c.o.Sinks[fx.Sink].Name, "error", err)
			return protocol.Failed{Class: classNumber(err)}
		}
		return protocol.Discarded{}
	case protocol.Abort:
		ctx, cancel := c.grace(ctx)
		defer cancel()
		err := c.committers[fx.Receipt.Sink].Abort(ctx, c.receipts[fx.Receipt])
		delete(c.receipts, fx.Receipt)
		if err != nil {
			c.log.Warn("flinksink: abort failed; the next generation rolls back what is left", "generation", c.claim.Generation.ID, "sink", c.o.Sinks[fx.Receipt.Sink].Name, "error", err)
			return protocol.Failed{Class: classNumber(err)}
		}
		return protocol.Aborted{}
	case protocol.Confirm:
		return c.confirm(ctx)
	case protocol.Wait:
		return c.wait(ctx, fx)
	case protocol.Hint:
		if h := c.o.Hooks.Committed; h != nil {
			h(c.report)
		}
		if c.o.Hint != nil {
			c.o.Hint(ctx, fx.To)
		}
	case protocol.Pause:
		c.o.Source.Pause(fx.Partitions...)
	case protocol.Resume:
		c.o.Source.Resume(fx.Partitions...)
	case protocol.ReportFenced:
		c.hookFenced(c.err)
	case protocol.Alarm:
		c.log.Error("flinksink: a decided checkpoint cannot be committed", "generation", c.claim.Generation.ID, "tries", fx.N, "error", c.err)
		if h := c.o.Hooks.Alarm; h != nil {
			h(c.err, fx.N)
		}
	}
	return nil
}

func (c *Coordinator) acquire(ctx context.Context, fx protocol.Acquire) protocol.Event {
	r := AcquireRequest{Bridge: c.o.Bridge, Fingerprint: c.o.Fingerprint, Partitions: fx.Partitions, Owner: c.o.Owner, GroupGeneration: -1, GroupRestarted: c.stale}
	if c.o.Group != nil {
		r.GroupGeneration = c.o.Group.Generation()
	}
	claim, err := c.store.Acquire(ctx, r)
	if err != nil {
		var stale *StaleGroupError
		if errors.As(err, &stale) {
			c.stale = stale.Stored
		}
		return c.fail("acquire", -1, err)
	}
	if last := c.claim.Generation.ID; claim.Generation.ID <= last {
		// A number that was used before: requests of then and of now could not be told apart. A new coordinator has sent none.
		return c.fail("acquire", -1, &Error{Op: "acquire", Bridge: c.o.Bridge, Class: ErrLost, Err: fmt.Errorf(
			"the store went back while this process ran (a failover that lost commits, a restored backup, tables that were emptied): it gave generation %d after %d. "+
				"Start the bridge again: it then reads on from what the store holds, or says what is missing", claim.Generation.ID, last)})
	}
	if c.unclear && c.cut.savedIn(claim.Positions) {
		c.decided() // nobody answered End, and the claim tells
	}
	c.stale, c.unclear = 0, false
	c.claim = claim
	if err := c.orphans(claim); err != nil {
		return c.fail("acquire", -1, err)
	}
	c.counters, c.written = Counters{}, 0
	clear(c.receipts)
	if h := c.o.Hooks.Acquired; h != nil {
		h(claim)
	}
	c.log.Info("flinksink: acquired", "generation", claim.Generation.ID, "partitions", len(fx.Partitions), "toSettle", len(claim.Ended))
	a := protocol.Acquired{Generation: int64(claim.Generation.ID), Positions: claim.Positions}
	for _, e := range claim.Ended {
		a.Ended = append(a.Ended, protocol.Ended{Generation: int64(e.ID), Decided: len(e.Decided)})
	}
	return a
}

func (c *Coordinator) prepare(ctx context.Context, fx protocol.Prepare) protocol.Event {
	if fx.Sink == 0 {
		if !c.counters.Balanced() {
			return c.fail("prepare", -1, &Error{Op: "prepare", Bridge: c.o.Bridge, Class: ErrLost,
				Err: errors.New("the checkpoint does not account for every change that was read; this is a mistake in flinksink")})
		}
		c.cut = Cut{Generation: c.claim.Generation, Checkpoint: CheckpointID(fx.Checkpoint), From: fx.From, To: fx.To, Counters: c.counters}
		c.began = time.Now()
		if h := c.o.Hooks.Begun; h != nil {
			h(c.cut)
		}
	}
	began := time.Now()
	if err := c.giveLast(ctx, fx.Sink); err != nil {
		return c.refused(c.fail("write", fx.Sink, err))
	}
	got, err := c.committers[fx.Sink].Prepare(ctx, c.cut)
	if err != nil {
		return c.refused(c.fail("prepare", fx.Sink, err))
	}
	s := SinkStep{Kind: SinkPrepared, Generation: c.claim.Generation.ID, Checkpoint: c.cut.Checkpoint, Waits: !got.Empty(), Given: c.lots[fx.Sink].given}
	if p, ok := c.committers[fx.Sink].(Superseder); ok {
		s.Superseded = p.Superseded()
	}
	c.step(s, fx.Sink, began)
	c.lots[fx.Sink].drop()
	if got.Empty() {
		return protocol.Prepared{Sink: fx.Sink, Empty: true}
	}
	got.Sink, got.Generation, got.Checkpoint = c.o.Sinks[fx.Sink].Name, c.claim.Generation.ID, c.cut.Checkpoint
	got.From, got.To = fx.From, fx.To
	c.receipts[protocol.Receipt{Sink: fx.Sink, Generation: fx.Generation, Checkpoint: fx.Checkpoint}] = got
	return protocol.Prepared{Sink: fx.Sink}
}

func (c *Coordinator) save(ctx context.Context, fx protocol.Save) protocol.Event {
	c.releaseAll() // every Prepare has returned
	c.report.Prepare = time.Since(c.began)
	if h := c.o.Hooks.Prepared; h != nil {
		h(c.cut)
	}
	n := c.superseded()
	c.counters.Applied -= n
	c.counters.Superseded += n
	cp := Checkpoint{ID: CheckpointID(fx.Checkpoint), From: fx.From, To: fx.To, Counters: c.counters}
	for _, r := range fx.Receipts {
		cp.Committables = append(cp.Committables, c.receipts[r])
	}
	for _, g := range fx.Settled {
		cp.Settled = append(cp.Settled, GenerationID(g))
	}
	if h := c.o.Hooks.Saving; h != nil {
		h(c.cut)
	}
	if c.outer != nil {
		c.outer.hold(c.claim.Generation, cp)
		return nil // Complete or Abort of the External answers
	}
	ctx, cancel := c.grace(ctx)
	defer cancel()
	sent := time.Now()
	if err := c.store.Save(ctx, c.claim.Generation, cp); err != nil {
		c.unclear = ClassOf(err) == ErrUncertain
		return c.refused(c.fail("save", -1, err))
	}
	c.report.Save = time.Since(sent)
	c.decided()
	return protocol.Saved{}
}

// superseded asks the sinks how much of what they were given they did not write by itself. A change counts as applied if one of them
// wrote it.
func (c *Coordinator) superseded() int64 {
	least := int64(-1)
	for i, cm := range c.committers {
		s, ok := cm.(Superseder)
		if d := c.o.Sinks[i]; !ok || len(c.committers) > 1 && (d.Tables != nil || d.Share != nil) {
			return 0
		}
		if n := s.Superseded(); least < 0 || n < least {
			least = n
		}
	}
	return max(least, 0)
}

// decided notes what the checkpoint that was just saved says.
func (c *Coordinator) decided() {
	c.report.Generation, c.report.Checkpoint = c.cut.Generation.ID, c.cut.Checkpoint
	c.report.To, c.report.Counters = c.cut.To, c.report.Counters.Add(c.counters)
	c.counters, c.written = Counters{}, 0
	if h := c.o.Hooks.Saved; h != nil {
		h(c.report)
	}
}

func (c *Coordinator) commit(ctx context.Context, fx protocol.Commit) protocol.Event {
	ctx, cancel := c.grace(ctx)
	defer cancel()
	began := time.Now()
	s := SinkStep{Kind: SinkCommitted, Generation: GenerationID(fx.Receipt.Generation), Checkpoint: CheckpointID(fx.Receipt.Checkpoint)}
	if err := c.committers[fx.Receipt.Sink].Commit(ctx, c.receipts[fx.Receipt]); err != nil {
		failed := c.fail("commit", fx.Receipt.Sink, err)
		s.Kind, s.Err = SinkCommitFailed, c.err
		c.step(s, fx.Receipt.Sink, began)
		return failed
	}
	c.step(s, fx.Receipt.Sink, began)
	delete(c.receipts, fx.Receipt)
	c.report.Commit += time.Since(began)
	return protocol.Committed{}
}

// confirm answers whether the partitions are still this lane's to acquire. Without a consumer group nobody can say so: two processes
// that each take their partitions back would do so for ever.
func (c *Coordinator) confirm(ctx context.Context) protocol.Event {
	if c.o.Group == nil {
		return protocol.Confirmed{}
	}
	yes, err := c.o.Group.Confirm(ctx)
	if err != nil {
		c.log.Warn("flinksink: cannot ask the consumer group whether the partitions are still ours", "generation", c.claim.Generation.ID, "error", err)
		return protocol.Failed{Class: classNumber(err)}
	}
	switch fenced := ClassOf(c.err) == ErrFenced; {
	case yes && fenced:
		c.log.Warn("flinksink: fenced while still assigned; acquiring again", "generation", c.claim.Generation.ID, "error", c.err)
	case !yes && !fenced: // asked before another try
		c.err = &Error{Op: "acquire", Bridge: c.o.Bridge, Class: ErrFenced, Err: fmt.Errorf(
			"the consumer group does not assign the partitions to this member any more; before that: %w", c.err)}
	}
	return protocol.Confirmed{Yes: yes}
}

func (c *Coordinator) wait(ctx context.Context, fx protocol.Wait) protocol.Event {
	c.log.Warn("flinksink: trying again", "generation", c.claim.Generation.ID, "try", fx.N, "error", c.err)
	if h := c.o.Hooks.Retry; h != nil {
		h(c.err, fx.N)
	}
	t := time.NewTimer(c.o.Backoff(fx.N))
	defer t.Stop()
	select {
	case <-t.C:
		return protocol.Waited{}
	case <-ctx.Done():
		return protocol.Failed{Class: protocol.Transient}
	}
}

// grace returns a context that outlives ctx by Options.Grace.
func (c *Coordinator) grace(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(c.o.Grace, cancel)
		context.AfterFunc(out, func() { t.Stop() })
	})
	return out, func() { stop(); cancel() }
}

// backoff doubles from 100 ms to 30 s, less up to half of it at random, so that lanes that failed together do not return together.
func backoff(n int) time.Duration {
	d := 100 * time.Millisecond << min(n-1, 9)
	d = min(d, 30*time.Second)
	return d - rand.N(d/2)
}

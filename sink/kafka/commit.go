package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// Commit implements [sink.Committer]: see commitPrepared.
func (c *committer) Commit(ctx context.Context, of sink.Committable) error {
	if of.Empty() {
		return nil
	}
	if c.closed {
		return c.fail("commit", sink.ErrTransient, errClosed)
	}
	r, err := parseReceipt(of)
	if err != nil {
		return c.fail("commit", sink.ErrLost, err)
	}
	next, err := c.s.c.commitPrepared(ctx, r, of)
	if err == nil || errors.Is(sink.ClassOf(err), sink.ErrLost) {
		c.ended(r, next)
	}
	return c.fail("commit", sink.ErrUncertain, notFenced(err))
}

// ended goes on behind a transaction of this very session. Where the broker did not say which epoch comes next, it refused: the epoch is another's, and what became of the
// transaction was read elsewhere.
func (c *committer) ended(r receipt, next producer) {
	if c.prepared == nil || c.prepared.producer != r.producer {
		return
	}
	c.prepared = nil
	if next == r.producer && r.version >= 2 {
		c.session.over = errFenced
		return
	}
	c.session.follow(next)
}

// notFenced keeps a broker's answer from being taken for the lane's own fate: a Commit is never fenced, it is repeated until it is known.
func notFenced(err error) error {
	if err == nil || sink.ClassOf(err) != sink.ErrUncertain || classOf(err, sink.ErrUncertain) != sink.ErrFenced {
		return err
	}
	return &sink.Error{Class: sink.ErrUncertain, Err: err}
}

// Abort implements [sink.Committer].
func (c *committer) Abort(ctx context.Context, of sink.Committable) error {
	if of.Empty() {
		return nil
	}
	if c.closed {
		return c.fail("abort", sink.ErrTransient, errClosed)
	}
	r, err := parseReceipt(of)
	if err != nil {
		return c.fail("abort", sink.ErrLost, err)
	}
	next, err := c.s.c.abortPrepared(ctx, r)
	if err == nil {
		c.ended(r, next)
	}
	return c.fail("abort", sink.ErrUncertain, err)
}

// Close implements [sink.Committer]. An open transaction stays open: it may be decided, and its receipt ends it. What was not prepared is aborted
// if the broker answers soon, so that readers need not wait for the successor.
func (c *committer) Close(ctx context.Context) error {
	if c.closed {
		return nil
	}
	if c.session != nil && c.prepared == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		_ = c.Discard(ctx)
		cancel()
	}
	c.leave()
	c.closed = true
	return nil
}

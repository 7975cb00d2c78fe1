package postgres

import (
	"context"

	"github.com/flinksink/flinksink/sink"
)

// This file begins the transaction of a checkpoint with its first batch in hand.
//
// An answer of the server costs a checkpoint more than what it is for: 0.1 ms where the server has a core to itself, and 0.3 to 5 ms where it waits for whoever decodes the
// next batch. So what can be is said with BEGIN: rows that are likely to be copied as they come. Anything else takes a net effect first, which is worked out
// while the answer to BEGIN is on its way.

// start opens the checkpoint's transaction, and reports whether its first batch is written.
func (c *committer) start(ctx context.Context, first taken) (written bool, err error) {
	if c.opensCopying(first) {
		return c.beginCopying(ctx, first)
	}
	planned := make(chan struct{})
	go func() {
		defer close(planned)
		c.apply.planAhead(first.target, first.batch.Changes)
	}()
	c.tx, err = c.begin(ctx)
	<-planned
	return false, err
}

// opensCopying reports whether nothing has to be asked before the rows of a batch can be sent.
func (c *committer) opensCopying(first taken) bool {
	if c.s.o.Mode == Staged || first.target.clock || len(c.late) > 0 {
		return false
	}
	for _, tg := range c.targets {
		if len(tg.adds) > 0 { // Options.Evolve adds them first
			return false
		}
	}
	changes := first.batch.Changes
	return c.apply.plainly(first.target, changes) && len(malformed(first.target, changes)) == 0
}

// beginCopying sends BEGIN, the look at the fence and the rows as one message.
//
// The fence holds as it does in a message of its own: the server runs the statements of a message one after the other, each sees what was committed before
// it, and the first that fails keeps the rest from being run (PostgreSQL, "Multiple Statements in a Simple Query"). So no row is written unless the look at the
// fence went well, within the transaction that then holds its lock. The rows of a COPY that was never begun are read and thrown away (the same, "COPY
// Operations").
func (c *committer) beginCopying(ctx context.Context, first taken) (written bool, err error) {
	s, tg := c.s, first.target
	conn, err := s.acquire(ctx)
	if err != nil {
		return false, err
	}
	alive, notBegun := s.aliveFor(c.gen, ""), func(err error) error { return s.notBegunFor(ctx, c.gen, err) }
	if s.o.Mode != InTransaction {
		w := c.writer(c.gen.ID)
		alive, notBegun = s.aliveFenced(w), func(err error) error { return s.notBegunFenced(ctx, w, err) }
	}
	r := c.apply.copyOf(tg, first.batch.Changes)
	_, err = conn.Conn().PgConn().CopyFrom(ctx, r, s.beginSQL(s.o.IdleTimeout, s.o.TransactionTimeout, alive)+"; "+savedCopy(tg.upsert.copy))
	r.stop()
	if err == nil {
		c.tx = &transaction{conn: conn, s: s}
		c.apply.copiedPlain(tg, true)
		c.taken = append(c.taken, first)
		return true, nil
	}
	// Whether it was the rows, and not what stands before them, the server knows: only then is there a savepoint.
	if !answered(err) {
		s.giveUp(conn, err)
		return false, notBegun(err)
	}
	switch back := conn.Conn().PgConn().Exec(ctx, uncopy).Close(); {
	case back == nil:
		c.tx = &transaction{conn: conn, s: s}
	case state(back) == "3B001", state(back) == "25P01": // no such savepoint; no transaction
		s.giveUp(conn, err)
		return false, notBegun(err)
	default:
		s.giveUp(conn, back)
		return false, lift(back)
	}
	switch {
	case r.err != nil, classify(err) == sink.ErrRejected:
		c.apply.copiedPlain(tg, false)
		c.apply.tried = true
	case victim(err): // tried once more as any batch is, see again
	default:
		return false, err
	}
	return false, nil
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
)

// committer is one lane's writer. Calls come from one goroutine at a time.
type committer struct {
	s       *Sink
	lane    sink.Lane
	targets []*target // one for each of lane.Tables
	apply   applier

	gen    sink.Generation // that the last Acquire of this committer made
	opened bool            // Open was called for gen

	tx    *transaction // of the current checkpoint; nil before its first Write
	taken []taken      // batches written into tx, to do them again where one after them is refused; see again and blame
	late  []taken      // batches that wait for the end of the checkpoint; see mayWait
	spilt bool         // some of them are gone
	rows  int          // changes and dead letters written into tx
	void  int64        // changes that a later one of the same key made void

	lateVoid int64 // the same within late
	awaited  int   // how often in a row a checkpoint ended with a row that refers to nothing, or whose unique value is taken
	broken   error // why the current checkpoint can only be discarded
	careful  bool  // Prepare has the end of the transaction looked at, and not Save
	unlooked bool  // it was left to Save

	letters    [][]sink.DeadLetter // of the current checkpoint, for Prepare to write
	noLetters  error               // why there can be none
	superseded int64               // void of the checkpoint that was prepared last

	db    uint32 // the database, in the modes that leave receipts
	kept  *kept  // mode Staged: what was staged last, nil: it is merged, or was too much
	doubt string // the name of a prepared transaction of which nobody knows whether it is there
}

// inTransaction is the committer of mode InTransaction, which is the store of its lane. Read may be called from any goroutine.
type inTransaction struct{ *committer }

// taken is a batch that was written. The contract of Write keeps its memory alive until Prepare or Discard returns.
type taken struct {
	target *target
	batch  *changelog.Batch
	order  order
}

// Open checks the target table again: it may have been altered since the lane was made.
//
// In mode InTransaction there is nothing to fence, to commit or to roll back. Acquire has ended the older generations together with their transactions, and
// holds for ever (see there). What they had decided was visible with their Save, and what they had not died with its transaction. The
// other modes, and a bridge that was in one of them before, settle here.
func (c *committer) Open(ctx context.Context, claim sink.Claim) error {
	c.drop(ctx)
	c.opened, c.kept = false, nil
	if c.s.o.Mode != InTransaction {
		c.gen = claim.Generation
	}
	if claim.Generation.Bridge != c.gen.Bridge || claim.Generation.ID != c.gen.ID || c.gen.ID == 0 {
		return c.fail("open", sink.ErrConfig, fmt.Errorf("generation %d was acquired from another store, but this sink commits its rows "+
			"together with the positions: it has to be the store of its lane (leave Options.Store empty)", claim.Generation.ID))
	}
	targets, err := c.s.check(ctx, c.lane.Tables)
	if err != nil {
		return c.fail("open", undone(err), err)
	}
	// The claim's positions count for the tables that Acquire named in the fingerprint.
	if was, is := targetNames(c.targets), targetNames(targets); was != is {
		return c.fail("open", sink.ErrConfig, fmt.Errorf("the bridge writes into %s, but now the name stands for %s, which lacks all rows before the "+
			"saved positions: name the table with its schema, or give this bridge a name of its own", was, is))
	}
	c.targets = targets
	if err := c.notMadeAnew(ctx, claim); err != nil {
		return c.fail("open", undone(err), err)
	}
	if err := c.beCareful(ctx); err != nil {
		return c.fail("open", undone(err), err)
	}
	left, err := c.leavesReceipts(ctx, claim)
	if err == nil && left {
		err = c.settle(ctx, claim)
	}
	if err == nil && c.s.o.Mode != InTransaction {
		err = c.evolveNow(ctx)
	}
	if err != nil {
		return c.fail("open", undone(err), err)
	}
	c.opened = true
	return nil
}

// Write sends the batch to the server, into the checkpoint's open transaction, which its first batch opens. b is read again, until Prepare
// or Spill, when the server refuses a later batch of the checkpoint.
//
// Any failure is the end of the checkpoint: its transaction is rolled back at once, and the checkpoint refuses all but Discard.
func (c *committer) Write(ctx context.Context, b *changelog.Batch) error {
	if c.broken != nil {
		return c.broken
	}
	if !c.opened {
		return c.fail("write", sink.ErrConfig, errors.New("Write before Open: a mistake of the caller"))
	}
	parts, err := c.route(b)
	if err != nil {
		return c.spoil(ctx, "write", err)
	}
	if b.Len() == 0 {
		return nil
	}
	c.stampFor(c.gen.ID)
	c.rows += b.Len()
	if c.tx == nil {
		taken, err := c.start(ctx, parts[0])
		if err != nil {
			return c.spoil(ctx, "write", err)
		}
		if taken {
			parts = parts[1:]
		}
	}
	for _, this := range parts {
		if err := c.writePart(ctx, this); err != nil {
			return c.spoil(ctx, "write", err)
		}
	}
	return nil
}

// writePart writes changes of one target.
func (c *committer) writePart(ctx context.Context, this taken) error {
	if len(c.late) > 0 {
		c.late = append(c.late, this)
		return nil
	}
	err := c.take(ctx, this)
	if err != nil && classify(err) == sink.ErrRejected {
		// What was refused may be no fault of the rows. The transaction is over either way, and a lane can count on one connection of the pool.
		c.tx.rollback(ctx)
		c.tx = nil
		if altered := c.alteredSince(ctx); altered != nil {
			return altered
		}
	}
	if err != nil && !c.spilt {
		err = c.again(ctx, this, err)
	}
	// Without the batches before it nobody can tell here. The caller does the checkpoint again in smaller pieces.
	if err != nil && !c.spilt && classify(err) == sink.ErrRejected {
		err = c.blame(ctx, this, err)
	}
	return err
}

// Prepare has the server check what is deferred to the end of the transaction, writes the dead letters, and calls the user's function. In mode
// InTransaction the rows stay in the open transaction for Save to commit, and the receipt is empty: there is nothing to commit afterwards. The
// other modes leave the transaction, or its rows, to whoever has the receipt.
func (c *committer) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	if c.broken != nil {
		return sink.Committable{}, c.broken
	}
	var receipt sink.Committable
	err := c.prepare(ctx, cut)
	if err == nil && c.s.o.Mode != InTransaction {
		receipt, err = c.leave(ctx, cut)
	}
	if err != nil {
		return sink.Committable{}, c.spoil(ctx, "prepare", err)
	}
	c.superseded, c.void = c.void, 0
	c.forget()
	return receipt, nil
}

func (c *committer) prepare(ctx context.Context, cut sink.Cut) error {
	if err := c.stamped(cut); err != nil {
		return err
	}
	if c.unlooked = c.leavesLook(); c.tx != nil && !c.unlooked {
		if err := c.whole(ctx); err != nil {
			return err
		}
	}
	if c.s.o.Mode == Staged { // letters and the user's function belong to the merge
		return nil
	}
	if err := c.writeLetters(ctx, cut); err != nil {
		return err
	}
	if c.s.o.InCheckpoint != nil {
		return c.inCheckpoint(ctx, cut)
	}
	return nil
}

// Superseded tells how many changes of the checkpoint that was prepared last were not written by themselves, because a later one of the
// same key in the same batch made them void.
func (c *committer) Superseded() int64 { return c.superseded }

// Discard rolls the open transaction back. One of which nobody knows whether it was prepared is rolled back by its name, if it is there by now; the
// next Open does so in any case.
func (c *committer) Discard(ctx context.Context) error {
	c.drop(ctx)
	if c.doubt == "" {
		return nil
	}
	if err := c.s.rollbackPrepared(ctx, c.doubt); err != nil {
		return c.fail("discard", classify(err), err)
	}
	c.doubt = ""
	return nil
}

// Commit makes the work of a receipt visible. In mode InTransaction Save has done it. If rows still wait then, another store decided, and they
// would be lost.
func (c *committer) Commit(ctx context.Context, of sink.Committable) error {
	if of.Empty() {
		if c.tx != nil && c.s.o.Mode == InTransaction {
			return c.fail("commit", sink.ErrConfig, errors.New("the checkpoint was saved in another store, while this sink's rows wait for its own Save: "+
				"it has to be the store of its lane (leave Options.Store empty)"))
		}
		return nil
	}
	if err := c.finish(ctx, of); err != nil {
		return c.fail("commit", classify(err), err)
	}
	return nil
}

// Abort takes the work of a receipt away. In mode InTransaction it rolls the open transaction back; there is nothing of another process that
// could be aborted, since it died with its connection.
func (c *committer) Abort(ctx context.Context, of sink.Committable) error {
	if c.s.o.Mode == InTransaction {
		c.drop(ctx)
	}
	if of.Empty() {
		return nil
	}
	if err := c.undo(ctx, of); err != nil {
		return c.fail("abort", classify(err), err)
	}
	return nil
}

// Close rolls the open transaction back.
func (c *committer) Close(ctx context.Context) error {
	c.drop(ctx)
	c.opened, c.kept = false, nil
	return nil
}

// drop ends the current checkpoint without effect.
func (c *committer) drop(ctx context.Context) {
	if c.tx != nil {
		c.tx.rollback(ctx)
	}
	c.tx, c.rows, c.void, c.broken = nil, 0, 0, nil
	c.unlooked = false
	c.apply.stage, c.apply.ahead, c.apply.tried = nil, planned{}, false
	c.forget()
}

// Spill implements [sink.Spiller]: the server has the rows, but for those that wait, of which there can be no more than the lane's memory holds.
func (c *committer) Spill() {
	if len(c.late) > 0 && c.broken == nil {
		c.broken = c.fail("write", sink.ErrRejected, errors.New("rows that wait for others which come later in the checkpoint (that they refer to, or that give up a unique value) are more than the lane's memory holds: "+
			"raise the byte budget, make checkpoints more often, or make the constraint DEFERRABLE INITIALLY DEFERRED"))
	}
	clear(c.late)
	c.late = c.late[:0]
	clear(c.taken)
	c.taken, c.spilt = c.taken[:0], true
}

// forget lets go of what the caller may use again.
func (c *committer) forget() {
	clear(c.taken)
	clear(c.late)
	clear(c.letters)
	c.taken, c.late, c.letters, c.spilt = c.taken[:0], c.late[:0], c.letters[:0], false
}

// spoil ends the current checkpoint after err. Whatever err is, nothing of the checkpoint is durable: COMMIT was not sent.
func (c *committer) spoil(ctx context.Context, op string, err error) error {
	c.drop(ctx)
	err = c.why(ctx, err)
	if again := c.altered(ctx, err); again != nil {
		err = again
	}
	c.broken = c.fail(op, undone(err), err)
	return c.broken
}

// altered tells whether the server refused a statement because somebody altered the table since it was checked. Then it says what
// does not fit any more, or that doing the checkpoint again, with the statements that Open makes anew, will do.
func (c *committer) altered(ctx context.Context, err error) error {
	var pe *pgconn.PgError
	switch {
	case !errors.As(err, &pe):
		return nil
	case pe.Code == "23502": // perhaps of a column that came since, and is NOT NULL: no fault of the change
	case !strings.HasPrefix(pe.Code, "42"), pe.Code == "42P05", pe.Code == "42501":
		return nil
	}
	targets, wrong := c.s.check(ctx, c.lane.Tables)
	if wrong != nil {
		return wrong
	}
	for i := range targets {
		if !targets[i].same(c.targets[i]) {
			return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("table %s was altered within the checkpoint: %w", targets[i].name.SQL(), tell(err))}
		}
	}
	return nil
}

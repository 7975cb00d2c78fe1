package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// committer is one lane's writer and its store. Calls come from one goroutine at a time; Read alone may come from any.
type committer struct {
	s       *Sink
	lane    sink.Lane
	targets []*target // one for each of lane.Tables
	apply   applier

	gen    sink.Generation // that the last Acquire of this committer made
	opened bool            // Open was called for gen

	tx     *transaction // of the current checkpoint; nil before its first Write
	taken  []taken      // batches written into tx, to do them again where one after them is refused; see blame
	spilt  bool         // some of them are gone
	rows   int          // changes and dead letters written into tx
	void   int64        // changes that a later one of the same key made void
	broken error        // why the current checkpoint can only be discarded

	letters    [][]sink.DeadLetter // of the current checkpoint, for Prepare to write
	noLetters  error               // why there can be none
	superseded int64               // void of the checkpoint that was prepared last
}

// taken is a batch that was written. The contract of Write keeps its memory alive until Prepare or Discard returns.
type taken struct {
	target *target
	batch  *changelog.Batch
}

// Open checks the target table again: it may have been altered since the lane was made.
//
// There is nothing to fence, to commit or to roll back here. Acquire has ended the older generations together with their transactions, and
// holds for ever (see there). What they had decided was visible with their Save, and what they had not died with its transaction.
func (c *committer) Open(ctx context.Context, claim sink.Claim) error {
	c.drop(ctx)
	c.opened = false
	if claim.Generation.Bridge != c.gen.Bridge || claim.Generation.ID != c.gen.ID || c.gen.ID == 0 {
		return c.fail("open", sink.ErrConfig, fmt.Errorf("generation %d was acquired from another store, but this sink commits its rows "+
			"together with the positions: it has to be the store of its lane (leave Options.Store empty)", claim.Generation.ID))
	}
	for _, e := range claim.Ended {
		for _, d := range e.Decided {
			if d.Sink == c.lane.Sink && !d.Empty() {
				return c.fail("open", sink.ErrConfig, fmt.Errorf("checkpoint %d.%d was prepared by another mode of this sink and waits to be committed: "+
					"run the bridge in that mode until it is", e.ID, d.Checkpoint))
			}
		}
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
	c.targets, c.opened = targets, true
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
	tg := c.target(b.Table)
	if tg == nil {
		return c.spoil(ctx, "write", &sink.Error{Class: sink.ErrConfig, Err: fmt.Errorf("table %q is not one of the lane's", b.Table.Name)})
	}
	if b.Len() == 0 {
		return nil
	}
	if c.tx == nil {
		t, err := c.s.beginFor(ctx, c.gen)
		if err != nil {
			return c.spoil(ctx, "write", err)
		}
		c.tx = t
	}
	c.rows += b.Len()
	void, err := c.apply.batch(ctx, c.tx, tg, b.Changes)
	if err != nil {
		// Without the batches before it nobody can tell here. The caller does the checkpoint again in smaller pieces.
		if classify(err) == sink.ErrRejected && !c.spilt {
			err = c.blame(ctx, taken{tg, b}, err)
		}
		return c.spoil(ctx, "write", err)
	}
	c.void += int64(void)
	c.taken = append(c.taken, taken{tg, b})
	return nil
}

// Prepare has the server check what is deferred to the end of the transaction, writes the dead letters, and calls the user's function. The rows stay in the open
// transaction for Save to commit, and the receipt is empty: there is nothing to commit afterwards.
func (c *committer) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	if c.broken != nil {
		return sink.Committable{}, c.broken
	}
	if err := c.prepare(ctx, cut); err != nil {
		return sink.Committable{}, c.spoil(ctx, "prepare", err)
	}
	c.superseded, c.void = c.void, 0
	c.forget()
	return sink.Committable{}, nil
}

func (c *committer) prepare(ctx context.Context, cut sink.Cut) error {
	if c.tx != nil {
		// A deferred constraint would speak up at COMMIT, in Save, where it could not be told which sink's rows are to blame. This is the end of the
		// checkpoint, so a row that refers to one of a later batch has it by now.
		if _, err := c.tx.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
			return err
		}
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

// Discard rolls the open transaction back.
func (c *committer) Discard(ctx context.Context) error {
	c.drop(ctx)
	return nil
}

// Commit has nothing to do: Save made the rows visible. If they still wait, another store decided, and they would be lost.
func (c *committer) Commit(context.Context, sink.Committable) error {
	if c.tx != nil {
		return c.fail("commit", sink.ErrConfig, errors.New("the checkpoint was saved in another store, while this sink's rows wait for its own Save: "+
			"it has to be the store of its lane (leave Options.Store empty)"))
	}
	return nil
}

// Abort rolls the open transaction back; there is nothing of another process that could be aborted, since it died with its connection.
func (c *committer) Abort(ctx context.Context, _ sink.Committable) error {
	c.drop(ctx)
	return nil
}

// Close rolls the open transaction back.
func (c *committer) Close(ctx context.Context) error {
	c.drop(ctx)
	c.opened = false
	return nil
}

// drop ends the current checkpoint without effect.
func (c *committer) drop(ctx context.Context) {
	if c.tx != nil {
		c.tx.rollback(ctx)
	}
	c.tx, c.rows, c.void, c.broken = nil, 0, 0, nil
	c.forget()
}

// Spill implements [sink.Spiller]: the server has the rows.
func (c *committer) Spill() {
	clear(c.taken)
	c.taken, c.spilt = c.taken[:0], true
}

// forget lets go of what the caller may use again.
func (c *committer) forget() {
	clear(c.taken)
	clear(c.letters)
	c.taken, c.letters, c.spilt = c.taken[:0], c.letters[:0], false
}

// spoil ends the current checkpoint after err. Whatever err is, nothing of the checkpoint is durable: COMMIT was not sent.
func (c *committer) spoil(ctx context.Context, op string, err error) error {
	c.drop(ctx)
	err = c.s.why(ctx, c.gen, err)
	if again := c.altered(ctx, err); again != nil {
		err = again
	}
	c.broken = c.fail(op, undone(err), err)
	return c.broken
}

// why tells whether a transaction of gen was lost because the generation was ended, by somebody who disconnected it on the way. COMMIT
// was not sent: an answer to it that was lost would have to stay unclear.
func (s *Sink) why(ctx context.Context, gen sink.Generation, err error) error {
	if undone(err) != sink.ErrTransient || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cleanUpTime)
	defer cancel()
	var ended bool
	if s.pool.QueryRow(ctx, "SELECT ended FROM "+s.store.generation+" WHERE bridge = $1 AND id = $2", gen.Bridge, int64(gen.ID)).Scan(&ended) != nil || !ended {
		return err
	}
	return &sink.Error{Class: sink.ErrFenced, Err: fmt.Errorf("generation %d has ended: somebody else acquired its partitions and disconnected it: %w", gen.ID, tell(err))}
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

func (c *committer) target(t *changelog.Table) *target {
	for _, tg := range c.targets {
		if tg.table == t || tg.table.Name == t.Name {
			return tg
		}
	}
	return nil
}

// beginFor opens a transaction of a generation. It takes the marker first and then, in a statement of its own that sees all that was
// committed before, looks whether the generation is still alive: see Acquire.
func (s *Sink) beginFor(ctx context.Context, gen sink.Generation) (*transaction, error) {
	t, err := s.begin(ctx, s.o.IdleTimeout, s.o.TransactionTimeout, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", s.marker(gen.Bridge, gen.ID)))
	if err != nil {
		return nil, lift(err)
	}
	var ended bool
	err = t.QueryRow(ctx, "SELECT ended FROM "+s.store.generation+" WHERE bridge = $1 AND id = $2", gen.Bridge, int64(gen.ID)).Scan(&ended)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = &sink.Error{Class: sink.ErrFenced, Err: fmt.Errorf("generation %d is not in the store any more", gen.ID)}
	case err == nil && ended:
		err = &sink.Error{Class: sink.ErrFenced, Err: fmt.Errorf("generation %d has ended: somebody else acquired its partitions", gen.ID)}
	}
	if err != nil {
		t.rollback(ctx)
		return nil, lift(err)
	}
	return t, nil
}

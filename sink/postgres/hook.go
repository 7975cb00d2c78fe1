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

// This file lets the user write rows of his own into the transaction of a checkpoint.

// Info tells [Options].InCheckpoint which checkpoint it is called in.
type Info struct {
	Bridge     string
	Generation sink.GenerationID
	Checkpoint sink.CheckpointID    // of the generation
	From, To   []changelog.Position // of all partitions of the lane, sorted: what is read next before and after it
	Counters   sink.Counters        // as this sink wrote it
}

// inCheckpoint calls Options.InCheckpoint under a savepoint, which tells afterwards whether the transaction is still the one that it was
// given, and whether it is whole.
func (c *committer) inCheckpoint(ctx context.Context, cut sink.Cut) error {
	if c.tx == nil {
		t, err := c.begin(ctx)
		if err != nil {
			return err
		}
		c.tx = t
	}
	c.rows++ // whatever it writes: a Save that is repeated must not save it twice
	return c.s.callHook(ctx, c.tx, c.info(cut))
}

// info describes the checkpoint to the user's function.
func (c *committer) info(cut sink.Cut) Info {
	info := Info{Bridge: c.lane.Bridge, Generation: cut.Generation.ID, Checkpoint: cut.Checkpoint, From: cut.From, To: cut.To, Counters: cut.Counters}
	info.Counters.Applied -= c.void
	info.Counters.Superseded += c.void
	return info
}

func (s *Sink) callHook(ctx context.Context, t *transaction, info Info) error {
	tx, err := t.Conn().BeginTx(ctx, pgx.TxOptions{BeginQuery: "SAVEPOINT in_checkpoint"})
	if err != nil {
		return err
	}
	if err := s.o.InCheckpoint(ctx, userTx{tx}, info); err != nil {
		return hookFailed(ctx, t, err)
	}
	_, err = t.Exec(ctx, "RELEASE SAVEPOINT in_checkpoint; SET CONSTRAINTS ALL IMMEDIATE")
	switch state(err) {
	case "25P01", "3B001": // no transaction, or another one
		return configf("Options.InCheckpoint ended the transaction of the checkpoint by a statement of its own (%w). If that was COMMIT, the rows of the checkpoint are in the table and "+
			"its positions are not: leave the transaction to the sink, and return an error to have it rolled back", tell(err))
	case "25P02":
		return configf("Options.InCheckpoint returned nil, although a statement of it had failed and with it the transaction (%w): return the error, or run what may fail in tx.Begin", tell(err))
	}
	if err != nil {
		return hookFailed(ctx, t, err)
	}
	return nil
}

// hookFailed gives an error of the user's function its class. What the server says counts as anywhere. A refusal is none of a change, so it is final. An
// error of the function's own is unclassified, and tried again a bounded number of times.
func hookFailed(ctx context.Context, t *transaction, err error) error {
	var pe *pgconn.PgError
	class := classify(err)
	switch {
	case class == sink.ErrRejected, errors.Is(err, errNotYours):
		class = sink.ErrConfig
	case t.Conn().PgConn().IsBusy():
		class, err = sink.ErrConfig, fmt.Errorf("it left the rows of a query open: close them: %w", err)
	case class == sink.ErrUncertain && (errors.As(err, &pe) || ctx.Err() != nil || t.Conn().IsClosed()):
		class = sink.ErrTransient // COMMIT was not sent
	}
	return &sink.Error{Class: class, Err: &cause{text: "Options.InCheckpoint: " + tell(err).Error(), err: err}}
}

var errNotYours = errors.New("the transaction of a checkpoint is the sink's to end: return nil to have it committed, or an error to have it rolled back")

// userTx is the transaction of a checkpoint without the means to end it. Begin makes savepoints, which are the user's.
type userTx struct{ pgx.Tx }

func (userTx) Commit(context.Context) error   { return errNotYours }
func (userTx) Rollback(context.Context) error { return errNotYours }

func (t userTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if endsTransaction(sql) {
		return pgconn.CommandTag{}, errNotYours
	}
	return t.Tx.Exec(ctx, sql, args...)
}

func (t userTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if endsTransaction(sql) {
		return nil, errNotYours
	}
	return t.Tx.Query(ctx, sql, args...)
}

// endsTransaction finds the statements that would end a transaction, or say that they do, by their first word. It is help against a slip, and
// no wall: what hides behind another statement or in a procedure is found when it is too late, by the savepoint.
func endsTransaction(sql string) bool {
	words := strings.FieldsFunc(sql, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == ';' })
	if len(words) == 0 {
		return false
	}
	switch strings.ToUpper(words[0]) {
	case "COMMIT", "END", "ABORT":
		return true
	case "ROLLBACK": // but for ROLLBACK TO
		return !strings.Contains(strings.ToUpper(sql), " TO ")
	case "PREPARE":
		return len(words) > 1 && strings.EqualFold(words[1], "TRANSACTION")
	}
	return false
}

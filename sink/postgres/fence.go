package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file is the fence of the modes that leave receipts, in which any store decides, and none may be in reach. It is a row for each
// generation in the target's own database.
//
// Why no ended generation can leave anything behind once its successor's Open is through: every transaction of a generation locks its
// row FOR KEY SHARE before it writes, finds in that statement that it has not ended, and holds the lock until it is over; a
// prepared transaction until somebody commits it or rolls it back. Open locks these rows FOR UPDATE, which waits for each of those locks, and sets
// ended. So when it is committed no transaction of theirs is open or prepared, and one that comes later finds its row ended, or no row at
// all. The mark below is a weaker lock, which keeps no writer of its own generation waiting.
//
// The fence and what was left behind block each other, so Open tries the one with a short lock timeout, takes away what is in its way, and so
// on. Rolled back is what is in no claim: what the store decided was committed before.
//
// The same row is the positive proof of Commit: the transaction that makes rows visible sets committed to its number. The checkpoints of a
// generation are committed one after the other, so all up to that number are, but for those that were aborted, which are listed.

// fenceDDL makes the table, a row of some hundred bytes for each generation. It came after format version 1, as dead_letter did. Rows are not taken
// out: a process of theirs that comes back is refused by nothing else, and its Open would make the row anew.
func (st store) fenceDDL() string {
	return `CREATE TABLE ` + st.fence + ` (
  bridge     text        NOT NULL,
  sink       text        NOT NULL,
  generation bigint      NOT NULL,
  ended      boolean     NOT NULL,
  committed  bigint      NOT NULL DEFAULT 0,
  aborted    bigint[]    NOT NULL DEFAULT '{}',
  tables     text        NOT NULL DEFAULT '',
  opened     timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (bridge, sink, generation)
)`
}

// writer names who leaves work behind: a generation of a bridge's sink.
type writer struct {
	bridge, sink string
	gen          sink.GenerationID
}

func (c *committer) writer(gen sink.GenerationID) writer {
	return writer{c.lane.Bridge, c.lane.Sink, gen}
}

// writing is the advisory lock that every writing transaction of a generation holds, shared, so that its server process can be found. It is
// another one than that of the store, which is taken exclusively and must not wait for prepared transactions.
func (s *Sink) writing(w writer) int64 {
	return lockKey("writer", s.o.Schema, w.bridge, w.sink, strconv.FormatInt(int64(w.gen), 10))
}

// ensureReceipts makes the tables of the modes that leave receipts.
func (s *Sink) ensureReceipts(ctx context.Context) error {
	exists, err := s.hasTable(ctx, s.pool, "staging")
	if err != nil || exists {
		return err
	}
	t, err := s.beginStore(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", lockKey("tables", s.o.Schema)))
	if err != nil {
		return err
	}
	if exists, err = s.hasTable(ctx, t, "staging"); err == nil && !exists {
		_, err = t.Exec(ctx, s.receiptsDDL())
	}
	if err != nil || exists {
		t.rollback(ctx)
		if state(err) == "42501" {
			return s.denied(err, s.receiptsDDL()+";\n"+s.store.grants(s.role()))
		}
		return err
	}
	return t.commit(ctx)
}

func (s *Sink) receiptsDDL() string { return s.store.fenceDDL() + ";\n" + s.store.stagingDDL() }

// beginFenced opens a writing transaction of a generation.
func (s *Sink) beginFenced(ctx context.Context, w writer) (*transaction, error) {
	t, err := s.begin(ctx, s.o.IdleTimeout, s.o.TransactionTimeout, s.aliveFenced(w))
	if err != nil {
		return nil, s.notBegunFenced(ctx, w, err)
	}
	return t, nil
}

// aliveFenced is the look at the fence that each writing transaction begins with.
func (s *Sink) aliveFenced(w writer) string {
	where := fmt.Sprintf("bridge = %s AND sink = %s AND generation = %d", literal(w.bridge), literal(w.sink), w.gen)
	return fmt.Sprintf("SELECT pg_advisory_xact_lock_shared(%d); ", s.writing(w)) + unlessEnded(s.store.fence, where, " FOR KEY SHARE")
}

func (s *Sink) notBegunFenced(ctx context.Context, w writer, err error) error {
	if state(err) == refusedState {
		err = s.endedFenced(ctx, w)
	}
	return lift(s.whyFenced(ctx, w, err))
}

// endedFenced tells why a writing transaction was not to begin.
func (s *Sink) endedFenced(ctx context.Context, w writer) error {
	var ended bool
	err := s.pool.QueryRow(ctx, "SELECT ended FROM "+s.store.fence+" WHERE bridge = $1 AND sink = $2 AND generation = $3", w.bridge, w.sink, int64(w.gen)).Scan(&ended)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return &sink.Error{Class: sink.ErrFenced, Err: fmt.Errorf("generation %d is not in table %s: its row was taken out", w.gen, s.store.fence)}
	case err == nil && ended:
		return endedError(w.gen)
	case err == nil:
		return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("generation %d was not in table %s, or had ended, and is there again", w.gen, s.store.fence)}
	}
	return err
}

func endedError(gen sink.GenerationID) error {
	return &sink.Error{Class: sink.ErrFenced, Err: fmt.Errorf("generation %d has ended: somebody else acquired its partitions", gen)}
}

// whyFenced tells whether a transaction was lost because its generation was ended.
func (s *Sink) whyFenced(ctx context.Context, w writer, err error) error {
	if undone(err) != sink.ErrTransient || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cleanUpTime)
	defer cancel()
	var ended bool
	if s.pool.QueryRow(ctx, "SELECT ended FROM "+s.store.fence+" WHERE bridge = $1 AND sink = $2 AND generation = $3", w.bridge, w.sink, int64(w.gen)).Scan(&ended) != nil || !ended {
		return err
	}
	return &sink.Error{Class: sink.ErrFenced, Err: fmt.Errorf("generation %d has ended: somebody else acquired its partitions and disconnected it: %w", w.gen, tell(err))}
}

// settle is Open of the modes that leave receipts, in the order that the protocol asks for: what is decided is committed, the ended generations
// are fenced, what else they left is rolled back, and then what is left by generations that were ended before.
//
// Mode InTransaction runs it too where the bridge was in another mode before; it has no row of its own.
func (c *committer) settle(ctx context.Context, claim sink.Claim) error {
	for _, e := range claim.Ended {
		for _, d := range e.Decided {
			if d.Sink != c.lane.Sink || d.Empty() {
				continue
			}
			if err := c.finish(ctx, d); err != nil {
				return err
			}
		}
	}
	if err := c.fence(ctx, claim); err != nil {
		return err
	}
	return c.s.sweep(ctx, c.db, c.lane.Bridge, c.lane.Sink)
}

// Bounds of the wait for the locks of ended generations, each of which is followed by a look at who holds them.
const (
	fenceWaitFirst = 20 * time.Millisecond
	fenceWaitMost  = 2 * time.Second
)

// fence ends the generations of the claim and makes the row of its own.
func (c *committer) fence(ctx context.Context, claim sink.Claim) error {
	deadline := time.Now().Add(c.s.o.LockTimeout)
	var told int64
	for wait := fenceWaitFirst; ; wait = min(2*wait, fenceWaitMost) {
		err := c.s.tryFence(ctx, c.writer(claim.Generation.ID), endedIDs(claim), targetNames(c.targets), wait)
		if code := state(err); code != "55P03" && code != "40P01" {
			return err
		}
		n, denied, clearErr := c.s.clear(ctx, c.db, c.lane.Bridge, c.lane.Sink, endedIDs(claim))
		if clearErr != nil {
			return clearErr
		}
		told += n
		if time.Now().After(deadline) {
			return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("an ended generation still has a transaction open after %v, and %s. It ends by itself after Options.IdleTimeout, "+
				"or Options.TransactionTimeout from Postgres 17 on", c.s.o.LockTimeout, notEnded(told, denied))}
		}
	}
}

func endedIDs(claim sink.Claim) []int64 {
	ids := make([]int64, len(claim.Ended))
	for i, e := range claim.Ended {
		ids[i] = int64(e.ID)
	}
	return ids
}

// tryFence is one try, in one transaction. The rows are locked in the order of their numbers, so that two successors do not wait for each other
// crosswise.
func (s *Sink) tryFence(ctx context.Context, w writer, ended []int64, tables string, wait time.Duration) error {
	t, err := s.beginStore(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", wait.Milliseconds()))
	if err != nil {
		return lift(err)
	}
	if err := s.fenceIn(ctx, t, w, ended, tables); err != nil {
		t.rollback(ctx)
		if code := state(err); code == "55P03" || code == "40P01" {
			return err
		}
		return lift(err)
	}
	return t.commit(ctx)
}

func (s *Sink) fenceIn(ctx context.Context, t *transaction, w writer, ended []int64, tables string) error {
	// Those without a row first, so that a late Open of theirs finds one. What is there then is locked, and stays there.
	_, err := t.Exec(ctx, `INSERT INTO `+s.store.fence+` (bridge, sink, generation, ended)
		SELECT $1, $2, g, true FROM unnest($3::int8[]) AS g
		WHERE NOT EXISTS (SELECT FROM `+s.store.fence+` o WHERE o.bridge = $1 AND o.sink = $2 AND o.generation = g) ORDER BY g
		ON CONFLICT DO NOTHING`, w.bridge, w.sink, ended)
	if err != nil {
		return err
	}
	rows, err := t.Query(ctx, `SELECT generation FROM `+s.store.fence+` WHERE bridge = $1 AND sink = $2 AND generation = ANY ($3::int8[]) AND NOT ended ORDER BY generation FOR UPDATE`,
		w.bridge, w.sink, ended)
	if err != nil {
		return err
	}
	alive, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	if len(alive) > 0 {
		if _, err = t.Exec(ctx, `UPDATE `+s.store.fence+` SET ended = true WHERE bridge = $1 AND sink = $2 AND generation = ANY ($3::int8[])`, w.bridge, w.sink, alive); err != nil {
			return err
		}
	}
	if s.o.Mode == InTransaction {
		return nil
	}
	var was string
	err = t.QueryRow(ctx, `SELECT tables FROM `+s.store.fence+` WHERE bridge = $1 AND sink = $2 AND tables <> '' ORDER BY generation DESC LIMIT 1`, w.bridge, w.sink).Scan(&was)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return err
	case was != tables:
		return configf("the bridge writes into %s, while this one writes into %s: give this bridge a name of its own", was, tables)
	}
	// Opened again, the generation may hold the lock of its own row in a prepared transaction: it is looked at and not waited for.
	own := `SELECT ended FROM ` + s.store.fence + ` WHERE bridge = $1 AND sink = $2 AND generation = $3`
	var over bool
	err = t.QueryRow(ctx, own, w.bridge, w.sink, int64(w.gen)).Scan(&over)
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = t.Exec(ctx, `INSERT INTO `+s.store.fence+` (bridge, sink, generation, ended, tables) VALUES ($1, $2, $3, false, $4) ON CONFLICT DO NOTHING`,
			w.bridge, w.sink, int64(w.gen), tables)
		if err == nil {
			err = t.QueryRow(ctx, own, w.bridge, w.sink, int64(w.gen)).Scan(&over)
		}
	}
	if err == nil && over {
		return endedError(w.gen)
	}
	return err
}

// clear takes away what holds the rows of ended generations: transactions that are open, and prepared ones. denied is the server's refusal
// to end a server process, after which the rest is still looked at.
func (s *Sink) clear(ctx context.Context, db uint32, bridge, sinkName string, ended []int64) (told int64, denied, err error) {
	t, err := s.beginStore(ctx, "")
	if err != nil {
		return 0, nil, lift(err)
	}
	rows, err := t.Query(ctx, `SELECT g FROM unnest($3::int8[]) AS g WHERE EXISTS (SELECT FROM `+s.store.fence+` f WHERE f.bridge = $1 AND f.sink = $2 AND f.generation = g AND NOT f.ended)`,
		bridge, sinkName, ended)
	var alive []int64
	if err == nil {
		alive, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	for _, g := range alive {
		if err != nil || denied != nil {
			break
		}
		var n int64
		n, denied, err = terminate(ctx, t, s.writing(writer{bridge, sinkName, sink.GenerationID(g)}))
		told += n
	}
	t.rollback(ctx) // it changed nothing
	if err != nil {
		return told, nil, lift(err)
	}
	left, err := s.preparedBy(ctx, db, bridge, sinkName)
	if err != nil {
		return told, nil, lift(err)
	}
	for _, p := range left {
		for _, g := range alive {
			if int64(p.gen) != g {
				continue
			}
			if err := s.rollbackPrepared(ctx, p.gid); err != nil {
				return told, nil, err
			}
		}
	}
	return told, denied, nil
}

// sweep takes away what ended generations of the sink left, of whichever claim they were. All that was decided of a generation was committed
// before its row said that it ended, so nothing of it that is left can be wanted.
func (s *Sink) sweep(ctx context.Context, db uint32, bridge, sinkName string) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM `+s.store.staging+` t USING `+s.store.fence+` f
		WHERE t.bridge = $1 AND t.sink = $2 AND f.bridge = t.bridge AND f.sink = t.sink AND f.generation = t.generation AND f.ended`, bridge, sinkName)
	if err != nil {
		return lift(err)
	}
	left, err := s.preparedBy(ctx, db, bridge, sinkName)
	if err != nil {
		return lift(err)
	}
	for _, p := range left {
		var over bool
		err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+s.store.fence+` WHERE bridge = $1 AND sink = $2 AND generation = $3 AND ended)`, bridge, sinkName, int64(p.gen)).Scan(&over)
		if err != nil {
			return lift(err)
		}
		if !over {
			continue
		}
		if err := s.rollbackPrepared(ctx, p.gid); err != nil {
			return err
		}
	}
	return nil
}

// committedAlready reads the proof that a checkpoint's rows are visible.
func (s *Sink) committedAlready(ctx context.Context, q querier, w writer, cp sink.CheckpointID) (bool, error) {
	var done bool
	err := q.QueryRow(ctx, `SELECT committed >= $4 AND NOT $4 = ANY (aborted) FROM `+s.store.fence+` WHERE bridge = $1 AND sink = $2 AND generation = $3`,
		w.bridge, w.sink, int64(w.gen), int64(cp)).Scan(&done)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return done, err
}

// mark sets the proof, in the transaction that makes the rows visible. It reports false where the number, or a later one, is there already.
func (s *Sink) mark(ctx context.Context, t *transaction, w writer, cp sink.CheckpointID) (bool, error) {
	tag, err := t.Exec(ctx, `UPDATE `+s.store.fence+` SET committed = $4 WHERE bridge = $1 AND sink = $2 AND generation = $3 AND committed < $4 AND NOT $4 = ANY (aborted)`,
		w.bridge, w.sink, int64(w.gen), int64(cp))
	return tag.RowsAffected() == 1, err
}

// execer is a pool or a transaction.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// noteAborted keeps a number that was aborted from counting as committed with those after it.
func (s *Sink) noteAborted(ctx context.Context, q execer, w writer, cp sink.CheckpointID) error {
	_, err := q.Exec(ctx, `UPDATE `+s.store.fence+` SET aborted = array_append(aborted, $4::int8)
		WHERE bridge = $1 AND sink = $2 AND generation = $3 AND committed < $4 AND NOT $4 = ANY (aborted)`, w.bridge, w.sink, int64(w.gen), int64(cp))
	return err
}

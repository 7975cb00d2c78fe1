package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file is mode Prepared.
//
// Why every change takes effect exactly once: the rows of a checkpoint are in one prepared transaction, whose name is made of bridge, sink,
// generation and checkpoint, and is never used twice. The store's decision, made after PREPARE TRANSACTION was answered, is what Commit
// follows. COMMIT PREPARED of a name does it once; asked again the server knows no such name, which it also says of one that was rolled
// back or never was (42704). So the transaction itself holds the proof: the number in the generation's row (see fence), which is visible if and
// only if the rows are. The server takes a name out of its list after the commit has become visible, so whoever is told 42704 and looks then sees
// what became of it.

// gidPrefix is what the names of a sink's prepared transactions begin with. They share one space with those of all databases of the server and
// of all other programs, and pg_prepared_xacts shows them all: the hash of database, schema, bridge and sink makes them this sink's own, and the
// bridge's name is there for people. db is the database's OID, which a rename does not change. At most 145 of the 199 bytes that a name may have are used.
func (s *Sink) gidPrefix(db uint32, bridge, sinkName string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{"flinksink", strconv.FormatUint(uint64(db), 10), s.o.Schema, bridge, sinkName}, "\x00")))
	readable := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, bridge)
	return fmt.Sprintf("flinksink/%.60s/%s/", readable, hex.EncodeToString(sum[:16]))
}

// maxGid is the length in bytes that a name may have (GIDSIZE-1 in the server's xact.h).
const maxGid = 199

func (s *Sink) gid(db uint32, w writer, cp sink.CheckpointID) string {
	return fmt.Sprintf("%s%d/%d", s.gidPrefix(db, w.bridge, w.sink), w.gen, cp)
}

// gidNumbers reads the end of a name.
func gidNumbers(gid string) (gen sink.GenerationID, cp sink.CheckpointID, ok bool) {
	parts := strings.Split(gid, "/")
	odd := func(r rune) bool {
		return !(r >= '-' && r <= '9' || r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	}
	if len(parts) != 5 || parts[0] != "flinksink" || len(gid) > maxGid || strings.ContainsFunc(gid, odd) {
		return 0, 0, false
	}
	g, err1 := strconv.ParseInt(parts[3], 10, 64)
	n, err2 := strconv.ParseInt(parts[4], 10, 64)
	return sink.GenerationID(g), sink.CheckpointID(n), err1 == nil && err2 == nil && g > 0 && n > 0 &&
		parts[3] == strconv.FormatInt(g, 10) && parts[4] == strconv.FormatInt(n, 10)
}

// literal quotes text for a statement that takes no parameters.
func gidLiteral(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'" // a name that was read has no sign that needs more: see gidNumbers
}

// database returns the OID of the pool's database.
func (s *Sink) database(ctx context.Context) (oid uint32, err error) {
	err = s.pool.QueryRow(ctx, "SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()").Scan(&oid)
	return oid, err
}

// mayPrepare says why the server cannot prepare a transaction for each lane.
func (s *Sink) mayPrepare(ctx context.Context, lanes int) error {
	var most int
	if err := s.pool.QueryRow(ctx, "SELECT current_setting('max_prepared_transactions')::int").Scan(&most); err != nil {
		return err
	}
	if most >= lanes {
		return nil
	}
	return configf("the server's max_prepared_transactions is %d, and mode Prepared needs one for each lane of each bridge that writes into it at the same time (this is lane %d of its process): "+
		"ALTER SYSTEM SET max_prepared_transactions = %d; restart the server, and its standbys with no lower value first. Or use another mode: InTransaction where this sink may be the store, Staged elsewhere",
		most, lanes, max(20, 2*lanes))
}

// prepareTransaction ends the open transaction, and the rows wait on the server under a name.
func (c *committer) prepareTransaction(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	w := c.writer(cut.Generation.ID)
	first, err := c.s.mark(ctx, c.tx, w, cut.Checkpoint)
	if err != nil {
		return sink.Committable{}, lift(err)
	}
	if !first {
		return sink.Committable{}, &sink.Error{Class: sink.ErrFenced, Err: fmt.Errorf("checkpoint number %d.%d is not above the last one: it was used before", w.gen, cut.Checkpoint)}
	}
	gid := c.s.gid(c.db, w, cut.Checkpoint)
	out, err := c.committable(cut, receipt{Gid: gid})
	if err != nil {
		return sink.Committable{}, err
	}
	t := c.tx
	if err := t.Conn().PgConn().Exec(ctx, "PREPARE TRANSACTION "+gidLiteral(gid)).Close(); err != nil {
		if !answered(err) {
			c.doubt = gid // it may be there, or come yet: see Discard, and Open
		}
		return sink.Committable{}, notPrepared(err)
	}
	c.tx = nil
	c.s.giveBack(t.conn)
	return out, nil
}

// notPrepared gives an error of PREPARE TRANSACTION its class, where that is another one than elsewhere. The server rolled the transaction back.
func notPrepared(err error) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return err
	}
	switch pe.Code {
	case "0A000": // feature_not_supported: names what the transaction did
		return configf("the transaction of the checkpoint cannot be prepared (%w): temporary tables, NOTIFY, cursors WITH HOLD and exported snapshots are not possible in mode Prepared; "+
			"a trigger of the table does it, or Options.InCheckpoint", tell(err))
	case "55000":
		return configf("the server prepares no transactions (%w): set max_prepared_transactions and restart it, or use another mode", tell(err))
	case "53200": // out_of_memory, which is also what a full table of prepared transactions is
		return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("%w: if that is max_prepared_transactions, raise it and restart the server; pg_prepared_xacts shows who holds them", tell(err))}
	case "42710":
		return configf("a prepared transaction of this name is there already (%w): another bridge of this name writes into this database with a store of its own: give this bridge a name of its own", tell(err))
	}
	return err
}

// commitPrepared makes the rows visible, or finds the proof that they are.
func (s *Sink) commitPrepared(ctx context.Context, p prepared) error {
	err := s.endPrepared(ctx, "COMMIT PREPARED ", p.Gid)
	if state(err) != "42704" { // undefined_object
		return err
	}
	done, err := s.committedAlready(ctx, s.pool, p.writer, p.cp)
	switch {
	case err != nil:
		return lift(err)
	case done:
		return nil
	}
	return p.lost(fmt.Sprintf("the prepared transaction %q is not on the server, and the mark that it held in table %s is not set, so it was rolled back: "+
		"by hand, or the server went back to a time before it", p.Gid, s.store.fence))
}

// abortPrepared takes a prepared transaction away. Gone and never there are the same here.
func (s *Sink) abortPrepared(ctx context.Context, p prepared) error {
	if err := s.rollbackPrepared(ctx, p.Gid); err != nil {
		return err
	}
	// The row may be locked by a later checkpoint of the generation, which nobody but a hand at the store leaves: the wait is bounded.
	t, err := s.beginStore(ctx, "")
	if err != nil {
		return lift(err)
	}
	if err := s.noteAborted(ctx, t, p.writer, p.cp); err != nil {
		t.rollback(ctx)
		return lift(err)
	}
	return t.commit(ctx)
}

func (s *Sink) rollbackPrepared(ctx context.Context, gid string) error {
	if err := s.endPrepared(ctx, "ROLLBACK PREPARED ", gid); state(err) != "42704" {
		return err
	}
	return nil
}

// busyPause is between two tries to end a prepared transaction that another session is ending just now, or was as it was cut off.
const busyPause = 20 * time.Millisecond

// endPrepared ends a prepared transaction, in a message of its own: neither statement may be part of a transaction.
func (s *Sink) endPrepared(ctx context.Context, how, gid string) error {
	for deadline := time.Now().Add(s.o.LockTimeout); ; {
		conn, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		err = conn.Conn().PgConn().Exec(ctx, how+gidLiteral(gid)).Close()
		s.giveBack(conn)
		switch {
		case err == nil:
			return nil
		case state(err) == "55000" && time.Now().Before(deadline): // another session ends it
			if err := sleep(ctx, busyPause); err != nil {
				return err
			}
			continue
		case state(err) == "42704":
			return err
		case state(err) == "42501":
			return configf("role %s may not end the prepared transaction %q, which another role has prepared (%w): run all processes of a bridge under one role, or let that role, or a superuser, run\n%s%s;",
				quote(s.role()), gid, tell(err), how, gidLiteral(gid))
		}
		return &sink.Error{Class: classOfEnd(err), Err: tell(err)}
	}
}

// classOfEnd: a FATAL error is no answer, the session may have been ended after the deed.
func classOfEnd(err error) error {
	if answered(err) || pgconn.SafeToRetry(err) {
		return undone(err)
	}
	return sink.ErrUncertain
}

// leftover is a prepared transaction of the sink.
type leftover struct {
	gid      string
	gen      sink.GenerationID
	cp       sink.CheckpointID
	owner    string // role
	prepared time.Time
}

// preparedBy lists the prepared transactions of a sink, in this database and of nobody else, in the order of their numbers.
func (s *Sink) preparedBy(ctx context.Context, db uint32, bridge, sinkName string) ([]leftover, error) {
	prefix := s.gidPrefix(db, bridge, sinkName)
	rows, err := s.pool.Query(ctx, "SELECT gid, owner, prepared FROM pg_catalog.pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, $1)", prefix)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l leftover, err error) {
		err = row.Scan(&l.gid, &l.owner, &l.prepared)
		return l, err
	})
	all = slices.DeleteFunc(all, func(l leftover) bool { _, _, ok := gidNumbers(l.gid); return !ok })
	for i := range all {
		all[i].gen, all[i].cp, _ = gidNumbers(all[i].gid)
	}
	slices.SortFunc(all, func(a, b leftover) int {
		if a.gen != b.gen {
			return int(min(max(a.gen-b.gen, -1), 1))
		}
		return int(min(max(a.cp-b.cp, -1), 1))
	})
	return all, err
}

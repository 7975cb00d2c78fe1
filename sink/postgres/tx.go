package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// connectionWait bounds the wait for a free connection of the pool, which the application may share.
	connectionWait = 30 * time.Second
	// storeIdleTimeout is the idle timeout of the short transactions of Acquire and End, which lock the bridge's row: a process that is stopped
	// within one keeps the next owner waiting. Nobody can be told to end it, since two rightful owners of different partitions wait for each
	// other at the same row. Between its statements it does nothing but read an answer, so a process that needs longer was stopped, and
	// acquires again. It is at most half of LockTimeout, so that whoever waits gets the row at the first try, but
	// longer than silence sleeps.
	storeIdleTimeout = 5 * time.Second
	// silencePause is the longest pause between two looks at whether an older transaction has died.
	silencePause = 250 * time.Millisecond
	// storeWaits is how many waits for a lock such a transaction may need: for the bridge's row, and for generations to die.
	storeWaits = 10
	// cleanUpTime bounds a rollback, whose caller's context may be over.
	cleanUpTime = 5 * time.Second
)

// transaction is an open transaction with a connection of its own, which goes back to the pool when it ends. Nothing that it sets
// outlives it: a pooler that gives each transaction another server connection is no problem.
//
// It is not a pgx.Tx, which begins and ends with a message of its own.
type transaction struct {
	conn *pgxpool.Conn
	s    *Sink
}

func (t *transaction) Conn() *pgx.Conn { return t.conn.Conn() }

func (t *transaction) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.conn.Exec(ctx, sql, args...)
}

func (t *transaction) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.conn.Query(ctx, sql, args...)
}

func (t *transaction) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.conn.QueryRow(ctx, sql, args...)
}

func (t *transaction) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return t.conn.SendBatch(ctx, b)
}

// acquire takes a connection from the pool.
func (s *Sink) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	wait, cancel := context.WithTimeout(ctx, connectionWait)
	defer cancel()
	conn, err := s.pool.Acquire(wait)
	if err == nil {
		return conn, nil
	}
	class := undone(err)
	if wait.Err() != nil && ctx.Err() == nil && s.pool.Stat().AcquiredConns() >= s.pool.Config().MaxConns {
		err = fmt.Errorf("no connection of the pool was free within %v: raise pool_max_conns (now %d), each lane needs one: %w",
			connectionWait, s.pool.Config().MaxConns, err)
	}
	return nil, &sink.Error{Class: class, Err: tell(err)}
}

// beginStore opens a short transaction over the sink's own tables.
func (s *Sink) beginStore(ctx context.Context, more string) (*transaction, error) {
	return s.begin(ctx, min(storeIdleTimeout, max(s.o.LockTimeout/2, 4*silencePause)), storeWaits*s.o.LockTimeout, more)
}

// begin opens a transaction. idle is its idle timeout, and total bounds all of it where the server can do that; more are statements that it
// begins with.
//
// total is for a process that is stopped in the middle of a message: the server reads on, is not idle, and no other timeout of Postgres
// ends that.
//
// READ COMMITTED is what the fence is argued with: each statement sees what was committed before it. client_encoding is ours since all
// text is sent as UTF-8. array_nulls = off would make texts of the NULLs in arrays. synchronous_commit = off would let a checkpoint that was answered for vanish in a crash of the server; with
// other sinks beside this one its rows would be there and the decision not.
func (s *Sink) begin(ctx context.Context, idle, total time.Duration, more string) (*transaction, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, s.beginSQL(idle, total, more)); err != nil {
		s.giveUp(conn, err)
		return nil, err
	}
	return &transaction{conn: conn, s: s}, nil
}

// giveUp gives a connection back on which a transaction may be half begun, or whose state nobody knows, after err: the pool destroys what is not idle.
func (s *Sink) giveUp(conn *pgxpool.Conn, err error) {
	if !answered(err) {
		disconnect(conn.Conn())
	}
	s.giveBack(conn)
}

// disconnect ends a connection without a goodbye that could wait.
func disconnect(conn *pgx.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = conn.Close(ctx) // its state is that of a connection that broke
}

// beginSQL is what begin sends.
func (s *Sink) beginSQL(idle, total time.Duration, more string) string {
	var q strings.Builder
	fmt.Fprintf(&q, "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %d; ",
		s.o.LockTimeout.Milliseconds(), idle.Milliseconds())
	if s.o.StatementTimeout > 0 {
		fmt.Fprintf(&q, "SET LOCAL statement_timeout = %d; ", s.o.StatementTimeout.Milliseconds())
	}
	// The clock of one that the role has set runs already, and only 0 stops it.
	fmt.Fprintf(&q, "SELECT set_config('transaction_timeout', '0', true), set_config('transaction_timeout', '%d', true) WHERE current_setting('server_version_num')::int >= 170000; ", min(total.Milliseconds(), 1<<31-1))
	q.WriteString("SET LOCAL client_encoding = 'UTF8'; " +
		"SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'; " +
		"SELECT set_config('array_nulls', 'on', true) WHERE current_setting('array_nulls', true) = 'off'; ")
	q.WriteString(more)
	return q.String()
}

// commit sends COMMIT and gives the connection back. nil: it is committed. ErrUncertain: nobody knows. Any other class: it certainly is not.
func (t *transaction) commit(ctx context.Context) error {
	tag, err := t.conn.Exec(ctx, "COMMIT")
	return t.committed(tag, err)
}

// committed takes the answer to COMMIT and gives the connection back. Here and in commitAfter is where an answer can be lost that matters.
func (t *transaction) committed(tag pgconn.CommandTag, err error) error {
	if err != nil && t.Conn().PgConn().TxStatus() != 'I' {
		disconnect(t.Conn())
	}
	t.s.giveBack(t.conn)
	class := sink.ErrUncertain
	var pe *pgconn.PgError
	switch {
	case err == nil && tag.String() != "ROLLBACK":
		return nil
	case err == nil:
		class, err = sink.ErrTransient, pgx.ErrTxCommitRollback
	case pgconn.SafeToRetry(err):
		class = sink.ErrTransient // it never left this process
	case errors.As(err, &pe) && pe.SeverityUnlocalized == "ERROR" && !strings.HasPrefix(pe.Code, "08"):
		// The server answered that COMMIT failed, so it rolled back: a deferred constraint, statement_timeout. Not so a FATAL
		// error: the session may have been ended after its commit record was written. Nor class 08: a pooler's words about a server
		// connection that it lost.
		class = undone(err)
	}
	return &sink.Error{Class: class, Err: tell(err)}
}

// commitAfter sends statements and COMMIT as one message. failed is the number of the statement that kept it from being committed, len(b.QueuedQueries) for COMMIT
// itself. Errors are those of commit.
//
// The server runs what a message holds in turn, and after a failure leaves out the rest up to its end (PostgreSQL, "Extended Query Overview" and "Pipelining"), so it
// does not get to COMMIT unless all before it went well. It answers in turn too: an error in the place of an earlier answer says that COMMIT was never run, if
// a Postgres said it, also where it was the session's last words. A pooler that lost its server says so wherever it is: that is unclear.
func (t *transaction) commitAfter(ctx context.Context, b *pgx.Batch) (failed int, err error) {
	commit, done := len(b.QueuedQueries), 0
	for _, q := range b.QueuedQueries {
		q.Exec(func(pgconn.CommandTag) error {
			done++
			return nil
		})
	}
	var tag pgconn.CommandTag
	b.Queue("COMMIT").Exec(func(answer pgconn.CommandTag) error {
		tag = answer
		return nil
	})
	err = t.SendBatch(ctx, b).Close()
	if err == nil || done == commit || !toldByServer(err) {
		return done, t.committed(tag, err)
	}
	t.rollback(ctx)
	return done, &sink.Error{Class: undone(err), Err: tell(err)}
}

// toldByServer reports whether err is Postgres' own answer to a statement, or the last that it says. Its errors name the function that they come from, and those of
// poolers do not.
func toldByServer(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && !strings.HasPrefix(pe.Code, "08") && (pe.SeverityUnlocalized == "ERROR" || pe.SeverityUnlocalized == "FATAL" && pe.Routine != "")
}

// rollback ends the transaction without effect, also when ctx is over. What cannot be rolled back is disconnected, which is the same.
func (t *transaction) rollback(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	if _, err := t.conn.Exec(ctx, "ROLLBACK"); err != nil {
		disconnect(t.Conn())
	}
	// A server that became a standby, or read-only, keeps its sessions. Only a new one can be with another server of the connection string.
	var readOnly bool
	err := t.conn.QueryRow(ctx, "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'").Scan(&readOnly)
	if err != nil || readOnly {
		_ = t.Conn().Close(ctx)
	}
	t.s.giveBack(t.conn)
}

// giveBack returns a connection to the pool, which destroys one that is not idle. One that broke is taken out of the pool at once: pgx takes
// up to 15 s to say goodbye on it, and its place is needed to ask what became of a COMMIT.
func (s *Sink) giveBack(conn *pgxpool.Conn) {
	if !conn.Conn().IsClosed() {
		conn.Release()
		return
	}
	broken := conn.Hijack()
	if f := s.pool.Config().BeforeClose; f != nil {
		f(broken)
	}
}

// marker is the advisory lock that every transaction of a generation holds from its first statement to its end. It makes old
// transactions visible to those who fence them, wherever they run: also behind a pooler, where the process numbers of server connections
// say nothing about clients.
func (s *Sink) marker(bridge string, gen sink.GenerationID) int64 {
	return lockKey("generation", s.o.Schema, bridge, strconv.FormatInt(int64(gen), 10))
}

// lockKey maps names to the 64 bits that name an advisory lock in a database.
func lockKey(parts ...string) int64 {
	sum := sha256.Sum256([]byte("flinksink\x00" + strings.Join(parts, "\x00")))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// silence makes sure that no transaction of the generation is running, and that none begins before t ends: t holds the marker. Whoever
// holds it is disconnected, so that a process that was stopped in the middle of a transaction does not keep its row locks, and a COMMIT
// that is on its way is settled either way before anybody looks.
//
// Only server processes that hold this very marker are ended, so nobody else's can be hit.
func (s *Sink) silence(ctx context.Context, t *transaction, bridge string, gen sink.GenerationID, owner string) error {
	key := s.marker(bridge, gen)
	deadline := time.Now().Add(s.o.LockTimeout)
	var denied error
	var told int64
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, silencePause) {
		var got bool
		if err := t.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1)", key).Scan(&got); err != nil {
			return err
		}
		if got {
			// On a server whose advisory locks do nothing everybody gets the marker. There is no mode InTransaction then, and a Save, which is a transaction of
			// its own, holds the generation's row from its first statement on: once that is ours, it is over, or it will find its generation ended.
			_, err := t.Exec(ctx, "SELECT FROM "+s.store.generation+" WHERE bridge = $1 AND id = $2 FOR UPDATE", bridge, int64(gen))
			return err
		}
		if time.Now().After(deadline) {
			return s.stillThere(gen, owner, told, denied)
		}
		if denied == nil {
			n, refused, err := terminate(ctx, t, key)
			if err != nil {
				return err
			}
			told, denied = told+n, refused
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (s *Sink) stillThere(gen sink.GenerationID, owner string, told int64, denied error) error {
	why := notEnded(told, denied)
	return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("generation %d (owner %q) still has a transaction open after %v, and %s. It ends by itself after Options.IdleTimeout, "+
		"or Options.TransactionTimeout from Postgres 17 on",
		gen, owner, s.o.LockTimeout, why)}
}

// notEnded says why an older transaction is still there, of which so many sessions were told to end.
func notEnded(told int64, denied error) string {
	switch {
	case denied == nil && told == 0:
		return "this server does not show whose session it is"
	case denied == nil:
		return "it did not end in time although it was told to"
	case state(denied) == "42501":
		return fmt.Sprintf("this role may not end it (%v): GRANT pg_signal_backend TO the role, or run all processes of a bridge under one role", tell(denied))
	}
	return fmt.Sprintf("this server ends no sessions (%v)", tell(denied))
}

// terminate ends the server processes that hold the marker key, and tells how many. denied is the server's refusal, which leaves t usable.
func terminate(ctx context.Context, t *transaction, key int64) (told int64, denied, err error) {
	// A refusal must not take t with it.
	if _, err := t.Exec(ctx, "SAVEPOINT terminating"); err != nil {
		return 0, nil, err
	}
	tag, err := t.Exec(ctx, `SELECT pg_terminate_backend(l.pid) FROM pg_catalog.pg_locks l
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.pid <> pg_backend_pid()
		AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
		AND l.classid = $1::bigint::oid AND l.objid = $2::bigint::oid`, int64(uint64(key)>>32), int64(uint64(key)&0xffffffff))
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		switch pe.Code {
		case "42501", "42883", "42P01", "0A000": // no right to; no such function or table; not supported
			_, back := t.Exec(ctx, "ROLLBACK TO SAVEPOINT terminating; RELEASE SAVEPOINT terminating")
			return 0, err, back
		}
	}
	if err != nil {
		return 0, nil, err
	}
	_, err = t.Exec(ctx, "RELEASE SAVEPOINT terminating")
	return tag.RowsAffected(), nil, err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

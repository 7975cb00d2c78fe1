package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options are the settings of a [Sink]. nil and the zero value are the defaults.
type Options struct {
	// Mode says how rows wait for the decision. Defaults to InTransaction, the fastest, which is its own store. Auto has each start choose what the server and
	// the bridge allow.
	Mode Mode

	// Schema is the Postgres schema of the sink's own tables (format, bridge, generation, position, committable, audit, dead_letter; fence and
	// staging in the modes Prepared and Staged; one for each target of Swap), in the database of the pool. It is made at first use if the role may do so. All processes of one bridge have to name the same one.
	// Defaults to "flinksink".
	Schema string

	// CreateTable lets Lane run the CREATE TABLE that [Sink.SQL] prints when the target table is missing. Defaults to false: a
	// missing table is an ErrConfig that shows the statement. A table that the bridge has written before, and that is missing now, is never made
	// anew under the stored positions: that is an ErrConfig, which says how to have the topic read again.
	CreateTable bool

	// Into says which table the rows of a source table go into, where a lane has several: a name as New takes it, or "" for the source table's own
	// name. All of them are written in one transaction. It is called at the start, and has to give the same answer each time. Two source
	// tables may go into one table if they never write the same key. Defaults to the table that New names.
	Into func(t *changelog.Table) string

	// Topics names tables for the rows of some topics, where one source table is read from several: topic to name, as New takes it. Rows of
	// other topics go where New says, or are an ErrConfig if it names no table.
	Topics map[string]string

	// Evolve adds columns that the source table has and the Postgres table lacks, with the type that [Sink.SQL] gives them, and without NOT NULL, in
	// the transaction of the first checkpoint that follows; in modes Prepared and Staged in one of its own before it. It needs the role to own the
	// table. It waits 2 s for the table's lock, and then does the checkpoint again; the lock is held to the end of that checkpoint, and readers of the table wait so
	// long. Defaults to false: a column that is missing is an ErrConfig that shows the statement.
	Evolve bool

	// Columns renames: a column of the source table to the column of the Postgres table that takes it. An empty name leaves the column
	// out, which a key column cannot be. "table.column" is that of one source table where there are several. Defaults to equal names, compared exactly.
	Columns map[string]string

	// Cast names columns of the source table of type CHAR, VARCHAR or STRING whose texts Postgres casts to the type of the table's column, whatever that is: numbers, timestamps,
	// ranges, points, composite types. What comes of a text is the type's business: a numeric(10,2) rounds, name and "char" cut off, what a date or
	// an interval means depends on DateStyle, IntervalStyle and TimeZone of the session. A text that the type does not read is refused
	// (ErrRejected), and key columns cannot be cast. "table.column" is that of one source table. Defaults to none: texts go into types that keep
	// them as they are.
	Cast []string

	// TruncateNanos cuts off the digits below the microsecond of TIME, TIMESTAMP and TIMESTAMP_LTZ with a precision above 6, which
	// Postgres cannot hold. Key columns are never cut. Defaults to false: such a column needs a column of type text, or is an
	// ErrConfig.
	TruncateNanos bool

	// AppendOnce keeps rows of a table without a key from doubling even where the stored positions are lost, set back or those of another
	// bridge: each row holds the position of its change, over which the table has a unique index, and one that is there already is passed
	// over (and counted as superseded). The columns are those of Audit for Topic, Partition, Offset and Index, or flinksink_topic, flinksink_partition, flinksink_offset
	// and flinksink_index. A topic that was made anew under its old name begins at offset 0 again, so its rows would be taken for the old ones: write
	// it into another table.
	AppendOnce bool

	// IgnoreDeletes leaves rows in the table that the changelog deletes, as they are; a row that changes its key is then there under both. Ignored deletes are
	// counted as superseded.
	IgnoreDeletes bool

	// SoftDelete marks rows that the changelog deletes, instead of deleting them.
	SoftDelete SoftDelete

	// SkipUnchanged leaves rows alone that hold already what a change says, byte by byte in every column that is written: no new version
	// of the row, no WAL, no trigger. It costs a comparison, so it pays where many changes change nothing. Such changes are counted as superseded.
	SkipUnchanged bool

	// Version names a column of the source table, whose value grows with each change of a row: an integer, DECIMAL, date or timestamp. A change
	// whose version is below the row's is passed over, and counted as superseded; one of the same version is written. So several bridges, or
	// several partitions, may write one row in any order, and the newest change wins. A change without a version is refused (ErrRejected).
	// Deletes need one too, and a row that stays to hold it: with a table that has deletes goes SoftDelete or IgnoreDeletes.
	Version string

	// Swap replaces the rows of a group as a whole.
	Swap Swap

	// Audit writes where each row comes from into columns of the table.
	Audit AuditColumns

	// LockTimeout bounds every wait for a lock, and how long Acquire and End wait for the transaction of an older generation to die.
	// Defaults to 30 s.
	LockTimeout time.Duration

	// IdleTimeout is the idle_in_transaction_session_timeout of a checkpoint's transaction: how long the server lets a process that
	// stopped hold its row locks when nobody ends it. The transaction is idle between two batches, so the longest pause of the
	// source within a checkpoint has to be shorter; else the checkpoint is done again. Defaults to 5 minutes.
	//
	// A successor ends such a transaction at once where its role may (pg_signal_backend, or the same role) and needs this only where not.
	// It does not end a process that stopped in the middle of a message: the server waits for the rest and is not idle. So give all
	// processes of a bridge one role. Else TransactionTimeout does, and before Postgres 17 nothing but an administrator.
	IdleTimeout time.Duration

	// TransactionTimeout is the transaction_timeout of a checkpoint's transaction, from its first batch to the end of its COMMIT: how long a process
	// that is not idle, and that nobody may end, holds its row locks at most. A checkpoint that takes longer is done again, in vain if it
	// takes as long again; so it has to be well above the longest. Postgres 17 or newer; older servers know no such timeout. Defaults to
	// 1 hour, or twice IdleTimeout if that is longer.
	TransactionTimeout time.Duration

	// InCheckpoint is called once in every checkpoint, after its rows and dead letters and before its positions, also where it has no rows:
	// what it writes with tx is committed together with all of that, or not at all. An outbox, a table of statistics, a NOTIFY.
	//
	// tx is the transaction of the checkpoint, whose Commit and Rollback are refused: it is ended by the sink. Begin makes savepoints. Deferrable
	// constraints are IMMEDIATE in it, unless the function sets its own to DEFERRED. It must not be used after the function has returned.
	//
	// A checkpoint that fails is done again, so it may be called several times for the same positions, mostly with others at the end, and of all these
	// calls the writes of exactly one become visible. What it does beside tx may be done twice, or for a checkpoint that never happens.
	//
	// Its error aborts the checkpoint. What the server or the connection says is classified as for rows, but a refusal (a constraint) is no
	// change's fault, so it is an ErrConfig, which ends the lane. A [sink.Error] keeps its class; any other error is unclassified, and is
	// tried again as often as sink.Options.Attempts says. Defaults to nothing.
	//
	// In mode Prepared tx is prepared afterwards, so it cannot use temporary tables, NOTIFY (an outbox is a table), cursors WITH HOLD or
	// exported snapshots: an ErrConfig in Prepare. In mode Staged the function is called in the transaction that merges, after the decision, by
	// whichever process commits, so all of them have to set it; its error does not abort the checkpoint, which then waits and is tried
	// again, with an alarm, until the function succeeds.
	InCheckpoint func(ctx context.Context, tx pgx.Tx, info Info) error

	// StatementTimeout is the statement_timeout of a checkpoint's transaction. Defaults to what the role or the server has set.
	StatementTimeout time.Duration
}

const (
	defaultSchema      = "flinksink"
	defaultLockTimeout = 30 * time.Second
	defaultIdleTimeout = 5 * time.Minute

	defaultTransactionTimeout = time.Hour
)

// New returns a sink that writes into one table of the pool's database. into names it as SQL does: schema-qualified or not,
// "quoted" parts as they are, others in lower case; a name without schema is looked for along the search_path of the connection. ""
// is the source table's name, taken as it is. The caller closes the pool, after the lanes.
//
// Each lane holds one connection while a checkpoint is being written and one during calls of its store, never two at once.
//
// All mistakes are reported together, as one ErrConfig. The server is first asked by [Sink.Lane].
func New(pool *pgxpool.Pool, into string, o *Options) (*Sink, error) {
	s := &Sink{pool: pool, chosen: &choices{}, remade: &remade{}}
	if o != nil {
		s.o = *o
		s.o.Columns = maps.Clone(o.Columns)
		s.o.Topics = maps.Clone(o.Topics)
		s.o.Cast = slices.Clone(o.Cast)
		s.o.Swap.Group = slices.Clone(o.Swap.Group)
	}
	var errs []error
	bad := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if pool == nil {
		bad(errors.New("pool is nil: make one with pgxpool.New"))
	}
	if into != "" {
		var err error
		s.into, err = parseName(into)
		bad(err)
	}
	if s.o.Schema == "" {
		s.o.Schema = defaultSchema
	}
	bad(checkIdent("Options.Schema", s.o.Schema))
	if s.o.Mode > Auto {
		bad(fmt.Errorf("Options.Mode is %d: it is InTransaction, Prepared, Staged or Auto", s.o.Mode))
	}
	for _, from := range slices.Sorted(maps.Keys(s.o.Columns)) {
		if to := s.o.Columns[from]; to != "" {
			bad(checkIdent("Options.Columns["+from+"]", to))
		}
	}
	s.o.checkShape(bad)
	s.o.checkRoutes(into, bad)
	s.o.LockTimeout = duration("LockTimeout", s.o.LockTimeout, defaultLockTimeout, bad)
	s.o.IdleTimeout = duration("IdleTimeout", s.o.IdleTimeout, defaultIdleTimeout, bad)
	s.o.TransactionTimeout = duration("TransactionTimeout", s.o.TransactionTimeout, max(defaultTransactionTimeout, 2*s.o.IdleTimeout), bad)
	s.o.StatementTimeout = duration("StatementTimeout", s.o.StatementTimeout, 0, bad)
	if len(errs) > 0 {
		return nil, &sink.Error{Op: "new", Class: sink.ErrConfig, Err: errors.Join(errs...)}
	}
	s.store = newStore(s.o.Schema)
	return s, nil
}

// duration checks a timeout, which Postgres takes in whole milliseconds of 32 bits.
func duration(name string, d, byDefault time.Duration, bad func(error)) time.Duration {
	switch {
	case d == 0:
		return byDefault
	case d < time.Millisecond || d.Milliseconds() > 1<<31-1:
		bad(fmt.Errorf("Options.%s is %v: it has to be between 1 ms and 24 days", name, d))
	}
	return d
}

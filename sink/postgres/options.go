package postgres

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options are the settings of a [Sink]. nil and the zero value are the defaults.
type Options struct {
	// Schema is the Postgres schema of the sink's own tables (format, bridge, generation, position, committable, audit), in the database
	// of the pool. It is made at first use if the role may do so. All processes of one bridge have to name the same one.
	// Defaults to "flinksink".
	Schema string

	// CreateTable lets Lane run the CREATE TABLE that [Sink.SQL] prints when the target table is missing. Defaults to false: a
	// missing table is an ErrConfig that shows the statement.
	CreateTable bool

	// Columns renames: a column of the source table to the column of the Postgres table that takes it. An empty name leaves the column
	// out, which a key column cannot be. Defaults to equal names, compared exactly.
	Columns map[string]string

	// TruncateNanos cuts off the digits below the microsecond of TIME, TIMESTAMP and TIMESTAMP_LTZ with a precision above 6, which
	// Postgres cannot hold. Key columns are never cut. Defaults to false: such a column needs a column of type text, or is an
	// ErrConfig.
	TruncateNanos bool

	// LockTimeout bounds every wait for a lock, and how long Acquire and End wait for the transaction of an older generation to die.
	// Defaults to 30 s.
	LockTimeout time.Duration

	// IdleTimeout is the idle_in_transaction_session_timeout of a checkpoint's transaction: how long the server lets a process that
	// stopped hold its row locks when nobody ends it. The transaction is idle between two batches, so the longest pause of the
	// source within a checkpoint has to be shorter; else the checkpoint is done again. Defaults to 5 minutes.
	//
	// A successor ends such a transaction at once where its role may (pg_signal_backend, or the same role) and needs this only where not.
	// It does not end a process that stopped in the middle of a message: the server waits for the rest and is not idle. So give all
	// processes of a bridge one role.
	IdleTimeout time.Duration

	// StatementTimeout is the statement_timeout of a checkpoint's transaction. Defaults to what the role or the server has set.
	StatementTimeout time.Duration
}

const (
	defaultSchema      = "flinksink"
	defaultLockTimeout = 30 * time.Second
	defaultIdleTimeout = 5 * time.Minute
)

// New returns a sink that writes into one table of the pool's database. into names it as SQL does: schema-qualified or not,
// "quoted" parts as they are, others in lower case; a name without schema is looked for along the search_path of the connection. ""
// is the source table's name, taken as it is. The caller closes the pool, after the lanes.
//
// Each lane holds one connection while a checkpoint is being written and one during calls of its store, never two at once.
//
// All mistakes are reported together, as one ErrConfig. The server is first asked by [Sink.Lane].
func New(pool *pgxpool.Pool, into string, o *Options) (*Sink, error) {
	s := &Sink{pool: pool}
	if o != nil {
		s.o = *o
		s.o.Columns = maps.Clone(o.Columns)
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
	for _, from := range slices.Sorted(maps.Keys(s.o.Columns)) {
		if to := s.o.Columns[from]; to != "" {
			bad(checkIdent("Options.Columns["+from+"]", to))
		}
	}
	s.o.LockTimeout = duration("LockTimeout", s.o.LockTimeout, defaultLockTimeout, bad)
	s.o.IdleTimeout = duration("IdleTimeout", s.o.IdleTimeout, defaultIdleTimeout, bad)
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

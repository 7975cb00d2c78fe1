package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// classify returns the class of an error of the driver or the server, by its type and SQLSTATE, never by its text, which is
// translated. An answer of the server to COMMIT needs more care: see transaction.commit.
func classify(err error) error {
	var classed *sink.Error
	if errors.As(err, &classed) {
		return sink.ClassOf(classed)
	}
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return classOfState(pe.Code)
	}
	var ce *pgconn.ConnectError
	var scan pgx.ScanArgError
	switch {
	case errors.As(err, &scan): // a column of the sink's own tables was altered, or holds NULL where none is written
		return sink.ErrConfig
	case errors.As(err, &ce), pgconn.SafeToRetry(err): // nothing was sent
		return sink.ErrTransient
	case errors.Is(err, pgx.ErrTxCommitRollback): // the server says that it rolled back
		return sink.ErrTransient
	}
	return sink.ErrUncertain
}

// classOfState returns the class of a SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html).
func classOfState(code string) error {
	switch code {
	case "40003": // statement_completion_unknown
		return sink.ErrUncertain
	case "42P05", "26000": // prepared statement exists already, or does not: a pooler between us and the server
		return sink.ErrConfig
	case "54011", "54023": // too many columns, too many arguments: of the table, not of a row
		return sink.ErrConfig
	case "42601": // what the input functions of tsvector, tsquery and jsonpath say of a text; statements of the sink have no other syntax error
		return sink.ErrRejected
	case "55000": // a publication without replica identity, a sequence or view that is not ready: will not pass by itself
		return sink.ErrConfig
	}
	if len(code) != 5 {
		return sink.ErrUncertain
	}
	switch code[:2] {
	case "08", // connection
		"25", // read-only server after a failover, idle_in_transaction_session_timeout, transaction_timeout
		"40", // serialization failure, deadlock
		"53", // out of memory, disk, connections
		"55", // lock_timeout, object in use
		"57", // shutdown, terminated, starting up, statement_timeout
		"58", // disk I/O
		"0A": // a cached plan that no longer fits after ALTER TABLE; BEGIN READ WRITE during recovery
		return sink.ErrTransient
	case "22", // data exception
		"23", // constraint
		"44", // WITH CHECK OPTION
		"54", // a value over a limit, e.g. of an index row
		"P0": // RAISE EXCEPTION of a trigger
		return sink.ErrRejected
	case "21", // one row twice in ON CONFLICT: two keys of the source that the key columns' type takes for one
		"28", // password, pg_hba.conf
		"3D", // no such database
		"3F", // no such schema
		"42", // no such table or column, no right, no unique index
		"F0": // configuration file
		return sink.ErrConfig
	}
	return sink.ErrUncertain
}

// undone returns the class of an error after which the transaction it happened in certainly cannot have been committed, because its
// COMMIT was not sent: what would be uncertain is transient.
func undone(err error) error {
	if c := classify(err); c != sink.ErrUncertain {
		return c
	}
	return sink.ErrTransient
}

// stateName names the SQLSTATEs that people meet here, for texts that cannot show the server's message.
func stateName(code string) string {
	switch code {
	case "08006":
		return "connection failure"
	case "08P01":
		return "protocol violation"
	case "0A000":
		return "feature not supported"
	case "21000":
		return "cardinality violation"
	case "22001":
		return "text too long for the column"
	case "22003":
		return "number out of range"
	case "22007":
		return "invalid date or time"
	case "22008":
		return "date or time out of range"
	case "22021":
		return "character not in the encoding"
	case "22P02":
		return "text is not valid for the column's type"
	case "22P05":
		return "character that cannot be stored"
	case "22023":
		return "invalid parameter"
	case "23001":
		return "foreign key (RESTRICT)"
	case "42601":
		return "text is not valid for the column's type"
	case "2200N":
		return "invalid XML"
	case "22030":
		return "duplicate JSON key"
	case "22032":
		return "invalid JSON"
	case "23502":
		return "NULL in a NOT NULL column"
	case "23503":
		return "foreign key"
	case "23505":
		return "unique constraint"
	case "23514":
		return "check constraint"
	case "23P01":
		return "exclusion constraint"
	case "25006":
		return "read-only transaction"
	case "25P03":
		return "idle in transaction for too long"
	case "25P04":
		return "transaction took too long"
	case "28000":
		return "not authorized"
	case "28P01":
		return "wrong password"
	case "3D000":
		return "no such database"
	case "3F000":
		return "no such schema"
	case "40001":
		return "serialization failure"
	case "40P01":
		return "deadlock"
	case "42501":
		return "permission denied"
	case "42703":
		return "no such column"
	case "42804":
		return "wrong type"
	case "42883":
		return "no such operator or function"
	case "42P01":
		return "no such table"
	case "42P05":
		return "prepared statement exists already"
	case "42P07":
		return "table exists already"
	case "42P10":
		return "no unique index over the key"
	case "26000":
		return "no such prepared statement"
	case "53100":
		return "disk full"
	case "53200":
		return "out of memory"
	case "53300":
		return "too many connections"
	case "54000":
		return "value over a limit"
	case "54011":
		return "too many columns"
	case "55000":
		return "object not ready"
	case "55P03":
		return "lock timeout"
	case "57014":
		return "canceled or statement timeout"
	case "57P01":
		return "terminated by an administrator"
	case "57P02":
		return "crash shutdown"
	case "57P03":
		return "server is starting or stopping"
	case "P0001":
		return "raised by a trigger or function"
	}
	return ""
}

// cause shows an error of the server without what may hold values of rows. The error itself stays in reach of errors.As.
type cause struct {
	text string
	err  error
}

func (c *cause) Error() string { return c.text }
func (c *cause) Unwrap() error { return c.err }

// tell wraps err so that its text holds no value of a row: Detail, Where and the quoted statement of a PgError never, its Message only
// in classes where the server puts nothing but names into it.
func tell(err error) error {
	var pe *pgconn.PgError
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) || !errors.As(err, &pe) {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "SQLSTATE %s", pe.Code)
	if n := stateName(pe.Code); n != "" {
		fmt.Fprintf(&b, " (%s)", n)
	}
	if messageIsSafe(pe) {
		fmt.Fprintf(&b, ": %s", pe.Message)
	}
	for _, f := range []struct{ what, name string }{{"schema", pe.SchemaName}, {"table", pe.TableName}, {"column", pe.ColumnName},
		{"type", pe.DataTypeName}, {"constraint", pe.ConstraintName}} {
		if f.name != "" {
			fmt.Fprintf(&b, ", %s %s", f.what, quote(f.name))
		}
	}
	switch pe.Code {
	case "42P05", "26000":
		b.WriteString(": a pooler gives each transaction another server connection: add default_query_exec_mode=exec to the pool's connection string")
	case "21000":
		b.WriteString(": two keys of the topic are one key to the type of the table's key columns: use a type that tells them apart, e.g. text")
	case "25006":
		b.WriteString(": the server is read-only: name the primary, or add target_session_attrs=read-write to the pool's connection string")
	case "25P04":
		b.WriteString(": a checkpoint took longer than Options.TransactionTimeout: raise it, or make checkpoints more often")
	case "53300":
		b.WriteString(": lower pool_max_conns or raise max_connections")
	}
	return &cause{text: b.String(), err: err}
}

func messageIsSafe(pe *pgconn.PgError) bool {
	if pe.Routine == "exec_stmt_raise" || len(pe.Code) != 5 || pe.Code == "42601" { // words of a user's function, or the text that was not read
		return false
	}
	switch pe.Code[:2] {
	case "08", "0A", "21", "23", "25", "26", "28", "3D", "3F", "40", "42", "53", "55", "57", "58":
		return true
	}
	return pe.Code == "54000"
}

// rowError says which change cannot be written, and why. It never holds the value.
type rowError struct {
	column string // "" when the whole row is meant
	reason string
}

func (e *rowError) Error() string {
	if e.column == "" {
		return e.reason
	}
	return fmt.Sprintf("column %s: %s", quote(e.column), e.reason)
}

// fail makes err an error of operation op. A class that is already there stays; else it is class.
func (c *committer) fail(op string, class, err error) error {
	var e *sink.Error
	if errors.As(err, &e) {
		out := *e
		if out.Op == "" {
			out.Op = op
		}
		out.Sink, out.Bridge = c.lane.Sink, c.lane.Bridge
		return &out
	}
	return &sink.Error{Op: op, Sink: c.lane.Sink, Bridge: c.lane.Bridge, Class: class, Err: tell(err)}
}

package postgres

import (
	"context"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Sink writes into a Postgres table in mode InTransaction: the rows of a checkpoint and its positions are one transaction. It is
// safe for use by several goroutines. Its committers are checked by sinktest; each is also the [sink.Store] of its lane.
type Sink struct {
	pool  *pgxpool.Pool
	into  qualified // zero: the source table's name
	o     Options
	store store
}

var (
	_ sink.Sink      = (*Sink)(nil)
	_ sink.Committer = (*committer)(nil)
	_ sink.Store     = (*committer)(nil)

	_ sink.DeadLetterKeeper = (*committer)(nil)
	_ sink.Superseder       = (*committer)(nil)
)

// Guarantee states what the mode gives.
func (s *Sink) Guarantee() sink.Guarantee {
	return sink.Guarantee{
		Level:   sink.ExactlyOnce,
		How:     "rows and positions in one transaction",
		Visible: "at commit, atomically",
		Zombie:  "fenced by generation row",
	}
}

// String returns "postgres", the part of a bridge's fingerprint that is known without asking the server. Acquire adds the tables
// as the server found them.
func (s *Sink) String() string { return "postgres" }

// Lane returns the committer of one lane, which also is the lane's [sink.Store]. It makes the sink's own tables where they are
// missing, and compares the target table with l.Tables: everything that does not fit is one ErrConfig, each point with its cure. A
// server that cannot be reached is ErrTransient.
func (s *Sink) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c := &committer{s: s, lane: l}
	if err := checkBridge(l.Bridge); err != nil {
		return nil, c.fail("start", sink.ErrConfig, err)
	}
	if err := s.ready(ctx); err != nil {
		return nil, c.fail("start", undone(err), err)
	}
	denied, err := s.ensureLetters(ctx)
	if err != nil {
		return nil, c.fail("start", undone(err), err)
	}
	c.noLetters = denied
	for _, t := range l.Tables {
		if err := s.create(ctx, t); err != nil {
			return nil, c.fail("start", undone(err), err)
		}
	}
	targets, err := s.check(ctx, l.Tables)
	if err != nil {
		return nil, c.fail("start", undone(err), err)
	}
	if err := s.sameTarget(ctx, l.Bridge, targets); err != nil {
		return nil, c.fail("start", undone(err), err)
	}
	c.targets = targets
	return c, nil
}

// ready looks at the server as a whole and makes the sink's own tables.
func (s *Sink) ready(ctx context.Context) error {
	if _, err := s.server(ctx); err != nil {
		return err
	}
	return s.ensureStore(ctx)
}

// server looks at the server as a whole, and returns its version as server_version_num has it.
func (s *Sink) server(ctx context.Context) (version int, err error) {
	var readOnly bool
	err = s.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'`).
		Scan(&version, &readOnly)
	switch {
	case err != nil:
		return 0, err
	case version < minVersion:
		return 0, configf("the server has version %d: the oldest supported is Postgres 13 (server_version_num %d)", version, minVersion)
	case readOnly:
		return 0, configf("the server is read-only (a standby, or default_transaction_read_only is on): name the primary, or add target_session_attrs=read-write to the pool's connection string")
	}
	return version, nil
}

const minVersion = 130000

// name is where rows of t go.
func (s *Sink) name(t *changelog.Table) qualified {
	if s.into != (qualified{}) {
		return s.into
	}
	return qualified{table: t.Name}
}

// column is the name of the Postgres column for a source column; "" leaves it out.
func (s *Sink) column(source string) string {
	if to, ok := s.o.Columns[source]; ok {
		return to
	}
	return source
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Format is the version of the sink's own tables. It rises when an older flinksink could misread them.
const Format = 1

// store names the sink's own tables.
type store struct {
	schema                                            string
	format, bridge, generation, position, committable string // quoted
	audit, letter, fence, staging                     string
}

func newStore(schema string) store {
	t := func(name string) string { return qualified{schema, name}.SQL() }
	return store{schema: schema, format: t("format"), bridge: t("bridge"), generation: t("generation"), position: t("position"), committable: t("committable"),
		audit: t("audit"), letter: t("dead_letter"), fence: t("fence"), staging: t("staging")}
}

// ddl makes the tables. Sizes stay constant: a row for each partition, updated in place, what is undecided, and the last generations. Only
// what was done by hand and what was set aside stays until somebody deletes it.
func (st store) ddl() []string {
	return []string{
		`CREATE TABLE ` + st.format + ` (
  single  boolean     PRIMARY KEY DEFAULT true CHECK (single),
  version integer     NOT NULL,
  made    timestamptz NOT NULL DEFAULT now()
)`,
		`CREATE TABLE ` + st.bridge + ` (
  name            text        PRIMARY KEY,
  fingerprint     text        NOT NULL,
  last_generation bigint      NOT NULL DEFAULT 0,
  incarnation     integer     NOT NULL DEFAULT 0,
  made            timestamptz NOT NULL DEFAULT now()
)`,
		`CREATE TABLE ` + st.generation + ` (
  bridge           text        NOT NULL,
  id               bigint      NOT NULL,
  owner            text        NOT NULL,
  topics           text[]      NOT NULL,
  partitions       integer[]   NOT NULL,
  group_generation integer     NOT NULL,
  last_checkpoint  bigint      NOT NULL DEFAULT 0,
  ended            boolean     NOT NULL DEFAULT false,
  settled          boolean     NOT NULL DEFAULT false,
  acquired         timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (bridge, id)
)`,
		`CREATE TABLE ` + st.position + ` (
  bridge           text        NOT NULL,
  topic            text        NOT NULL,
  partition        integer     NOT NULL,
  owner            bigint      NOT NULL,
  group_generation integer     NOT NULL DEFAULT -1,
  next_offset      bigint,
  leader_epoch     integer     NOT NULL DEFAULT -1,
  topic_id         text        NOT NULL DEFAULT '',
  generation       bigint      NOT NULL DEFAULT 0,
  checkpoint       bigint      NOT NULL DEFAULT 0,
  records          bigint      NOT NULL DEFAULT 0,
  read             bigint      NOT NULL DEFAULT 0,
  applied          bigint      NOT NULL DEFAULT 0,
  superseded       bigint      NOT NULL DEFAULT 0,
  dead_lettered    bigint      NOT NULL DEFAULT 0,
  skipped          bigint      NOT NULL DEFAULT 0,
  saved            timestamptz,
  PRIMARY KEY (bridge, topic, partition)
)`,
		`CREATE TABLE ` + st.committable + ` (
  bridge         text    NOT NULL,
  generation     bigint  NOT NULL,
  checkpoint     bigint  NOT NULL,
  sink           text    NOT NULL,
  version        integer NOT NULL,
  data           bytea   NOT NULL,
  from_positions jsonb   NOT NULL,
  to_positions   jsonb   NOT NULL,
  PRIMARY KEY (bridge, generation, checkpoint, sink)
)`,
		st.auditDDL(),
		st.letterDDL(),
		fmt.Sprintf(`INSERT INTO %s (version) VALUES (%d)`, st.format, Format),
	}
}

// script is what an administrator runs where the role has no right to make the tables.
func (st store) script(role string, schemaExists bool) string {
	var b strings.Builder
	if !schemaExists {
		fmt.Fprintf(&b, "CREATE SCHEMA %s;\n", quote(st.schema))
	}
	for _, q := range st.ddl() {
		b.WriteString(q + ";\n")
	}
	b.WriteString(st.grants(role))
	return b.String()
}

func (st store) grants(role string) string {
	return fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s;\nGRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO %s;\n",
		quote(st.schema), quote(role), quote(st.schema), quote(role))
}

// ensureStore makes the tables at first use, and checks their format version.
func (s *Sink) ensureStore(ctx context.Context) error {
	made, err := s.storeVersion(ctx, s.pool)
	if err != nil || made {
		return err
	}
	// Two processes that start at once both see nothing; the lock lets one of them make all of it, and the other look again.
	lock := fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", lockKey("tables", s.o.Schema))
	t, err := s.beginStore(ctx, lock)
	if err != nil {
		return err
	}
	made, err = s.storeVersion(ctx, t)
	if err == nil && !made {
		err = s.makeStore(ctx, t)
	}
	if err != nil || made {
		t.rollback(ctx)
		return err
	}
	return t.commit(ctx)
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// storeVersion reports whether the tables are there, and says what is wrong with their version.
func (s *Sink) storeVersion(ctx context.Context, q querier) (bool, error) {
	var exists bool
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = 'format')`, s.o.Schema).Scan(&exists)
	if err != nil || !exists {
		return false, err
	}
	var version int
	err = q.QueryRow(ctx, "SELECT version FROM "+s.store.format+" WHERE single").Scan(&version)
	var pe *pgconn.PgError
	switch {
	case errors.As(err, &pe) && pe.Code == "42501":
		return false, s.denied(err, s.store.grants(s.role()))
	case errors.As(err, &pe) && strings.HasPrefix(pe.Code, "42"), errors.Is(err, pgx.ErrNoRows):
		return false, s.foreign(err)
	case err != nil:
		return false, err
	}
	if version != Format {
		cure := "upgrade this program"
		if version < Format {
			cure = "finish with the older program, then name another Options.Schema"
		}
		return false, &sink.Error{Class: sink.ErrConfig, Err: fmt.Errorf(
			"the tables in schema %s have format version %d, this program knows version %d: %s", quote(s.o.Schema), version, Format, cure)}
	}
	return true, nil
}

func (s *Sink) makeStore(ctx context.Context, t *transaction) error {
	var schemaExists bool
	err := t.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", s.o.Schema).Scan(&schemaExists)
	if err != nil {
		return err
	}
	all := s.store.ddl()
	if !schemaExists { // IF NOT EXISTS would still ask for the right to create schemas
		all = append([]string{"CREATE SCHEMA " + quote(s.o.Schema)}, all...)
	}
	for _, q := range all {
		_, err := t.Exec(ctx, q)
		var pe *pgconn.PgError
		switch {
		case errors.As(err, &pe) && pe.Code == "42501":
			return s.denied(err, s.store.script(s.role(), schemaExists))
		case errors.As(err, &pe) && pe.Code == "42P07":
			return s.foreign(err)
		case err != nil:
			return err
		}
	}
	return nil
}

// denied says that a right is missing, and prints what an administrator can run.
func (s *Sink) denied(err error, script string) error {
	return &sink.Error{Class: sink.ErrConfig, Err: fmt.Errorf(
		"role %s may not make or use the sink's own tables in schema %s (%w): name another schema in Options.Schema, or let an administrator run\n%s",
		quote(s.role()), quote(s.o.Schema), tell(err), script)}
}

// role is the role of the connection string. The connection is not asked: it may be in a failed transaction.
func (s *Sink) role() string { return s.pool.Config().ConnConfig.User }

func (s *Sink) foreign(err error) error {
	return &sink.Error{Class: sink.ErrConfig, Err: fmt.Errorf(
		"schema %s holds a table of the name of one of the sink's own tables (format version %d) that something else made (%w): name another schema in Options.Schema",
		quote(s.o.Schema), Format, tell(err))}
}

package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// This file asks a server what it can do before anything is built on it. Many servers speak Postgres' protocol and lack a part of what stands
// behind it; some accept a statement and do nothing. So what matters is tried, not read off a version.

// capabilities are what a probe found.
type capabilities struct {
	product  string // as it names itself: "PostgreSQL", "CockroachDB", ...
	version  int    // server_version_num
	encoding string // server_encoding
	readOnly bool

	savepoints    bool // ROLLBACK TO SAVEPOINT undoes a part of a transaction
	callable      bool // the functions of advisory locks can be called, whatever they do
	advisory      bool // pg_advisory_xact_lock takes a lock, and pg_locks shows who holds it; some servers take it for a no-op
	terminates    bool // pg_terminate_backend is there
	readCommitted bool // each statement of a READ COMMITTED transaction sees what was committed before it
	atomic        bool // all statements of a transaction, rows too, become visible together
	unnest        bool // unnest takes several arrays side by side
	catalogue     bool // the functions that the check of the target table needs

	renames  bool // a pooler stands between, which gives this client another process number than the server's
	follows  bool // and it follows named statements from one server connection to the next
	byName   bool // the pool's connections name their statements
	prepared int  // max_prepared_transactions, -1: unknown
}

// products are servers that say so in version(), in any case of letters.
var products = [...]struct{ mark, name string }{
	{"cockroachdb", "CockroachDB"}, {"-yb-", "YugabyteDB"}, {"yugabyte", "YugabyteDB"}, {"hologres", "Hologres"}, {"redshift", "Amazon Redshift"},
	{"greenplum", "Greenplum"}, {"opengauss", "openGauss"}, {"gaussdb", "GaussDB"}, {"materialize", "Materialize"}, {"cratedb", "CrateDB"},
	{"risingwave", "RisingWave"}, {"questdb", "QuestDB"}, {"spanner", "Cloud Spanner"}, {"cedardb", "CedarDB"},
}

func productOf(version string) string {
	v := strings.ToLower(version)
	for _, p := range products {
		if strings.Contains(v, p.mark) {
			return p.name
		}
	}
	return postgreSQL
}

const postgreSQL = "PostgreSQL"

const minVersion = 130000

// problems says why a sink of a mode cannot work on such a server, each with its cure. It decides by what was found alone.
func (c capabilities) problems(mode Mode) (out []string) {
	bad := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	switch {
	case c.product == postgreSQL && c.version < minVersion:
		bad("the server has version %d: the oldest supported is Postgres 13 (server_version_num %d)", c.version, minVersion)
	case c.readOnly:
		bad("the server is read-only (a standby, or default_transaction_read_only is on): name the primary, or add target_session_attrs=read-write to the pool's connection string")
	}
	if c.encoding != "UTF8" {
		bad("the database has the encoding %s, which does not hold every text of a stream: name a database of encoding UTF8 "+
			"(CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0)", c.encoding)
	}
	if c.renames && c.byName && !c.follows {
		bad("a pooler stands between this process and the server, and the pool names its statements, which another server connection does not know (SQLSTATE 42P05 or 26000, sooner or later): " +
			"add default_query_exec_mode=exec to the pool's connection string")
	}
	var lacks []string
	lack := func(have bool, what string) {
		if !have {
			lacks = append(lacks, what)
		}
	}
	lack(c.savepoints, "savepoints")
	lack(c.atomic, "transactions of several statements that write rows"+c.hint())
	lack(c.readCommitted, "READ COMMITTED, in which each statement sees what was committed before it"+c.hint())
	lack(c.unnest, "unnest of several arrays")
	lack(c.callable, "functions of advisory locks (pg_advisory_xact_lock, pg_advisory_xact_lock_shared, pg_try_advisory_xact_lock)")
	lack(c.catalogue, "functions of the catalogue (to_regclass, row_security_active, pg_partition_tree)")
	if len(lacks) > 0 {
		bad("the server (%s) lacks %s: no mode of this sink can work without", c.product, strings.Join(lacks, "; "))
	}
	if mode == InTransaction && !(c.advisory && c.terminates) {
		lacks = nil
		lack(c.advisory, "advisory locks that pg_locks shows")
		lack(c.terminates, "pg_terminate_backend")
		bad("the server (%s) lacks %s, by which mode in-transaction keeps an older process from saving: set Options.Mode to Staged, "+
			"which fences with locked rows (Auto chooses it here)", c.product, strings.Join(lacks, "; "))
	}
	if mode == Prepared && c.prepared == 0 {
		bad("max_prepared_transactions is 0, so mode prepared cannot work: set it to the number of lanes and more and restart the server, or set Options.Mode to Staged")
	}
	return out
}

// hint is what a product can be told to do about a lack, from its documentation.
func (c capabilities) hint() string {
	switch c.product {
	case "Hologres":
		return " (ALTER DATABASE ... SET hg_experimental_enable_transaction = on)"
	case "YugabyteDB":
		return " (the flag yb_enable_read_committed_isolation of its tablet servers)"
	case "CockroachDB":
		return " (the cluster setting sql.txn.read_committed_isolation.enabled)"
	}
	return ""
}

// refuse is problems as one error, nil for none.
func (c capabilities) refuse(mode Mode) error {
	if wrong := c.problems(mode); len(wrong) > 0 {
		return configf("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// server looks at the server as a whole.
func (s *Sink) server(ctx context.Context) (capabilities, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return capabilities{}, err
	}
	defer conn.Release()
	return probe(ctx, conn.Conn())
}

// probe finds out what the server can do, and changes nothing. A server that refuses even to be asked has none of it.
func probe(ctx context.Context, conn *pgx.Conn) (c capabilities, err error) {
	c.byName = conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
	var text string
	// A setting that a server does not know is NULL here.
	err = conn.QueryRow(ctx, `SELECT version(), coalesce(current_setting('server_version_num', true)::int, 0), coalesce(current_setting('server_encoding', true), ''),
		coalesce(current_setting('transaction_read_only', true), 'off') = 'on', coalesce(current_setting('max_prepared_transactions', true)::int, -1)`).
		Scan(&text, &c.version, &c.encoding, &c.readOnly, &c.prepared)
	c.product = productOf(text)
	if err != nil || c.readOnly || c.product == postgreSQL && c.version < minVersion {
		c.assumeTheRest()
		return c, err
	}
	if err := c.sessions(ctx, conn); err != nil {
		return c, err
	}
	return c, c.transactions(ctx, conn)
}

// assumeTheRest keeps what could not be looked at from being reported.
func (c *capabilities) assumeTheRest() {
	c.savepoints, c.callable, c.advisory, c.terminates, c.readCommitted, c.atomic, c.unnest, c.catalogue = true, true, true, true, true, true, true, true
}

// sessions looks for a pooler. PgBouncer answers the startup message with a number of its own making, where a server gives that of its process.
func (c *capabilities) sessions(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	var standby bool
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid(), pg_is_in_recovery()").Scan(&pid, &standby)
	if answered(err) {
		return nil // no such function: then there is no standby either
	}
	if err != nil {
		return err
	}
	c.readOnly, c.renames = standby, pid != conn.PgConn().PID()
	if !c.renames || !c.byName {
		return nil
	}
	// From 1.21 on PgBouncer can follow named statements, and gives them names of its own on the server.
	const name = "flinksink_probe"
	if _, err := conn.PgConn().Prepare(ctx, name, "SELECT count(*) FROM pg_catalog.pg_prepared_statements WHERE name LIKE 'PGBOUNCER_%'", nil); err != nil {
		if answered(err) {
			return nil
		}
		return err
	}
	r := conn.PgConn().ExecPrepared(ctx, name, nil, nil, nil).Read()
	c.follows = r.Err == nil && len(r.Rows) == 1 && string(r.Rows[0][0]) != "0"
	if err := conn.PgConn().Deallocate(ctx, name); err != nil && !answered(err) {
		return err
	}
	return nil
}

// trial is a question to the server about one capability.
type trial struct {
	found *bool
	sql   string // a boolean expression
}

func (c *capabilities) trials(key int64) []trial {
	return []trial{
		{&c.readCommitted, "current_setting('transaction_isolation') = 'read committed' AND coalesce(current_setting('yb_effective_transaction_isolation_level', true), 'read committed') = 'read committed'"},
		{&c.atomic, "coalesce(current_setting('hg_experimental_enable_transaction', true), 'on') = 'on'"},
		{&c.unnest, "(SELECT count(*) = 2 FROM unnest('{1,2}'::int[], '{a,b}'::text[]) WITH ORDINALITY AS u(a, b, ord))"},
		{&c.catalogue, "to_regclass('pg_catalog.pg_class') IS NOT NULL AND NOT row_security_active('pg_catalog.pg_class'::regclass::oid) AND (SELECT count(*) >= 0 FROM pg_catalog.pg_partition_tree('pg_catalog.pg_class'::regclass))"},
		{&c.callable, fmt.Sprintf("(SELECT count(*) FROM pg_advisory_xact_lock(%[1]d)) = 1 AND (SELECT count(*) FROM pg_advisory_xact_lock_shared(%[2]d)) = 1 AND pg_try_advisory_xact_lock(%[2]d) IS NOT NULL", key, key^1)},
		{&c.terminates, "EXISTS (SELECT FROM pg_catalog.pg_proc WHERE proname = 'pg_terminate_backend')"},
		{&c.advisory, fmt.Sprintf("EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.pid = pg_backend_pid() "+
			"AND l.classid = %d::bigint::oid AND l.objid = %d::bigint::oid)", int64(uint64(key)>>32), int64(uint64(key)&0xffffffff))},
	}
}

// transactions tries in a transaction, which is rolled back, what every checkpoint is built on.
func (c *capabilities) transactions(ctx context.Context, conn *pgx.Conn) error {
	key := lockKey("probe", fmt.Sprint(conn.PgConn().PID()))
	trials := c.trials(key)
	// A server with all of it answers at once.
	err := tried(ctx, conn, beginProbe+"; SELECT set_config('idle_in_transaction_session_timeout', '10s', true)", func(tx pgx.Tx) error {
		var sql []string
		var found []any
		for _, q := range trials {
			sql, found = append(sql, q.sql), append(found, q.found)
		}
		return tx.QueryRow(ctx, "SELECT "+strings.Join(sql, ", ")).Scan(found...)
	})
	if err == nil && c.product == postgreSQL {
		c.savepoints = true
		return nil
	}
	if err != nil && !answered(err) {
		return err
	}
	// Else one by one, to tell what it lacks.
	err = tried(ctx, conn, beginProbe, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SAVEPOINT probe"); err != nil {
			return err
		}
		c.savepoints = true
		var ignored bool
		all := append([]trial{{&ignored, "1/0 = 0"}}, trials...) // the first is to fail, and has to be undone
		for _, q := range all {
			*q.found = false
			var yes bool
			err := tx.QueryRow(ctx, "SELECT "+q.sql).Scan(&yes)
			switch {
			case err == nil:
				*q.found = yes
				if _, err := tx.Exec(ctx, "SAVEPOINT probe"); err != nil { // going back gives up a lock that was taken since
					return err
				}
				continue
			case !answered(err):
				return err
			}
			if _, err := tx.Exec(ctx, "ROLLBACK TO SAVEPOINT probe"); err != nil {
				c.savepoints = false
				return err
			}
		}
		return nil
	})
	if answered(err) {
		return nil
	}
	return err
}

// beginProbe is how checkpoints begin.
const beginProbe = "BEGIN ISOLATION LEVEL READ COMMITTED"

// tried runs f in a transaction that is rolled back.
func tried(ctx context.Context, conn *pgx.Conn, begin string, f func(tx pgx.Tx) error) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		if answered(err) { // within the transaction that it began
			_, _ = conn.Exec(ctx, "ROLLBACK")
		}
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	return f(tx)
}

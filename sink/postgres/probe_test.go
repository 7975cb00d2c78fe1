package postgres

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// plain is what every Postgres from 13 on answers.
func plain() capabilities {
	c := capabilities{product: "PostgreSQL", version: 170000, encoding: "UTF8", prepared: 0}
	c.assumeTheRest()
	return c
}

// What a server lacks decides which mode can work on it, and what the one that was asked for says. The sets of the other servers are made from their
// documentation; none of them was run.
func TestProblems(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(c *capabilities)
		works  []Mode
		want   []string // in what InTransaction says
	}{
		{"Postgres", func(c *capabilities) {}, []Mode{InTransaction, Staged}, nil},
		{"Postgres that prepares", func(c *capabilities) { c.prepared = 10 }, []Mode{InTransaction, Prepared, Staged}, nil},
		{"Postgres 12", func(c *capabilities) { c.version = 120015 }, nil, []string{"120015", "Postgres 13"}},
		{"a standby", func(c *capabilities) { c.readOnly = true }, nil, []string{"read-only", "target_session_attrs"}},
		{"LATIN1", func(c *capabilities) { c.encoding = "LATIN1" }, nil, []string{"LATIN1", "ENCODING 'UTF8' TEMPLATE template0"}},
		{"SQL_ASCII", func(c *capabilities) { c.encoding = "SQL_ASCII" }, nil, []string{"SQL_ASCII"}},
		{"a pooler, statements by name", func(c *capabilities) { c.renames, c.byName = true, true }, nil, []string{"pooler", "42P05", "default_query_exec_mode=exec"}},
		{"a pooler, without names", func(c *capabilities) { c.renames = true }, []Mode{InTransaction, Staged}, nil},
		{"a pooler that follows names", func(c *capabilities) { c.renames, c.byName, c.follows = true, true, true }, []Mode{InTransaction, Staged}, nil},
		{"CockroachDB up to 25: advisory locks that do nothing", func(c *capabilities) { c.product, c.version, c.advisory, c.prepared = "CockroachDB", 130000, false, -1 }, []Mode{Prepared, Staged},
			[]string{"CockroachDB", "advisory locks that pg_locks shows", "Options.Mode to Staged"}},
		{"no functions of advisory locks", func(c *capabilities) { c.advisory, c.callable = false, false }, nil, []string{"functions of advisory locks", "no mode"}},
		{"CockroachDB without READ COMMITTED", func(c *capabilities) { c.product, c.advisory, c.readCommitted = "CockroachDB", false, false }, nil,
			[]string{"READ COMMITTED", "sql.txn.read_committed_isolation.enabled", "no mode"}},
		{"YugabyteDB with its old default", func(c *capabilities) { c.product, c.version, c.readCommitted = "YugabyteDB", 110002, false }, nil, []string{"yb_enable_read_committed_isolation"}},
		{"Hologres", func(c *capabilities) {
			c.product, c.version, c.savepoints, c.atomic, c.advisory = "Hologres", 110003, false, false, false
		}, nil,
			[]string{"Hologres", "savepoints", "hg_experimental_enable_transaction", "no mode"}},
		{"no pg_terminate_backend", func(c *capabilities) { c.terminates = false }, []Mode{Staged}, []string{"pg_terminate_backend", "Staged"}},
		{"everything at once", func(c *capabilities) {
			*c = capabilities{product: "X", encoding: "EUC_JP", renames: true, byName: true}
		}, nil,
			[]string{"EUC_JP", "pooler", "savepoints", "unnest", "catalogue", "advisory"}},
	} {
		c := plain()
		tc.change(&c)
		for _, mode := range []Mode{InTransaction, Prepared, Staged} {
			got := c.problems(mode)
			works := false
			for _, m := range tc.works {
				works = works || m == mode
			}
			if works != (len(got) == 0) {
				t.Errorf("%s, mode %s: %q", tc.name, mode, got)
			}
		}
		text := strings.Join(c.problems(InTransaction), "\n")
		for _, w := range tc.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no %q in %q", tc.name, w, text)
			}
		}
	}
}

// What version() answers, as the documentation of each server shows it.
func TestProductOf(t *testing.T) {
	for text, want := range map[string]string{
		"PostgreSQL 17.2 on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14) 12.2.0, 64-bit": "PostgreSQL",
		"CockroachDB CCL v24.2.0 (x86_64-pc-linux-gnu, built 2024/08/12 15:04:32, go1.22.5)":        "CockroachDB",
		"PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 16.0.6":   "YugabyteDB",
		"PostgreSQL 11.3 (Release-build: Hologres 2.2.5)":                                           "Hologres",
		"PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2, Redshift 1.0.1":    "Amazon Redshift",
		"PostgreSQL 12.12 (Greenplum Database 7.0.0)":                                               "Greenplum",
	} {
		if got := productOf(text); got != want {
			t.Errorf("%q is %s, not %s", text, got, want)
		}
	}
}

// A real server has all of it, by every way of sending statements, and the probe leaves nothing behind.
func TestProbe_RealServer(t *testing.T) {
	dsn := os.Getenv("FLINKSINK_POSTGRES")
	if dsn == "" {
		t.Skip("FLINKSINK_POSTGRES is not set: it names a Postgres server that tests may fill; ./test starts one")
	}
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if config.DefaultQueryExecMode, err = execMode(mode); err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		c, err := probe(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.problems(InTransaction); len(got) > 0 || c.renames || c.product != "PostgreSQL" || c.version < minVersion {
			t.Errorf("%s: %q, %+v", mode, got, c)
		}
		var locks int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'").Scan(&locks); err != nil || locks > 0 {
			t.Errorf("%s: %d locks are left, %v", mode, locks, err)
		}
		if s := conn.PgConn().TxStatus(); s != 'I' {
			t.Errorf("%s: transaction status %c", mode, s)
		}
		conn.Close(t.Context())
	}
}

func execMode(name string) (pgx.QueryExecMode, error) {
	c, err := pgx.ParseConfig("default_query_exec_mode=" + name)
	if err != nil {
		return 0, err
	}
	return c.DefaultQueryExecMode, nil
}

// Through a pooler: statements by name are refused at the start, with the cure, which works.
func TestProbe_Pooler(t *testing.T) {
	dsn := os.Getenv("FLINKSINK_PGBOUNCER")
	if dsn == "" {
		t.Skip("FLINKSINK_PGBOUNCER is not set: it names a PgBouncer with pool_mode=transaction")
	}
	for mode, want := range map[string]string{"cache_statement": "default_query_exec_mode=exec", "exec": "", "cache_describe": "", "describe_exec": "", "simple_protocol": ""} {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if config.DefaultQueryExecMode, err = execMode(mode); err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		c, err := probe(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		if !c.renames {
			t.Errorf("%s: the pooler was not seen: %+v", mode, c)
		}
		got := strings.Join(c.problems(InTransaction), "\n")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", mode, got)
		}
		conn.Close(t.Context())
	}
}

// A server that lacks something, made of a real one: functions of its own stand before those of the catalogue. What is a no-op, and what fails, is
// seen, and what comes after it is looked at all the same.
func TestProbe_ServerThatLacks(t *testing.T) {
	dsn := os.Getenv("FLINKSINK_POSTGRES")
	if dsn == "" {
		t.Skip("FLINKSINK_POSTGRES is not set: it names a Postgres server that tests may fill; ./test starts one")
	}
	const void = "(bigint) RETURNS void LANGUAGE sql AS ''"
	for name, tc := range map[string]struct {
		functions string
		lacks     func(c *capabilities)
	}{
		"nothing":                         {"", func(c *capabilities) {}},
		"advisory locks that do nothing":  {"CREATE FUNCTION $.pg_advisory_xact_lock" + void, func(c *capabilities) { c.advisory = false }},
		"advisory locks that fail":        {"CREATE FUNCTION $.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$", func(c *capabilities) { c.advisory, c.callable = false, false }},
		"a catalogue without to_regclass": {"CREATE FUNCTION $.to_regclass(text) RETURNS regclass LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$", func(c *capabilities) { c.catalogue = false }},
		"another isolation level": {"CREATE FUNCTION $.current_setting(text) RETURNS text LANGUAGE sql AS $$SELECT CASE WHEN $1 = 'transaction_isolation' THEN 'serializable' ELSE pg_catalog.current_setting($1) END$$",
			func(c *capabilities) { c.readCommitted = false }},
		"the server's own process numbers": {"CREATE FUNCTION $.pg_backend_pid() RETURNS int LANGUAGE sql AS 'SELECT 5'", func(c *capabilities) { c.renames, c.advisory = true, false }},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := pgx.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := pgx.ConnectConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			schema := fmt.Sprintf("fake_%d", os.Getpid())
			if _, err := conn.Exec(t.Context(), "CREATE SCHEMA "+schema+"; "+strings.ReplaceAll(tc.functions, "FUNCTION $.", "FUNCTION "+schema+".")); err != nil {
				t.Fatal(err)
			}
			defer conn.Exec(t.Context(), "DROP SCHEMA "+schema+" CASCADE")
			if _, err := conn.Exec(t.Context(), "SET search_path = "+schema+", pg_catalog"); err != nil {
				t.Fatal(err)
			}
			for _, product := range []string{postgreSQL, "another"} {
				got := capabilities{product: product}
				if err := got.sessions(t.Context(), conn); err != nil {
					t.Fatal(err)
				}
				if err := got.transactions(t.Context(), conn); err != nil {
					t.Fatal(err)
				}
				want := capabilities{product: product}
				want.assumeTheRest()
				tc.lacks(&want)
				if got != want {
					t.Errorf("%s\ngot  %+v\nwant %+v", product, got, want)
				}
			}
		})
	}
}

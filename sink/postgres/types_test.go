package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestTypes_RoundTrip(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TYPE mood AS ENUM ('sad', 'very happy'); CREATE DOMAIN words AS text; CREATE TYPE point2 AS (x int, y text); " +
		"CREATE TYPE place AS (p point2, tags text[], at timestamp(3), raw bytea, n numeric(10,2), doc jsonb); CREATE TYPE chart AS (grid int[][]); CREATE EXTENSION hstore SCHEMA " + e.schema +
		"; CREATE DOMAIN short AS varchar(6) NOT NULL; CREATE DOMAIN code AS short CHECK (VALUE ~ '^[a-z0-9]+$'); CREATE DOMAIN price AS numeric(10,2); CREATE DOMAIN codes AS int[] CHECK (cardinality(VALUE) > 0); " +
		"CREATE DOMAIN moods AS mood[]; CREATE DOMAIN glad AS mood CHECK (VALUE <> 'sad'); CREATE DOMAIN moment AS timestamp(3); CREATE DOMAIN point3 AS point2; CREATE TYPE kit AS (c code[], p point3); CREATE DOMAIN pairs AS hstore")
	// Settings of the session that change how the server reads and prints texts must change nothing.
	p := e.pool(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["datestyle"] = "SQL, DMY"
		c.ConnConfig.RuntimeParams["intervalstyle"] = "sql_standard"
		c.ConnConfig.RuntimeParams["timezone"] = "America/St_Johns"
		c.ConnConfig.RuntimeParams["client_encoding"] = "LATIN1"
		c.ConnConfig.RuntimeParams["extra_float_digits"] = "-5"
		c.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off"
		c.ConnConfig.RuntimeParams["bytea_output"] = "escape"
		c.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	})
	for _, tc := range allTypeCases() {
		t.Run(tc.flink+" to "+tc.pg, func(t *testing.T) {
			e.without("kv")
			tb := table(t, "kv", upsert, "k", "k INT NOT NULL", "v "+tc.flink)
			o := e.options()
			o.CreateTable = tc.pg == ""
			if tc.pg != "" {
				e.exec("CREATE TABLE kv (k int PRIMARY KEY, v " + tc.pg + ")")
			}
			c, err := e.lane(p, "", o, tb)
			if err != nil {
				t.Fatal(err)
			}
			w := &writer{t: t, ctx: t.Context(), c: c, table: tb}
			w.acquire()
			defer c.Close(t.Context())
			err = w.write(w.change(changelog.Insert, num(1), tc.value), w.change(changelog.Insert, num(2), null))
			if tc.want == "NULL" {
				if sink.ClassOf(err) != sink.ErrRejected {
					t.Fatalf("expected a rejection: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			w.finish()
			var got string
			var second bool
			conn, err := e.admin.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			if _, err := conn.Exec(t.Context(), "SET timezone = 'UTC'"); err != nil {
				t.Fatal(err)
			}
			if err := conn.QueryRow(t.Context(), "SELECT (SELECT v::text FROM kv WHERE k = 1), (SELECT v IS NULL FROM kv WHERE k = 2)").Scan(&got, &second); err != nil {
				t.Fatal(err)
			}
			if got != tc.want || !second {
				t.Errorf("got  %s\nwant %s (NULL: %v)", got, tc.want, second)
			}
		})
	}
}

// Every type that can be a key finds its row again, to update and to delete it.
func TestTypes_Keys(t *testing.T) {
	e := newEnv(t)
	p, seen := e.pool(nil), map[string]bool{}
	e.exec("CREATE TYPE mood AS ENUM ('sad', 'very happy'); CREATE DOMAIN words AS text")
	for _, tc := range typeCases {
		if pair := tc.flink + " " + tc.pg; seen[pair] {
			continue
		} else {
			seen[pair] = true
		}
		if strings.ContainsAny(tc.flink, "<") || tc.pg == "json" || tc.pg == "xml" || tc.pg == "jsonb" || tc.pg == "glad" || strings.HasPrefix(tc.pg, "char") || tc.want == "NULL" {
			continue
		}
		t.Run(tc.flink+" to "+tc.pg, func(t *testing.T) {
			e.without("kv")
			tb := table(t, "kv", upsert, "k x", "k "+tc.flink+" NOT NULL", "v STRING", "x INT NOT NULL")
			o := e.options()
			o.CreateTable = tc.pg == ""
			if tc.pg != "" {
				e.exec("CREATE TABLE kv (k " + tc.pg + ", v text, x int, PRIMARY KEY (x, k))")
			}
			c, err := e.lane(p, "", o, tb)
			if err != nil {
				t.Fatal(err)
			}
			w := &writer{t: t, ctx: t.Context(), c: c, table: tb}
			w.acquire()
			defer c.Close(t.Context())
			w.put(w.change(changelog.Insert, tc.value, str("a"), num(1)), w.change(changelog.Insert, tc.value, str("a"), num(2)))
			w.put(w.change(changelog.UpdateAfter, tc.value, str("b"), num(1)))
			if got := e.one("SELECT string_agg(v, ',' ORDER BY x) FROM kv"); got != "b,a" {
				t.Errorf("after the update: %s", got)
			}
			w.put(w.change(changelog.Delete, tc.value, null, num(2)))
			if got := e.one("SELECT string_agg(v || x, ',') FROM kv"); got != "b1" {
				t.Errorf("after the delete: %s", got)
			}
		})
	}
}

// A type whose input function would make another value of a text than the text, or cut it, takes no STRING.
func TestTypes_StringRefused(t *testing.T) {
	e := newEnv(t)
	e.exec(`CREATE DOMAIN short AS name; CREATE DOMAIN shorter AS short; CREATE DOMAIN price AS numeric(10,2); CREATE DOMAIN grid AS int[]; CREATE TYPE pair AS (a int, b int)`)
	for _, pg := range []string{`"char"`, "name", "short", "shorter", "bytea", "tsvector", "tsquery", "bit(4)", "bit varying", "bit varying(4)", "int4range", "tstzrange",
		"point", "box", "money", "interval", "timestamptz", "integer", "numeric", "boolean", "pair", "regclass", "oid", "pg_lsn", "int2vector", "name[]", `"char"[]`, "box[]", "text[]"} {
		e.exec("DROP TABLE IF EXISTS kv; CREATE TABLE kv (k int PRIMARY KEY, v " + pg + ")")
		_, err := e.lane(e.pool(nil), "", e.options(), table(t, "kv", upsert, "k", "k INT NOT NULL", "v STRING"))
		if sink.ClassOf(err) != sink.ErrConfig || !strings.Contains(err.Error(), "make the column text") {
			t.Errorf("STRING into %s: %v", pg, err)
		}
	}
	for flink, refused := range map[string][]string{
		"ARRAY<STRING>":         {"name[]", "shorter[]", "grid[]", `"char"[]`, "bytea[]", "tsvector[]", "oidvector", "tsvector", "int4multirange"},
		"ARRAY<SMALLINT>":       {"int2vector", "oidvector"},
		"ARRAY<DECIMAL(12, 4)>": {"price[]"},
		"ARRAY<ARRAY<BIGINT>>":  {"grid[]"},
		"BIGINT":                {"oid", "money", "double precision", "real", `"char"`, "name", "char(30)"},
		"BYTES":                 {"bit varying", "uuid", "char(20)", "name"},
		"DECIMAL(10, 2)":        {"money", "double precision", "numeric(10,1)", "bigint", "char(20)"},
		"DOUBLE":                {"real", "numeric", "money", "char(20)"},
		"DATE":                  {"timestamp", "timestamptz", "char(10)", "name"},
		"BOOLEAN":               {`"char"`, "integer", "bit(1)", "char(5)"},
		"MAP<STRING, STRING>":   {"name", "bytea", "char(20)", "varchar(9)", "xml"},
	} {
		for _, pg := range refused {
			if pg == "int4multirange" && e.one("SELECT to_regtype('int4multirange')") == "NULL" {
				continue // Postgres 13
			}
			e.exec("DROP TABLE IF EXISTS kv; CREATE TABLE kv (k int PRIMARY KEY, v " + pg + ")")
			if _, err := e.lane(e.pool(nil), "", e.options(), table(t, "kv", upsert, "k", "k INT NOT NULL", "v "+flink)); sink.ClassOf(err) != sink.ErrConfig {
				t.Errorf("%s into %s: %v", flink, pg, err)
			}
		}
	}
}

// Postgres has no = for a domain over an enum, so one that is a key is refused at the start, and not at the first delete.
func TestTypes_EnumDomainKey(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TYPE mood AS ENUM ('sad'); CREATE DOMAIN glad AS mood; CREATE TABLE kv (k glad PRIMARY KEY, v text); CREATE TABLE bag (k glad)")
	_, err := e.lane(e.pool(nil), "", e.options(), table(t, "kv", upsert, "k", "k STRING NOT NULL", "v STRING"))
	wantConfig(t, err, "domains over an enum")
	_, err = e.lane(e.pool(nil), "", e.options(), table(t, "bag", retract, "", "k STRING"))
	wantConfig(t, err, "cannot compare")
}

// citext keeps a text as it is, but finds it by any case.
func TestTypes_Citext(t *testing.T) {
	e := newEnv(t)
	if e.one("SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'") == "0" {
		t.Skip("the server has no extension citext")
	}
	e.exec("CREATE EXTENSION citext SCHEMA " + e.schema + "; CREATE DOMAIN ci AS citext")
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, a citext, b ci, c citext[])")
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k INT NOT NULL", "a STRING", "b STRING", "c ARRAY<STRING>"))
	w.put(w.change(changelog.Insert, num(1), str("Ab "), str("cD"), array(str("E"), str("e"))))
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{`(1,"Ab ",cD,"{E,e}")`}) {
		t.Errorf("%v", got)
	}
	e.exec("CREATE TABLE by (k ci PRIMARY KEY)")
	_, err := e.lane(e.pool(nil), "by", e.options(), table(t, "kv", upsert, "k", "k STRING NOT NULL"))
	wantConfig(t, err, "cannot hold a key", "text")
}

// xml is parsed, and kept as it is written. A server without libxml has the type, but not its input.
func TestTypes_XML(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, v xml)")
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k INT NOT NULL", "v STRING"))
	const text = "<a  b='1'>\n c</a>"
	err := w.write(w.change(changelog.Insert, num(1), str(text)))
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Code == "0A000" {
		t.Skip("the server was built without libxml")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.finish()
	if got := e.one("SELECT v FROM kv"); got != text {
		t.Errorf("%q", got)
	}
}

// TruncateNanos cuts digits off, and never rounds up.
func TestTypes_TruncateNanos(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.CreateTable, o.TruncateNanos = true, true
	w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k INT NOT NULL", "a TIMESTAMP(9)", "b TIMESTAMP_LTZ(9)", "c TIME(9)"))
	w.put(w.change(changelog.Insert, num(1), stamp(1969, 12, 31, 86399, 999999999), instant(2024, 1, 1, 0, 1999), changelog.TimeValue(86399_999_999_999)))
	if got := e.one("SELECT a || ' ' || (b AT TIME ZONE 'UTC') || ' ' || c FROM kv"); got != "1969-12-31 23:59:59.999999 2024-01-01 00:00:00.000001 23:59:59.999999" {
		t.Errorf("%s", got)
	}
}

// A column GENERATED BY DEFAULT AS IDENTITY takes the source's values, and fills itself where the source has none.
func TestTypes_Identity(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, v text, n int GENERATED BY DEFAULT AS IDENTITY (START 70))")
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k INT NOT NULL", "v STRING"))
	w.put(w.change(changelog.Insert, num(7), str("a")))
	w.put(w.change(changelog.UpdateAfter, num(7), str("b")))
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(7,b,70)"}) {
		t.Errorf("%v", got)
	}
}

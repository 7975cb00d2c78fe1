package postgres

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// captured makes the server answer with an error, by statements of which the last one fails. Every value is SECRET, so that a text that
// holds a value is found.
var captured = []struct {
	state string
	class error
	sql   string
}{
	{"08P01", sink.ErrTransient, ""}, // what PgBouncer says when it lost a server connection; not to be had from a server
	{"0A000", sink.ErrTransient, "DISCARD SEQUENCES; CREATE TEMP TABLE p (k int); PREPARE q AS SELECT * FROM p; EXECUTE q; ALTER TABLE p ADD COLUMN v int; EXECUTE q"},
	{"21000", sink.ErrConfig, "INSERT INTO e (k) VALUES ('SECRET'), ('SECRET') ON CONFLICT (k) DO UPDATE SET v = 1"},
	{"22001", sink.ErrRejected, "INSERT INTO e (k, short) VALUES ('a', 'SECRET')"},
	{"22003", sink.ErrRejected, "SELECT '123456789012'::int"},
	{"22007", sink.ErrRejected, "SELECT 'SECRET'::date"},
	{"22008", sink.ErrRejected, "SELECT '9999999-01-01'::date"},
	{"22P02", sink.ErrRejected, "SELECT 'SECRET'::uuid"},
	{"22P05", sink.ErrRejected, `SELECT '{"SECRET":"\u0000"}'::jsonb`},
	{"23502", sink.ErrRejected, "INSERT INTO e (k, must) VALUES ('SECRET', NULL)"},
	{"23503", sink.ErrRejected, "INSERT INTO e (k, parent) VALUES ('a', 'SECRET')"},
	{"23505", sink.ErrRejected, "INSERT INTO e (k) VALUES ('SECRET'); INSERT INTO e (k) VALUES ('SECRET')"},
	{"23514", sink.ErrRejected, "INSERT INTO e (k, v) VALUES ('SECRET', -1)"},
	{"23P01", sink.ErrRejected, "CREATE TEMP TABLE x (r int4range, EXCLUDE USING gist (r WITH &&)); INSERT INTO x VALUES ('[1,5)'), ('[2,6)')"},
	{"25006", sink.ErrTransient, "SET TRANSACTION READ ONLY; CREATE TABLE secret (k int)"},
	{"25P02", sink.ErrTransient, "SAVEPOINT s; SELECT 1/0"}, // followed by another statement below
	{"40001", sink.ErrTransient, "DO $$ BEGIN RAISE SQLSTATE '40001' USING MESSAGE = 'SECRET'; END $$"},
	{"40P01", sink.ErrTransient, "DO $$ BEGIN RAISE SQLSTATE '40P01' USING MESSAGE = 'SECRET'; END $$"},
	{"42501", sink.ErrConfig, "CREATE ROLE SECRET_role; SET LOCAL ROLE SECRET_role; SELECT 1 FROM e"},
	{"42601", sink.ErrRejected, "SELECT chr(39) || 'SECRET', (chr(39) || 'SECRET')::tsvector"},
	{"42703", sink.ErrConfig, "SELECT nothing FROM e WHERE k = 'SECRET'"},
	{"42804", sink.ErrConfig, "INSERT INTO e (v) SELECT 'SECRET'::text"},
	{"42883", sink.ErrConfig, "SELECT FROM e WHERE k = 5"},
	{"42P01", sink.ErrConfig, "INSERT INTO nothing VALUES ('SECRET')"},
	{"42P10", sink.ErrConfig, "INSERT INTO e (k) VALUES ('SECRET') ON CONFLICT (short) DO NOTHING"},
	{"428C9", sink.ErrConfig, "INSERT INTO e (k, made) VALUES ('SECRET', 1)"},
	{"54000", sink.ErrRejected, "INSERT INTO e (k) SELECT string_agg(md5(i::text), 'SECRET') FROM generate_series(1, 1000) i"},
	{"54011", sink.ErrConfig, "DO $$ BEGIN EXECUTE 'CREATE TABLE wide (' || (SELECT string_agg('c' || i || ' int', ',') FROM generate_series(1, 1601) i) || ')'; END $$"},
	{"55000", sink.ErrConfig, "SELECT lastval()"},
	{"55P03", sink.ErrTransient, "DO $$ BEGIN RAISE SQLSTATE '55P03' USING MESSAGE = 'SECRET'; END $$"},
	{"57014", sink.ErrTransient, "SET LOCAL statement_timeout = 1; SELECT pg_sleep(5), 'SECRET'"},
	{"57P01", sink.ErrTransient, "SELECT pg_terminate_backend(pg_backend_pid()), 'SECRET'"},
	{"P0001", sink.ErrRejected, "DO $$ BEGIN RAISE EXCEPTION 'no %', 'SECRET'; END $$"},
	{"23514", sink.ErrRejected, "DO $$ BEGIN RAISE EXCEPTION 'no %', 'SECRET' USING ERRCODE = '23514'; END $$"},
	{"XX000", sink.ErrUncertain, "DO $$ BEGIN RAISE EXCEPTION 'no %', 'SECRET' USING ERRCODE = 'XX000'; END $$"},
}

// The errors of a real server: their class, the native error in reach, and no value of a row in the text.
func TestClassify_RealServer(t *testing.T) {
	dsn := os.Getenv("FLINKSINK_POSTGRES")
	if dsn == "" {
		t.Skip("FLINKSINK_POSTGRES is not set: it names a Postgres server that tests may fill; ./test starts one")
	}
	for _, tc := range captured {
		if tc.sql == "" {
			continue
		}
		t.Run(tc.state, func(t *testing.T) {
			conn, err := pgx.Connect(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			_, err = tx.Exec(t.Context(), `CREATE TEMP TABLE parents (k text PRIMARY KEY);
				CREATE TEMP TABLE e (k text PRIMARY KEY, v int CHECK (v >= 0), short varchar(2), must text NOT NULL DEFAULT 'x', parent text REFERENCES parents,
				made int GENERATED ALWAYS AS IDENTITY)`)
			if err != nil {
				t.Fatal(err)
			}
			_, err = tx.Exec(t.Context(), tc.sql)
			if tc.state == "25P02" {
				_, err = tx.Exec(t.Context(), "SELECT 'SECRET'")
			}
			var pe *pgconn.PgError
			if !errors.As(err, &pe) || pe.Code != tc.state {
				t.Fatalf("expected SQLSTATE %s: %v", tc.state, err)
			}
			if got := classify(err); got != tc.class {
				t.Errorf("class %q, expected %q: %v", got, tc.class, err)
			}
			told := &sink.Error{Op: "write", Class: classify(err), Err: tell(err)}
			if text := told.Error(); strings.Contains(strings.ReplaceAll(text, "secret_role", ""), "SECRET") || strings.Contains(text, "123456789012") || !strings.Contains(text, tc.state) {
				t.Errorf("text: %s", text)
			}
			if !errors.As(told, &pe) || pe.Code != tc.state || !errors.Is(told, tc.class) {
				t.Error("class and native error are not both in reach")
			}
		})
	}
}

// The same table without a server, and what does not come from one.
func TestClassify(t *testing.T) {
	for _, tc := range captured {
		if got := classify(&pgconn.PgError{Code: tc.state}); got != tc.class {
			t.Errorf("%s is %q, expected %q", tc.state, got, tc.class)
		}
	}
	for _, tc := range []struct {
		err  error
		want error
	}{
		{&pgconn.PgError{Code: "40003"}, sink.ErrUncertain},
		{&pgconn.PgError{Code: "28P01"}, sink.ErrConfig},
		{&pgconn.PgError{Code: "3D000"}, sink.ErrConfig},
		{&pgconn.PgError{Code: "42P05"}, sink.ErrConfig},
		{&pgconn.PgError{Code: "26000"}, sink.ErrConfig},
		{&pgconn.PgError{Code: "53300"}, sink.ErrTransient},
		{&pgconn.PgError{Code: "57P03"}, sink.ErrTransient},
		{&pgconn.PgError{Code: "25P03"}, sink.ErrTransient},
		{&pgconn.PgError{Code: "99999"}, sink.ErrUncertain},
		{&pgconn.PgError{Code: ""}, sink.ErrUncertain},
		{pgx.ErrTxCommitRollback, sink.ErrTransient},
		{io.ErrUnexpectedEOF, sink.ErrUncertain},
		{context.Canceled, sink.ErrUncertain},
		{&sink.Error{Class: sink.ErrLost}, sink.ErrLost},
		{errors.Join(errors.New("x"), &pgconn.PgError{Code: "23505"}), sink.ErrRejected},
	} {
		if got := classify(tc.err); got != tc.want {
			t.Errorf("%v is %q, expected %q", tc.err, got, tc.want)
		}
	}
}

// Detail, Where, Hint and the statement of a server error hold values of rows.
func TestTell_NoValues(t *testing.T) {
	err := tell(&pgconn.PgError{Code: "23505", Severity: "ERROR", Message: `duplicate key value violates unique constraint "kv_pkey"`, Detail: "Key (k)=(SECRET) already exists.",
		Where: "SECRET", Hint: "SECRET", InternalQuery: "SECRET", TableName: "kv", ConstraintName: "kv_pkey"})
	if text := err.Error(); strings.Contains(text, "SECRET") || !strings.Contains(text, `"kv_pkey"`) || !strings.Contains(text, `table "kv"`) {
		t.Error(text)
	}
}

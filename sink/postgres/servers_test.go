package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file holds what servers and their settings do.

// A database of another encoding than UTF8 is refused at the start, whatever the client says that it sends.
func TestLane_Encodings(t *testing.T) {
	e := newEnv(t)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII", "EUC_JP"} {
		name := e.schema + "_" + strings.ToLower(encoding)
		e.exec(fmt.Sprintf("CREATE DATABASE %s ENCODING '%s' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'", name, encoding))
		t.Cleanup(func() { e.exec("DROP DATABASE " + name + " WITH (FORCE)") })
		p := e.pool(func(c *pgxpool.Config) {
			c.ConnConfig.Database = name
			c.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
		})
		_, err := e.lane(p, "", e.options(), e.anyTable())
		wantConfig(t, err, encoding, "ENCODING 'UTF8' TEMPLATE template0")
	}
}

// Whatever the role or the connection sets, a checkpoint is the same. (TestTypes_RoundTrip does so for settings of texts, TestLane_SynchronousCommit
// for durability.)
func TestLane_Settings(t *testing.T) {
	for name, value := range map[string]string{
		"default_transaction_isolation": "serializable", "default_transaction_deferrable": "on", "search_path": "", "statement_timeout": "20s", "lock_timeout": "1ms",
		"idle_in_transaction_session_timeout": "1ms", "row_security": "on", "check_function_bodies": "off", "session_replication_role": "origin", "enable_hashjoin": "off",
		"transform_null_equals": "on", "array_nulls": "off", "backslash_quote": "off", "xmloption": "document", "plan_cache_mode": "force_generic_plan", "jit": "off",
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text[])")
			tb := table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v ARRAY<STRING>")
			c, err := e.lane(e.pool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }), e.schema+".kv", e.options(), tb)
			if err != nil {
				t.Fatal(err)
			}
			w := &writer{t: t, ctx: t.Context(), c: c, table: tb}
			t.Cleanup(func() { c.Close(context.Background()) })
			w.acquire()
			if err := w.write(w.change(changelog.Insert, num(1), array(str("a"), null))); err != nil {
				t.Fatal(err)
			}
			e.one("SELECT pg_sleep(0.01)") // longer than the connection's own idle timeout
			if err := w.write(w.change(changelog.Insert, num(2), null), w.change(changelog.Delete, num(1), null)); err != nil {
				t.Fatal(err)
			}
			w.finish()
			w.put(w.change(changelog.UpdateAfter, num(2), array(null)))
			if st, err := w.store().Read(t.Context(), "bridge"); err != nil || len(st.Positions) == 0 {
				t.Errorf("%+v, %v", st, err)
			}
			if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(2,{NULL})"}) {
				t.Errorf("%v", got)
			}
		})
	}
}

// Every connection is made by the user's pool, with what its BeforeConnect sets: a password that expires is asked for anew, also after the sessions were ended
// within a checkpoint.
func TestLane_CredentialsOfThePool(t *testing.T) {
	e := newEnv(t)
	e.notPooled("the pooler asks for credentials, or nobody does")
	tb := e.keyed()
	role := e.schema + "_iam"
	e.exec("CREATE ROLE " + role + " LOGIN SUPERUSER")
	t.Cleanup(func() { e.exec("DROP OWNED BY " + role); e.exec("DROP ROLE " + role) })
	var asked atomic.Int64
	p := e.pool(func(c *pgxpool.Config) {
		c.ConnConfig.User, c.ConnConfig.Password = "nobody_at_all", "expired"
		c.ConnConfig.RuntimeParams["application_name"] = role
		c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			c.User, c.Password = role, fmt.Sprint("token ", asked.Add(1))
			return nil
		}
	})
	w := e.writer(p, e.options(), tb)
	w.put(w.history(5)...)
	if err := w.writeTo(10); err != nil {
		t.Fatal(err)
	}
	before := asked.Load()
	e.drop(role)
	err := w.prepare()
	if err == nil {
		err = w.save()
	}
	if sink.ClassOf(err) != sink.ErrTransient {
		t.Errorf("%v", err)
	}
	w.c.Discard(t.Context())
	for range 5 {
		if err = w.tryAcquire(); sink.ClassOf(err) != sink.ErrTransient {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.writeTo(10); err != nil {
		t.Fatal(err)
	}
	w.finish()
	e.agrees("with new credentials")
	if asked.Load() <= before {
		t.Error("nobody asked for new credentials")
	}
}

// Over TLS, where the server has it.
func TestLane_TLS(t *testing.T) {
	e := newEnv(t)
	dsn, err := url.Parse(os.Getenv(dsnVariable))
	if err != nil || e.one("SELECT current_setting('ssl')") != "on" {
		t.Skip("the server has no TLS (ssl = on)")
	}
	q := dsn.Query()
	q.Set("sslmode", "require")
	dsn.RawQuery = q.Encode()
	c, err := pgxpool.ParseConfig(dsn.String())
	if err != nil {
		t.Fatal(err)
	}
	tb := e.keyed()
	w := e.writer(e.pool(func(own *pgxpool.Config) {
		own.ConnConfig.TLSConfig, own.ConnConfig.Fallbacks = c.ConnConfig.TLSConfig, nil
	}), e.options(), tb)
	w.put(w.history(20)...)
	e.agrees("over TLS")
}

// The disk is full, memory or connections run out, in the middle of a checkpoint or at its end: it can be done again, nothing of it is there, and once there is
// room it passes. The trigger stands for the server; FLINKSINK_SMALL_DISK names a folder of the server on a disk of some megabytes, with which
// the server does it itself.
func TestWrite_NoResources(t *testing.T) {
	for i, code := range []string{"53100", "53200", "53300"} {
		m := []postgres.Mode{postgres.InTransaction, postgres.Prepared, postgres.Staged}[i]
		for _, deferred := range []bool{false, true} {
			e := newEnv(t)
			e.undo()
			tb := e.keyed()
			e.exec(`CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '` + code + `'; END $$`)
			w := e.writer(e.pool(nil), e.mode(m), tb)
			w.put(w.history(3)...)
			kind, when := "TRIGGER", ""
			if deferred {
				kind, when = "CONSTRAINT TRIGGER", "DEFERRABLE INITIALLY DEFERRED"
			}
			e.exec("CREATE " + kind + " no_room AFTER INSERT OR UPDATE ON kv " + when + " FOR EACH ROW EXECUTE FUNCTION no_room()")
			err := w.writeTo(10)
			if err == nil {
				err = w.end()
			}
			var pe *pgconn.PgError
			if sink.ClassOf(err) != sink.ErrTransient || !errors.As(err, &pe) || pe.Code != code {
				t.Errorf("%s, %v: %v", code, m, err)
			}
			if got := e.one("SELECT next_offset FROM " + e.own + ".position"); got != "3" {
				t.Errorf("%s: the position moved to %s", code, got)
			}
			e.agrees("after " + code)
			e.exec("DROP TRIGGER no_room ON kv")
			w.c.Discard(t.Context())
			w.acquire()
			if err := w.writeTo(10); err != nil {
				t.Fatal(err)
			}
			w.finish()
			e.agrees("after " + code + ", done again")
		}
	}
}

// The same once a checkpoint is decided: Commit is tried again, by the lane and by a successor, until there is room, and is neither lost nor rejected.
func TestCommit_NoResources(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		tb := e.keyed()
		e.exec(`CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$`)
		w := e.writer(e.pool(nil), e.mode(m), tb)
		w.put(w.history(3)...)
		if err := errors.Join(w.writeTo(10), w.prepare()); err != nil {
			t.Fatal(err)
		}
		if err := w.save(); err != nil {
			t.Fatal(err)
		}
		if m == postgres.Prepared { // all is written, and its rows are locked
			if err := w.c.Commit(t.Context(), w.receipt); err != nil {
				t.Fatal(err)
			}
			e.agrees("committed")
			return
		}
		e.exec("CREATE TRIGGER no_room AFTER INSERT OR UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION no_room()")
		next, err := e.lane(e.pool(nil), "", e.mode(m), tb)
		if err != nil {
			t.Fatal(err)
		}
		b := &writer{t: t, ctx: t.Context(), c: next, table: tb}
		for what, err := range map[string]error{"Commit": w.c.Commit(t.Context(), w.receipt), "the successor": b.tryAcquire()} {
			var pe *pgconn.PgError
			if sink.ClassOf(err) != sink.ErrTransient || !errors.As(err, &pe) || pe.Code != "53100" {
				t.Errorf("%s: %v", what, err)
			}
		}
		e.exec("DROP TRIGGER no_room ON kv")
		b.acquire()
		e.agrees("with room again")
		if b.from != 10 {
			t.Errorf("the successor begins at %d", b.from)
		}
	})
}

func TestWrite_DiskFull(t *testing.T) {
	folder := os.Getenv("FLINKSINK_SMALL_DISK")
	if folder == "" {
		t.Skip("FLINKSINK_SMALL_DISK is not set: it names an empty folder that the server of " + dsnVariable + " owns, on a disk of some megabytes")
	}
	e := newEnv(t)
	space := e.schema + "_small"
	e.exec("CREATE TABLESPACE " + space + " LOCATION '" + folder + "'")
	t.Cleanup(func() { e.exec("DROP TABLE IF EXISTS kv, ballast"); e.exec("DROP TABLESPACE " + space) })
	e.exec("CREATE TABLE ballast TABLESPACE " + space + " AS SELECT generate_series(1, 100000)")
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY USING INDEX TABLESPACE " + space + ", v text) TABLESPACE " + space)
	e.exec("ALTER TABLE kv ALTER COLUMN v SET STORAGE PLAIN")
	tb := e.anyTable()
	w := e.writer(e.pool(nil), e.options(), tb)
	w.put(w.change(changelog.Insert, num(-1), str("first")))
	var err error
	for n := int64(0); n < 10_000 && err == nil; n++ {
		var cs []changelog.Change
		for i := range int64(500) {
			cs = append(cs, w.change(changelog.Insert, num(n*500+i), str(random(2000))))
		}
		err = w.write(cs...)
	}
	var pe *pgconn.PgError
	if sink.ClassOf(err) != sink.ErrTransient || !errors.As(err, &pe) || pe.Code != "53100" {
		t.Fatalf("%v", err)
	}
	w.c.Discard(t.Context())
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(-1,first)"}) {
		t.Errorf("%d rows", len(got))
	}
	e.exec("DROP TABLE ballast")
	w.acquire()
	w.put(w.change(changelog.Insert, num(1), str("after")))
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(-1,first)", "(1,after)"}) {
		t.Errorf("%v", got)
	}
}

// A right is taken away while the bridge runs: it stops with what to grant, nothing of the checkpoint is there, and it goes on where it was.
func TestWrite_RightTakenAway(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	e.writer(e.pool(nil), e.options(), tb)
	role := e.schema + "_role"
	e.exec("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + e.schema + ", " + e.own + " TO " + role + "; GRANT ALL ON ALL TABLES IN SCHEMA " + e.own + ", " + e.schema + " TO " + role)
	t.Cleanup(func() { e.exec("DROP OWNED BY " + role); e.exec("DROP ROLE " + role) })
	p := e.pool(func(c *pgxpool.Config) { c.ConnConfig.User = role })
	w := e.writer(p, e.options(), tb)
	w.put(w.history(5)...)
	if err := w.writeTo(8); err != nil {
		t.Fatal(err)
	}
	e.exec("REVOKE UPDATE, DELETE, INSERT ON kv FROM " + role)
	err := w.writeTo(12)
	var pe *pgconn.PgError
	if sink.ClassOf(err) != sink.ErrConfig || !errors.As(err, &pe) || pe.Code != "42501" || !strings.Contains(err.Error(), "kv") {
		t.Errorf("Write: %v", err)
	}
	if got := e.one("SELECT next_offset FROM " + e.own + ".position"); got != "5" {
		t.Errorf("the position moved to %s", got)
	}
	e.agrees("after the refusal")
	_, err = e.lane(p, "", e.options(), tb)
	wantConfig(t, err, "GRANT DELETE, INSERT, UPDATE ON")
	e.exec("GRANT UPDATE, DELETE, INSERT ON kv TO " + role)
	w.c.Discard(t.Context())
	w.acquire()
	if err := w.writeTo(12); err != nil {
		t.Fatal(err)
	}
	w.finish()
	e.agrees("with the right back")
}

// The database of a pooler's user with the default way of sending statements is refused at the start; see TestProbe_Pooler for the others.
func TestPooler_StatementsByName(t *testing.T) {
	dsn := os.Getenv(poolerVariable)
	if dsn == "" {
		t.Skipf("%s is not set: it names a PgBouncer with pool_mode=transaction in front of the server of %s", poolerVariable, dsnVariable)
	}
	e := newEnv(t)
	tb := e.keyed()
	p, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := postgres.New(p, e.schema+".kv", e.options())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Lane(t.Context(), sink.Lane{Bridge: "bridge", Sink: "target", Tables: []*changelog.Table{tb}})
	wantConfig(t, err, "pooler", "default_query_exec_mode=exec")
}

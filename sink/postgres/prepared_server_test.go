package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	server "github.com/flinksink/flinksink/testbed/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ownServer starts a server of the test's own, and makes e one of it. In long runs it is of the version of the server that tests are given, which may have
// to be fetched.
func ownServer(t *testing.T, settings map[string]string) (*server.Server, *env) {
	t.Helper()
	o := server.Options{Own: true, Settings: settings, Log: t.Logf}
	given := newEnv(t) // skips where there are no servers
	if os.Getenv("FLINKSINK_LONG") != "" {
		o.Version = given.one("SELECT current_setting('server_version_num')::int / 10000")
	}
	srv, err := server.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv(dsnVariable, srv.DSN())
	t.Setenv(pooledVariable, "") // the pooler is not in front of this one
	name := fmt.Sprintf("own_%d", schemas.Add(1))
	e := &env{t: t, schema: name, own: name + "_own"}
	e.admin = e.pool(nil)
	e.exec("CREATE SCHEMA " + e.schema)
	return srv, e
}

// The server is killed (SIGKILL) with a prepared transaction open, and with staged rows: both are there when it is back, as decided or as undecided
// as they were.
func TestReceipts_ServerKilled(t *testing.T) {
	srv, e := ownServer(t, nil)
	for _, m := range modes {
		for _, decided := range []bool{true, false} {
			e.exec("DROP TABLE IF EXISTS kv; DROP SCHEMA IF EXISTS " + e.own + " CASCADE")
			tb := e.keyed()
			a := e.writer(e.pool(nil), e.mode(m), tb)
			if err := errors.Join(a.writeTo(10), a.prepare()); err != nil {
				t.Fatal(err)
			}
			if decided {
				if err := a.save(); err != nil {
					t.Fatal(err)
				}
			}
			if err := srv.Kill(); err != nil {
				t.Fatal(err)
			}
			if decided {
				// Its other processes may take a moment to notice, so this may even succeed.
				if err := a.c.Commit(t.Context(), a.receipt); err != nil && sink.ClassOf(err) != sink.ErrTransient && sink.ClassOf(err) != sink.ErrUncertain {
					t.Errorf("Commit without a server: %v", err)
				}
			}
			if err := srv.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.admin.Reset()
			b := e.writer(e.pool(nil), e.mode(m), tb)
			what := fmt.Sprintf("%v, decided %v", m, decided)
			e.agrees(what)
			if decided != (b.from == 10) {
				t.Errorf("%s: the successor begins at %d", what, b.from)
			}
			if left := e.leftovers(); len(left) > 0 {
				t.Errorf("%s: left %v", what, left)
			}
			if err := b.writeTo(20); err != nil {
				t.Fatal(err)
			}
			b.finish()
			e.agrees(what + ", after the next checkpoint")
		}
	}
}

// A server that cannot prepare transactions, or fewer than there are lanes, is found at the start, with the cure; one whose places are taken when the
// checkpoint comes is no fault of the checkpoint.
func TestPrepared_TooFewPlaces(t *testing.T) {
	_, e := ownServer(t, map[string]string{"max_prepared_transactions": "1"})
	tb := e.keyed()
	s, err := postgres.New(e.pool(nil), "", e.mode(postgres.Prepared))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Lane(t.Context(), sink.Lane{Bridge: "bridge", Number: 1, Sink: "target", Tables: []*changelog.Table{tb}})
	wantConfig(t, err, "max_prepared_transactions is 1", "ALTER SYSTEM", "restart", "Staged")
	var found []string
	for _, f := range s.Check(t.Context(), sink.Lane{Bridge: "bridge", Number: 1, Sink: "target", Tables: []*changelog.Table{tb}}, "") {
		if f.Err != nil {
			found = append(found, f.Err.Error())
		}
	}
	if len(found) != 1 || !strings.Contains(found[0], "max_prepared_transactions") {
		t.Errorf("Check: %v", found)
	}

	a := e.writer(e.pool(nil), e.mode(postgres.Prepared), tb)
	e.exec("CREATE TABLE other (x int)")
	err = e.admin.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
		_, err := c.Conn().PgConn().Exec(t.Context(), "BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION 'somebody else'").ReadAll()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.writeTo(10); err != nil {
		t.Fatal(err)
	}
	err = a.prepare()
	if sink.ClassOf(err) != sink.ErrTransient || !strings.Contains(err.Error(), "max_prepared_transactions") {
		t.Errorf("Prepare without a place: %v", err)
	}
	e.exec("ROLLBACK PREPARED 'somebody else'")
	a.c.Discard(t.Context())
	a.acquire()
	if err := a.writeTo(10); err != nil {
		t.Fatal(err)
	}
	a.finish()
	e.agrees("after the place was free")

}

// What a prepared transaction cannot hold is a setting, and no reason to try for ever.
func TestPrepared_TemporaryTable(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	for what, sql := range map[string]string{"a temporary table": "CREATE TEMPORARY TABLE temp (x int) ON COMMIT DROP", "NOTIFY": "NOTIFY something"} {
		o := e.mode(postgres.Prepared)
		o.InCheckpoint = func(ctx context.Context, tx pgx.Tx, _ postgres.Info) error {
			_, err := tx.Exec(ctx, sql)
			return err
		}
		a := e.writer(e.pool(nil), o, tb)
		if err := a.writeTo(5); err != nil {
			t.Fatal(err)
		}
		err := a.prepare()
		wantConfig(t, err, "InCheckpoint", "0A000")
		if got := e.all("SELECT * FROM kv"); len(got) > 0 {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// Another role's prepared transaction cannot be ended: it says who has to.
func TestPrepared_AnotherRole(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	e.undo()
	a := e.decide(postgres.Prepared, tb, 10) // a superuser
	role := e.schema + "_role"
	e.exec("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + e.schema + ", " + e.own + " TO " + role +
		"; GRANT ALL ON ALL TABLES IN SCHEMA " + e.schema + ", " + e.own + " TO " + role)
	t.Cleanup(func() { e.exec("DROP OWNED BY " + role); e.exec("DROP ROLE " + role) })
	c, err := e.lane(e.pool(func(c *pgxpool.Config) { c.ConnConfig.User = role }), "", e.mode(postgres.Prepared), tb)
	if err != nil {
		t.Fatal(err)
	}
	wantConfig(t, c.Commit(t.Context(), a.receipt), "42501", "one role", "COMMIT PREPARED")
	if err := a.c.Commit(t.Context(), a.receipt); err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(t.Context(), a.receipt); err != nil {
		t.Errorf("Commit by the other role, after it is done: %v", err)
	}
}

// A process that is stopped in the middle of a message, in a transaction of a mode that leaves receipts, is ended by its successor's Open.
func TestOpen_ZombieHoldsRowLocks(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		tb := e.keyed()
		a := e.writer(e.pool(nil), e.mode(m), tb)
		a.put(a.change(changelog.Insert, num(1), str("old")))
		if err := a.write(a.change(changelog.UpdateAfter, num(1), str("zombie"))); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		b := e.writer(e.pool(nil), e.mode(m), tb)
		t.Logf("Open took %v", time.Since(began))
		b.put(b.change(changelog.UpdateAfter, num(1), str("new")))
		err := a.write(a.change(changelog.UpdateAfter, num(1), str("zombie")))
		if err == nil && m == postgres.Staged { // a few rows wait in memory
			err = a.prepare()
		}
		if sink.ClassOf(err) != sink.ErrFenced {
			t.Errorf("Write of the zombie: %v", err)
		}
		a.c.Discard(t.Context())
		if err := a.c.Open(t.Context(), a.claim); sink.ClassOf(err) != sink.ErrFenced {
			t.Errorf("Open of the zombie: %v", err)
		}
		if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(1,new)"}) {
			t.Errorf("the table is %v", got)
		}
	})
}

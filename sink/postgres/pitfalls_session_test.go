package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file holds what sessions and transactions have done to other sinks.

// history returns the next n changes of the history.
func (w *writer) history(n int) []changelog.Change {
	var out []changelog.Change
	for range n {
		out = append(out, history(w.at))
		w.at++
	}
	return out
}

// atCommit is a tracer that does something on the connection just before the message with COMMIT goes out, once.
type atCommit struct {
	do   func(ctx context.Context, c *pgconn.PgConn)
	done bool
}

func (a *atCommit) TraceQueryStart(ctx context.Context, c *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if a.do != nil && !a.done && strings.EqualFold(q.SQL, "commit") {
		a.done = true
		a.do(ctx, c.PgConn())
	}
	return ctx
}

func (a *atCommit) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (a *atCommit) TraceBatchStart(ctx context.Context, c *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	if q := b.Batch.QueuedQueries; a.do != nil && !a.done && strings.EqualFold(q[len(q)-1].SQL, "commit") {
		a.done = true
		a.do(ctx, c.PgConn())
	}
	return ctx
}

func (a *atCommit) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (a *atCommit) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// An inner layer swallows an error: a COMMIT by itself then has no error, but the command tag ROLLBACK (P41). That of Save stands behind statements that such a
// transaction refuses, so it is not run.
func TestSave_CommitTagRollback(t *testing.T) {
	for _, rows := range []bool{true, false} { // with rows in the transaction, and with positions alone
		e := newEnv(t)
		tb := e.keyed()
		e.exec("CREATE TABLE strict (x int NOT NULL)")
		var a atCommit
		w := e.writer(e.pool(func(c *pgxpool.Config) { c.ConnConfig.Tracer = &a }), e.options(), tb)
		w.put(w.history(1)...)
		if rows {
			if err := errors.Join(w.writeTo(10), w.prepare()); err != nil {
				t.Fatal(err)
			}
		}
		w.at = 10
		a.do = func(ctx context.Context, c *pgconn.PgConn) {
			_, err := c.Exec(ctx, "INSERT INTO strict VALUES (NULL)").ReadAll()
			var pe *pgconn.PgError
			if !errors.As(err, &pe) || pe.Code != "23502" {
				t.Errorf("the server took it: %v", err)
			}
		}
		err := w.save()
		if !a.done {
			t.Fatal("no COMMIT was sent")
		}
		var pe *pgconn.PgError
		if sink.ClassOf(err) != sink.ErrTransient || !errors.As(err, &pe) || pe.Code != "25P02" {
			t.Errorf("Save: %v", err)
		}
		if got := e.one("SELECT next_offset FROM " + e.own + ".position"); got != "1" {
			t.Errorf("the position moved to %s", got)
		}
		e.agrees("after the rollback")
		w.c.Discard(t.Context())
		w.acquire()
		if err := w.writeTo(10); err != nil {
			t.Fatal(err)
		}
		w.finish()
		e.agrees("done again")
	}
}

// Acquire and End commit too: one that was rolled back fences nobody, and says so (P41).
func TestAcquire_CommitTagRollback(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	e.exec("CREATE TABLE strict (x int NOT NULL)")
	old := e.writer(e.pool(nil), e.options(), tb)
	var a atCommit
	c, err := e.lane(e.pool(func(c *pgxpool.Config) { c.ConnConfig.Tracer = &a }), "", e.options(), tb)
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{t: t, ctx: t.Context(), c: c, table: tb}
	fail := func() {
		a.done, a.do = false, func(ctx context.Context, c *pgconn.PgConn) {
			if _, err := c.Exec(ctx, "INSERT INTO strict VALUES (NULL)").ReadAll(); err == nil {
				t.Error("the server took it")
			}
		}
	}
	fail()
	if err := w.tryAcquire(); sink.ClassOf(err) != sink.ErrTransient || !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("Acquire: %v", err)
	}
	if err := old.writeTo(5); err != nil {
		t.Fatalf("the owner was fenced by an Acquire that never was: %v", err)
	}
	old.finish()
	w.acquire()
	if w.from != 5 {
		t.Errorf("acquired at %d", w.from)
	}
	if err := w.writeTo(10); err != nil {
		t.Fatal(err)
	}
	w.finish()
	fail()
	if last, err := w.store().End(t.Context(), w.claim.Generation); sink.ClassOf(err) != sink.ErrTransient || last != 0 {
		t.Errorf("End: %d, %v", last, err)
	}
	if last, err := w.store().End(t.Context(), w.claim.Generation); err != nil || last != 1 {
		t.Errorf("End again: %d, %v", last, err)
	}
	e.agrees("in the end")
}

// drop ends every session of a pool, as a server or a firewall does with idle ones, and waits until the server has none.
func (e *env) drop(application string) {
	e.t.Helper()
	e.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", application)
	for e.one("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", application) != "0" {
		if e.t.Context().Err() != nil {
			e.t.Fatal("a session does not end")
		}
		time.Sleep(time.Millisecond) // the server tells nobody that it ended a session
	}
}

// Idle connections were dropped: whichever call is the first to notice, also one that only looks something up, says that it can be done
// again, and the next one goes on (P42).
func TestLane_IdleConnectionDropped(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE later (k bigint PRIMARY KEY, v text)")
	tb := e.keyed()
	name := e.schema
	p := e.pool(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = name
		c.MaxConns = 1
	})
	w := e.writer(p, e.options(), tb)
	w.put(w.history(1)...)
	s, err := postgres.New(p, "", e.options())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	again := false // the call is the second one
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"Lane over a table not seen before", func() error {
			c, err := s.Lane(ctx, sink.Lane{Bridge: "other", Sink: "target", Tables: []*changelog.Table{table(t, "later", upsert, "k", "k BIGINT NOT NULL", "v STRING")}})
			if err == nil {
				err = c.Close(ctx)
			}
			return err
		}},
		{"Acquire", w.tryAcquire},
		{"Open", func() error { return w.c.Open(ctx, w.claim) }},
		{"Write", func() error {
			if again {
				w.c.Discard(ctx)
				w.at = w.from
			}
			return w.writeTo(w.from + 5)
		}},
		{"Save", func() error {
			w.c.Discard(ctx)
			w.at = w.from
			return w.save()
		}},
		{"Read", func() error { _, err := w.store().Read(ctx, "bridge"); return err }},
		{"End", func() error { _, err := w.store().End(ctx, w.claim.Generation); return err }},
	} {
		again = false
		e.drop(name)
		err := call.do()
		if err != nil && sink.ClassOf(err) != sink.ErrTransient {
			t.Errorf("%s: %v", call.name, err)
		}
		again = true
		if err := call.do(); err != nil {
			t.Errorf("%s, the second time: %v", call.name, err)
		}
	}
	w.acquire()
	if err := w.writeTo(20); err != nil {
		t.Fatal(err)
	}
	w.finish()
	e.agrees("in the end")
}

// The server turns read-only under an open pool, or goes down and comes up again: the session is dropped, not only given back, since only
// a new one can be with another server of the connection string; the checkpoint is done again (P44).
func TestLane_ServerTurnsReadOnly(t *testing.T) {
	for _, step := range []string{"Acquire", "Write", "Save"} {
		e := newEnv(t)
		e.notPooled("a session with the pooler is none with a server")
		tb := e.keyed()
		p := e.pool(func(c *pgxpool.Config) { c.MaxConns = 1 })
		w := e.writer(p, e.options(), tb)
		w.put(w.history(1)...)
		turn := func() {
			if _, err := p.Exec(t.Context(), "SET default_transaction_read_only = on"); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		switch step {
		case "Acquire":
			turn()
			err = w.tryAcquire()
		case "Write":
			turn()
			err = w.writeTo(10)
		case "Save":
			turn()
			w.at = 1
			err = w.save()
		}
		var pe *pgconn.PgError
		if sink.ClassOf(err) != sink.ErrTransient || !errors.As(err, &pe) || pe.Code != "25006" || !strings.Contains(err.Error(), "target_session_attrs") {
			t.Errorf("%s: %v", step, err)
		}
		w.c.Discard(t.Context())
		if err := w.tryAcquire(); err != nil { // a new session is not read-only
			t.Errorf("after %s: %v", step, err)
			continue
		}
		if err := w.writeTo(10); err != nil {
			t.Errorf("after %s: %v", step, err)
			continue
		}
		w.finish()
		e.agrees("after " + step)
	}
}

// What a server says while it goes down or comes up, in the middle of a checkpoint (P44).
func TestWrite_ServerGoesDown(t *testing.T) {
	for _, state := range []string{"57P01", "57P03", "25006", "40001", "40P01"} {
		e := newEnv(t)
		tb := e.keyed()
		e.exec(`CREATE FUNCTION down() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '` + state + `'; END $$`)
		w := e.writer(e.pool(nil), e.options(), tb)
		w.put(w.history(1)...)
		e.exec("CREATE TRIGGER down BEFORE INSERT OR UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION down()")
		if err := w.writeTo(10); sink.ClassOf(err) != sink.ErrTransient {
			t.Errorf("%s: %v", state, err)
		}
		w.c.Discard(t.Context())
		e.exec("DROP TRIGGER down ON kv")
		w.acquire()
		if err := w.writeTo(10); err != nil {
			t.Fatal(err)
		}
		w.finish()
		e.agrees(state)
	}
}

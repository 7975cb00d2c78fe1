package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/jackc/pgx/v5/pgxpool"
)

// lacking makes a real server one that lacks something: functions of a schema of its own stand before those of the catalogue, for the connections of
// the pools that it changes.
func (e *env) lacking(functions ...string) func(c *pgxpool.Config) {
	e.t.Helper()
	e.notPooled("a search_path is the role's, and is quoted as one name")
	fake := e.schema + "_fake"
	e.exec("CREATE SCHEMA " + fake)
	e.t.Cleanup(func() { e.exec("DROP SCHEMA " + fake + " CASCADE") })
	for _, f := range functions {
		e.exec("CREATE FUNCTION " + fake + "." + f)
	}
	return func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["search_path"] = e.schema + ", " + fake + ", pg_catalog"
	}
}

// noLocks is how CockroachDB up to 25 has advisory locks, by its documentation: every function is there and does nothing.
var noLocks = []string{
	"pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE sql AS ''",
	"pg_advisory_xact_lock_shared(bigint) RETURNS void LANGUAGE sql AS ''",
	"pg_try_advisory_xact_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
	"version() RETURNS text LANGUAGE sql AS $$SELECT 'CockroachDB CCL v24.2.0 (x86_64-pc-linux-gnu, built 2024/08/12 15:04:32, go1.22.5)'::text$$",
}

// Auto is whatever the server and the bridge allow, the guarantee says which and why, and rows arrive in each.
func TestAuto(t *testing.T) {
	prepares := func(e *env) string {
		if e.one("SELECT current_setting('max_prepared_transactions')") == "0" {
			return "staged"
		}
		return "prepared"
	}
	for name, tc := range map[string]struct {
		functions []string
		elsewhere bool
		want      func(e *env) string
		why       string
	}{
		"Postgres":                         {nil, false, func(*env) string { return "in-transaction" }, "this sink is the store of its lane"},
		"another store":                    {nil, true, prepares, "another store decides"},
		"advisory locks that do nothing":   {noLocks, false, func(*env) string { return "staged" }, "the server (CockroachDB) lacks advisory locks"},
		"and another store":                {noLocks, true, func(*env) string { return "staged" }, "another store decides"},
		"Postgres' name, and no such lock": {noLocks[:3], false, prepares, "the server (PostgreSQL) lacks advisory locks"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			var change func(*pgxpool.Config)
			if tc.functions != nil {
				change = e.lacking(tc.functions...)
			}
			e.undo()
			o := e.options()
			o.Mode, o.CreateTable = postgres.Auto, true
			s, err := postgres.New(e.pool(change), "", o)
			if err != nil {
				t.Fatal(err)
			}
			if g := s.Guarantee(); g.Level != sink.ExactlyOnce || !strings.Contains(g.How, "the start chooses") {
				t.Errorf("before the start: %s", g)
			}
			tb := table(t, "kv", upsert, "k", "k INT NOT NULL", "v STRING")
			lane := sink.Lane{Bridge: "bridge", Sink: "target", Tables: []*changelog.Table{tb}, OtherStore: tc.elsewhere}
			want := "mode " + tc.want(e) + ", chosen since " + tc.why
			if found := s.Check(t.Context(), lane, ""); found[0].Err != nil || !strings.Contains(found[0].Found, want) {
				t.Errorf("%+v\nexpected %s", found, want)
			}
			c, err := s.Lane(t.Context(), lane)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			if g := s.Guarantee().String(); !strings.HasPrefix(g, "exactly once") || !strings.Contains(g, want) {
				t.Errorf("%s\nexpected %s", g, want)
			}
			if _, own := c.(sink.Store); own != strings.Contains(want, "in-transaction") {
				t.Errorf("it is its own store: %v, in %s", own, want)
			}
			w := &writer{t: t, ctx: t.Context(), c: c, table: tb}
			w.acquire()
			w.put(w.change(changelog.Insert, num(1), str("a")))
			if got := e.one("SELECT v FROM kv"); got != "a" {
				t.Error(got)
			}
		})
	}
}

// A bridge may get another mode with its next start: what is decided in the one is settled by the other, and positions go on.
func TestAuto_AnotherModeNextTime(t *testing.T) {
	e := newEnv(t)
	e.undo()
	lacks := e.lacking(noLocks...)
	tb := table(t, "kv", upsert, "k", "k INT NOT NULL", "v STRING")
	for i, change := range []func(*pgxpool.Config){nil, lacks, nil, lacks} {
		o := e.options()
		o.Mode, o.CreateTable = postgres.Auto, true
		w := e.writer(e.pool(change), o, tb)
		if w.at != int64(i) {
			t.Errorf("start %d goes on at %d", i, w.at)
		}
		if err := w.write(w.change(changelog.UpdateAfter, num(1), num0(i))); err != nil {
			t.Fatal(err)
		}
		if err := w.prepare(); err != nil {
			t.Fatal(err)
		}
		if err := w.save(); err != nil {
			t.Fatal(err)
		}
		w.c.Close(t.Context()) // without a Commit
	}
	o := e.options()
	o.Mode = postgres.Auto
	e.writer(e.pool(nil), o, tb)
	if got := e.all("SELECT * FROM kv"); len(got) != 1 || got[0] != "(1,3)" {
		t.Error(got)
	}
}

func num0(i int) changelog.Value { return str(string(rune('0' + i))) }

// A server on which no mode holds is refused before the first row, with the mode that was chosen and what it lacks.
func TestAuto_NoMode(t *testing.T) {
	e := newEnv(t)
	change := e.lacking(`current_setting(text, boolean) RETURNS text LANGUAGE sql AS $$SELECT CASE WHEN $1 = 'hg_experimental_enable_transaction' THEN 'off' ELSE pg_catalog.current_setting($1, $2) END$$`,
		`version() RETURNS text LANGUAGE sql AS $$SELECT 'PostgreSQL 11.3 (Release-build: Hologres 2.2.5)'::text$$`)
	o := e.options()
	o.Mode, o.CreateTable = postgres.Auto, true
	_, err := e.lane(e.pool(change), "", o, table(t, "kv", upsert, "k", "k INT NOT NULL", "v STRING"))
	wantConfig(t, err, "mode in-transaction", "Hologres", "hg_experimental_enable_transaction", "no mode")
	if got := e.one("SELECT to_regclass('" + e.schema + ".kv')"); got != "NULL" {
		t.Error("it made a table")
	}
}

// Where advisory locks do nothing the fence is made of locked rows alone: the laws of a store hold.
func TestLaws_StoreWithoutAdvisoryLocks(t *testing.T) {
	if os.Getenv("FLINKSINK_LONG") == "" {
		t.Skip("FLINKSINK_LONG=1 runs it; ./test full does")
	}
	e := newEnv(t)
	change := e.lacking(noLocks...)
	h := harness(e)
	h.InTransaction, h.Rows = false, nil
	h.Connect = func(ctx context.Context, tb *changelog.Table) (sinktest.Client, error) {
		var w wire
		st, err := postgres.NewStore(e.pool(func(c *pgxpool.Config) {
			w.through(c)
			change(c)
		}), &postgres.StoreOptions{Schema: e.own})
		return sinktest.Client{Store: st, Release: w.cut}, err
	}
	sinktest.Run(t, h)
}

// There, too, End tells of a Save that is just being committed: it waits for the generation's row, which a Save holds from its first statement on.
func TestStore_EndWithoutAdvisoryLocks(t *testing.T) {
	e := newEnv(t)
	st, err := postgres.NewStore(e.pool(e.lacking(noLocks...)), &postgres.StoreOptions{Schema: e.own})
	if err != nil {
		t.Fatal(err)
	}
	claim, err := st.Acquire(t.Context(), sink.AcquireRequest{Bridge: "bridge", Fingerprint: "f", Owner: "me", Partitions: []changelog.Partition{part0}, GroupGeneration: -1})
	if err != nil {
		t.Fatal(err)
	}
	saving, err := e.admin.Begin(t.Context()) // as Save does, up to COMMIT
	if err != nil {
		t.Fatal(err)
	}
	defer saving.Rollback(context.Background())
	if _, err := saving.Exec(t.Context(), "SELECT ended FROM "+e.own+".generation FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if _, err := saving.Exec(t.Context(), "UPDATE "+e.own+".generation SET last_checkpoint = 1"); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		last sink.CheckpointID
		err  error
	}
	ended := make(chan answer, 1)
	go func() {
		last, err := st.End(t.Context(), claim.Generation)
		ended <- answer{last, err}
	}()
	e.awaitBlocked()
	if err := saving.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got.err != nil || got.last != 1 {
		t.Errorf("End: %d, %v; checkpoint 1 was saved", got.last, got.err)
	}
	err = st.Save(t.Context(), claim.Generation, sink.Checkpoint{ID: 2, From: []changelog.Position{{Partition: part0}}, To: []changelog.Position{{Partition: part0, Offset: 5}}})
	if sink.ClassOf(err) != sink.ErrFenced {
		t.Errorf("Save after End: %v", err)
	}
}

// awaitBlocked returns once a session waits for a row of the sink's own tables.
func (e *env) awaitBlocked() {
	e.t.Helper()
	for e.one("SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0 AND query LIKE $1", "%"+e.own+"%") == "0" {
		if e.t.Context().Err() != nil {
			e.t.Fatal("nobody waits")
		}
	}
}

// A writer that stands in its transaction cannot be found and ended there: its successor waits, and says for what and how long at most. Once it is gone
// the successor goes on, and the writer is fenced.
func TestAuto_StandingWriterWithoutAdvisoryLocks(t *testing.T) {
	e := newEnv(t)
	change := e.lacking(noLocks...)
	tb := e.keyed()
	o := e.options()
	o.Mode, o.LockTimeout = postgres.Auto, 300*time.Millisecond
	var w wire
	a := e.writer(e.pool(func(c *pgxpool.Config) {
		w.through(c)
		change(c)
	}), o, tb)
	if err := a.writeTo(10); err != nil {
		t.Fatal(err)
	}
	c, err := e.lane(e.pool(change), "", o, tb)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	b := &writer{t: t, ctx: t.Context(), c: c, table: tb}
	if err := b.tryAcquire(); sink.ClassOf(err) != sink.ErrTransient || !strings.Contains(err.Error(), "does not show whose session it is") || !strings.Contains(err.Error(), "Options.IdleTimeout") {
		t.Errorf("beside a writer that stands: %v", err)
	}
	w.cut() // as the server does after IdleTimeout
	b.acquire()
	if err := b.writeTo(20); err != nil {
		t.Fatal(err)
	}
	b.finish()
	if err := a.prepare(); err == nil {
		t.Error("the writer that stood prepared")
	}
	if err := a.save(); sink.ClassOf(err) != sink.ErrFenced {
		t.Errorf("the writer that stood saved: %v", err)
	}
	e.agrees("after the successor")
}

// What others have prepared is not there for the lanes, and the guarantee says so.
func TestAuto_OthersPrepare(t *testing.T) {
	e := newEnv(t)
	most, err := strconv.Atoi(e.one("SELECT current_setting('max_prepared_transactions')"))
	if err != nil {
		t.Fatal(err)
	}
	if most == 0 {
		t.Skip("the server of " + dsnVariable + " has max_prepared_transactions=0; ./test starts one that prepares")
	}
	gid := e.schema + "-other"
	conn, err := e.admin.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if err := conn.Conn().PgConn().Exec(t.Context(), "BEGIN; CREATE TABLE "+e.schema+".other (); PREPARE TRANSACTION '"+gid+"'").Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := e.admin.Exec(context.Background(), "ROLLBACK PREPARED '"+gid+"'"); err != nil {
			t.Error(err)
		}
	})
	o := e.options()
	o.Mode, o.CreateTable = postgres.Auto, true
	s, err := postgres.New(e.pool(nil), "", o)
	if err != nil {
		t.Fatal(err)
	}
	// The last lane that there would be one for, were the server this bridge's alone.
	lane := sink.Lane{Bridge: "bridge", Sink: "target", Number: most - 1, Tables: []*changelog.Table{table(t, "kv", upsert, "k", "k INT NOT NULL", "v STRING")}, OtherStore: true}
	found := s.Check(t.Context(), lane, "")
	for _, want := range []string{"mode staged", fmt.Sprintf("max_prepared_transactions is %d, of which others hold ", most), fmt.Sprintf("lane %d of its process", most)} {
		if g := s.Guarantee().String(); found[0].Err != nil || !strings.Contains(found[0].Found, want) || !strings.Contains(g, want) {
			t.Errorf("%+v, %s: no %q", found[0], g, want)
		}
	}
}

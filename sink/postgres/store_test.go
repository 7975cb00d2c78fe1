package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Processes that start at once make the tables once.
func TestStore_MadeAtOnce(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.CreateTable = true
	tb := table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING")
	var wg sync.WaitGroup
	for range 6 {
		p := e.pool(func(c *pgxpool.Config) { c.MaxConns = 1 })
		wg.Go(func() {
			c, err := e.lane(p, "", o, tb)
			if err != nil {
				t.Error(err)
				return
			}
			c.Close(context.Background())
		})
	}
	wg.Wait()
	if got := e.one("SELECT version FROM " + e.own + ".format"); got != "1" {
		t.Errorf("format version %s", got)
	}
}

func wantConfig(t *testing.T, err error, parts ...string) {
	t.Helper()
	if sink.ClassOf(err) != sink.ErrConfig {
		t.Fatalf("expected a configuration error, got %v", err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the error does not say %q:\n%v", p, err)
		}
	}
}

func TestStore_OtherFormatVersion(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	e.writer(e.pool(nil), e.options(), tb)
	e.exec("UPDATE " + e.own + ".format SET version = 2")
	_, err := e.lane(e.pool(nil), "", e.options(), tb)
	wantConfig(t, err, e.own, "format version 2", "version 1", "upgrade")
	e.exec("UPDATE " + e.own + ".format SET version = 0")
	_, err = e.lane(e.pool(nil), "", e.options(), tb)
	wantConfig(t, err, "format version 0", "version 1", "Options.Schema")
}

// A schema that something else uses is left alone.
func TestStore_ForeignTables(t *testing.T) {
	for _, sql := range []string{"CREATE TABLE %s.format (x int)", "CREATE TABLE %s.format (version text, single bool)", "CREATE TABLE %s.position (x int)",
		"CREATE VIEW %s.generation AS SELECT 1"} {
		e := newEnv(t)
		tb := e.keyed()
		e.exec("CREATE SCHEMA " + e.own)
		e.exec(strings.ReplaceAll(sql, "%s", e.own))
		_, err := e.lane(e.pool(nil), "", e.options(), tb)
		wantConfig(t, err, e.own, "Options.Schema")
		if n := e.one("SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1", e.own); n != "1" {
			t.Errorf("%s: %s relations afterwards", sql, n)
		}
	}
}

// A role without the right to make schemas is told what an administrator can run, and that does.
func TestStore_NoRight(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	role := e.schema + "_role"
	e.exec("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + e.schema + " TO " + role + "; GRANT ALL ON kv TO " + role)
	t.Cleanup(func() { e.exec("DROP OWNED BY " + role); e.exec("DROP ROLE " + role) })
	p := e.pool(func(c *pgxpool.Config) { c.ConnConfig.User = role })
	_, err := e.lane(p, "", e.options(), tb)
	wantConfig(t, err, "42501", "Options.Schema", "administrator")
	_, script, ok := strings.Cut(err.Error(), "administrator run\n")
	if !ok {
		t.Fatalf("no script in\n%v", err)
	}
	e.exec(script)
	w := e.writer(p, e.options(), tb)
	if err := w.writeTo(5); err != nil {
		t.Fatal(err)
	}
	w.finish()
	e.agrees("under a role with no more rights than these")

	e.exec("REVOKE SELECT ON " + e.own + ".format FROM " + role)
	_, err = e.lane(p, "", e.options(), tb)
	wantConfig(t, err, "42501", "GRANT")
}

// The store's size does not grow with checkpoints, and with generations only up to a bound.
func TestStore_ConstantSize(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	w := e.writer(e.pool(nil), e.options(), tb)
	for range 20 {
		w.acquire()
		if err := w.writeTo(w.at + 1); err != nil {
			t.Fatal(err)
		}
		var settled []sink.GenerationID
		for _, g := range w.claim.Ended {
			settled = append(settled, g.ID)
		}
		cp := w.checkpoint()
		cp.Settled = settled
		if err := w.store().Save(t.Context(), w.claim.Generation, cp); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.one("SELECT count(*) FROM " + e.own + ".position"); got != "1" {
		t.Errorf("%s positions", got)
	}
	e.exec("UPDATE " + e.own + ".bridge SET last_generation = 1005")
	w.acquire()
	if got := e.one("SELECT min(id) FROM " + e.own + ".generation"); got != "6" {
		t.Errorf("the oldest generation kept is %s", got)
	}
	gen := w.claim.Generation
	gen.ID = 3
	if _, err := w.store().End(t.Context(), gen); sink.ClassOf(err) != sink.ErrLost {
		t.Errorf("End of a forgotten generation: %v", err)
	}
}

// A store that is not the lane's would leave the rows in a transaction that nobody commits.
func TestOpen_ClaimOfAnotherStore(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	a := e.writer(e.pool(nil), e.options(), tb)
	c, err := e.lane(e.pool(nil), "", e.options(), tb)
	if err != nil {
		t.Fatal(err)
	}
	wantConfig(t, c.Open(t.Context(), a.claim), "Options.Store")
	if err := a.writeTo(3); err != nil {
		t.Fatal(err)
	}
	if err := a.prepare(); err != nil {
		t.Fatal(err)
	}
	wantConfig(t, a.c.Commit(t.Context(), sink.Committable{}), "Options.Store")
}

func TestNew_Mistakes(t *testing.T) {
	_, err := postgres.New(nil, "a.b.c", &postgres.Options{Schema: strings.Repeat("s", 64), LockTimeout: -1, Columns: map[string]string{"a": "x\x00"}})
	wantConfig(t, err, "pool is nil", "a.b.c", "Options.Schema", "LockTimeout", "Options.Columns[a]")
	_, err = postgres.New(new(pgxpool.Pool), "", &postgres.Options{Schema: strings.Repeat("s", 64)})
	wantConfig(t, err, "Options.Schema", "use a shorter one")
	if strings.Contains(err.Error(), "Options.Columns") {
		t.Errorf("a long Options.Schema has nothing to do with columns: %v", err)
	}
}

// A server that is not there is no mistake of the settings.
func TestLane_ServerAway(t *testing.T) {
	p, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := postgres.New(p, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "s"})
	if sink.ClassOf(err) != sink.ErrTransient {
		t.Errorf("Lane: %v", err)
	}
}

// A wrong password or database is.
func TestLane_NotLetIn(t *testing.T) {
	e := newEnv(t)
	e.notPooled("it is the pooler that lets in, with words and waits of its own")
	for what, change := range map[string]func(*pgxpool.Config){
		"database": func(c *pgxpool.Config) { c.ConnConfig.Database = "no_such_database" },
		"role":     func(c *pgxpool.Config) { c.ConnConfig.User = "no_such_role" },
	} {
		_, err := e.lane(e.pool(change), "", e.options(), e.anyTable())
		if sink.ClassOf(err) != sink.ErrConfig {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := e.lane(e.pool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" }), "", e.options(), e.anyTable())
	wantConfig(t, err, "read-only", "target_session_attrs")
}

// Each part of the fence holds by itself: the owner of the position, and the number of the checkpoint.
func TestSave_Fence(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	w := e.writer(e.pool(nil), e.options(), tb)
	if err := w.writeTo(5); err != nil {
		t.Fatal(err)
	}
	w.finish()

	w.cp = 0 // the number is used twice
	if err := w.writeTo(10); err != nil {
		t.Fatal(err)
	}
	if err := w.save(); sink.ClassOf(err) != sink.ErrFenced || !strings.Contains(err.Error(), "used before") {
		t.Errorf("a number used twice: %v", err)
	}
	w.acquire()
	if err := w.writeTo(10); err != nil {
		t.Fatal(err)
	}
	e.exec("UPDATE " + e.own + ".position SET owner = 99")
	if err := w.save(); sink.ClassOf(err) != sink.ErrFenced || !strings.Contains(err.Error(), "does not belong") {
		t.Errorf("another owner: %v", err)
	}
	e.agrees("after two refusals")
}

// A claim lists what ended on ways that lead to its partitions, and nothing else of the bridge.
func TestAcquire_ClaimsOnlyItsOwn(t *testing.T) {
	e := newEnv(t)
	c, err := e.lane(e.pool(nil), "", e.options(), e.keyed())
	if err != nil {
		t.Fatal(err)
	}
	acquire := func(want string, numbers ...int32) {
		t.Helper()
		r := sink.AcquireRequest{Bridge: "bridge", GroupGeneration: -1}
		for _, n := range numbers {
			r.Partitions = append(r.Partitions, changelog.Partition{Topic: "topic", Partition: n})
		}
		claim, err := c.(sink.Store).Acquire(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range claim.Ended {
			got = append(got, fmt.Sprint(g.ID))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("generation %d over %v claims %v, expected %s", claim.Generation.ID, numbers, got, want)
		}
	}
	acquire("", 0)           // 1
	acquire("", 7)           // 2
	acquire("1", 0, 1)       // 3
	acquire("1 3", 1, 2)     // 4: by 3, which held 0
	acquire("1 3 4", 2)      // 5
	acquire("2", 7)          // 6
	acquire("1 3 4", 0)      // 7: 5 lives
	acquire("2 6", 7, 8)     // 8
	acquire("", 9)           // 9
	acquire("2 6 8 9", 8, 9) // 10
}

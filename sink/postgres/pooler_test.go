package postgres_test

import (
	"os"
	"slices"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

const poolerVariable = "FLINKSINK_PGBOUNCER"

// Behind a pooler that gives each transaction another server connection, zombies are found and ended all the same, and nobody else is.
func TestPooler_Zombie(t *testing.T) {
	dsn := os.Getenv(poolerVariable)
	if dsn == "" {
		t.Skipf("%s is not set: it names a PgBouncer with pool_mode=transaction in front of the server of %s", poolerVariable, dsnVariable)
	}
	for _, m := range []postgres.Mode{postgres.InTransaction, postgres.Prepared, postgres.Staged} {
		t.Run(m.String(), func(t *testing.T) { poolerZombie(t, dsn, m) })
	}
}

func poolerZombie(t *testing.T, dsn string, m postgres.Mode) {
	e := newEnv(t)
	tb := e.keyed()
	if m != postgres.InTransaction {
		e.undo()
	}
	pooled := func() *pgxpool.Pool {
		c, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		m, err := pgxpool.ParseConfig("default_query_exec_mode=exec")
		if err != nil {
			t.Fatal(err)
		}
		c.ConnConfig.DefaultQueryExecMode = m.ConnConfig.DefaultQueryExecMode
		p, err := pgxpool.NewWithConfig(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	lane := func() *writer {
		c, err := e.lane(pooled(), e.schema+".kv", e.mode(m), tb)
		if err != nil {
			t.Fatal(err)
		}
		w := &writer{t: t, ctx: t.Context(), c: c, table: tb}
		t.Cleanup(func() { c.Close(t.Context()) })
		return w
	}
	a, b := lane(), lane()
	bystander, err := pooled().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		a.acquire()
		if err := a.writeTo(a.from + 5); err != nil {
			t.Fatal(err)
		}
		b.acquire()
		if err := b.writeTo(b.from + 5); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		b.finish()
		if err := a.save(); sink.ClassOf(err) != sink.ErrFenced {
			t.Fatalf("round %d: the zombie's Save: %v", round, err)
		}
		e.agrees("after a round")
		if _, err := bystander.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatalf("round %d: a bystander was disconnected: %v", round, err)
		}
		a, b = b, a
	}
	if err := bystander.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// Settings of the role must not weaken what a checkpoint promises.
func TestLane_SynchronousCommit(t *testing.T) {
	for set, want := range map[string]string{"off": "on", "local": "local", "remote_apply": "remote_apply"} {
		e := newEnv(t)
		e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text, s text DEFAULT current_setting('synchronous_commit') || ' ' || current_setting('transaction_isolation'))")
		p := e.pool(func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["synchronous_commit"] = set
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
		})
		w := e.writer(p, e.options(), e.anyTable())
		w.put(w.change(changelog.Insert, num(1), str("a")))
		if got := e.all("SELECT s FROM kv"); !slices.Equal(got, []string{`("` + want + ` read committed")`}) {
			t.Errorf("%s: %v", set, got)
		}
	}
}

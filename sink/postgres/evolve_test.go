package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgxpool"
)

// wider has columns of many types that the table of kv lacks.
func wider(t testing.TB) *changelog.Table {
	return table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING", "price DECIMAL(38, 18)", "at TIMESTAMP(3)", "tags ARRAY<STRING>", "more MAP<STRING, INT>", "On BOOLEAN NOT NULL")
}

// A column that the table lacks is added in the first checkpoint's transaction, with its rows: before that it is not there, when it fails it is not
// there, and rows of before have NULL.
func TestEvolve_AddsColumns(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	e.exec("INSERT INTO kv VALUES (-1, 'old')")
	o := e.options()
	_, err := e.lane(e.pool(nil), "", o, wider(t))
	wantConfig(t, err, `ADD COLUMN "price" numeric(38,18)`, `ADD COLUMN "On" boolean`, "Options.Evolve")
	o.Evolve = true
	columns := func() string {
		return e.one("SELECT string_agg(column_name || ' ' || data_type || ' ' || is_nullable, ', ' ORDER BY ordinal_position) FROM information_schema.columns WHERE table_schema = '" + e.schema + "' AND table_name = 'kv'")
	}
	before := columns()
	w := e.writer(e.pool(nil), o, wider(t))
	row := func(k int64, v string) changelog.Change {
		return w.change(changelog.Insert, num(k), str(v), dec("0.5", 38, 18), stamp(2024, 1, 2, 3, 5000000), array(str("a"), null), mapOf(str("x"), num(1)), changelog.BoolValue(true))
	}
	if err := w.write(row(1, "a")); err != nil {
		t.Fatal(err)
	}
	w.c.Discard(t.Context())
	w.acquire()
	if got := columns(); got != before {
		t.Errorf("after a checkpoint that was given up: %s", got)
	}
	w.put(row(1, "a"), row(2, "b"))
	w.put(row(2, "c"))
	if got, want := columns(), before+", price numeric YES, at timestamp without time zone YES, tags ARRAY YES, more jsonb YES, On boolean YES"; got != want {
		t.Errorf("%s\nexpected %s", got, want)
	}
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(-1,old,,,,,)", `(1,a,0.500000000000000000,"2024-01-02 00:00:03.005","{a,NULL}","{""x"": 1}",t)`,
		`(2,c,0.500000000000000000,"2024-01-02 00:00:03.005","{a,NULL}","{""x"": 1}",t)`}) {
		t.Errorf("%v", got)
	}
	// A narrower source goes on as it did.
	w2 := e.writer(e.pool(nil), o, tb)
	w2.put(w2.change(changelog.UpdateAfter, num(1), str("z")))
	if got := e.one("SELECT v || price FROM kv WHERE k = 1"); got != "z0.500000000000000000" {
		t.Errorf("%s", got)
	}
}

// What Evolve cannot do is found before the first row: a key column, a table that belongs to somebody else, a name that differs in case only.
func TestEvolve_Refused(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	e.writer(e.pool(nil), e.options(), tb)
	o := e.options()
	o.Evolve = true
	_, err := e.lane(e.pool(nil), "", o, table(t, "kv", upsert, "k k2", "k BIGINT NOT NULL", "k2 BIGINT NOT NULL", "v STRING"))
	wantConfig(t, err, `"k2" is missing`, "no unique index")
	_, err = e.lane(e.pool(nil), "", o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "V STRING"))
	wantConfig(t, err, `"V" is missing`, `there is "v"`)
	role := e.schema + "_role"
	e.exec("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + e.schema + ", " + e.own + " TO " + role + "; GRANT ALL ON ALL TABLES IN SCHEMA " + e.own + ", " + e.schema + " TO " + role)
	t.Cleanup(func() { e.exec("DROP OWNED BY " + role); e.exec("DROP ROLE " + role) })
	_, err = e.lane(e.pool(func(c *pgxpool.Config) { c.ConnConfig.User = role }), "", o, wider(t))
	wantConfig(t, err, "does not own the table", "ADD COLUMN IF NOT EXISTS", role)
}

// Two lanes find the column missing at once: one adds it, the other waits for it or tries again, and both write.
func TestEvolve_TwoLanes(t *testing.T) {
	e := newEnv(t)
	e.keyed()
	o := e.options()
	o.Evolve = true
	wide := table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING", "w INT")
	var lanes []*writer
	var parts []changelog.Partition
	for n := range int32(2) {
		c, err := e.lane(e.pool(nil), "", o, wide)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		w := &writer{t: t, ctx: t.Context(), c: c, table: wide}
		lanes, parts = append(lanes, w), append(parts, w.other(n))
	}
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for n, w := range lanes {
		wg.Go(func() {
			for range 20 {
				err := w.write(changelog.Change{Partition: parts[n], Kind: changelog.Insert, Row: changelog.Row{num(int64(n)), str("a"), num(5)}})
				if err == nil {
					err = w.saveOf(parts[n], 0, 1)
				}
				if errs[n] = err; sink.ClassOf(err) != sink.ErrTransient {
					return
				}
				w.c.Discard(w.ctx)
				w.other(parts[n].Partition)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got := e.all("SELECT k, w FROM kv"); !slices.Equal(got, []string{"(0,5)", "(1,5)"}) {
		t.Errorf("%v", got)
	}
}

// Somebody reads the table for long: the lock is not waited for beyond its bound, and nothing is written.
func TestEvolve_TableInUse(t *testing.T) {
	e := newEnv(t)
	e.keyed()
	reader, err := e.pool(nil).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Rollback(context.Background()) })
	if _, err := reader.Exec(t.Context(), "SELECT * FROM kv"); err != nil {
		t.Fatal(err)
	}
	o := e.options()
	o.Evolve, o.LockTimeout = true, time.Second
	w := e.patientWriter(e.pool(nil), o, wider(t))
	row := []changelog.Value{num(1), str("a"), null, null, null, null, changelog.BoolValue(true)}
	err = w.write(w.change(changelog.Insert, row...))
	for ended(err) {
		w.doAgain(err)
		err = w.write(w.change(changelog.Insert, row...))
	}
	if sink.ClassOf(err) != sink.ErrTransient || !strings.Contains(err.Error(), "ADD COLUMN IF NOT EXISTS") {
		t.Errorf("Write: %v", err)
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for err != nil { // the reader's lock is gone; on a busy machine a wait for something else may take as long
		w.doAgain(err)
		err = w.write(w.change(changelog.Insert, row...))
	}
	w.finish()
	if got := e.one(`SELECT "On" FROM kv`); got != "true" {
		t.Errorf("%s", got)
	}
}

// A column is dropped while the bridge runs: the plan is made anew once, which adds it again where that was asked for, and says so where not.
func TestEvolve_DroppedWhileRunning(t *testing.T) {
	for _, evolve := range []bool{false, true} {
		e := newEnv(t)
		tb := e.keyed()
		o := e.options()
		o.Evolve = evolve
		w := e.writer(e.pool(nil), o, tb)
		w.put(w.change(changelog.Insert, num(1), str("a")))
		e.exec("ALTER TABLE kv DROP COLUMN v")
		err := w.write(w.change(changelog.Insert, num(2), str("b")))
		if !evolve {
			wantConfig(t, err, `"v" is missing`, "ADD COLUMN")
			continue
		}
		if sink.ClassOf(err) != sink.ErrTransient || !strings.Contains(err.Error(), "was altered") {
			t.Fatalf("%v", err)
		}
		w.c.Discard(t.Context())
		w.acquire()
		w.put(w.change(changelog.Insert, num(2), str("b")))
		if got := e.all("SELECT k, v FROM kv"); !slices.Equal(got, []string{"(1,)", "(2,b)"}) {
			t.Errorf("%v", got)
		}
	}
}

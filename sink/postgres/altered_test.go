package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// alteration is one of a table while a lane writes into it, of which the server says nothing to the lane's statements.
type alteration struct {
	name  string
	flink string // type of column v
	pg    string
	value changelog.Value
	alter string
	means string // what a row holds that was written before it, as text; "": the table is not to be written into any more
}

var alterations = []alteration{
	{"bigint to double", "BIGINT", "bigint", num(1 << 53), "ALTER TABLE kv ALTER v TYPE double precision", "9.007199254740992e+15"},
	{"double to bigint", "DOUBLE", "double precision", changelog.DoubleValue(1.5), "ALTER TABLE kv ALTER v TYPE bigint", "2"},
	{"int to real", "INT", "integer", num(16777217), "ALTER TABLE kv ALTER v TYPE real", "1.6777216e+07"},
	{"scale", "DECIMAL(10, 2)", "numeric(10,2)", dec("12.36", 10, 2), "ALTER TABLE kv ALTER v TYPE numeric(10,1)", "12.4"},
	{"precision of time", "TIMESTAMP(6)", "timestamp", changelog.TimestampValue(1_700_000_000, 623_456_000), "ALTER TABLE kv ALTER v TYPE timestamp(0)", "2023-11-14 22:13:21"},
	{"blanks", "STRING", "text", str("abc   "), "ALTER TABLE kv ALTER v TYPE varchar(3)", "abc"},
	{"no key", "BIGINT", "bigint", num(1), "ALTER TABLE kv DROP CONSTRAINT kv_pkey", ""},
	{"another key", "BIGINT", "bigint", num(1), "ALTER TABLE kv DROP CONSTRAINT kv_pkey; CREATE UNIQUE INDEX ON kv (k, v)", ""},
	{"row security", "BIGINT", "bigint", num(1), "ALTER TABLE kv ENABLE ROW LEVEL SECURITY; ALTER TABLE kv FORCE ROW LEVEL SECURITY", ""},
	{"not logged", "BIGINT", "bigint", num(1), "ALTER TABLE kv SET UNLOGGED", ""},
	{"another table", "BIGINT", "bigint", num(1), "ALTER TABLE kv RENAME TO old; CREATE TABLE kv (k bigint PRIMARY KEY, v bigint)", ""},
}

func (x alteration) table(e *env) *changelog.Table {
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v " + x.pg + ")")
	return table(e.t, "kv", upsert, "k", "k BIGINT NOT NULL", "v "+x.flink)
}

// rows are n changes, with keys from first on.
func (x alteration) rows(w *writer, first, n int64) (out []changelog.Change) {
	for k := range n {
		out = append(out, w.change(changelog.Insert, num(first+k), x.value))
	}
	return out
}

// A table that is altered between two checkpoints is noticed at the end of the second, whichever way its rows went: few by INSERT, which would cast them, many by COPY, which
// would take their bytes for those of another type. Nothing of that checkpoint is visible, and a change is never called rejected for it. Then the statements are
// made anew, or the table is refused.
func TestAltered_BetweenCheckpoints(t *testing.T) {
	for _, x := range alterations {
		for _, n := range []int64{3, 400} {
			t.Run(fmt.Sprintf("%s, %d rows", x.name, n), func(t *testing.T) {
				everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
					a := e.writer(e.pool(nil), o, x.table(e))
					a.put(x.rows(a, 0, n)...)
					e.exec(x.alter)
					err := a.write(x.rows(a, n, n)...)
					if err == nil {
						err = a.end()
					}
					if class := sink.ClassOf(err); class != sink.ErrTransient && class != sink.ErrConfig {
						t.Fatalf("%v", err)
					}
					if !strings.Contains(err.Error(), "kv") {
						t.Errorf("it does not name the table: %v", err)
					}
					if err := a.c.Discard(t.Context()); err != nil {
						t.Fatal(err)
					}
					if got := e.one(fmt.Sprintf("SELECT count(*) FROM kv WHERE k >= %d", n)); got != "0" {
						t.Errorf("%s rows are visible", got)
					}
					// The next start makes statements anew, or refuses the table.
					err = a.tryAcquire()
					t.Logf("the next start: %v", err)
					if sink.ClassOf(err) == sink.ErrConfig {
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					if err := a.write(x.rows(a, n, n)...); err != nil && sink.ClassOf(err) != sink.ErrRejected {
						t.Error(err)
					}
				})
			})
		}
	}
}

// A checkpoint that is staged and decided is merged into columns of another type as if it had been merged before they were altered; a table that does
// something else with rows by now is refused, with a way on.
func TestAltered_BeforeMerge(t *testing.T) {
	for _, x := range alterations {
		for _, takeOver := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, taken over %v", x.name, takeOver), func(t *testing.T) {
				e := newEnv(t)
				tb := x.table(e)
				a := e.writer(e.pool(nil), e.mode(postgres.Staged), tb)
				if err := errors.Join(a.write(x.rows(a, 0, 400)...), a.prepare()); err != nil {
					t.Fatal(err)
				}
				if err := a.save(); err != nil {
					t.Fatal(err)
				}
				e.exec(x.alter)
				if takeOver {
					// It knows nothing of it but what the staging table holds.
					done, err := e.settler().Settle(t.Context(), postgres.SettleOptions{Bridge: "bridge"})
					if err != nil {
						t.Fatal(err)
					}
					for _, d := range done {
						err = errors.Join(err, d.Err)
					}
					x.merged(t, e, err)
				} else {
					x.merged(t, e, a.c.Commit(t.Context(), a.receipt))
				}
				if x.means != "" {
					return
				}
				done, err := e.settler().Settle(t.Context(), postgres.SettleOptions{Bridge: "bridge", AcceptLost: true})
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range done {
					if d.Err != nil {
						t.Errorf("%v", d.Err)
					}
				}
				if left := e.leftovers(); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

func (x alteration) merged(t *testing.T, e *env, err error) {
	t.Helper()
	if x.means == "" {
		if sink.ClassOf(err) != sink.ErrTransient || !strings.Contains(err.Error(), "flinksink settle") {
			t.Errorf("Commit: %v", err)
		}
		if got := e.one("SELECT count(*) FROM kv"); got != "0" {
			t.Errorf("%s rows are visible", got)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := e.all("SELECT v::text, count(*) FROM kv GROUP BY v"); !slices.Equal(got, []string{fmt.Sprintf("(%s,400)", quoted(x.means))}) {
		t.Errorf("the table holds %v", got)
	}
}

// quoted is text as a row of Postgres shows it.
func quoted(text string) string {
	if strings.Contains(text, " ") {
		return `"` + text + `"`
	}
	return text
}

// A column that is dropped, or no longer takes NULL, between Prepare and the merge: refused, with a way on that works.
func TestAltered_UnfitForMerge(t *testing.T) {
	for name, alter := range map[string]string{"dropped": "ALTER TABLE kv DROP COLUMN v", "of another kind": "ALTER TABLE kv ALTER v TYPE date USING NULL", "without the table": "DROP TABLE kv"} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			tb := table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v BIGINT")
			e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v bigint)")
			a := e.writer(e.pool(nil), e.mode(postgres.Staged), tb)
			if err := errors.Join(a.write(a.change(changelog.Insert, num(1), num(2))), a.prepare()); err != nil {
				t.Fatal(err)
			}
			if err := a.save(); err != nil {
				t.Fatal(err)
			}
			e.exec(alter)
			for range 2 {
				if err := a.c.Commit(t.Context(), a.receipt); sink.ClassOf(err) != sink.ErrTransient || !strings.Contains(err.Error(), "flinksink settle") {
					t.Errorf("Commit: %v", err)
				}
			}
			done, err := e.settler().Settle(t.Context(), postgres.SettleOptions{Bridge: "bridge", AcceptLost: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range done {
				if d.Err != nil {
					t.Errorf("%v", d.Err)
				}
			}
			if left := e.leftovers(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// What does not matter to the statements is no reason to do a checkpoint again.
func TestAltered_Harmless(t *testing.T) {
	for _, alter := range []string{"ALTER TABLE kv ADD more text", "CREATE INDEX ON kv (v)", "ANALYZE kv", "ALTER TABLE kv SET (fillfactor = 50)", "COMMENT ON TABLE kv IS 'x'", "ALTER TABLE kv ALTER v SET DEFAULT 'x'"} {
		t.Run(alter, func(t *testing.T) {
			everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
				a := e.writer(e.pool(nil), o, e.keyed())
				a.put(a.change(changelog.Insert, num(1), str("one")))
				e.exec(alter)
				a.put(a.change(changelog.Insert, num(2), str("two")))
				if got := e.all("SELECT k, v FROM kv"); !slices.Equal(got, []string{"(1,one)", "(2,two)"}) {
					t.Errorf("%v", got)
				}
			})
		})
	}
}

// A column that Options.Evolve adds is known from then on.
func TestAltered_AfterEvolve(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		e.exec("CREATE TABLE kv (k bigint PRIMARY KEY)")
		o.Evolve = true
		a := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v BIGINT"))
		for k := range int64(3) {
			a.put(a.change(changelog.Insert, num(k), num(k)))
		}
		e.exec("ALTER TABLE kv ALTER v TYPE double precision")
		err := a.write(a.change(changelog.Insert, num(9), num(9)))
		if err == nil {
			err = a.end()
		}
		if sink.ClassOf(err) != sink.ErrTransient {
			t.Errorf("%v", err)
		}
	})
}

// Receipts of one generation are committed in their order: an older one that comes late is not called committed while its rows are still staged.
func TestStaged_OutOfOrder(t *testing.T) {
	e := newEnv(t)
	a := e.writer(e.pool(nil), e.mode(postgres.Staged), e.keyed())
	var receipts []sink.Committable
	for k := range int64(2) {
		if err := errors.Join(a.write(a.change(changelog.Insert, num(k), str("x"))), a.prepare()); err != nil {
			t.Fatal(err)
		}
		receipts = append(receipts, a.receipt)
		if err := a.save(); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.c.Commit(t.Context(), receipts[1]); err != nil {
		t.Fatal(err)
	}
	if err := a.c.Commit(t.Context(), receipts[0]); sink.ClassOf(err) != sink.ErrConfig || !strings.Contains(err.Error(), "order") {
		t.Errorf("%v", err)
	}
	if err := a.c.Commit(t.Context(), receipts[1]); err != nil {
		t.Error(err)
	}
}

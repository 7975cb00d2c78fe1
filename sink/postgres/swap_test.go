package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// swapRow is one row of a run of a group.
type swapRow struct {
	day  string
	run  int64
	id   int64
	v    string
	last bool
}

// runs makes writings of groups, one after the other; some groups come twice in a row.
func runs(r *rand.Rand, n int) (out []swapRow) {
	for run := range int64(n) {
		day := fmt.Sprint("d", r.IntN(3))
		size := 1 + r.IntN(5)
		for i := range size {
			out = append(out, swapRow{day, run, int64(r.IntN(4)), fmt.Sprintf("r%d-%d", run, i), i == size-1})
		}
	}
	return out
}

// finished is what the table holds after the rows: for each group all rows of its last run that has ended, by key the last.
func finished(rows []swapRow, keyed, byRun, byLast bool) []string {
	groups := make(map[string][]swapRow)
	var open []swapRow
	end := func() {
		if len(open) > 0 {
			groups[open[0].day] = open
		}
		open = nil
	}
	for _, row := range rows {
		if len(open) > 0 && (open[0].day != row.day || byRun && open[0].run != row.run) {
			end()
		}
		open = append(open, row)
		if byLast && row.last {
			end()
		}
	}
	out := []string{}
	for _, g := range groups {
		byKey := make(map[int64]swapRow)
		for _, row := range g {
			byKey[row.id] = row
		}
		for _, row := range g {
			if !keyed || byKey[row.id] == row {
				out = append(out, fmt.Sprintf("(%s,%d,%s)", row.day, row.id, row.v))
			}
		}
	}
	slices.Sort(out)
	return out
}

// Whatever the cuts and restarts, readers see after each checkpoint the last whole run of every group, and nothing of one that is not whole.
func TestSwap(t *testing.T) {
	for _, tc := range []struct {
		name                 string
		keyed, byRun, byLast bool
	}{{"keyless, run and last", false, true, true}, {"keyed, run", true, true, false}, {"keyed, groups", true, false, false}, {"keyless, groups and last", false, false, true}} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnv(t)
			key := ""
			if tc.keyed {
				key = "day id"
			}
			tb := table(t, "days", appnd, key, "day STRING", "id BIGINT", "v STRING", "run BIGINT", "last BOOLEAN")
			o := e.options()
			o.CreateTable = true
			o.Columns = map[string]string{"run": "", "last": ""}
			o.Swap.Group = []string{"day"}
			if tc.byRun {
				o.Swap.Run = "run"
			}
			if tc.byLast {
				o.Swap.Last = "last"
			}
			p := e.pool(nil)
			for seed := range uint64(3) {
				o.Mode = postgres.Mode(seed) // each once
				r := rand.New(rand.NewPCG(seed, 5))
				all := runs(r, 30)
				e.exec("DROP TABLE IF EXISTS days; DROP SCHEMA IF EXISTS " + e.own + " CASCADE")
				w := e.writer(p, o, tb)
				for n := 0; n < len(all); {
					for range 1 + r.IntN(2) {
						var batch []changelog.Change
						for range 1 + r.IntN(1+6*int(seed)) {
							if n < len(all) {
								x := all[n]
								batch = append(batch, w.change(changelog.Insert, str(x.day), num(x.id), str(x.v), num(x.run), changelog.BoolValue(x.last)))
								n++
							}
						}
						if len(batch) > 0 {
							if err := w.write(batch...); err != nil {
								t.Fatal(err)
							}
						}
					}
					w.finish()
					if got, want := e.all("SELECT day, id, v FROM days"), finished(all[:n], tc.keyed, tc.byRun, tc.byLast); !slices.Equal(got, want) {
						t.Fatalf("seed %d, after %d rows (%+v):\n%s\nexpected\n%s", seed, n, all[max(0, n-8):n], strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
					if r.IntN(3) == 0 {
						w.acquire()
					}
				}
			}
		})
	}
}

func (e *env) swapping(tb *changelog.Table, change func(*postgres.Options)) *writer {
	e.t.Helper()
	o := e.options()
	o.CreateTable = true
	o.Swap.Group = []string{"day"}
	if change != nil {
		change(o)
	}
	return e.writer(e.pool(nil), o, tb)
}

// The position is set back to the beginning of a run that waits: what had been read of it does not count twice.
func TestSwap_SetBack(t *testing.T) {
	e := newEnv(t)
	w := e.swapping(table(t, "days", appnd, "", "day STRING", "v STRING"), nil)
	row := func(day, v string) changelog.Change { return w.change(changelog.Insert, str(day), str(v)) }
	w.put(row("a", "1"), row("b", "2"), row("b", "3"))
	wantRows(t, e.all("SELECT * FROM days"), "(a,1)")
	e.exec("UPDATE " + e.own + ".position SET next_offset = 1")
	w.acquire()
	w.put(row("b", "2"), row("b", "3"))
	w.put(row("c", "4"))
	wantRows(t, e.all("SELECT * FROM days"), "(a,1)", "(b,2)", "(b,3)")
}

// Many rows go by COPY, and what the server refuses of one is named when it comes, not when its group is whole.
func TestSwap_Refused(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE days (day text NOT NULL, v text CHECK (v <> 'bad'), u int UNIQUE)")
	w := e.swapping(table(t, "days", appnd, "", "day STRING", "v STRING", "u INT"), nil)
	row := func(day, v string, u int64) changelog.Change {
		return w.change(changelog.Insert, str(day), str(v), num(u))
	}
	var many1 []changelog.Change
	for i := range int64(many) {
		many1 = append(many1, row("a", "x", i))
	}
	w.put(many1...)
	wantBlamed(t, w.write(row("a", "y", -1), row("a", "bad", -2), row("b", "z", -3)), fmt.Sprint(many+1))
	w.acquire()
	w.put(row("b", "z", 0), row("b", "z", 1))
	if got := e.one("SELECT count(*) FROM days"); got != fmt.Sprint(many) {
		t.Errorf("%s rows", got)
	}
	// Only together do they break the unique index: with what is there of another group.
	err := w.write(row("c", "z", 5))
	wantConfig(t, err, "Options.Swap", "refused together", "23505")
}

// A group in two partitions has no order, and a topic whose records are keyed by more than the group has such groups.
func TestSwap_Partitions(t *testing.T) {
	e := newEnv(t)
	tb := table(t, "days", appnd, "", "day STRING", "v STRING")
	w := e.swapping(tb, nil)
	other := w.change(changelog.Insert, str("a"), str("x"))
	other.Partition.Partition = 1
	wantConfig(t, w.write(w.change(changelog.Insert, str("a"), str("x")), other), "two partitions")
	e = newEnv(t)
	keyed := table(t, "keyed", appnd, "day id", "day STRING", "id INT")
	w = e.swapping(keyed, nil)
	other = w.change(changelog.Insert, str("a"), num(1))
	other.Partition.Partition = 1
	wantConfig(t, w.write(other), "keyed by more than the columns of Swap.Group")
}

// A column that the table lacks is added to the waiting table with it, in every mode, while rows wait, and they have NULL in it as the rows before them; a group that is not whole yet
// comes together of both.
func TestSwap_Evolve(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		o.CreateTable, o.Evolve = true, true
		o.Swap.Group = []string{"day"}
		p := e.pool(nil)
		w := e.writer(p, o, table(t, "days", appnd, "", "day STRING", "v STRING"))
		w.put(w.change(changelog.Insert, str("a"), str("1")), w.change(changelog.Insert, str("b"), str("2")))
		wide := table(t, "days", appnd, "", "day STRING", "v STRING", "n DECIMAL(10, 2)")
		again := e.writer(p, o, wide)
		again.at, again.from = w.at, w.at
		if err := again.write(again.change(changelog.Insert, str("b"), str("3"), dec("0.50", 10, 2))); err != nil {
			t.Fatal(err)
		}
		again.c.Discard(t.Context())
		again.acquire()
		again.at = w.at
		again.put(again.change(changelog.Insert, str("b"), str("3"), dec("0.50", 10, 2)))
		wantRows(t, e.all("SELECT * FROM days"), "(a,1,)")
		again.put(again.change(changelog.Insert, str("c"), str("4"), null), again.change(changelog.Insert, str("a"), str("5"), dec("1.00", 10, 2)))
		wantRows(t, e.all("SELECT * FROM days"), "(a,1,)", "(b,2,)", "(b,3,0.50)", "(c,4,)")
		again.put(again.change(changelog.Insert, str("d"), str("6"), null))
		wantRows(t, e.all("SELECT * FROM days"), "(a,5,1.00)", "(b,2,)", "(b,3,0.50)", "(c,4,)")
	})
}

// Staged rows are neither in the table nor waiting before their checkpoint is committed: one that is given up leaves nothing, a merge that is done twice does nothing more, and a
// successor settles what is decided before it asks what waits. So it is where the rows are too many to be rehearsed as they come.
func TestSwap_Staged(t *testing.T) {
	for _, many := range []int{1, 120_000} {
		e := newEnv(t)
		tb := table(t, "days", appnd, "", "day STRING", "v STRING")
		w := e.swapping(tb, func(o *postgres.Options) { o.Mode = postgres.Staged })
		pad := strings.Repeat("x", 200)
		row := func(day, v string) changelog.Change { return w.change(changelog.Insert, str(day), str(v)) }
		of := func(day string) (out []changelog.Change) {
			for range many {
				out = append(out, row(day, pad))
			}
			return out
		}
		decide := func(changes ...changelog.Change) {
			t.Helper()
			if err := w.write(changes...); err != nil {
				t.Fatal(err)
			}
			if err := w.prepare(); err != nil {
				t.Fatal(err)
			}
			if err := w.save(); err != nil {
				t.Fatal(err)
			}
		}
		count := func(want ...string) {
			t.Helper()
			wantRows(t, e.all("SELECT day, count(*) FROM days GROUP BY day"), want...)
		}
		decide(of("a")...)
		if err := w.c.Commit(w.ctx, w.receipt); err != nil {
			t.Fatal(err)
		}
		if err := w.write(row("b", "given up")); err != nil {
			t.Fatal(err)
		}
		w.c.Discard(t.Context())
		w.at--
		decide(append(of("a"), row("b", "1"))...)
		if err := w.write(row("c", "too early")); sink.ClassOf(err) != sink.ErrTransient {
			t.Fatalf("a checkpoint began before the one before it was committed: %v", err)
		}
		w.at--
		count()
		w.acquire() // settles it
		count(fmt.Sprintf("(a,%d)", 2*many))
		if err := w.c.Commit(w.ctx, w.receipt); err != nil {
			t.Fatal(err)
		}
		decide(row("b", "2"), row("a", "new"), row("b", "new"))
		if err := w.c.Commit(w.ctx, w.receipt); err != nil {
			t.Fatal(err)
		}
		count("(a,1)", "(b,2)")
	}
}

// The waiting table follows the target while nothing waits in it, and says so otherwise.
func TestSwap_Altered(t *testing.T) {
	e := newEnv(t)
	tb := table(t, "days", appnd, "", "day STRING", "v STRING")
	w := e.swapping(tb, nil)
	e.exec("ALTER TABLE days ADD COLUMN more int DEFAULT 7")
	w = e.swapping(tb, nil)
	w.put(w.change(changelog.Insert, str("a"), str("x")), w.change(changelog.Insert, str("b"), str("x")))
	wantRows(t, e.all("SELECT * FROM days"), "(a,x,7)")
	e.exec("ALTER TABLE days ADD COLUMN again int")
	o := e.options()
	o.Swap.Group = []string{"day"}
	_, err := e.lane(e.pool(nil), "", o, tb)
	wantConfig(t, err, "wait in table")
}

// Deletes of an upsert topic are ignored, and counted.
func TestSwap_Deletes(t *testing.T) {
	e := newEnv(t)
	tb := table(t, "days", upsert, "day", "day STRING", "v STRING")
	w := e.swapping(tb, func(o *postgres.Options) { o.IgnoreDeletes = true })
	w.put(w.change(changelog.Insert, str("a"), str("x")), w.change(changelog.Delete, str("a"), null), w.change(changelog.UpdateAfter, str("a"), str("y")), w.change(changelog.Insert, str("b"), str("x")))
	if n := w.c.(sink.Superseder).Superseded(); n != 1 {
		t.Errorf("%d superseded", n)
	}
	wantRows(t, e.all("SELECT * FROM days"), "(a,y)")
}

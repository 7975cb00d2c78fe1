package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// wideRows are enough, in a table of enough columns, for a temporary table to be worth a try.
const wideRows = 2000

func wideTable(t *testing.T, e *env, more string) *changelog.Table {
	schema := []string{"k BIGINT NOT NULL"}
	columns := "k bigint PRIMARY KEY"
	for i := range 9 {
		schema = append(schema, fmt.Sprintf("v%d STRING", i))
		columns += fmt.Sprintf(", v%d varchar(20)", i)
	}
	e.exec("CREATE TABLE kv (" + columns + more + ")")
	return table(t, "kv", upsert, "k", schema...)
}

func (w *writer) wide(from, to int, text string) []changelog.Change {
	var out []changelog.Change
	for k := from; k < to; k++ {
		row := []changelog.Value{num(int64(k))}
		for i := range 9 {
			row = append(row, str(fmt.Sprint(text, k, "/", i)))
		}
		row[9] = changelog.Value{} // NULL
		out = append(out, w.change(changelog.UpdateAfter, row...))
	}
	return out
}

// holdsWide compares the table with rows [0, to) whose text is text.
func (e *env) holdsWide(to int, text string) {
	e.t.Helper()
	good := e.one(fmt.Sprintf("SELECT count(*) FROM kv WHERE v0 = '%s' || k || '/0' AND v8 IS NULL AND v7 = '%[1]s' || k || '/7'", text))
	if all := e.one("SELECT count(*) FROM kv"); all != fmt.Sprint(to) || good != all {
		e.t.Errorf("%s rows of which %s are as they should be, expected %d", all, good, to)
	}
}

// merges counts batches that go by way of the temporary table.
func merges(n *atomic.Int64) *wire {
	return &wire{fault: func(_ int, message []byte) fault {
		n.Add(int64(bytes.Count(message, []byte("CREATE TEMPORARY TABLE flinksink_merge"))))
		return none
	}}
}

// Updates of wide rows go either way, the slower one now and then; of the temporary table nothing is left.
func TestMerge_BothWays(t *testing.T) {
	e := newEnv(t)
	tb := wideTable(t, e, "")
	var n atomic.Int64
	w := e.writer(e.pool(merges(&n).through), e.options(), tb)
	w.put(w.wide(0, wideRows, "new")...)
	for i := range 40 {
		if err := w.write(w.wide(0, wideRows, fmt.Sprint("u", i, "-"))...); err != nil {
			t.Fatal(err)
		}
		if i%8 == 7 {
			w.finish()
		}
	}
	w.finish()
	if n := n.Load(); n == 0 || n == 40 {
		t.Errorf("%d of 40 batches went by way of a temporary table", n)
	}
	e.holdsWide(wideRows, "u39-")
	if left := e.one("SELECT count(*) FROM pg_class WHERE relname = 'flinksink_merge'"); left != "0" {
		t.Errorf("%s temporary tables are left", left)
	}
}

// merged brings a writer to where its next wide batch goes by way of a temporary table.
func merged(w *writer) error {
	return errors.Join(w.write(w.wide(0, wideRows, "a")...), w.write(w.wide(0, wideRows, "b")...))
}

// The connection breaks at each message: rows and position agree.
func TestMerge_EveryMessage(t *testing.T) {
	for _, f := range []fault{loseIt, loseAnswer} {
		for n, more := 1, true; more; n++ {
			if n > 300 {
				t.Fatal("the scenario does not end")
			}
			more = false
			t.Run(fmt.Sprintf("%v/%d", f, n), func(t *testing.T) {
				e := newEnv(t)
				tb := wideTable(t, e, "")
				var began, seen atomic.Int64
				w := &wire{fault: func(_ int, message []byte) fault {
					if bytes.Contains(message, []byte("CREATE TEMPORARY TABLE flinksink_merge")) {
						began.Store(1)
					}
					// What comes before is another test's. Pieces of COPY are alike: every eighth will do.
					if began.Load() == 0 || bytes.HasPrefix(message, []byte("d")) && seen.Load()%8 != 0 {
						return none
					}
					if seen.Add(1) == int64(n) {
						return f
					}
					return none
				}}
				err := func() error {
					c, err := e.lane(e.pool(w.through), "", e.options(), tb)
					if err != nil {
						return err
					}
					defer c.Close(t.Context())
					a := &writer{t: t, ctx: t.Context(), c: c, table: tb}
					if err := a.tryAcquire(); err != nil {
						return err
					}
					return errors.Join(merged(a), a.write(a.wide(0, wideRows, "c")...), a.prepare(), a.save())
				}()
				more = w.hit
				if !more && err != nil {
					t.Fatalf("no fault happened, and yet: %v", err)
				}
				w.cut()
				next := e.writer(e.pool(nil), e.options(), tb)
				if next.from == 0 {
					if all := e.one("SELECT count(*) FROM kv"); all != "0" {
						t.Errorf("nothing is saved after %v, and %s rows are there", err, all)
					}
					return
				}
				e.holdsWide(wideRows, "c")
			})
		}
	}
}

// A row that the server refuses on the way out of the temporary table is named, and the others are none the worse.
func TestMerge_Refused(t *testing.T) {
	for name, bad := range map[string]string{"check": "bad", "too long": strings.Repeat("x", 21), "encodable": "a\x00b"} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			tb := wideTable(t, e, ", CHECK (v3 <> 'bad')")
			var n atomic.Int64
			w := e.writer(e.pool(merges(&n).through), e.options(), tb)
			if err := merged(w); err != nil {
				t.Fatal(err)
			}
			w.finish()
			changes := w.wide(0, wideRows, "c")
			changes[1234].Row[4] = str(bad)
			err := w.write(changes...)
			var se *sink.Error
			if !errors.As(err, &se) || sink.ClassOf(err) != sink.ErrRejected || len(se.Rejected) != 1 || se.Rejected[0].Offset != changes[1234].Offset {
				t.Fatalf("%v", err)
			}
			if strings.Contains(err.Error(), bad) {
				t.Errorf("the error shows the value: %v", err)
			}
			if err := w.c.Discard(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.acquire()
			w.put(append(w.wide(0, 1234, "c"), w.wide(1235, wideRows, "c")...)...)
			w.put(w.wide(1234, 1235, "c")...)
			e.holdsWide(wideRows, "c")
			if n.Load() == 0 {
				t.Error("no batch went by way of a temporary table")
			}
		})
	}
}

// Where the session has a table of that name already, rows are written without one.
func TestMerge_NameIsTaken(t *testing.T) {
	e := newEnv(t)
	tb := wideTable(t, e, "")
	var n atomic.Int64
	e.notPooled("a session's table is nobody's")
	w := e.writer(e.pool(func(c *pgxpool.Config) {
		merges(&n).through(c)
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "CREATE TEMPORARY TABLE flinksink_merge (x int)")
			return err
		}
	}), e.options(), tb)
	if err := merged(w); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"c", "d", "e"} {
		if err := w.write(w.wide(0, wideRows, text)...); err != nil {
			t.Fatal(err)
		}
	}
	w.finish()
	e.holdsWide(wideRows, "e")
	if n.Load() > 1+1 { // the session made its own
		t.Errorf("a temporary table was tried %d times", n.Load())
	}
}

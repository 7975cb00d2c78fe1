package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// upserted counts the statements with ON CONFLICT.
func upserted(n *atomic.Int64) *wire {
	return &wire{fault: func(_ int, message []byte) fault {
		n.Add(int64(bytes.Count(message, []byte("ON CONFLICT (\"k\")"))))
		return none
	}}
}

// piecesOf rows make three pieces.
const piecesOf = 4100

// Rows of which some are there are written in pieces, each of them once, and those that the server left as they were are counted in all of them.
func TestPieces(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.SkipUnchanged = true
	var n atomic.Int64
	w := e.writer(e.pool(upserted(&n).through), o, e.keyed())
	w.put(w.upserts(0, 3000, "a")...)
	n.Store(0)
	w.put(append(w.upserts(0, 2500, "a"), w.upserts(2500, piecesOf, "b")...)...)
	w.wantSuperseded(2500)
	if n := n.Load(); n != 3 {
		t.Errorf("%d statements, expected 3", n)
	}
	got := e.all("SELECT * FROM kv")
	slices.Sort(got)
	want := rowsOf(piecesOf, func(k int) string {
		if k < 2500 {
			return "a"
		}
		return "b"
	})
	if !slices.Equal(got, want) {
		t.Errorf("%d rows, expected %d: %.300v", len(got), len(want), got)
	}
}

// A row that cannot be sent, or that the server refuses, in any piece: it is named, and nothing of the checkpoint is left.
func TestPieces_Refused(t *testing.T) {
	for _, bad := range []string{"NUL \x00", "SECRET"} {
		for _, at := range []int{0, 2000, piecesOf - 1} {
			t.Run(fmt.Sprintf("%q/%d", bad, at), func(t *testing.T) {
				e := newEnv(t)
				tb := e.keyed()
				e.exec("ALTER TABLE kv ADD CHECK (v <> 'SECRET'); INSERT INTO kv VALUES (1000000, 'there'); INSERT INTO kv SELECT k, 'old' FROM generate_series(0, 99) AS k")
				w := e.writer(e.pool(nil), e.options(), tb)
				changes := w.upserts(0, piecesOf, "a")
				changes[at].Row[1] = str(bad)
				err := w.write(changes...)
				var se *sink.Error
				if !errors.As(err, &se) || sink.ClassOf(err) != sink.ErrRejected || len(se.Rejected) != 1 || se.Rejected[0].Offset != changes[at].Offset {
					t.Fatalf("%v", err)
				}
				if err := w.c.Discard(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := e.one("SELECT count(*) FROM kv WHERE v = 'old'"); got != "100" {
					t.Errorf("%s rows are as they were, expected 100", got)
				}
				w.acquire()
				w.put(append(w.upserts(0, at, "a"), w.upserts(at+1, piecesOf, "a")...)...)
				if got := e.one("SELECT count(*) FROM kv WHERE v = 'a' || k"); got != fmt.Sprint(piecesOf-1) {
					t.Errorf("%s rows, expected %d", got, piecesOf-1)
				}
			})
		}
	}
}

// What the server checks at the end of a statement lies in different pieces. The rows are written all the same, and from then on not in pieces.
func TestPieces_ChecksOfAStatement(t *testing.T) {
	row := func(k, r int64) changelog.Row { return changelog.Row{num(k), num(r)} }
	for _, tc := range []struct {
		name, more string
		refers     func(k int64) int64 // what row k holds
	}{
		{"parents after their children", "ALTER TABLE kv ADD FOREIGN KEY (r) REFERENCES kv", func(k int64) int64 { return piecesOf - 1 - k }},
		{"values swapped", "ALTER TABLE kv ADD UNIQUE (r) DEFERRABLE; INSERT INTO kv SELECT k, k FROM generate_series(0, " + fmt.Sprint(piecesOf-1) + ") AS k",
			func(k int64) int64 { return piecesOf - 1 - k }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnv(t)
			e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, r bigint); INSERT INTO kv VALUES (1000000, NULL)") // so that not all keys are new
			e.exec(tc.more)
			var n atomic.Int64
			w := e.writer(e.pool(upserted(&n).through), e.options(), table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "r BIGINT"))
			changes := []changelog.Change{w.change(changelog.UpdateAfter, num(1000000), null)}
			for k := range int64(piecesOf) {
				changes = append(changes, w.change(changelog.UpdateAfter, row(k, tc.refers(k))...))
			}
			for _, want := range []int64{3 + 1, 1} {
				n.Store(0)
				w.put(changes...)
				w.at += int64(len(changes))
				if n := n.Load(); n != want {
					t.Errorf("%d statements, expected %d", n, want)
				}
				if got := e.one(fmt.Sprintf("SELECT count(*) FROM kv WHERE r = %d - k", piecesOf-1)); got != fmt.Sprint(piecesOf) {
					t.Errorf("%s rows, expected %d", got, piecesOf)
				}
			}
		})
	}
}

// The connection breaks at each message of an upsert in pieces: rows and position agree.
func TestPieces_EveryMessage(t *testing.T) {
	for i, f := range []fault{loseIt, loseAnswer} {
		for n, more := 1+i, true; more; n += 2 { // half of the messages, the other half for each
			if n > 100 {
				t.Fatal("the scenario does not end")
			}
			more = false
			t.Run(fmt.Sprintf("%v/%d", f, n), func(t *testing.T) {
				e := newEnv(t)
				tb := e.keyed()
				e.exec(fmt.Sprintf("INSERT INTO kv SELECT k, 'old' || k FROM generate_series(0, %d) AS k", piecesOf-1))
				var began, seen atomic.Int64
				w := &wire{fault: func(_ int, message []byte) fault {
					if bytes.Contains(message, []byte("ON CONFLICT (\"k\")")) {
						began.Store(1)
					}
					if began.Load() == 1 && seen.Add(1) == int64(n) {
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
					return errors.Join(a.write(a.upserts(0, piecesOf, "new")...), a.prepare(), a.save())
				}()
				more = w.hit
				if !more && err != nil {
					t.Fatalf("no fault happened, and yet: %v", err)
				}
				w.cut()
				next := e.writer(e.pool(nil), e.options(), tb)
				text := "old"
				if next.from > 0 {
					text = "new"
				}
				if got := e.one("SELECT count(*) FROM kv WHERE v = '" + text + "' || k"); got != fmt.Sprint(piecesOf) {
					t.Errorf("%s rows are %s, expected %d: the position is %d", got, text, piecesOf, next.from)
				}
			})
		}
	}
}

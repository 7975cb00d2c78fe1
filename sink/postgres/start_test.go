package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// copying makes a lane that takes the first batch of its next checkpoint for new rows.
func (w *writer) copying() {
	w.t.Helper()
	w.put(w.upserts(0, many, "a")...)
	w.put(w.upserts(many, 2*many, "a")...)
}

// messages notes what a lane sends.
type messages struct {
	wire
	seen [][]byte
}

func newMessages() *messages {
	m := &messages{}
	m.fault = func(_ int, message []byte) fault {
		m.seen = append(m.seen, bytes.Clone(message))
		return none
	}
	return m
}

// copyBegins reports whether a message is BEGIN and COPY.
func copyBegins(message []byte) bool {
	return bytes.Contains(message, []byte("BEGIN")) && bytes.Contains(message, []byte("FROM STDIN"))
}

// A checkpoint of new rows waits for the server twice: for BEGIN, fence and COPY; and for constraints, positions and COMMIT.
func TestStart_TwoMessages(t *testing.T) {
	e := newEnv(t)
	e.notPooled("no statement is cached")
	m := newMessages()
	w := e.writer(e.pool(m.through), e.options(), e.keyed())
	w.copying()
	m.mu.Lock()
	m.seen = nil
	m.mu.Unlock()
	w.put(w.upserts(2*many, 3*many, "a")...)
	var kinds []string
	for _, message := range m.seen {
		switch message[0] {
		case 'd', 'c': // rows, and the end of them
		default:
			kinds = append(kinds, string(message[:1]))
		}
	}
	if !slices.Equal(kinds, []string{"Q", "B"}) || !copyBegins(m.seen[0]) || !isCommit(m.seen[len(m.seen)-1]) {
		t.Errorf("%d messages: %q", len(kinds), kinds)
	}
	if got := e.one("SELECT count(*) FROM kv"); got != fmt.Sprint(3*many) {
		t.Errorf("%s rows", got)
	}
}

// BEGIN, the fence and rows are one message: of a generation that has ended no row is written.
func TestStart_Fenced(t *testing.T) {
	for _, mode := range []postgres.Mode{postgres.InTransaction, postgres.Prepared} {
		t.Run(mode.String(), func(t *testing.T) {
			e := newEnv(t)
			tb := e.keyed()
			if mode == postgres.Prepared && e.one("SELECT current_setting('max_prepared_transactions')") == "0" {
				t.Skip("the server has no prepared transactions: max_prepared_transactions is 0")
			}
			m := newMessages()
			a := e.writer(e.pool(m.through), e.mode(mode), tb)
			a.copying()
			b := e.writer(e.pool(nil), e.mode(mode), tb)
			m.mu.Lock()
			m.seen = nil
			m.mu.Unlock()
			if err := a.write(a.upserts(2*many, 3*many, "zombie")...); sink.ClassOf(err) != sink.ErrFenced {
				t.Errorf("Write: %v", err)
			}
			if !slices.ContainsFunc(m.seen, copyBegins) {
				t.Error("the rows did not go out with BEGIN: this shows nothing")
			}
			b.put(b.upserts(2*many, 3*many, "b")...)
			if got := e.one("SELECT count(*) FILTER (WHERE v LIKE 'zombie%') || ' ' || count(*) FROM kv"); got != fmt.Sprintf("0 %d", 3*many) {
				t.Error(got)
			}
		})
	}
}

// A key of the first batch is there already, or comes twice: the transaction goes on with its net effect.
func TestStart_KeyIsThere(t *testing.T) {
	for _, twice := range []bool{false, true} {
		e := newEnv(t)
		c := newCopies()
		w := e.writer(e.pool(c.through), e.options(), e.keyed())
		w.copying()
		changes, tried := w.upserts(2*many, 3*many, "a"), 3
		if twice {
			changes, tried = append(changes, w.upserts(2*many, 2*many+1, "a")...), 4 // the net effect is new
		} else {
			changes = append(changes, w.upserts(0, 1, "a")...)
		}
		w.put(changes...)
		c.want(t, tried, 1)
		got := e.all("SELECT * FROM kv")
		slices.Sort(got)
		if want := rowsOf(3*many, func(int) string { return "a" }); !slices.Equal(got, want) {
			t.Errorf("twice %v: %d rows, expected %d", twice, len(got), len(want))
		}
	}
}

// A row whose check divides by zero, which is what the fence says no with, is a row that is refused.
func TestStart_DividesByZero(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text, CHECK (1 / (k - 999) <> 5))")
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING"))
	w.copying()
	changes := append(w.upserts(2*many, 3*many, "a"), w.upserts(999, 1000, "a")...)
	wantBlamed(t, w.write(changes...), fmt.Sprint(3*many))
}

// The connection breaks at the message that begins with rows: nothing of it is there, and the checkpoint can be done again.
func TestStart_Broken(t *testing.T) {
	for _, f := range []fault{loseIt, loseAnswer, sendHalf} {
		t.Run(f.String(), func(t *testing.T) {
			e := newEnv(t)
			tb := e.keyed()
			var w wire
			a := e.writer(e.pool(w.through), e.options(), tb)
			a.copying()
			w.mu.Lock()
			w.fault = func(_ int, message []byte) fault {
				if copyBegins(message) {
					return f
				}
				return none
			}
			w.mu.Unlock()
			if err := a.write(a.upserts(2*many, 3*many, "lost")...); sink.ClassOf(err) != sink.ErrTransient {
				t.Errorf("Write: %v", err)
			}
			w.cut()
			b := e.writer(e.pool(nil), e.options(), tb)
			if b.from != 2*many {
				t.Errorf("the successor begins at %d", b.from)
			}
			b.put(b.upserts(2*many, 3*many, "b")...)
			if got := e.one("SELECT count(*) FILTER (WHERE v LIKE 'lost%') || ' ' || count(*) FROM kv"); got != fmt.Sprintf("0 %d", 3*many) {
				t.Error(got)
			}
		})
	}
}

// A trigger that comes while the lane runs fails at the end of the transaction, for a reason that is no fault of a row: Save finds it, and from then on Prepare.
func TestLook_TriggerComesLater(t *testing.T) {
	e := newEnv(t)
	w := e.writer(e.pool(nil), e.options(), e.keyed())
	w.put(w.change(changelog.Insert, num(1), str("a")))
	e.exec(`CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'odd' USING ERRCODE = 'XX001'; END $$;
		CREATE CONSTRAINT TRIGGER odd AFTER INSERT ON kv DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION odd()`)
	for n := range 3 {
		w.at = 1
		if err := w.write(w.change(changelog.Insert, num(2), str("b"))); err != nil {
			t.Fatal(err)
		}
		err, saving := w.prepare(), false
		if err == nil {
			err, saving = w.save(), true
		}
		if sink.ClassOf(err) != sink.ErrTransient || saving != (n == 0) {
			t.Errorf("try %d, in Save %v: %v", n, saving, err)
		}
		w.c.Discard(t.Context())
		w.acquire()
	}
	e.exec("DROP TRIGGER odd ON kv")
	w.put(w.change(changelog.Insert, num(2), str("b")))
	if got := e.one("SELECT count(*) FROM kv"); got != "2" {
		t.Errorf("%s rows", got)
	}
}

// A constraint that can be deferred comes while the lane runs, and rows break it: the first checkpoint finds out with COMMIT, and does not commit; the next ones look
// before, and say what is wrong.
func TestLook_ConstraintComesLater(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	w := e.writer(e.pool(nil), e.options(), tb)
	w.put(w.change(changelog.Insert, num(1), str("a")))
	e.exec("ALTER TABLE kv ADD u text GENERATED ALWAYS AS (v) STORED, ADD CONSTRAINT once UNIQUE (u) DEFERRABLE INITIALLY DEFERRED")
	w.acquire() // the columns are others
	e.exec("ALTER TABLE kv DROP CONSTRAINT once")
	w.put(w.change(changelog.Insert, num(2), str("b")))
	w.acquire()
	w.put(w.change(changelog.Insert, num(3), str("c")))
	e.exec("ALTER TABLE kv ADD CONSTRAINT once UNIQUE (u) DEFERRABLE INITIALLY DEFERRED")
	bad := func() error {
		w.at = 3
		return w.write(w.change(changelog.Insert, num(4), str("c")))
	}
	saved := 0
	var err error
	for range 10 {
		if err := bad(); err != nil {
			t.Fatal(err)
		}
		if err = w.prepare(); err == nil {
			saved++
			if err = w.save(); err == nil {
				t.Fatal("it was saved")
			}
		}
		if sink.ClassOf(err) != sink.ErrTransient {
			break
		}
		if again := w.write(w.change(changelog.Insert, num(5), str("d"))); !errors.Is(err, sink.ErrTransient) || saved > 0 && again == nil && strings.Contains(err.Error(), "next try") {
			t.Errorf("the checkpoint goes on after %v: %v", err, again)
		}
		if got := e.one("SELECT count(*) || ' ' || (SELECT next_offset FROM " + e.own + ".position) FROM kv"); got != "3 3" {
			t.Fatalf("rows and position are %s", got)
		}
		w.c.Discard(t.Context())
		w.acquire()
	}
	if sink.ClassOf(err) != sink.ErrRejected {
		t.Errorf("the last: %v", err)
	}
	if saved > 1 {
		t.Errorf("%d checkpoints went as far as Save", saved)
	}
	w.c.Discard(t.Context())
	w.acquire()
	w.put(w.change(changelog.Insert, num(4), str("d")))
	if got := e.one("SELECT count(*) || ' ' || (SELECT next_offset FROM " + e.own + ".position) FROM kv"); got != "4 4" {
		t.Errorf("rows and position are %s", got)
	}
}

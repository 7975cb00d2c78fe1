package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func (e *env) mode(m postgres.Mode) *postgres.Options {
	o := e.options()
	o.Mode, o.LockTimeout = m, time.Minute
	return o
}

// prefix is what the names of prepared transactions of the bridge begin with, as the names are documented.
func (e *env) prefix() string {
	oid := e.one("SELECT oid FROM pg_database WHERE datname = current_database()")
	sum := sha256.Sum256([]byte("flinksink\x00" + oid + "\x00" + e.own + "\x00bridge\x00target"))
	return "flinksink/bridge/" + hex.EncodeToString(sum[:16]) + "/"
}

// ofBridge lists the prepared transactions of the bridge.
func (e *env) ofBridge() (gids []string) {
	e.t.Helper()
	for _, gid := range e.all("SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, '" + e.prefix() + "')") {
		gids = append(gids, strings.Trim(gid, "()"))
	}
	return gids
}

// leftovers names what is left of a bridge that is settled.
func (e *env) leftovers() []string {
	return append(e.ofBridge(), e.all("SELECT generation, checkpoint, number FROM "+e.own+".staging")...)
}

// undo takes the prepared transactions away that a test leaves, which would lock its tables.
func (e *env) undo() {
	e.t.Cleanup(func() {
		for _, gid := range e.ofBridge() {
			e.exec("ROLLBACK PREPARED '" + gid + "'")
		}
	})
}

func eachMode(t *testing.T, f func(t *testing.T, e *env, m postgres.Mode)) {
	for _, m := range modes {
		t.Run(m.String(), func(t *testing.T) {
			e := newEnv(t)
			e.undo()
			f(t, e, m)
		})
	}
}

// Every message that a lane sends is lost once, and every answer, PREPARE TRANSACTION, COMMIT PREPARED and each statement of a merge among them;
// each time another process takes over. What is decided becomes visible once, and nothing is left behind.
func TestCrash_EveryMessageOfReceipts(t *testing.T) {
	step := 3 // of the messages, another third for each; FLINKSINK_LONG=1: all
	if os.Getenv("FLINKSINK_LONG") != "" {
		step = 1
	}
	for i, m := range modes {
		for j, f := range []fault{loseIt, loseAnswer} {
			for n, more := 1+(2*i+j)%step, true; more; n += step {
				if n > 300 {
					t.Fatal("the scenario does not end")
				}
				more = false
				t.Run(fmt.Sprintf("%v/%v/%d", m, f, n), func(t *testing.T) { more = crashOfReceiptAt(t, m, n, f) })
			}
		}
	}
}

// crashOfReceiptAt reports whether the nth message after the lane's start was sent at all.
func crashOfReceiptAt(t *testing.T, m postgres.Mode, n int, f fault) bool {
	w := &wire{}
	return crashOfReceipt(t, m, w, func() {
		w.sent = 0
		w.fault = func(i int, _ []byte) fault {
			if i == n {
				return f
			}
			return none
		}
	})
}

// crashOfReceipt reports whether the fault of w happened. arm is called after the lane's start.
func crashOfReceipt(t *testing.T, m postgres.Mode, w *wire, arm func()) bool {
	e := newEnv(t)
	tb := e.keyed()
	e.undo()
	c, err := e.lane(e.pool(w.through), "", e.mode(m), tb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	w.mu.Lock()
	arm()
	w.mu.Unlock()
	a := &writer{t: t, ctx: t.Context(), c: c, table: tb}
	err = e.receiptCheckpoints(a)
	if !w.hit {
		if err != nil {
			t.Fatalf("no fault happened, and yet: %v", err)
		}
		return false
	}
	w.cut()
	next := e.writer(e.pool(nil), e.mode(m), tb)
	e.agrees(fmt.Sprint("after the successor's Open, after ", err))
	if err := next.writeTo(30); err != nil {
		t.Fatal(err)
	}
	next.finish()
	e.agrees("after the successor")
	if next.at != 30 {
		t.Errorf("the successor ended at %d", next.at)
	}
	if left := e.leftovers(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return true
}

// receiptCheckpoints runs a lane for two checkpoints, the second with a row of which one column was not sent, so that it is rehearsed, until its
// first failure.
func (e *env) receiptCheckpoints(w *writer) error {
	if err := w.tryAcquire(); err != nil {
		return err
	}
	for end := int64(10); end <= 20; end += 10 {
		if err := w.writeTo(end - 5); err != nil {
			return e.class(err, sink.ErrTransient)
		}
		if err := w.writeTo(end); err != nil {
			return e.class(err, sink.ErrTransient)
		}
		if err := w.prepare(); err != nil {
			if c := sink.ClassOf(err); c != sink.ErrTransient && c != sink.ErrUncertain {
				e.t.Errorf("Prepare: class of %v", err)
			}
			return err
		}
		if err := w.save(); err != nil {
			return err
		}
		if err := w.c.Commit(w.ctx, w.receipt); err != nil {
			if c := sink.ClassOf(err); c != sink.ErrTransient && c != sink.ErrUncertain {
				e.t.Errorf("Commit: class of %v", err)
			}
			return err
		}
	}
	return nil
}

// decide brings a lane to a decided checkpoint that is not committed.
func (e *env) decide(m postgres.Mode, tb *changelog.Table, end int64) *writer {
	e.t.Helper()
	a := e.writer(e.pool(nil), e.mode(m), tb)
	if err := errors.Join(a.writeTo(end), a.prepare()); err != nil {
		e.t.Fatal(err)
	}
	if err := a.save(); err != nil {
		e.t.Fatal(err)
	}
	return a
}

// P38: COMMIT PREPARED says that the name is not there. Where the mark is, somebody committed it: an operator by hand, or this process, whose
// answer was lost. Where it is not, an operator rolled it back, and that is never success. The staged twin: its rows are gone.
func TestCommit_SettledByHand(t *testing.T) {
	for _, by := range []string{"commit", "rollback"} {
		eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
			tb := e.keyed()
			a := e.decide(m, tb, 10)
			switch {
			case m == postgres.Prepared:
				gids := e.ofBridge()
				if len(gids) != 1 {
					t.Fatalf("prepared: %v", gids)
				}
				e.exec(by + " prepared '" + gids[0] + "'")
			case by == "commit": // nobody can do that by hand
				return
			default:
				e.exec("DELETE FROM " + e.own + ".staging")
			}
			for range 2 {
				err := a.c.Commit(t.Context(), a.receipt)
				if by == "commit" {
					if err != nil {
						t.Errorf("Commit after an operator did it: %v", err)
					}
					e.agrees("after an operator committed")
					continue
				}
				if sink.ClassOf(err) != sink.ErrLost || !strings.Contains(err.Error(), "topic:0 from 0 to 9") && !strings.Contains(err.Error(), "from 0 to 9") {
					t.Errorf("Commit after an operator rolled back: %v", err)
				}
			}
			// A successor finds the same.
			c, err := e.lane(e.pool(nil), "", e.mode(m), tb)
			if err != nil {
				t.Fatal(err)
			}
			b := &writer{t: t, ctx: t.Context(), c: c, table: tb}
			if err := b.tryAcquire(); (by == "commit") != (err == nil) || err != nil && sink.ClassOf(err) != sink.ErrLost {
				t.Errorf("Open of the successor after %s by hand: %v", by, err)
			}
		})
	}
}

// P37: names of another database and of another application are left alone, also one that looks like ours; so are those of another bridge, and of the
// same bridge in another schema of flinksink's.
func TestOpen_OnlyItsOwnPrepared(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	e.undo()
	other := e.schema + "_db"
	e.exec("CREATE DATABASE " + other)
	t.Cleanup(func() { e.exec("DROP DATABASE IF EXISTS " + other + " WITH (FORCE)") })
	prepare := func(p *pgxpool.Pool, gid string) {
		t.Helper()
		ctx := t.Context()
		err := p.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
			if _, err := c.Exec(ctx, "BEGIN"); err != nil {
				return err
			}
			if _, err := c.Exec(ctx, "SELECT txid_current()"); err != nil {
				return err
			}
			_, err := c.Exec(ctx, "PREPARE TRANSACTION '"+gid+"'")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Exec(context.Background(), "ROLLBACK PREPARED '"+gid+"'") })
	}
	a := e.writer(e.pool(nil), e.mode(postgres.Prepared), tb) // undecided work of an ended generation
	if err := errors.Join(a.writeTo(10), a.prepare()); err != nil {
		t.Fatal(err)
	}
	mine := e.ofBridge()[0]
	parts := strings.Split(mine, "/")
	elsewhere := e.pool(func(c *pgxpool.Config) { c.ConnConfig.Database = other })
	foreign := []string{mine + "0", strings.Join(append(slices.Clone(parts[:4]), "07"), "/"), "another-application-" + e.schema, "flinksink/bridge/" + strings.Repeat("0", 32) + "/1/" + fmt.Sprint(time.Now().UnixNano())}
	for _, gid := range foreign[1:] {
		prepare(e.pool(nil), gid)
	}
	prepare(elsewhere, foreign[0])
	e.writer(e.pool(nil), e.mode(postgres.Prepared), tb)
	for _, gid := range foreign {
		if e.one("SELECT count(*) FROM pg_prepared_xacts WHERE gid = $1", gid) != "1" {
			t.Errorf("%s is gone", gid)
		}
	}
	if e.one("SELECT count(*) FROM pg_prepared_xacts WHERE gid = $1", mine) != "0" {
		t.Errorf("%s is still there", mine)
	}
}

// P39: changes come while a checkpoint is prepared and not committed, which the coordinator never does. Other keys go on, on a connection of their own;
// a key that the checkpoint wrote waits for it no longer than for any other lock, and not for ever.
func TestWrite_WhilePreparedWaits(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	e.undo()
	o := e.mode(postgres.Prepared)
	o.LockTimeout = time.Second
	a := e.writer(e.pool(nil), o, tb)
	if err := errors.Join(a.write(a.change(changelog.Insert, num(1), str("a"))), a.prepare()); err != nil {
		t.Fatal(err)
	}
	first := a.receipt
	if err := a.save(); err != nil {
		t.Fatal(err)
	}
	if err := a.write(a.change(changelog.Insert, num(2), str("b"))); err != nil {
		t.Errorf("another key: %v", err)
	}
	if err := a.write(a.change(changelog.UpdateAfter, num(1), str("c"))); sink.ClassOf(err) != sink.ErrTransient {
		t.Errorf("the same key: %v", err)
	}
	a.c.Discard(t.Context())
	if err := a.c.Commit(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	a.at = a.from
	a.put(a.change(changelog.UpdateAfter, num(1), str("c")))
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(1,c)"}) {
		t.Errorf("the table is %v", got)
	}
}

// A zombie's PREPARE, or the COMMIT that stages, that is still on its way when its successor opens never takes effect.
func TestPrepare_LateMessage(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		tb := e.keyed()
		w := &wire{}
		a := e.writer(e.pool(w.through), e.mode(m), tb)
		if err := a.writeTo(10); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a.ctx = ctx
		w.mu.Lock()
		w.fault = func(_ int, message []byte) fault {
			if !isCommit(message) && !bytes.Contains(message, []byte("PREPARE TRANSACTION")) {
				return none
			}
			cancel() // the sender gives up once it is on its way
			return holdBack
		}
		w.mu.Unlock()
		if err := a.prepare(); err == nil || !w.hit {
			t.Fatalf("Prepare: %v", err)
		}
		b := e.writer(e.pool(nil), e.mode(m), tb)
		w.late()
		if left := e.leftovers(); len(left) > 0 {
			t.Errorf("the late message left %v", left)
		}
		if err := b.writeTo(20); err != nil {
			t.Fatal(err)
		}
		b.finish()
		e.agrees("after the late message")
	})
}

// The answer to the decision's execution is lost, in both ways, and the same process goes on.
func TestCommit_LostAnswer(t *testing.T) {
	for _, f := range []fault{loseIt, loseAnswer} {
		eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
			tb := e.keyed()
			w := &wire{}
			a := e.writer(e.pool(w.through), e.mode(m), tb)
			if err := errors.Join(a.writeTo(10), a.prepare()); err != nil {
				t.Fatal(err)
			}
			if err := a.save(); err != nil {
				t.Fatal(err)
			}
			w.mu.Lock()
			w.fault = func(_ int, message []byte) fault {
				if isCommit(message) || bytes.Contains(message, []byte("COMMIT PREPARED")) {
					return f
				}
				return none
			}
			w.mu.Unlock()
			err := a.c.Commit(t.Context(), a.receipt)
			if c := sink.ClassOf(err); c != sink.ErrUncertain || !w.hit {
				t.Errorf("%v: Commit whose answer is lost: %v", f, err)
			}
			for range 2 {
				if err := a.c.Commit(t.Context(), a.receipt); err != nil {
					t.Errorf("%v: Commit again: %v", f, err)
				}
				e.agrees(f.String())
			}
		})
	}
}

// InCheckpoint and dead letters are part of what is prepared or merged, also in a checkpoint that has no rows.
func TestReceipts_HookAndLetters(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		tb := e.keyed()
		e.exec("CREATE TABLE outbox (cp bigint PRIMARY KEY, applied bigint)")
		o := e.mode(m)
		calls := 0
		o.InCheckpoint = func(ctx context.Context, tx pgx.Tx, info postgres.Info) error {
			calls++
			_, err := tx.Exec(ctx, "INSERT INTO outbox VALUES ($1, $2)", int64(info.Checkpoint), info.Counters.Applied)
			return err
		}
		a := e.writer(e.pool(nil), o, tb)
		if err := a.writeTo(10); err != nil {
			t.Fatal(err)
		}
		letter := sink.DeadLetter{Partition: part0, Offset: 99, Class: "data", Error: "bad \x00", Key: []byte{}, Value: []byte{1, 0, 255}, Headers: []changelog.Header{{Key: "k\xff", Value: nil}}, Changes: 1}
		if err := a.c.(sink.DeadLetterKeeper).WriteDeadLetters(t.Context(), []sink.DeadLetter{letter}); err != nil {
			t.Fatal(err)
		}
		if err := a.prepare(); err != nil {
			t.Fatal(err)
		}
		if e.one("SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM "+e.own+".dead_letter)") != "0" {
			t.Error("visible before Commit")
		}
		if err := a.save(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := a.c.Commit(t.Context(), a.receipt); err != nil {
				t.Fatal(err)
			}
		}
		a.finish() // without rows
		if got := e.all("SELECT * FROM outbox"); !slices.Equal(got, []string{"(1,7)", "(2,0)"}) {
			t.Errorf("outbox: %v", got)
		}
		if got := e.one("SELECT format('%s %s %s %s %s %s', message_offset, error, key, value, header_keys, header_values) FROM " + e.own + ".dead_letter"); got != `99 bad `+"\ufffd"+` \x \x0100ff {"\\x6bff"} {NULL}` {
			t.Errorf("letter: %s", got)
		}
		if calls != 2 {
			t.Errorf("%d calls", calls)
		}
		if m != postgres.Staged {
			return
		}
		// A program without the function must not commit without it.
		if err := errors.Join(a.writeTo(20), a.prepare()); err != nil {
			t.Fatal(err)
		}
		if err := a.save(); err != nil {
			t.Fatal(err)
		}
		b, err := e.lane(e.pool(nil), "", e.mode(m), tb)
		if err != nil {
			t.Fatal(err)
		}
		wantConfig(t, b.Commit(t.Context(), a.receipt), "InCheckpoint")
		if err := a.c.Commit(t.Context(), a.receipt); err != nil {
			t.Fatal(err)
		}
		e.agrees("after the right program committed")
	})
}

// A bridge changes its mode with a restart, with work of every kind left behind by the mode before.
func TestOpen_ModeChanges(t *testing.T) {
	all := []postgres.Mode{postgres.InTransaction, postgres.Prepared, postgres.Staged}
	e := newEnv(t)
	tb := e.keyed()
	e.undo()
	end := int64(0)
	for _, from := range all {
		for _, to := range all {
			for _, decided := range []bool{false, true} {
				a := e.writer(e.pool(nil), e.mode(from), tb)
				end += 5
				if err := errors.Join(a.writeTo(end), a.prepare()); err != nil {
					t.Fatal(err)
				}
				if decided {
					if err := a.save(); err != nil {
						t.Fatal(err)
					}
				}
				b := e.writer(e.pool(nil), e.mode(to), tb)
				what := fmt.Sprintf("from %v to %v, decided %v", from, to, decided)
				e.agrees(what)
				if decided != (b.from == end) {
					t.Errorf("%s: it begins at %d, the end was %d", what, b.from, end)
				}
				end += 5
				if err := b.writeTo(end); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				b.finish()
				e.agrees(what + ", after the next checkpoint")
				if e.one("SELECT to_regclass('"+e.own+".staging') IS NOT NULL") == "true" && len(e.leftovers()) > 0 {
					t.Errorf("%s: left behind: %v", what, e.leftovers())
				}
			}
		}
	}
}

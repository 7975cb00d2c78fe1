package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

func (e *env) keyed() *changelog.Table {
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text)")
	return table(e.t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING")
}

// history is a topic: change n is at offset n. Keys come again, rows go and come back.
func history(n int64) changelog.Change {
	c := changelog.Change{Partition: part0, Offset: n, Kind: changelog.UpdateAfter, Row: changelog.Row{num(n % 7), str(fmt.Sprint("v", n))}}
	if n%5 == 3 {
		c.Kind, c.KeyOnly, c.Row = changelog.Delete, true, changelog.Row{num(n % 7), {}}
	}
	return c
}

// tableAfter is the table after the first n changes, told by a plain map.
func tableAfter(n int64) []string {
	rows := map[int64]string{}
	for i := range n {
		if c := history(i); c.Kind == changelog.Delete {
			delete(rows, c.Row[0].Int())
		} else {
			rows[c.Row[0].Int()] = c.Row[1].Str()
		}
	}
	var out []string
	for k, v := range rows {
		out = append(out, fmt.Sprintf("(%d,%s)", k, v))
	}
	slices.Sort(out)
	return out
}

// writeTo writes on with the history up to offset end.
func (w *writer) writeTo(end int64) error {
	var cs []changelog.Change
	for ; w.at < end; w.at++ {
		cs = append(cs, history(w.at))
	}
	return w.write(cs...)
}

// agrees checks that the table holds exactly what the stored position says.
func (e *env) agrees(what string) {
	e.t.Helper()
	at := e.one("SELECT next_offset FROM " + e.own + ".position WHERE partition = 0")
	if at == "NULL" {
		at = "0"
	}
	var n int64
	fmt.Sscan(at, &n)
	if got, want := e.all("SELECT * FROM kv"), tableAfter(n); !slices.Equal(got, want) {
		e.t.Errorf("%s: the stored position is %d, so the table should be\n%v, and is\n%v", what, n, want, got)
	}
}

// Every message that a lane sends is lost once, and every answer; each time another process takes over. Rows and positions agree at
// every moment, and what End says is so.
func TestCrash_EveryMessage(t *testing.T) {
	for _, f := range []fault{loseIt, loseAnswer} {
		for n, more := 1, true; more; n++ {
			if n > 200 {
				t.Fatal("the scenario does not end")
			}
			more = false
			t.Run(fmt.Sprintf("%v/%d", f, n), func(t *testing.T) { more = crashAt(t, n, f) })
		}
	}
}

// crashAt reports whether the nth message was sent at all.
func crashAt(t *testing.T, n int, f fault) bool {
	return crash(t, &wire{fault: func(i int, _ []byte) fault {
		if i == n {
			return f
		}
		return none
	}})
}

// crash reports whether the fault of w happened.
func crash(t *testing.T, w *wire) bool {
	e := newEnv(t)
	tb := e.keyed()
	err := e.twoCheckpoints(e.pool(w.through), tb)
	e.agrees2(fmt.Sprint("after ", err))
	if !w.hit {
		if err != nil {
			t.Fatalf("no fault happened, and yet: %v", err)
		}
		return false
	}
	w.cut()
	next := e.writer(e.pool(nil), e.options(), tb)
	if err := next.writeTo(40); err != nil {
		t.Fatal(err)
	}
	next.finish()
	e.agrees("after the successor")
	if next.at != 40 {
		t.Errorf("the successor ended at %d", next.at)
	}
	return true
}

// The connection breaks after any byte, of what a lane sends and of what it is answered, in each mode: some of them, each time others. The name of a subtest
// tells the byte.
func TestCrash_AnyByte(t *testing.T) {
	newEnv(t) // skips where there is no server
	some := 4
	if os.Getenv("FLINKSINK_LONG") != "" {
		some = 60
	}
	for _, m := range []postgres.Mode{postgres.InTransaction, postgres.Prepared, postgres.Staged} {
		again := func(t *testing.T, way, at int) (w *wire, hit bool) {
			w = &wire{}
			arm := func() {
				w.bytes = [2]int{}
				w.cutAt[way] = at
			}
			if m == postgres.InTransaction {
				arm()
				return w, crash(t, w)
			}
			return w, crashOfReceipt(t, m, w, arm)
		}
		var whole *wire
		if !t.Run(m.String(), func(t *testing.T) { whole, _ = again(t, toServer, 0) }) {
			return
		}
		for way, name := range []string{"to the server", "from the server"} {
			for range some {
				at := 1 + rand.IntN(max(1, whole.bytes[way]))
				t.Run(fmt.Sprintf("%v/%s/%d of %d", m, name, at, whole.bytes[way]), func(t *testing.T) {
					if _, hit := again(t, way, at); !hit && at < whole.bytes[way]*9/10 { // the number of bytes differs a little each time
						t.Error("it was not reached")
					}
				})
			}
		}
	}
}

// agrees2 is agrees where the tables may not be there yet.
func (e *env) agrees2(what string) {
	if e.one("SELECT to_regclass('"+e.own+".position') IS NOT NULL") == "true" {
		e.agrees(what)
	}
}

// twoCheckpoints runs a lane until its first failure, which it settles by End where it is unclear.
func (e *env) twoCheckpoints(p *pgxpool.Pool, tb *changelog.Table) error {
	c, err := e.lane(p, "", e.options(), tb)
	if err != nil {
		return err
	}
	w := &writer{t: e.t, ctx: e.t.Context(), c: c, table: tb}
	e.t.Cleanup(func() { c.Close(context.Background()) })
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
			return e.class(err, sink.ErrTransient)
		}
		cp := w.cp + 1
		if err := w.save(); err != nil {
			last, endErr := w.store().End(e.t.Context(), w.claim.Generation)
			if endErr != nil {
				e.t.Errorf("End after %v: %v", err, endErr)
			}
			saved := e.one("SELECT coalesce(max(next_offset), 0) FROM "+e.own+".position") == fmt.Sprint(end)
			switch {
			case saved != (last == cp):
				e.t.Errorf("End says checkpoint %d, and the position is saved: %v", last, saved)
			case errors.Is(err, sink.ErrTransient) && saved:
				e.t.Errorf("Save was refused for certain, and yet it is saved: %v", err)
			case !errors.Is(err, sink.ErrTransient) && !errors.Is(err, sink.ErrUncertain):
				e.t.Errorf("Save: class of %v", err)
			}
			return err
		}
	}
	return c.Close(e.t.Context())
}

func (e *env) class(err, want error) error {
	e.t.Helper()
	if sink.ClassOf(err) != want {
		e.t.Errorf("expected class %q: %v", want, err)
	}
	return err
}

// The answer to COMMIT is lost, in both ways: End then knows.
func TestSave_LostAnswer(t *testing.T) {
	for name, f := range map[string]fault{"the request": loseIt, "the answer": loseAnswer} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			tb := e.keyed()
			var w wire
			a := e.writer(e.pool(w.through), e.options(), tb)
			if err := errors.Join(a.writeTo(10), a.prepare()); err != nil {
				t.Fatal(err)
			}
			w.onCommit(f)
			if err := a.save(); sink.ClassOf(err) != sink.ErrUncertain {
				t.Fatalf("a lost answer to COMMIT is uncertain: %v", err)
			}
			for range 2 { // it may be repeated
				last, err := a.store().End(t.Context(), a.claim.Generation)
				if err != nil {
					t.Fatal(err)
				}
				if want := sink.CheckpointID(map[fault]int{loseIt: 0, loseAnswer: 1}[f]); last != want {
					t.Errorf("End says %d, expected %d", last, want)
				}
			}
			e.agrees(name)
			a.acquire()
			if want := map[fault]int64{loseIt: 0, loseAnswer: 10}[f]; a.from != want {
				t.Errorf("acquired again at %d, expected %d", a.from, want)
			}
		})
	}
}

// A COMMIT that is still on its way when its sender gives up must not arrive after End, nor after a successor's Acquire.
func TestSave_LateCommit(t *testing.T) {
	for _, by := range []string{"End", "Acquire"} {
		t.Run(by, func(t *testing.T) {
			e := newEnv(t)
			tb := e.keyed()
			var w wire
			a := e.writer(e.pool(w.through), e.options(), tb)
			if err := errors.Join(a.writeTo(10), a.prepare()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w.mu.Lock()
			w.fault = func(_ int, message []byte) fault {
				if !isCommit(message) {
					return none
				}
				cancel() // the sender gives up once it is on its way
				return holdBack
			}
			w.mu.Unlock()
			err := a.store().Save(ctx, a.claim.Generation, a.checkpoint())
			if sink.ClassOf(err) != sink.ErrUncertain || !errors.Is(err, context.Canceled) {
				t.Fatalf("Save: %v", err)
			}
			if by == "End" {
				last, err := a.store().End(t.Context(), a.claim.Generation)
				if err != nil || last != 0 {
					t.Fatalf("End says %d, %v", last, err)
				}
			} else {
				b := e.writer(e.pool(nil), e.options(), tb)
				if b.from != 0 {
					t.Fatalf("the successor begins at %d", b.from)
				}
			}
			w.late()
			e.agrees("after the late COMMIT")
			if got := e.all("SELECT * FROM kv"); len(got) > 0 {
				t.Errorf("the late COMMIT took effect: %v", got)
			}
		})
	}
}

// The backend of a lane is ended at each step by an administrator: the checkpoint is done again from the saved position.
func TestLane_BackendTerminated(t *testing.T) {
	for step := range 3 {
		e := newEnv(t)
		tb := e.keyed()
		a := e.writer(e.pool(nil), e.options(), tb)
		if err := a.writeTo(10); err != nil {
			t.Fatal(err)
		}
		a.finish()
		kill := func(at int) {
			if at == step {
				e.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query NOT LIKE '%pg_stat_activity%' AND pid IN (SELECT pid FROM pg_locks WHERE relation = '" + e.schema + ".kv'::regclass)")
			}
		}
		err := a.writeTo(15)
		kill(0)
		if err == nil {
			err = a.writeTo(20)
		}
		kill(1)
		if err == nil {
			err = a.prepare()
		}
		kill(2)
		if err == nil {
			err = a.save()
		}
		if sink.ClassOf(err) != sink.ErrTransient {
			t.Fatalf("step %d: expected a transient error: %v", step, err)
		}
		if err := a.write(history(20)); err == nil {
			t.Errorf("step %d: the checkpoint goes on after a failure", step)
		}
		a.c.Discard(t.Context())
		a.acquire()
		if a.from != 10 {
			t.Errorf("step %d: acquired again at %d", step, a.from)
		}
		if err := a.writeTo(30); err != nil {
			t.Fatal(err)
		}
		a.finish()
		e.agrees(fmt.Sprint("step ", step))
	}
}

// A process that was stopped in the middle of its transaction holds locks on the rows that its successor writes. When it wakes and writes, in that
// transaction or a new one, the successor's rows stay what they are (P33).
func TestAcquire_ZombieHoldsRowLocks(t *testing.T) {
	for _, prepared := range []bool{false, true} {
		e := newEnv(t)
		tb := e.keyed()
		a := e.writer(e.pool(nil), e.options(), tb)
		a.put(a.change(changelog.Insert, num(1), str("old")))
		if err := a.write(a.change(changelog.UpdateAfter, num(1), str("zombie")), a.change(changelog.Insert, num(2), str("zombie"))); err != nil {
			t.Fatal(err)
		}
		if prepared {
			if err := a.prepare(); err != nil {
				t.Fatal(err)
			}
		}
		b := e.writer(e.pool(nil), e.options(), tb)
		b.put(b.change(changelog.UpdateAfter, num(1), str("new")), b.change(changelog.Insert, num(2), str("new")))
		if err := a.write(a.change(changelog.UpdateAfter, num(1), str("zombie"))); sink.ClassOf(err) != sink.ErrFenced {
			t.Errorf("Write of the zombie: %v", err)
		}
		if err := a.save(); sink.ClassOf(err) != sink.ErrFenced {
			t.Errorf("Save of the zombie: %v", err)
		}
		a.c.Discard(t.Context())
		if err := a.write(a.change(changelog.UpdateAfter, num(1), str("zombie"))); sink.ClassOf(err) != sink.ErrFenced {
			t.Errorf("Write of the zombie in a new transaction: %v", err)
		}
		if got, want := e.all("SELECT * FROM kv"), []string{"(1,new)", "(2,new)"}; !slices.Equal(got, want) {
			t.Errorf("the table is %v", got)
		}
	}
}

// Where the role may not end the zombie's backend, Acquire gives up after the lock timeout and says what to do.
func TestAcquire_MayNotTerminate(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	role := e.schema + "_role"
	e.exec("CREATE ROLE " + role + " LOGIN")
	t.Cleanup(func() { e.exec("DROP OWNED BY " + role); e.exec("DROP ROLE " + role) })
	a := e.writer(e.pool(nil), e.options(), tb) // a superuser
	if err := a.writeTo(3); err != nil {
		t.Fatal(err)
	}
	e.exec("GRANT USAGE ON SCHEMA " + e.schema + ", " + e.own + " TO " + role)
	e.exec("GRANT ALL ON ALL TABLES IN SCHEMA " + e.schema + " TO " + role)
	e.exec("GRANT ALL ON ALL TABLES IN SCHEMA " + e.own + " TO " + role)
	o := e.options()
	o.LockTimeout = 500 * time.Millisecond
	b := e.patientLane(e.pool(func(c *pgxpool.Config) { c.ConnConfig.User = role }), o, tb)
	err := b.tryAcquire()
	for ended(err) {
		err = b.tryAcquire()
	}
	if sink.ClassOf(err) != sink.ErrTransient || !strings.Contains(err.Error(), "pg_signal_backend") || !strings.Contains(err.Error(), "42501") {
		t.Errorf("Acquire: %v", err)
	}
	a.finish() // it was not disturbed
	err = b.tryAcquire()
	for sink.ClassOf(err) == sink.ErrTransient {
		err = b.tryAcquire()
	}
	if err != nil || b.from != 3 {
		t.Errorf("acquired at %d: %v", b.from, err)
	}
}

// An Acquire that is refused disturbs nobody, although it came from a process that would have liked to end the owner.
func TestAcquire_LateDisturbsNobody(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	a := e.writer(e.pool(nil), e.options(), tb)
	again, err := a.store().Acquire(t.Context(), sink.AcquireRequest{Bridge: "bridge", Fingerprint: "f", Partitions: []changelog.Partition{part0}, GroupGeneration: 7})
	if err != nil {
		t.Fatal(err)
	}
	a.claim = again
	if err := errors.Join(a.c.Open(t.Context(), again), a.writeTo(5)); err != nil {
		t.Fatal(err)
	}
	b, err := e.lane(e.pool(nil), "", e.options(), tb)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []sink.AcquireRequest{
		{Fingerprint: "f", GroupGeneration: 6},
		{Fingerprint: "f", GroupGeneration: 6, GroupRestarted: 8},
		{Fingerprint: "another", GroupGeneration: 8},
	} {
		r.Bridge, r.Partitions = "bridge", []changelog.Partition{part0}
		if _, err := b.(sink.Store).Acquire(t.Context(), r); err == nil {
			t.Errorf("%+v was accepted", r)
		}
	}
	a.finish()
	e.agrees("after refused Acquires")
}

// A deferred constraint is checked by Prepare, so that COMMIT does not fail.
func TestPrepare_DeferredConstraint(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	e.exec("CREATE TABLE parent (v text PRIMARY KEY); ALTER TABLE kv ADD FOREIGN KEY (v) REFERENCES parent DEFERRABLE INITIALLY DEFERRED")
	a := e.writer(e.pool(nil), e.options(), tb)
	if err := a.write(a.change(changelog.Insert, num(1), str("orphan"))); err != nil {
		t.Fatal(err)
	}
	// The row that it refers to may be on its way, so the checkpoint is done again a few times before it is called rejected.
	var err error
	for tries := 1; ; tries++ {
		err = a.prepare()
		if err := a.save(); err == nil {
			t.Fatal("Save after a failed Prepare succeeded")
		}
		if sink.ClassOf(err) != sink.ErrTransient || tries > 10 {
			break
		}
		a.c.Discard(t.Context())
		a.acquire()
		if err := a.write(a.change(changelog.Insert, num(2), null), a.change(changelog.Insert, num(1), str("orphan"))); err != nil {
			t.Fatal(err)
		}
	}
	wantBlamed(t, err, "1")
	if strings.Contains(err.Error(), "orphan") {
		t.Errorf("Prepare: %v", err)
	}
}

// The server may close a transaction that idles for too long; the checkpoint is done again.
func TestLane_IdleTimeout(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	o := e.options()
	o.IdleTimeout = 200 * time.Millisecond
	a := e.writer(e.pool(nil), o, tb)
	a.start(5)
	e.untilUnlocked("kv")
	if err := a.end(); sink.ClassOf(err) != sink.ErrTransient {
		t.Errorf("the end: %v", err)
	}
}

// untilUnlocked waits until no transaction holds locks on a table.
func (e *env) untilUnlocked(table string) {
	e.t.Helper()
	for e.one("SELECT count(*) FROM pg_locks WHERE relation = '"+e.schema+"."+table+"'::regclass") != "0" {
		if e.t.Context().Err() != nil {
			e.t.Fatal("the transaction stays open")
		}
		time.Sleep(5 * time.Millisecond) // the server tells nobody that it ended a session
	}
}

// Without a free connection a lane says so instead of waiting for ever; with its context it ends at once.
func TestLane_NoConnection(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	p := e.pool(func(c *pgxpool.Config) { c.MaxConns = 1 })
	a := e.writer(p, e.options(), tb)
	busy, err := p.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the test is over")
	cancel(why)
	a.ctx = ctx
	if err := a.writeTo(5); sink.ClassOf(err) != sink.ErrTransient || !errors.Is(err, context.Canceled) {
		t.Errorf("Write: %v", err)
	}
	busy.Release()
	a.ctx = t.Context()
	a.c.Discard(a.ctx)
	a.at = 0
	if err := a.writeTo(5); err != nil {
		t.Fatal(err)
	}
	a.finish()
	e.agrees("after waiting")
}

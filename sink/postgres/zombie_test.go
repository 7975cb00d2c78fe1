package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// stopped starts a lane that writes row 1, and is stopped in the middle of the message that does it: the server waits for the rest, for as long as the
// transaction may take. false: that was too short for what comes before.
func (e *env) stopped(tb *changelog.Table, w *wire, user string, timeout time.Duration) bool {
	e.t.Helper()
	o := e.options()
	o.TransactionTimeout = timeout
	a := e.writer(e.pool(func(c *pgxpool.Config) {
		w.through(c)
		if user != "" {
			c.ConnConfig.User = user
		}
	}), o, tb)
	err := a.write(a.change(changelog.Insert, num(1), str("old")))
	if err == nil {
		err = a.prepare()
	}
	if err == nil {
		err = a.save()
	}
	if err == nil {
		err = a.write(a.change(changelog.UpdateAfter, num(1), str("zombie")))
	}
	if err != nil {
		if c := sink.ClassOf(err); c != sink.ErrTransient && c != sink.ErrUncertain {
			e.t.Fatal(err)
		}
		return false
	}
	ctx, cancel := context.WithCancel(e.t.Context())
	a.ctx = ctx
	w.mu.Lock()
	w.fault = func(_ int, m []byte) fault {
		if strings.Contains(string(m), "INSERT INTO") {
			cancel() // for this process it ends here; for the server it goes on
			return sendHalf
		}
		return none
	}
	w.mu.Unlock()
	if err := a.write(a.change(changelog.Insert, num(2), str("zombie"))); !errors.Is(err, context.Canceled) || !w.hit {
		if sink.ClassOf(err) != sink.ErrTransient || w.hit {
			e.t.Fatalf("the zombie was not stopped in its message: %v", err)
		}
		return false
	}
	return true
}

// takesOver acquires until it succeeds, and writes the rows that the zombie had locked.
func (e *env) takesOver(p *pgxpool.Pool, tb *changelog.Table, lockTimeout time.Duration, refused func(error)) {
	e.t.Helper()
	o := e.options()
	o.LockTimeout = lockTimeout
	b := e.patientLane(p, o, tb)
	for err := b.tryAcquire(); err != nil; err = b.tryAcquire() {
		if sink.ClassOf(err) != sink.ErrTransient {
			e.t.Fatal(err)
		}
		if !ended(err) { // its own transaction, on a busy machine
			refused(err)
		}
	}
	b.put(b.change(changelog.UpdateAfter, num(1), str("new")), b.change(changelog.Insert, num(2), str("new")))
	if got, want := e.all("SELECT * FROM kv"), []string{"(1,new)", "(2,new)"}; !slices.Equal(got, want) {
		e.t.Errorf("the table is %v", got)
	}
}

// A process that was stopped in the middle of a message is ended by its successor at once.
func TestAcquire_ZombieWithinAMessage(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	if !e.stopped(tb, &wire{}, "", 10*time.Minute) {
		t.Fatal("the transaction was ended before it had its time")
	}
	e.takesOver(e.pool(nil), tb, time.Minute, func(err error) { t.Errorf("not at the first try: %v", err) })
}

// A successor that may not end the zombie's server process gets through when the zombie's transaction has had its time, although the server is
// in the middle of a message and not idle.
func TestAcquire_ZombieThatNobodyMayEnd(t *testing.T) {
	if v, _ := strconv.Atoi(newEnv(t).one("SELECT current_setting('server_version_num')")); v < 170000 {
		t.Skipf("the server is of version %d: transaction_timeout came with Postgres 17", v)
	}
	// On a busy machine the zombie may be gone before its successor comes, which proves nothing: then it is given longer.
	for timeout := 3 * time.Second; !zombieThatNobodyMayEnd(t, newEnv(t), timeout); timeout *= 2 {
		if timeout > 5*time.Minute {
			t.Fatalf("no successor came within %v", timeout)
		}
	}
}

// zombieThatNobodyMayEnd reports false when the zombie was not there any more.
func zombieThatNobodyMayEnd(t *testing.T, e *env, timeout time.Duration) bool {
	tb := e.keyed()
	if _, err := e.lane(e.pool(nil), "", e.options(), tb); err != nil { // makes the tables
		t.Fatal(err)
	}
	roles := []string{e.schema + "_a", e.schema + "_b"}
	for _, role := range roles {
		e.exec("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + e.schema + ", " + e.own + " TO " + role +
			"; GRANT ALL ON ALL TABLES IN SCHEMA " + e.schema + ", " + e.own + " TO " + role)
		t.Cleanup(func() { e.exec("DROP OWNED BY " + role); e.exec("DROP ROLE " + role) })
	}
	if !e.stopped(tb, &wire{}, roles[0], timeout) {
		return false
	}
	tries := 0
	e.takesOver(e.pool(func(c *pgxpool.Config) { c.ConnConfig.User = roles[1] }), tb, 500*time.Millisecond, func(err error) {
		tries++
		if !strings.Contains(err.Error(), "pg_signal_backend") || !strings.Contains(err.Error(), "Options.TransactionTimeout") {
			t.Error(err)
		}
	})
	return tries > 0
}

// A process that was stopped within Acquire, where it holds the bridge's row, and within End, keeps nobody waiting for longer than that
// transaction may idle, whoever it is.
func TestAcquire_ZombieWithinAcquire(t *testing.T) {
	for _, what := range []string{"UPDATE", "RETURNING", "COMMIT"} { // a statement after the row was locked; its end
		t.Run(what, func(t *testing.T) {
			e := newEnv(t)
			tb := e.keyed()
			w := &wire{}
			o := e.options()
			o.LockTimeout = 2 * time.Second
			a := e.patientWriter(e.pool(func(c *pgxpool.Config) {
				w.through(c)
				c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // each message holds its statement
			}), o, tb)
			a.put(a.change(changelog.Insert, num(1), str("old")))
			ctx, cancel := context.WithCancel(t.Context())
			a.ctx = ctx
			locked := false
			w.mu.Lock()
			w.fault = func(_ int, m []byte) fault {
				if locked && strings.Contains(string(m), what) {
					cancel()
					return holdBack
				}
				locked = locked || strings.Contains(string(m), "FOR UPDATE")
				return none
			}
			w.mu.Unlock()
			err := a.tryAcquire()
			for ended(err) && !w.hit {
				locked = false
				err = a.tryAcquire()
			}
			if !errors.Is(err, context.Canceled) || !w.hit {
				t.Fatalf("the zombie was not stopped within Acquire: %v", err)
			}
			e.takesOver(e.pool(nil), tb, time.Minute, func(err error) { t.Errorf("not at the first try: %v", err) })
			w.late()
			if got := e.one("SELECT count(*) FROM " + e.own + ".generation WHERE NOT ended"); got != "1" {
				t.Errorf("%s generations live after the late message", got)
			}
		})
	}
}

// A checkpoint that takes longer than it may is done again.
func TestLane_TransactionTooLong(t *testing.T) {
	e := newEnv(t)
	if v, _ := strconv.Atoi(e.one("SELECT current_setting('server_version_num')")); v < 170000 {
		t.Skipf("the server is of version %d: transaction_timeout came with Postgres 17", v)
	}
	tb := e.keyed()
	o := e.options()
	o.TransactionTimeout = 300 * time.Millisecond
	a := e.patientWriter(e.pool(nil), o, tb)
	a.start(5)
	e.untilUnlocked("kv")
	if err := a.end(); sink.ClassOf(err) != sink.ErrTransient {
		t.Errorf("the end: %v", err)
	}
	a.c.Discard(t.Context())
	a.acquireAgain()
	a.carry(5)
	e.agrees("after it was done again")
}

package postgres_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	server "github.com/flinksink/flinksink/testbed/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file takes the primary away from under a lane, and promotes its hot standby.

// pair is a primary and its standby. Pools of e name both, and take the one that can write, as the docs say.
type pair struct {
	t                *testing.T
	e                *env
	primary, standby *server.Server
	standbyPool      *pgxpool.Pool
}

func newPair(t *testing.T) *pair {
	t.Helper()
	primary, e := ownServer(t, nil)
	e.admin.Close()
	standby, err := primary.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	p := &pair{t: t, e: e, primary: primary, standby: standby}
	t.Setenv(dsnVariable, standby.DSN())
	p.standbyPool = e.direct(nil)
	a, errA := url.Parse(primary.DSN())
	b, errB := url.Parse(standby.DSN())
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	t.Setenv(dsnVariable, fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable&target_session_attrs=read-write", a.Host, b.Host))
	e.admin = e.direct(nil)
	return p
}

// fail kills the primary and promotes the standby.
func (p *pair) fail() {
	p.t.Helper()
	if err := p.primary.Kill(); err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.standbyPool.Exec(p.t.Context(), "SELECT pg_promote()"); err != nil {
		p.t.Fatal(err)
	}
	p.e.admin.Reset()
}

func (p *pair) caughtUp() {
	p.t.Helper()
	if err := p.standby.CaughtUp(p.t.Context(), p.primary); err != nil {
		p.t.Fatal(err)
	}
}

// again does what a coordinator does after a failure, until it is through.
func (p *pair) again(w *writer, do func() error) {
	p.t.Helper()
	for tries := 1; ; tries++ {
		err := do()
		if err == nil {
			return
		}
		if c := sink.ClassOf(err); c != sink.ErrTransient && c != sink.ErrUncertain || tries > 10 {
			p.t.Fatalf("try %d: %v", tries, err)
		}
	}
}

// eachOfAll runs f for each mode, or for some of them where FLINKSINK_LONG is not set: each has two servers of its own.
func eachOfAll(t *testing.T, some []postgres.Mode, f func(t *testing.T, m postgres.Mode)) {
	if os.Getenv("FLINKSINK_LONG") != "" {
		some = []postgres.Mode{postgres.InTransaction, postgres.Prepared, postgres.Staged}
	}
	for _, m := range some {
		t.Run(m.String(), func(t *testing.T) { f(t, m) })
	}
}

// A hot standby is refused at the start. When it is promoted, with a checkpoint that was decided and not yet committed, nothing is lost and nothing comes
// twice, and the lane that was there goes on with the pool that it has.
func TestFailover_NothingLost(t *testing.T) {
	eachOfAll(t, []postgres.Mode{postgres.Prepared}, func(t *testing.T, m postgres.Mode) {
		p := newPair(t)
		e := p.e
		tb := e.keyed()
		w := e.writer(e.pool(nil), e.mode(m), tb)
		if err := errors.Join(w.writeTo(10), w.prepare()); err != nil {
			t.Fatal(err)
		}
		if err := w.save(); err != nil {
			t.Fatal(err)
		}
		p.caughtUp()
		_, err := e.lane(p.standbyPool, "", e.mode(m), tb)
		wantConfig(t, err, "read-only", "target_session_attrs=read-write")
		p.fail()
		p.again(w, func() error { return w.c.Commit(t.Context(), w.receipt) })
		e.agrees("promoted")
		p.again(w, func() error {
			w.at = 10
			if err := w.writeTo(20); err != nil {
				w.c.Discard(t.Context())
				return errors.Join(err, w.tryAcquire())
			}
			return nil
		})
		if w.from != 10 {
			t.Errorf("it goes on at %d", w.from)
		}
		w.finish()
		e.agrees("it went on")
		if m != postgres.InTransaction {
			if left := e.leftovers(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		}
	})
}

// The standby lacks the last checkpoints: rows and positions have gone back together, and the lane goes on where they are.
func TestFailover_LostCommits(t *testing.T) {
	eachOfAll(t, []postgres.Mode{postgres.InTransaction}, func(t *testing.T, m postgres.Mode) {
		p := newPair(t)
		e := p.e
		tb := e.keyed()
		w := e.writer(e.pool(nil), e.mode(m), tb)
		w.put(w.history(10)...)
		p.caughtUp()
		ctx := t.Context()
		for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
			if _, err := p.standbyPool.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
		for following := true; following; time.Sleep(10 * time.Millisecond) { // the server tells nobody
			if err := p.standbyPool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_wal_receiver)").Scan(&following); err != nil {
				t.Fatal(err)
			}
		}
		w.put(w.history(10)...)
		e.agrees("on the primary")
		p.fail()
		e.agrees("promoted")
		if err := w.writeTo(30); err == nil {
			t.Error("the lane did not notice")
		}
		w.c.Discard(ctx)
		p.again(w, w.tryAcquire)
		if w.from != 10 {
			t.Errorf("it goes on at %d, and 10 is what the new primary has", w.from)
		}
		if err := w.writeTo(30); err != nil {
			t.Fatal(err)
		}
		w.finish()
		e.agrees("it went on")
	})
}

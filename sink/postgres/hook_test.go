package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5"
)

// hooked starts a lane with a function in its checkpoints, and a table of the user's own.
func (e *env) hooked(f func(ctx context.Context, tx pgx.Tx, info postgres.Info) error) *writer {
	e.t.Helper()
	e.exec("CREATE TABLE mine (checkpoint bigint, upto bigint CHECK (upto <> 13), applied bigint, superseded bigint)")
	o := e.options()
	o.InCheckpoint = f
	return e.writer(e.pool(nil), o, e.keyed())
}

func note(ctx context.Context, tx pgx.Tx, info postgres.Info) error {
	_, err := tx.Exec(ctx, "INSERT INTO mine VALUES ($1, $2, $3, $4)", info.Checkpoint, info.To[0].Offset, info.Counters.Applied, info.Counters.Superseded)
	return err
}

// Its rows become visible with the checkpoint's, once, and with the positions only; also of a checkpoint that has no rows.
func TestInCheckpoint_WithTheCheckpoint(t *testing.T) {
	e := newEnv(t)
	called := 0
	var seen postgres.Info
	w := e.hooked(func(ctx context.Context, tx pgx.Tx, info postgres.Info) error {
		called++
		seen = info
		var n int
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM kv WHERE v = 'v19'").Scan(&n); err != nil {
			return err
		}
		if n != 1 && info.To[0].Offset == 20 {
			return fmt.Errorf("the rows of the checkpoint are not there")
		}
		return note(ctx, tx, info)
	})
	if err := errors.Join(w.writeTo(20), w.prepare()); err != nil {
		t.Fatal(err)
	}
	if got := e.all("SELECT * FROM mine"); len(got) > 0 {
		t.Errorf("visible before Save: %v", got)
	}
	if err := w.save(); err != nil {
		t.Fatal(err)
	}
	if seen.Bridge != "bridge" || seen.Generation != w.claim.Generation.ID || len(seen.From) != 1 || seen.From[0].Offset != 0 {
		t.Errorf("%+v", seen)
	}
	if err := errors.Join(w.writeTo(25), w.prepare(), w.c.Discard(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.acquire()
	w.at = 30 // only messages without a change
	w.finish()
	if got, want := e.all("SELECT * FROM mine"), []string{"(1,20,7,13)", "(1,30,10,0)"}; !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	if called != 3 {
		t.Errorf("called %d times", called)
	}
}

// Every message of a checkpoint is lost once: its rows, the user's and the position agree.
func TestInCheckpoint_EveryMessageLost(t *testing.T) {
	for _, f := range []fault{loseIt, loseAnswer} {
		for n, more := 1, true; more; n++ {
			if n > 100 {
				t.Fatal("the scenario does not end")
			}
			e := newEnv(t)
			e.exec("CREATE TABLE mine (checkpoint bigint, upto bigint, applied bigint, superseded bigint)")
			w := &wire{}
			o := e.options()
			o.InCheckpoint = note
			a := e.writer(e.pool(w.through), o, e.keyed())
			from := w.sent
			w.fault = func(i int, _ []byte) fault {
				if i == from+n {
					return f
				}
				return none
			}
			err := errors.Join(a.writeTo(10), a.prepare())
			if err == nil {
				err = a.save()
			}
			if more = w.hit; more == (err == nil) {
				t.Fatalf("%v %d: hit %v, %v", f, n, w.hit, err)
			}
			if c := sink.ClassOf(err); more && c != sink.ErrTransient && c != sink.ErrUncertain {
				t.Errorf("%v %d: %v", f, n, err)
			}
			w.cut()
			next := e.writer(e.pool(nil), e.options(), e.anyTable())
			if got, want := e.one("SELECT coalesce(max(upto), 0) FROM mine"), fmt.Sprint(next.from); got != want {
				t.Errorf("%v %d: the position is %s, and the user's row says %s", f, n, want, got)
			}
			e.agrees(fmt.Sprint(f, n))
		}
	}
}

// What goes wrong in it aborts the checkpoint, with a class and a cure, and nobody blames a change.
func TestInCheckpoint_Fails(t *testing.T) {
	own := errors.New("no more today")
	for name, tc := range map[string]struct {
		f     func(ctx context.Context, tx pgx.Tx, info postgres.Info) error
		class error
		text  string
	}{
		"an error of its own":   {func(context.Context, pgx.Tx, postgres.Info) error { return own }, sink.ErrUncertain, "no more today"},
		"an error with a class": {func(context.Context, pgx.Tx, postgres.Info) error { return &sink.Error{Class: sink.ErrLost, Err: own} }, sink.ErrLost, "no more today"},
		"a rejection of its own": {func(context.Context, pgx.Tx, postgres.Info) error {
			return &sink.Error{Class: sink.ErrRejected, Err: own}
		}, sink.ErrConfig, "no more today"},
		"a constraint": {note, sink.ErrConfig, "23514"},
		"a deferred constraint": {func(ctx context.Context, tx pgx.Tx, _ postgres.Info) error {
			_, err := tx.Exec(ctx, "CREATE TABLE p (a int PRIMARY KEY); CREATE TABLE c (a int REFERENCES p DEFERRABLE INITIALLY DEFERRED); INSERT INTO c VALUES (1)")
			return err
		}, sink.ErrConfig, "23503"},
		"a deadlock": {func(ctx context.Context, tx pgx.Tx, _ postgres.Info) error {
			_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$")
			return err
		}, sink.ErrTransient, "40P01"},
		"an error it passes over": {func(ctx context.Context, tx pgx.Tx, _ postgres.Info) error {
			tx.Exec(ctx, "SELECT 1/0")
			return nil
		}, sink.ErrConfig, "although a statement"},
		"rows left open": {func(ctx context.Context, tx pgx.Tx, _ postgres.Info) error {
			_, err := tx.Query(ctx, "SELECT generate_series(1, 10)")
			return err
		}, sink.ErrConfig, "left the rows of a query open"},
		"commit":   {func(ctx context.Context, tx pgx.Tx, _ postgres.Info) error { return tx.Commit(ctx) }, sink.ErrConfig, "the sink's to end"},
		"rollback": {func(ctx context.Context, tx pgx.Tx, _ postgres.Info) error { return tx.Rollback(ctx) }, sink.ErrConfig, "the sink's to end"},
		"commit in SQL": {func(ctx context.Context, tx pgx.Tx, _ postgres.Info) error {
			_, err := tx.Exec(ctx, " commit;")
			return err
		}, sink.ErrConfig, "the sink's to end"},
		"rollback by a query": {func(ctx context.Context, tx pgx.Tx, _ postgres.Info) error {
			_, err := tx.Query(ctx, "ROLLBACK")
			return err
		}, sink.ErrConfig, "the sink's to end"},
		"rollback that hides": {func(ctx context.Context, tx pgx.Tx, _ postgres.Info) error {
			_, err := tx.Exec(ctx, "SELECT 1; ROLLBACK")
			return err
		}, sink.ErrConfig, "ended the transaction"},
		"another transaction": {func(ctx context.Context, tx pgx.Tx, _ postgres.Info) error {
			_, err := tx.Exec(ctx, "SELECT 1; ROLLBACK; BEGIN")
			return err
		}, sink.ErrConfig, "ended the transaction"},
		"its connection ends": {func(ctx context.Context, tx pgx.Tx, _ postgres.Info) error {
			_, err := tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			return err
		}, sink.ErrTransient, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			fail := true
			w := e.hooked(func(ctx context.Context, tx pgx.Tx, info postgres.Info) error {
				if !fail {
					return nil
				}
				return tc.f(ctx, tx, info)
			})
			if err := w.writeTo(13); err != nil {
				t.Fatal(err)
			}
			err := w.prepare()
			var se *sink.Error
			if !errors.As(err, &se) || sink.ClassOf(err) != tc.class || !strings.Contains(err.Error(), tc.text) || len(se.Rejected) > 0 {
				t.Errorf("expected class %q and %q: %v", tc.class, tc.text, err)
			}
			if err := w.save(); err == nil {
				t.Error("Save after it failed")
			}
			if got := e.all("SELECT * FROM kv"); len(got) > 0 {
				t.Errorf("rows of an aborted checkpoint: %v", got)
			}
			w.c.Discard(t.Context())
			fail = false
			w.acquire()
			if err := w.writeTo(15); err != nil {
				t.Fatal(err)
			}
			w.finish()
			e.agrees("after the checkpoint was done again")
		})
	}
}

// Savepoints are the user's to begin and to end.
func TestInCheckpoint_Savepoints(t *testing.T) {
	e := newEnv(t)
	w := e.hooked(func(ctx context.Context, tx pgx.Tx, info postgres.Info) error {
		inner, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		info.To = []changelog.Position{{Offset: 13}}
		if err := note(ctx, inner, info); err == nil {
			return errors.New("the constraint let it pass")
		}
		if err := inner.Rollback(ctx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SAVEPOINT mine; INSERT INTO mine VALUES (99); ROLLBACK TO mine"); err != nil {
			return err
		}
		if inner, err = tx.Begin(ctx); err != nil {
			return err
		}
		info.To[0].Offset = 14
		return errors.Join(note(ctx, inner, info), inner.Commit(ctx))
	})
	if err := w.writeTo(20); err != nil {
		t.Fatal(err)
	}
	w.finish()
	if got := e.all("SELECT upto FROM mine"); !slices.Equal(got, []string{"(14)"}) {
		t.Errorf("%v", got)
	}
}

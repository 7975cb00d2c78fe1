package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// asCommand is the environment variable that makes the test's own program the command.
const asCommand = "FLINKSINK_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is the command as a process of its own, which signals can be sent to.
type process struct {
	*exec.Cmd
	out  strings.Builder
	errs *bufio.Reader
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals that one process can send to another")
	}
	p := &process{Cmd: exec.Command(os.Args[0], args...)}
	p.Env = append(os.Environ(), asCommand+"=1")
	p.Stdout = &p.out
	r, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.errs = bufio.NewReader(r)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			p.Process.Kill()
			p.Wait()
		}
	})
	return p
}

// says waits for a line on standard error.
func (p *process) says(t *testing.T, want string) {
	t.Helper()
	var before string
	for {
		l, err := p.errs.ReadString('\n')
		if strings.Contains(l, want) {
			return
		}
		if before += l; err != nil {
			t.Fatalf("%q was never said (%v):\n%s", want, err, before)
		}
	}
}

// status waits for the end. Standard error is read to its end first, as Wait closes it.
func (p *process) status(t *testing.T) int {
	t.Helper()
	if _, err := p.errs.WriteTo(os.Stderr); err != nil {
		t.Fatal(err)
	}
	err := p.Wait()
	var e *exec.ExitError
	if err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode()
}

// The first signal ends a run with a checkpoint.
func TestProcess_OneSignal(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	c := find(t, "upsert_json_all")
	c.load(t, broker)
	args := append([]string{"run", "--bridge", "one", "--ddl", c.ddl, "--brokers", broker, "--into", "one", "--create-table", "--interval", "1h"}, s.flags()...)
	p := start(t, args...)
	// With an interval of an hour nothing is visible before the signal: the rows are in the open transaction.
	s.until(t, "SELECT count(*) > 0 FROM pg_locks WHERE relation = to_regclass('one') AND mode = 'RowExclusiveLock'")
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.says(t, "stopping with a checkpoint; a second signal ends at once")
	if st := p.status(t); st != exitDone {
		t.Errorf("status %d", st)
	}
	if got := p.out.String(); !strings.Contains(got, "account      stopped by a signal\nrecords      ") || strings.Contains(got, "records      0\n") || strings.Contains(got, "checkpoints  none") {
		t.Errorf("account: %s", got)
	}
	if n := s.one(t, "SELECT count(*) FROM one"); n == 0 {
		t.Error("no row is in the table")
	}
	if got := command(t, append(args, "--until-end")...); got.status != exitDone {
		t.Fatalf("the next run: status %d: %s", got.status, got.errs)
	}
	s.holds(t, "one", c.lines(t, "final.jsonl"))
}

// The second ends it at once, whatever it waits for, and nothing is lost. The instance id gives the next run its partition back at
// once; without it the group would wait for the dead member's session to end.
func TestProcess_TwoSignals(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	c := find(t, "upsert_json_all")
	c.load(t, broker)
	s.exec(t, "CREATE TABLE two (cust text PRIMARY KEY, n bigint, total numeric(20,2), last_item text)")
	other, err := pgx.Connect(t.Context(), s.to)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE two IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "--bridge", "two", "--ddl", c.ddl, "--brokers", broker, "--into", "two", "--instance", "two-0"}, s.flags()...)
	p := start(t, args...)
	s.until(t, "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'two'::regclass AND NOT granted")
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.says(t, "a second signal ends at once")
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if st := p.status(t); st != exitFailed {
		t.Errorf("status %d", st)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := command(t, append(args, "--until-end")...); got.status != exitDone {
		t.Fatalf("the next run: status %d: %s", got.status, got.errs)
	}
	s.holds(t, "two", c.lines(t, "final.jsonl"))
}

package postgres

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// needServer skips where a server would have to be downloaded first.
func needServer(t *testing.T) string {
	t.Helper()
	bins := installed()
	if len(bins) == 0 {
		t.Skip("no Postgres is installed here; ./test installs one")
	}
	return bins[0]
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func query[T any](t *testing.T, ctx context.Context, dsn, sql string) (v T) {
	t.Helper()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func exec1(t *testing.T, ctx context.Context, dsn, sql string) {
	t.Helper()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// A killed server keeps what was committed and comes back on the same port.
func crashAndRestart(t *testing.T, ctx context.Context, s *Server) {
	t.Helper()
	exec1(t, ctx, s.DSN(), "CREATE TABLE t AS SELECT generate_series(1, 1000) AS i")
	for range 3 {
		exec1(t, ctx, s.DSN(), "INSERT INTO t VALUES (0)")
		// A client that is in a transaction keeps a server process busy across the kill.
		c, err := pgx.Connect(ctx, s.DSN())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(ctx, "BEGIN; INSERT INTO t VALUES (-1)"); err != nil {
			t.Fatal(err)
		}
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if ping(ctx, s.DSN()) == nil {
			t.Fatal("a killed server answers")
		}
		_ = c.Close(ctx)
		if err := s.Restart(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := query[int](t, ctx, s.DSN(), "SELECT count(*) FILTER (WHERE i >= 0) - 1000 * count(*) FILTER (WHERE i < 0) FROM t"); n != 1003 {
		t.Fatalf("%d rows after three crashes, want 1003 and none that was not committed", n)
	}
	dir := s.dir
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatalf("the second Stop: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("Stop left %s: %v", dir, err)
	}
	if err := s.Restart(ctx); err == nil {
		t.Fatal("Restart after Stop succeeded, on no data")
	}
}

func TestStart_CrashAndRestart(t *testing.T) {
	needServer(t)
	ctx := testContext(t)
	s, err := Start(ctx, Options{Own: true, Settings: map[string]string{"work_mem": "5MB"}, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if m := query[string](t, ctx, s.DSN(), "SHOW work_mem"); m != "5MB" {
		t.Errorf("work_mem is %s", m)
	}
	if s.Origin() == "" {
		t.Error("no origin")
	}
	crashAndRestart(t, ctx, s)
}

// A server takes both kinds of connections, and its certificate is its own root.
func TestStart_TLS(t *testing.T) {
	needServer(t)
	ctx := testContext(t)
	s, err := Start(ctx, Options{Own: true, TLS: true, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	const encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
	if query[bool](t, ctx, s.DSN(), encrypted) {
		t.Error("a connection without TLS is encrypted")
	}
	with := strings.Replace(s.DSN(), "sslmode=disable", "sslmode=verify-full&sslrootcert="+url.QueryEscape(filepath.Join(s.dir, "data", "server.crt")), 1)
	if !query[bool](t, ctx, with, encrypted) {
		t.Error("a connection with TLS is not encrypted")
	}
}

// A standby follows, takes no changes, and is a server of its own once it is promoted and the primary is gone.
func TestStandby(t *testing.T) {
	needServer(t)
	ctx := testContext(t)
	s, err := Start(ctx, Options{Own: true, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	exec1(t, ctx, s.DSN(), "CREATE TABLE t (i int)")
	b, err := s.Standby(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Stop()
	exec1(t, ctx, s.DSN(), "INSERT INTO t VALUES (1)")
	if err := b.CaughtUp(ctx, s); err != nil {
		t.Fatal(err)
	}
	if !query[bool](t, ctx, b.DSN(), "SELECT pg_is_in_recovery() AND EXISTS (SELECT FROM t)") {
		t.Error("the standby has no row, or is none")
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if !query[bool](t, ctx, b.DSN(), "SELECT pg_promote()") {
		t.Fatal("not promoted")
	}
	exec1(t, ctx, b.DSN(), "INSERT INTO t VALUES (2)")
	if _, err := s.Standby(ctx); err == nil {
		t.Error("a server that was stopped has a standby")
	}
}

// A version is asked for and got, or refused by name.
func TestStart_Version(t *testing.T) {
	bin := needServer(t)
	ctx := testContext(t)
	v := major(ctx, bin)
	s, err := Start(ctx, Options{Own: true, Version: v, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if got := query[string](t, ctx, s.DSN(), "SHOW server_version"); !strings.HasPrefix(got, v+".") {
		t.Errorf("version %q was asked for, and %q came", v, got)
	}
	if _, err := Start(ctx, Options{Own: true, Version: "8"}); err == nil || !strings.Contains(err.Error(), `"13" "14" "15" "16" "17" "18"`) {
		t.Errorf("version 8: %v", err)
	}
}

// Each way of being somebody else works, and not only the one that is tried first.
func TestStart_EveryIdentity(t *testing.T) {
	bin := needServer(t)
	ctx := testContext(t)
	for _, as := range identities() {
		t.Run(as.name, func(t *testing.T) {
			base, err := as.base()
			if err != nil {
				t.Fatal(err)
			}
			s, err := startIn(ctx, Options{}, base, bin, as)
			if err != nil {
				if strings.Contains(as.name, "namespace") {
					t.Skipf("no user namespaces here: %v", err)
				}
				t.Fatal(err)
			}
			defer s.Stop()
			crashAndRestart(t, ctx, s)
		})
	}
}

func TestStart_Environment(t *testing.T) {
	needServer(t)
	ctx := testContext(t)
	own, err := Start(ctx, Options{Own: true})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Stop()
	t.Setenv(Env, own.DSN())
	s, err := Start(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.DSN() != own.DSN() || s.Origin() != Env {
		t.Errorf("got %s from %s", s.DSN(), s.Origin())
	}
	if err := s.Kill(); err == nil || !strings.Contains(err.Error(), "Options.Own") {
		t.Errorf("Kill of a server that is not ours: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := ping(ctx, own.DSN()); err != nil {
		t.Fatalf("Stop stopped a server that is not ours: %v", err)
	}
}

func TestStart_EnvironmentThatDoesNotAnswer(t *testing.T) {
	t.Setenv(Env, "postgres://someone:secret@127.0.0.1:1/x?sslmode=disable&connect_timeout=2")
	_, err := Start(testContext(t), Options{})
	if err == nil || !strings.Contains(err.Error(), Env) || strings.Contains(err.Error(), "secret") {
		t.Fatalf("got %v, want an error that names %s and no password", err, Env)
	}
}

const childEnv = "FLINKSINK_TEST_POSTGRES_CHILD"

// The child of TestStart_EndsWithItsParent: starts a server and waits to be killed.
func TestChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		t.Skip("run by TestStart_EndsWithItsParent")
	}
	s, err := Start(t.Context(), Options{Own: true})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nchild %s %s\n", s.DSN(), s.dir)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

func TestStart_EndsWithItsParent(t *testing.T) {
	needServer(t)
	probe := exec.Command("true")
	dieWithParent(probe)
	if probe.SysProcAttr == nil {
		t.Skip("this system has no death signal")
	}
	ctx := testContext(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe() // held open
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var dsn, dir string
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if n, _ := fmt.Sscanf(sc.Text(), "child %s %s", &dsn, &dir); n == 2 {
			break
		}
	}
	if err := ping(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()        // or the process number is still taken
	ours := func() bool { // and not another one that has the port by now
		c, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return false
		}
		defer c.Close(ctx)
		var data string
		return c.QueryRow(ctx, "SHOW data_directory").Scan(&data) == nil && filepath.Base(filepath.Dir(data)) == filepath.Base(dir)
	}
	for ours() || serving(dir) {
		select {
		case <-ctx.Done():
			t.Fatal("the server outlives its parent")
		case <-time.After(20 * time.Millisecond):
		}
	}
	// The next start clears what was left behind.
	sweep(filepath.Dir(dir))
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("sweep left %s: %v", dir, err)
	}
}

// FLINKSINK_LONG runs what a plain go test should not do to somebody's network.
func TestFetched(t *testing.T) {
	if os.Getenv("FLINKSINK_LONG") == "" {
		t.Skip("downloads 30 MB; set FLINKSINK_LONG=1, or run ./test full")
	}
	ctx := testContext(t)
	for _, as := range identities() {
		t.Run(as.name, func(t *testing.T) {
			base, err := as.base()
			if err != nil {
				t.Fatal(err)
			}
			bin, err := fetched(ctx, base, as, fetchVersions[""], t.Logf)
			if err != nil {
				t.Fatal(err)
			}
			s, err := startIn(ctx, Options{}, base, bin, as)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			if v := query[string](t, ctx, s.DSN(), "SHOW server_version"); !strings.HasPrefix(string(fetchVersions[""]), v) {
				t.Errorf("version %s, want %s", v, fetchVersions[""])
			}
		})
	}
}

func TestInstalled_VersionOrder(t *testing.T) {
	for path, want := range map[string]int{"/usr/lib/postgresql/9/bin": 9, "/usr/lib/postgresql/17/bin": 17, "/opt/homebrew/opt/postgresql@16/bin": 16, "/opt/homebrew/opt/postgresql/bin": 0} {
		if got := version(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Env is the environment variable that names a server to use instead of one to start.
const Env = "FLINKSINK_POSTGRES"

// Options of [Start]. The zero value is fine.
type Options struct {
	// Own asks for a server of one's own even where FLINKSINK_POSTGRES names one, for tests that kill it. Defaults to false.
	Own bool
	// Port is the port to listen on. Defaults to a free one, which Kill and Restart keep.
	Port int
	// Version is the major version, such as "13". Defaults to what is found first. Other servers than that are passed over.
	Version string
	// TLS has the server take TLS connections too, with a certificate that it signed itself. Defaults to false.
	TLS bool
	// Settings are more settings of the server (postgresql.conf), by name.
	Settings map[string]string
	// Log is told in a few words what takes long (downloads) and what was tried in vain. Defaults to silence.
	Log func(format string, args ...any)
}

// Server is a running server, or one that somebody else runs. Its methods may be called from several goroutines.
type Server struct {
	dsn    string
	origin string

	mu   sync.Mutex // guards what follows
	conf *config    // nil: somebody else's server
	proc *process   // nil: not running
	dir  string     // removed by Stop; "" when gone
}

// config is how to run the server again on the same data.
type config struct {
	bin  string
	as   identity
	data string
	args []string
	log  string

	settings map[string]string
}

// Start gives a server that accepts connections. ctx bounds the start and nothing later.
func Start(ctx context.Context, o Options) (*Server, error) {
	if dsn := os.Getenv(Env); dsn != "" && !o.Own {
		if err := ping(ctx, dsn); err != nil {
			// The cause may hold the connection string with its password; pgx leaves the password out.
			return nil, fmt.Errorf("testbed/postgres: the server that %s names does not answer (unset it to have one started): %w", Env, err)
		}
		return &Server{dsn: dsn, origin: Env}, nil
	}
	log := o.Log
	if log == nil {
		log = func(string, ...any) {}
	}
	fetch, ok := fetchVersions[o.Version]
	if !ok {
		return nil, fmt.Errorf("testbed/postgres: there is no Postgres %q to fetch: the versions are %q", o.Version, slices.Sorted(maps.Keys(fetchVersions)))
	}
	var tried []error
	for _, as := range identities() {
		base, err := as.base()
		if err != nil {
			tried = append(tried, err)
			continue
		}
		sweep(base)
		for _, bin := range installed() {
			if o.Version != "" && major(ctx, bin) != o.Version {
				continue
			}
			s, err := startIn(ctx, o, base, bin, as)
			if err == nil {
				s.origin = "installed in " + bin
				return s, nil
			}
			tried = append(tried, fmt.Errorf("%s: %w", bin, err))
			log("Postgres in %s is of no use here: %v", bin, firstLine(err))
			if ctx.Err() != nil {
				return nil, fmt.Errorf("testbed/postgres: %w", errors.Join(tried...))
			}
		}
		bin, err := fetched(ctx, base, as, fetch, log)
		if err == nil {
			var s *Server
			if s, err = startIn(ctx, o, base, bin, as); err == nil {
				s.origin = "downloaded, version " + string(fetch)
				return s, nil
			}
		}
		tried = append(tried, err)
	}
	return nil, fmt.Errorf("testbed/postgres: no Postgres to be had; set %s to the connection string of a server, or install one (for example the package postgresql): %w", Env, errors.Join(tried...))
}

func firstLine(err error) string {
	l, _, _ := strings.Cut(err.Error(), "\n")
	return l
}

// startIn makes a data folder below base and starts a server on it.
func startIn(ctx context.Context, o Options, base, bin string, as identity) (_ *Server, err error) {
	dir, err := runFolder(base, as)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	data := filepath.Join(dir, "data")
	if err := initdb(ctx, bin, data, as); err != nil {
		return nil, err
	}
	settings := o.Settings
	if o.TLS {
		if err := certify(data, as); err != nil {
			return nil, err
		}
		settings = maps.Clone(settings)
		if settings == nil {
			settings = map[string]string{}
		}
		settings["ssl"] = "on"
	}
	s := &Server{dir: dir}
	for try := 0; ; try++ {
		port := o.Port
		if port == 0 {
			if port, err = freePort(); err != nil {
				return nil, err
			}
		}
		s.dsn = dsnOf(port)
		s.conf = &config{bin: bin, as: as, data: data, settings: settings, args: arguments(port, settings), log: filepath.Join(dir, "log")}
		if err = s.Restart(ctx); err == nil {
			return s, nil
		}
		// Somebody may have taken the free port in between.
		if o.Port != 0 || try == 2 || ctx.Err() != nil {
			return nil, err
		}
	}
}

func dsnOf(port int) string {
	return (&url.URL{Scheme: "postgres", User: url.User("postgres"), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Path: "/postgres", RawQuery: "sslmode=disable"}).String()
}

// arguments are the settings of every server of ours, and those of the caller behind them so that they win.
func arguments(port int, more map[string]string) []string {
	args := []string{"-p", strconv.Itoa(port)}
	for _, kv := range []string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200", "max_prepared_transactions=50",
		"shared_buffers=64MB", "fsync=off", "full_page_writes=off",
	} {
		args = append(args, "-c", kv)
	}
	for k, v := range more {
		args = append(args, "-c", k+"="+v)
	}
	return args
}

// freePort returns a port that nothing listens on, outside the range from which systems take the ports of outgoing connections (32768 and up on Linux,
// 49152 elsewhere): one of those could be in use when the server is started again after a crash.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("testbed/postgres: no free port: %w", last)
}

// DSN is the connection string of the database postgres, as a superuser when the server is ours.
func (s *Server) DSN() string { return s.dsn }

// Origin says where the server comes from, in words.
func (s *Server) Origin() string { return s.origin }

// Restart starts the server again on the same data and port after Kill. A running one is left as it is.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conf == nil || s.proc != nil {
		return nil
	}
	if s.dir == "" {
		return errors.New("testbed/postgres: the server was stopped and its data is gone")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("not ready after a minute"))
	defer cancel()
	for {
		p, err := launch(s.conf)
		if err != nil {
			return fmt.Errorf("testbed/postgres: %w", err)
		}
		if err = awaitReady(ctx, p, s.dsn); err == nil {
			s.proc = p
			return nil
		}
		p.kill()
		<-p.done
		// After a kill the server's other processes take a moment to notice; until then a new one refuses to start.
		if ctx.Err() == nil && stillShared(s.conf.log) {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		return fmt.Errorf("testbed/postgres: %w%s", err, tail(s.conf.log))
	}
}

// awaitReady waits until the server answers a query, or is over.
func awaitReady(ctx context.Context, p *process, dsn string) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		err := ping(ctx, dsn)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return errors.New("the server ended while starting")
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

func ping(ctx context.Context, dsn string) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	return c.Ping(ctx)
}

// Kill ends the server as a crash would: SIGKILL, nothing is finished, clients lose their connections. Restart brings it back. It is an
// error on a server that somebody else runs.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conf == nil {
		return fmt.Errorf("testbed/postgres: the server that %s names is not ours to kill; set Options.Own", Env)
	}
	if s.proc != nil {
		s.proc.kill()
		<-s.proc.done
		s.proc = nil
	}
	return nil
}

// Stop ends the server and removes its data. On a server that somebody else runs, and the second time, it does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.stop()
		select {
		case <-s.proc.done:
		case <-time.After(20 * time.Second):
			s.proc.kill()
			<-s.proc.done
		}
		s.proc = nil
	}
	dir := s.dir
	s.dir = ""
	if dir == "" {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("testbed/postgres: %w", err)
	}
	return nil
}

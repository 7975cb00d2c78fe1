package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby starts a second server that follows this one: a hot standby, which answers queries and takes no changes until it is promoted (pg_promote). It
// listens at a free port, and is stopped by itself. Its data is a copy, for which this server is shut down for a moment, so its clients lose their connections.
// ctx bounds the start and nothing later. It is an error on a server that somebody else runs.
func (s *Server) Standby(ctx context.Context) (_ *Server, err error) {
	s.mu.Lock()
	conf, proc := s.conf, s.proc
	s.proc = nil
	s.mu.Unlock()
	if conf == nil || proc == nil {
		return nil, errors.New("testbed/postgres: only a server of ours that runs can have a standby")
	}
	primary, err := pgx.ParseConfig(s.dsn)
	if err != nil {
		return nil, fmt.Errorf("testbed/postgres: %w", err)
	}
	proc.stop()
	select {
	case <-proc.done:
	case <-ctx.Done():
		proc.kill()
		<-proc.done
	}
	dir, err := runFolder(filepath.Dir(s.dir), conf.as)
	if err != nil {
		return nil, errors.Join(err, s.Restart(ctx))
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	data := filepath.Join(dir, "data")
	if err := errors.Join(copyData(conf.data, data, conf.as), s.Restart(ctx)); err != nil {
		return nil, fmt.Errorf("testbed/postgres: %w", err)
	}
	signal := filepath.Join(data, "standby.signal")
	if err := errors.Join(os.WriteFile(signal, nil, 0o600), conf.as.own(signal)); err != nil {
		return nil, fmt.Errorf("testbed/postgres: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	// In a file, not given as an argument, so that ALTER SYSTEM can change it.
	auto, err := os.OpenFile(filepath.Join(data, "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("testbed/postgres: %w", err)
	}
	_, err = fmt.Fprintf(auto, "primary_conninfo = 'host=127.0.0.1 port=%d user=postgres'\nwal_retrieve_retry_interval = 100ms\n", primary.Port)
	if err := errors.Join(err, auto.Close()); err != nil {
		return nil, fmt.Errorf("testbed/postgres: %w", err)
	}
	b := &Server{dir: dir, origin: s.origin + ", a standby"}
	b.dsn = dsnOf(port)
	b.conf = &config{bin: conf.bin, as: conf.as, data: data, settings: conf.settings, args: arguments(port, conf.settings), log: filepath.Join(dir, "log")}
	return b, b.Restart(ctx)
}

// CaughtUp waits until the standby has replayed everything that the primary has written so far.
func (s *Server) CaughtUp(ctx context.Context, primary *Server) error {
	var at string
	if err := ask(ctx, primary.dsn, "SELECT pg_current_wal_lsn()::text", &at); err != nil {
		return err
	}
	for {
		var done bool
		if err := ask(ctx, s.dsn, "SELECT coalesce(pg_last_wal_replay_lsn() >= '"+at+"', false)", &done); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("testbed/postgres: the standby does not catch up: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ask(ctx context.Context, dsn, sql string, to any) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("testbed/postgres: %w", err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	if err := c.QueryRow(ctx, sql).Scan(to); err != nil {
		return fmt.Errorf("testbed/postgres: %w", err)
	}
	return nil
}

// copyData copies a data folder, of a server that does not run, for a server that runs as the same identity.
func copyData(from, to string, as identity) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(to, "postmaster.pid"))
	return filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		return errors.Join(os.Chmod(path, mode), as.own(path))
	})
}

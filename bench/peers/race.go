package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	poll      = 10 * time.Millisecond
	quiet     = 2 * time.Second
	shortest  = 10 * poll // what is shorter is mostly the distance between two looks
	firstSize = 64 << 10  // of WAL: more than a fence, a consumer's registration or a sequence of our own tables, less than a batch of rows
	nextSize  = 4 << 10   // more than the server writes by itself in a moment
)

// result is one run of a contender.
type result struct {
	start time.Duration // to its first write
	took  time.Duration // from there to its last
	cpu   time.Duration // of its own process, 0: unknown

	server time.Duration // CPU of its sessions with Postgres, 0: unknown
}

// running is a contender at work.
type running interface {
	// over is closed, or gets what went wrong, when it has ended by itself. One that goes on until it is stopped never does.
	over() <-chan error
	// stop ends it and returns the CPU time that it used, 0: unknown.
	stop() time.Duration
}

// race lets a contender do a job on a table of its own.
func (s *servers) race(ctx context.Context, p peer, j *job, limit time.Duration) (r result, err error) {
	s.runs++
	t := task{Broker: s.broker, Topic: j.topic, Group: fmt.Sprintf("%s_%d", s.prefix, s.runs), DSN: s.dsn, Table: fmt.Sprintf("t%d", s.runs), Records: j.records}
	if err := s.newTable(ctx, t.Table, j.loaded); err != nil {
		return r, err
	}
	defer func() {
		if _, drop := s.pool.Exec(ctx, "DROP TABLE "+t.Table); drop != nil && err == nil {
			err = drop
		}
	}()
	conn, err := pgx.ConnectConfig(ctx, s.conn)
	if err != nil {
		return r, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if p.direct != nil {
		return p.direct(ctx, j, t.Table)
	}
	sessions := map[int]time.Duration{}
	position := func() (at int64, err error) {
		var pids []int32
		err = conn.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, (SELECT array_agg(pid) FROM pg_stat_activity "+
			"WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> $1)", application).Scan(&at, &pids)
		for _, pid := range pids {
			sessions[int(pid)] = max(sessions[int(pid)], cpuOf(int(pid)))
		}
		return at, err
	}
	at, err := position()
	if err != nil {
		return r, err
	}
	began := time.Now()
	run, err := p.start(ctx, t, j)
	if err != nil {
		return r, err
	}
	stopped := false
	stop := func() {
		if !stopped {
			r.cpu, stopped = run.stop(), true
		}
	}
	defer stop()
	var first, last, asked time.Time
	over := run.over()
	for {
		select {
		case err := <-over:
			if err != nil {
				return r, fmt.Errorf("it ended: %w", err)
			}
			over = nil
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(poll):
		}
		now := time.Now()
		v, err := position()
		if err != nil {
			return r, err
		}
		switch {
		case first.IsZero() && v-at > firstSize:
			first, last, at = now, now, v
		case !first.IsZero() && v-at > nextSize:
			last, at = now, v
		case !first.IsZero() && now.Sub(last) > quiet && now.Sub(asked) > quiet:
			asked = now
			got, err := s.signature(ctx, t.Table)
			if err != nil {
				return r, err
			}
			if got == j.want {
				stop()
				r.start, r.took = first.Sub(began), last.Sub(first)
				for _, used := range sessions {
					r.server += used
				}
				if r.took < shortest {
					return r, fmt.Errorf("it wrote for %v only, which measures nothing: raise -rows", r.took)
				}
				return r, nil
			}
			if over == nil {
				return r, fmt.Errorf("it ended, and its table holds %s instead of %s", got, j.want)
			}
		}
		if now.Sub(began) > limit {
			got, err := s.signature(ctx, t.Table)
			if err != nil {
				return r, err
			}
			return r, fmt.Errorf("not done after %v: its table holds %s, and must hold %s", limit, got, j.want)
		}
	}
}

// copied is COPY of rows that are ready in memory, 20,000 a transaction.
func (s *servers) copied(ctx context.Context, j *job, table string) (r result, err error) {
	if j.ready == nil {
		return r, errors.New("COPY cannot do this job")
	}
	const size = 20_000
	began := time.Now()
	for i := 0; i < len(j.ready); i += size {
		if _, err := s.pool.CopyFrom(ctx, pgx.Identifier{table}, shape.Names(), pgx.CopyFromRows(j.ready[i:min(i+size, len(j.ready))])); err != nil {
			return r, err
		}
	}
	r.took = time.Since(began)
	got, err := s.signature(ctx, table)
	if err == nil && got != j.want {
		err = fmt.Errorf("the table holds %s instead of %s", got, j.want)
	}
	return r, err
}

// clockTick is what Linux counts the CPU time of processes in (USER_HZ).
const clockTick = 10 * time.Millisecond

// cpuOf is what a process has used so far, 0: unknown.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	i := bytes.LastIndexByte(text, ')') // the command before it may hold anything
	if err != nil || i < 0 {
		return 0
	}
	f := strings.Fields(string(text[i+1:]))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * clockTick
}

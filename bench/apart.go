package main

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Those that read the topic write from a process of their own, as a service does. This one holds the rows of all phases for those that have them ready: gigabytes, which
// a collector would look through again and again, on all cores, while the bridge shares them with the server.
const (
	roleApart = "apart"
	apartEnv  = "FLINKSINK_BENCH_APART"
)

// apart is what a process of its own is to do, as JSON in its environment.
type apart struct {
	Broker, DSN, Database     string
	Topic, Table, Shape, Name string
	N                         int
	Loop                      bool // the usual loop; else a bridge

	Changes, Budget, Lanes int
	Mode                   postgres.Mode
	Off                    bool // no guarantee
	Profile                string
}

// apartEffort is what it tells of it.
type apartEffort struct {
	Effort      effort
	Checkpoints int64
	Applied     int64
}

func apartChild(ctx context.Context, in io.Reader, out io.Writer) error {
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3) // the parent is gone
	}()
	var t apart
	if err := stdjson.Unmarshal([]byte(os.Getenv(apartEnv)), &t); err != nil {
		return fmt.Errorf("%s: %w", apartEnv, err)
	}
	config, err := pgxpool.ParseConfig(t.DSN)
	if err != nil {
		return err
	}
	config.ConnConfig.Database = t.Database
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	s := &servers{broker: t.Broker, pool: pool}
	shape := rows.Narrow()
	if t.Shape == rows.Wide().Name {
		shape = rows.Wide()
	}
	p := &phase{name: t.Name, shape: shape, n: t.N, topic: t.Topic}
	theirs, known := serverCPU(ctx, pool)
	var e apartEffort
	if t.Loop {
		e.Effort.Took, err = loop(ctx, s, p, t.Table)
	} else {
		e, err = t.bridge(ctx, s, p)
	}
	if err != nil {
		return err
	}
	e.Effort.Apart = true
	e.Effort.Client, _ = cpuTime()
	if now, ok := serverCPU(ctx, pool); ok && known {
		e.Effort.Server = now - theirs
	}
	return stdjson.NewEncoder(out).Encode(e)
}

// run does it in a process of its own.
func (t apart) run(ctx context.Context) (e apartEffort, err error) {
	err = inProcess(ctx, roleApart, apartEnv, t, &e)
	return e, err
}

// apartOf is what writing a phase takes, without who does it.
func (s *servers) apartOf(p *phase, table string) apart {
	return apart{Broker: s.broker, DSN: s.dsn, Database: s.prefix, Topic: p.topic, Table: table, Shape: p.shape.Name, Name: p.name, N: p.n}
}

// effort is what it took to write a phase.
type effort struct {
	Took time.Duration // start-up not counted

	Apart          bool // by a process of its own, which used Client, and Server of Postgres; 0: unknown
	Client, Server time.Duration
}

// timer does a phase from this process, and returns how long it took.
type timer func(ctx context.Context, p *phase, table string) (time.Duration, error)

// here is a writer that writes from this process.
func here(do timer) writer {
	return func(ctx context.Context, p *phase, table string) (effort, error) {
		took, err := do(ctx, p, table)
		return effort{Took: took}, err
	}
}

// usual is the usual loop, see loop.
func usual(s *servers) writer {
	return func(ctx context.Context, p *phase, table string) (effort, error) {
		t := s.apartOf(p, table)
		t.Loop = true
		e, err := t.run(ctx)
		return e.Effort, err
	}
}

var errNotAll = errors.New("the bridge did not apply what the topic holds")

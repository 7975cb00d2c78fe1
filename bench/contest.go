package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/jackc/pgx/v5/pgxpool"
)

const checkpointRows = 20_000

// contender writes the phases of a contest one after another into a table of its own.
type contender struct {
	name   string
	do     writer
	phases int    // it does so many of them, 0: all
	with   string // more storage parameters of its table
}

// contest is what contenders take turns in.
type contest struct {
	phases     []*phase
	contenders []contender
	rounds     int
}

// outcome is what the contenders of a contest measured, by phase and contender: rows a second, and CPU microseconds a row of this process and
// of Postgres.
type outcome struct{ rates, client, server [][]figure }

// phasesOf fills topics and works out what the table must hold after each phase, once for each shape and number of rows.
func (b *bench) phasesOf(ctx context.Context, s *servers, phases ...*phase) ([]*phase, error) {
	for i, p := range phases {
		key := fmt.Sprintf("%s_%s_%d", p.shape.Name, p.name[:3], p.n)
		if done := b.filled[key]; done != nil {
			phases[i] = done
			continue
		}
		var err error
		if p.topic, err = s.fill(ctx, key, p.n, p.record); err != nil {
			return nil, err
		}
		if err := p.read(ctx, s.broker); err != nil {
			return nil, err
		}
		// What the table must hold: COPY of the rows themselves.
		if err := newTable(ctx, s.pool, p.shape, "expected", ""); err != nil {
			return nil, err
		}
		if !p.deletes {
			if _, err := copyInto(s.pool)(ctx, p, "expected"); err != nil {
				return nil, err
			}
		}
		if p.want, err = signatureOf(ctx, s.pool, "expected"); err != nil {
			return nil, err
		}
		if b.filled == nil {
			b.filled = make(map[string]*phase)
		}
		b.filled[key] = p
	}
	return phases, nil
}

// compete runs a contest. Each contender does all its phases once a round, and the one that begins a round is another one each time. A table that
// does not hold what it must is an error.
func (b *bench) compete(ctx context.Context, s *servers, c contest) (*outcome, error) {
	o := new(outcome)
	for _, part := range []*[][]figure{&o.rates, &o.client, &o.server} {
		for range c.phases {
			*part = append(*part, make([]figure, len(c.contenders)))
		}
	}
	for round := range c.rounds {
		for k := range c.contenders {
			i := (round + k) % len(c.contenders)
			b.tables++
			table := fmt.Sprintf("t%d", b.tables)
			// What the one before has left to write is not the next one's to wait for, nor a checkpoint of the server in the middle of a run.
			if _, err := s.pool.Exec(ctx, "CHECKPOINT"); err != nil {
				return nil, err
			}
			if err := newTable(ctx, s.pool, c.phases[0].shape, table, c.contenders[i].with); err != nil {
				return nil, err
			}
			for n, p := range c.phases {
				if most := c.contenders[i].phases; most > 0 && n >= most {
					break
				}
				if err := o.measure(ctx, s, c.contenders[i], p, table, n, i); err != nil {
					return nil, fmt.Errorf("%s, %s, %s: %w", p.shape.Name, c.contenders[i].name, p.name, err)
				}
			}
			if _, err := s.pool.Exec(ctx, `DROP TABLE "`+table+`"`); err != nil {
				return nil, err
			}
		}
	}
	return o, nil
}

func (o *outcome) measure(ctx context.Context, s *servers, c contender, p *phase, table string, n, i int) error {
	runtime.GC()
	ours, oursKnown := cpuTime()
	theirs, theirsKnown := serverCPU(ctx, s.pool)
	e, err := c.do(ctx, p, table)
	if err != nil {
		return err
	}
	if !e.Apart {
		if now, ok := cpuTime(); ok && oursKnown {
			e.Client = now - ours
		}
		if now, ok := serverCPU(ctx, s.pool); ok && theirsKnown {
			e.Server = now - theirs
		}
	}
	if e.Client > 0 {
		o.client[n][i] = append(o.client[n][i], float64(e.Client.Microseconds())/float64(p.n))
	}
	if e.Server > 0 {
		o.server[n][i] = append(o.server[n][i], float64(e.Server.Microseconds())/float64(p.n))
	}
	got, err := signatureOf(ctx, s.pool, table)
	if err != nil {
		return err
	}
	if got != p.want {
		return fmt.Errorf("the table holds %s, and must hold %s", got, p.want)
	}
	o.rates[n][i] = append(o.rates[n][i], float64(p.n)/e.Took.Seconds())
	return nil
}

// show prints a table of one phase, with ratios to a contender, or to another figure that has a name.
func (b *bench) show(c contest, o *outcome, n int, base figure, of string) {
	w := b.table(c.phases[n].shape.Name+", "+c.phases[n].name, "rows/s", of, "CPU µs a row: client", "Postgres")
	for i, k := range c.contenders {
		if len(o.rates[n][i]) > 0 {
			line(w, k.name, o.rates[n][i].String(), o.rates[n][i].over(base).String(), number(o.client[n][i].median()), number(o.server[n][i].median()))
		}
	}
	flush(w)
}

// highest is the best of some contenders in each round.
func highest(of ...figure) (f figure) {
	for r := range of[0] {
		best := of[0][r]
		for _, g := range of[1:] {
			best = max(best, g[r])
		}
		f = append(f, best)
	}
	return f
}

// newTable makes an empty table that nothing but the contender touches.
func newTable(ctx context.Context, pool *pgxpool.Pool, shape *rows.Shape, name, with string) error {
	if with != "" {
		with = ", " + with
	}
	_, err := pool.Exec(ctx, fmt.Sprintf(`DROP TABLE IF EXISTS "%s"; CREATE TABLE "%s" (%s, PRIMARY KEY (id)) WITH (autovacuum_enabled = off%s)`, name, name, shape.SQL(), with))
	return err
}

// signatureOf tells what a table holds.
func signatureOf(ctx context.Context, pool *pgxpool.Pool, table string) (text string, err error) {
	err = pool.QueryRow(ctx, rows.Signature(table)).Scan(&text)
	return text, err
}

package main

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/bench/internal/rows"
)

// fillfactor is what room in the pages of a table does to updates, and to its size. Tables that sink/postgres makes have 70.
func (b *bench) fillfactor(ctx context.Context) error {
	s, err := b.servers(ctx)
	if err != nil {
		return err
	}
	b.head(s, "FILLFACTOR: updates by the bridge, transactions of %d; dense: each updates whole pages, sparse: each updates rows all over the table", checkpointRows)
	b.say("  not a figure that was set: it is what CreateTable and check go by")
	for _, shape := range b.shapes {
		n := b.rowsOf(shape)
		for _, updates := range []*phase{neighboursOf(shape, n), updatesOf(shape, n)} {
			if err := b.fill(ctx, s, shape, updates); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) fill(ctx context.Context, s *servers, shape *rows.Shape, updates *phase) error {
	phases, err := b.phasesOf(ctx, s, insertsOf(shape, updates.n), updates)
	if err != nil {
		return err
	}
	var cs []contender
	factors := []int{100, 70, 50}
	sizes := make([][3]figure, len(factors)) // MiB of the table before, of the table after, and of the index after over before
	for i, f := range factors {
		var before [2]int64
		cs = append(cs, contender{name: fmt.Sprintf("fillfactor %d", f), with: fmt.Sprintf("fillfactor = %d", f), do: func(ctx context.Context, p *phase, table string) (effort, error) {
			do := here(copyInto(s.pool))
			if p == phases[1] {
				do = ours{s: s}.write
			}
			e, err := do(ctx, p, table)
			if err != nil {
				return e, err
			}
			var now [2]int64
			if err := s.pool.QueryRow(ctx, "SELECT pg_relation_size($1::regclass), pg_indexes_size($1::regclass)", table).Scan(&now[0], &now[1]); err != nil {
				return e, err
			}
			if p == phases[0] {
				before = now
				sizes[i][0] = append(sizes[i][0], float64(now[0])/(1<<20))
			} else {
				sizes[i][1] = append(sizes[i][1], float64(now[0])/(1<<20))
				sizes[i][2] = append(sizes[i][2], float64(now[1])/float64(before[1]))
			}
			return e, nil
		}})
	}
	o, err := b.compete(ctx, s, contest{phases, cs, b.rounds})
	if err != nil {
		return err
	}
	name := "dense"
	if updates.name == "updates" {
		name = "sparse"
	}
	w := b.table(fmt.Sprintf("%s, %s updates of %d rows", shape.Name, name, updates.n), "rows/s", "of fillfactor 100", "CPU µs a row: client", "Postgres", "table before, MiB", "after", "indexes grew by")
	for i, c := range cs {
		line(w, c.name, o.rates[1][i].String(), o.rates[1][i].over(o.rates[1][0]).String(), number(o.client[1][i].median()), number(o.server[1][i].median()),
			number(sizes[i][0].median()), number(sizes[i][1].median()), number(sizes[i][2].median()))
	}
	flush(w)
	return nil
}

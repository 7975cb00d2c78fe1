package main

import (
	"context"
	"fmt"
	"runtime"
)

func (b *bench) postgres(ctx context.Context) error {
	s, err := startServers(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	inserts := &phase{name: "new keys", at: func(i int) item { return itemAt(int64(i), 0) }}
	updates := &phase{name: "updates", at: func(i int) item { return itemAt(shuffled(i, b.rows), 1) }}
	for _, p := range []*phase{inserts, updates} {
		if p.topic, err = s.fill(ctx, p.name[:3], b.rows, p.at); err != nil {
			return err
		}
		if err := p.read(ctx, s.broker); err != nil {
			return err
		}
		// What the table must hold: COPY of the rows themselves.
		if err := newTable(ctx, s.pool, "expected"); err != nil {
			return err
		}
		if _, err := copyInto(s.pool)(ctx, p, "expected"); err != nil {
			return err
		}
		if p.want, err = signatureOf(ctx, s.pool, "expected"); err != nil {
			return err
		}
	}

	var changes, checkpoints int64
	u := ours{s: s, profile: b.profile, note: func(j journey) { changes, checkpoints = changes+j.applied, checkpoints+j.checkpoints }}
	const copied, byUnnest, byMerge, byLoop, with, off = 0, 1, 2, 3, 4, 5
	contenders := []struct {
		name    string
		do      writer
		updates bool
	}{
		copied:   {"COPY into the keyed table, no Kafka", copyInto(s.pool), false},
		byUnnest: {"UNNEST of 5,000, sorted, no Kafka", unnest(s.pool), true},
		byMerge:  {"COPY + merge, sorted, no Kafka", merge(s.pool), true},
		byLoop:   {"usual loop: encoding/json, INSERT of 1,000", usual(s), true},
		with:     {"flinksink bridge, exactly once", u.exactlyOnce, true},
		off:      {"same statements without the guarantee", u.guaranteeOff, true},
	}
	rates := [2][]figure{make([]figure, len(contenders)), make([]figure, len(contenders))}
	client, server := rates, rates // CPU microseconds a row
	for n := range rates {
		client[n], server[n] = make([]figure, len(contenders)), make([]figure, len(contenders))
	}
	for round := range b.rounds {
		for k := range contenders {
			i := (round + k) % len(contenders)
			c := contenders[i]
			table := fmt.Sprintf("t%d_%d", i, round)
			if err := newTable(ctx, s.pool, table); err != nil {
				return err
			}
			for n, p := range []*phase{inserts, updates} {
				if n == 1 && !c.updates {
					continue
				}
				runtime.GC()
				ours, oursKnown := cpuTime()
				theirs, theirsKnown := serverCPU(ctx, s.pool)
				took, err := c.do(ctx, p, table)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, p.name, err)
				}
				if now, ok := cpuTime(); ok && oursKnown {
					client[n][i] = append(client[n][i], float64((now-ours).Microseconds())/float64(p.rows()))
				}
				if now, ok := serverCPU(ctx, s.pool); ok && theirsKnown && now >= theirs {
					server[n][i] = append(server[n][i], float64((now-theirs).Microseconds())/float64(p.rows()))
				}
				got, err := signatureOf(ctx, s.pool, table)
				if err != nil {
					return err
				}
				if got != p.want {
					return fmt.Errorf("%s, %s: the table holds %+v, and must hold %+v", c.name, p.name, got, p.want)
				}
				rates[n][i] = append(rates[n][i], float64(p.rows())/took.Seconds())
			}
			if _, err := s.pool.Exec(ctx, `DROP TABLE "`+table+`"`); err != nil {
				return err
			}
		}
	}

	// The best bare shape of each round.
	best := func(n int) (f figure) {
		for r := range b.rounds {
			f = append(f, max(rates[n][byUnnest][r], rates[n][byMerge][r]))
		}
		return f
	}
	b.say("\nPOSTGRES: %d rows of 4 narrow columns, one lane, transactions of %d", b.rows, checkpointRows)
	for _, a := range s.about {
		b.say("  %s", a)
	}
	b.say("  those without Kafka write the rows in the order in which the topic's %d partitions give them; the CPU of the broker counts for nobody", partitions)
	b.say("  a checkpoint of the bridges held %s changes on average; load average %s", number(float64(changes)/float64(checkpoints)), loadAverage())
	for n, p := range []*phase{inserts, updates} {
		base, of := rates[n][copied], "of COPY"
		if n == 1 {
			base, of = best(n), "of the best bare shape"
		}
		w := b.table(p.name, "rows/s", of, "of the usual loop", "CPU µs a row: client", "Postgres")
		for i, c := range contenders {
			if len(rates[n][i]) > 0 {
				line(w, c.name, rates[n][i].String(), rates[n][i].over(base).String(), rates[n][i].over(rates[n][byLoop]).String(),
					number(client[n][i].median()), number(server[n][i].median()))
			}
		}
		flush(w)
		b.say("  exactly once, of the same without the guarantee: %s", rates[n][with].over(rates[n][off]))
	}
	b.goal("postgres: new keys, of COPY into the keyed table", "", 0.5, rates[0][with].over(rates[0][copied])...)
	b.goal("postgres: updates, of the best bare shape", "", 0.7, rates[1][with].over(best(1))...)
	b.goal("postgres: new keys, guarantee on, of off", "", 0.95, rates[0][with].over(rates[0][off])...)
	b.goal("postgres: updates, guarantee on, of off", "", 0.95, rates[1][with].over(rates[1][off])...)
	return nil
}

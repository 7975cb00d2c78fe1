package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The states of a bridge's session at the server, as waits tells them apart.
const (
	working = iota
	stalled
	starved
	between
	outside
	states
)

// waits is what the server's session does while a bridge of one lane writes: where it waits for the bridge, the bridge could be quicker; where it
// is at work, nothing but another statement helps.
func (b *bench) waits(ctx context.Context) error {
	s, err := b.servers(ctx)
	if err != nil {
		return err
	}
	b.head(s, "WAITS: one lane, transactions of %d; what the server's session does between its first statement on the table and its last, in %% of all looks at it", checkpointRows)
	for _, shape := range b.shapes {
		n := b.rowsOf(shape)
		phases, err := b.phasesOf(ctx, s, insertsOf(shape, n), updatesOf(shape, n), deletesOf(shape, n))
		if err != nil {
			return err
		}
		shares := make(map[*phase]*[states]figure)
		for _, p := range phases {
			shares[p] = new([states]figure)
		}
		do := func(ctx context.Context, p *phase, table string) (effort, error) {
			w, err := s.watch(ctx, table)
			if err != nil {
				return effort{}, err
			}
			e, err := ours{s: s}.write(ctx, p, table)
			seen, watched := w()
			if err := errors.Join(err, watched); err != nil {
				return effort{}, err
			}
			for i, share := range seen {
				shares[p][i] = append(shares[p][i], share)
			}
			return e, nil
		}
		c := contest{phases, []contender{{name: "flinksink bridge, exactly once", do: do}}, b.rounds}
		if _, err := b.compete(ctx, s, c); err != nil {
			return err
		}
		w := b.table(fmt.Sprintf("%s, %d rows", shape.Name, n), "in a statement, at work", "waiting for disk or locks", "waiting for the bridge", "between statements", "between transactions")
		for _, p := range phases {
			cells := []string{p.name}
			for _, f := range shares[p] {
				cells = append(cells, f.String())
			}
			line(w, cells...)
		}
		flush(w)
	}
	return nil
}

// look is one look at the sessions of the database.
type look struct {
	state int
	table bool // it is about the table
}

// watch looks at the sessions of the database again and again, until the function that it returns is called; that tells the share of each state, in percent.
func (s *servers) watch(ctx context.Context, table string) (func() ([states]float64, error), error) {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return nil, err
	}
	stop, done := make(chan struct{}), make(chan struct{})
	var looks []look
	go func() {
		defer close(done)
		for err == nil {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			var l look
			if l, err = lookAt(ctx, conn, table); err == nil {
				looks = append(looks, l)
			}
		}
	}()
	return func() (shares [states]float64, _ error) {
		close(stop)
		<-done
		if err := errors.Join(err, conn.Close(context.WithoutCancel(ctx))); err != nil {
			return shares, err
		}
		return sharesOf(looks), nil
	}, nil
}

func lookAt(ctx context.Context, conn *pgx.Conn, table string) (l look, err error) {
	rows, err := conn.Query(ctx, `SELECT state, coalesce(wait_event_type, ''), query FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'`)
	if err != nil {
		return l, err
	}
	defer rows.Close()
	l.state = outside
	for rows.Next() {
		var state, wait, query string
		if err := rows.Scan(&state, &wait, &query); err != nil {
			return l, err
		}
		l.table = l.table || strings.Contains(query, `"`+table+`"`)
		switch {
		case state != "active":
			l.state = min(l.state, between)
		case wait == "Client":
			l.state = min(l.state, starved)
		case wait != "":
			l.state = min(l.state, stalled)
		default:
			l.state = working
		}
	}
	return l, rows.Err()
}

// sharesOf leaves out what was before the first look that met the table, and after the last.
func sharesOf(looks []look) (shares [states]float64) {
	first, last := -1, -1
	for i, l := range looks {
		if l.table {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return shares
	}
	for _, l := range looks[first : last+1] {
		shares[l.state] += 100 / float64(last+1-first)
	}
	return shares
}

package postgres

import (
	"context"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Sink writes into a Postgres table, in one of three modes ([Options].Mode). It is safe for use by several goroutines. Its committers are
// checked by sinktest. In mode InTransaction each is also the [sink.Store] of its lane.
type Sink struct {
	pool  *pgxpool.Pool
	into  qualified // zero: the source table's name
	o     Options
	store store

	chosen *choices // of mode Auto
	remade *remade
}

var (
	_ sink.Sink      = (*Sink)(nil)
	_ sink.Committer = (*committer)(nil)
	_ sink.Store     = inTransaction{}

	_ sink.DeadLetterKeeper = (*committer)(nil)
	_ sink.Superseder       = (*committer)(nil)
)

// Guarantee states what the mode gives. Of mode Auto it says, once a lane was made, which mode that is and why.
func (s *Sink) Guarantee() sink.Guarantee {
	if s.o.Mode == Auto {
		return s.chosen.guarantee()
	}
	return s.o.Mode.guarantee()
}

// String returns "postgres", the part of a bridge's fingerprint that is known without asking the server. Acquire adds the tables
// as the server found them.
func (s *Sink) String() string { return "postgres" }

// Lane returns the committer of one lane. In mode InTransaction it also is the lane's [sink.Store]; in the others it offers one
// ([sink.StoreOfferer]), in the tables beside the rows, which decides where no other store is named. Lane makes the sink's own tables where they are
// missing, and compares the target table with l.Tables: everything that does not fit is one ErrConfig, each point with its cure. A
// server that cannot be reached is ErrTransient.
func (s *Sink) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c := &committer{s: s, lane: l}
	if err := checkBridge(l.Bridge); err != nil {
		return nil, c.fail("start", sink.ErrConfig, err)
	}
	s, _, err := s.on(ctx, l)
	if err != nil {
		return nil, c.fail("start", undone(err), err)
	}
	c.s = s
	if err := s.ensureStore(ctx); err != nil {
		return nil, c.fail("start", undone(err), err)
	}
	denied, err := s.ensureLetters(ctx)
	if err != nil {
		return nil, c.fail("start", undone(err), err)
	}
	c.noLetters = denied
	to, _ := s.destinations(l.Tables) // check reports what is wrong with them
	for _, d := range to {
		if err := d.s.create(ctx, l, d, to); err != nil {
			return nil, c.fail("start", undone(err), err)
		}
	}
	targets, err := s.check(ctx, l.Tables)
	if err != nil {
		return nil, c.fail("start", undone(err), err)
	}
	if err := s.sameTarget(ctx, l.Bridge, targets); err != nil {
		return nil, c.fail("start", undone(err), err)
	}
	for _, tg := range targets {
		if err := s.ensureSwap(ctx, tg); err != nil {
			return nil, c.fail("start", undone(err), err)
		}
	}
	c.targets = targets
	if s.o.Mode == InTransaction {
		return inTransaction{c}, nil
	}
	if err := s.readyToLeave(ctx, c); err != nil {
		return nil, c.fail("start", undone(err), err)
	}
	return &receipts{c}, nil
}

// name is where rows of t go.
func (s *Sink) name(t *changelog.Table) qualified {
	if s.into != (qualified{}) {
		return s.into
	}
	if s.o.Into != nil {
		if name, err := parseName(s.o.Into(t)); err == nil {
			return name
		}
	}
	return qualified{table: t.Name}
}

// column is the name of the Postgres column for a source column; "" leaves it out.
func (s *Sink) column(source string) string {
	if to, ok := s.o.Columns[source]; ok {
		return to
	}
	return source
}

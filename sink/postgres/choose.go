package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/flinksink/flinksink/sink"
)

// This file is mode Auto.

// choice is the mode that Auto became, and why.
type choice struct {
	mode Mode
	why  string
}

func (c choice) String() string { return fmt.Sprintf("%s, chosen since %s", c.mode, c.why) }

// choices are those of the last start, each mode once, with the reason that was given last. Its lanes are alike but for their number, and come in its order.
type choices struct {
	mu   sync.Mutex
	made []choice
}

func (cs *choices) add(lane int, c choice) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if lane == 0 {
		cs.made = nil
	}
	cs.made = append(slices.DeleteFunc(cs.made, func(o choice) bool { return o.mode == c.mode }), c)
}

func (cs *choices) last() string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.made) == 0 {
		return Auto.String()
	}
	return cs.made[len(cs.made)-1].String()
}

// guarantee is that of the modes that were chosen, which differ in how they do it.
func (cs *choices) guarantee() sink.Guarantee {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	g := Auto.guarantee()
	var how []string
	for _, c := range cs.made {
		g = c.mode.guarantee()
		how = append(how, fmt.Sprintf("%s (mode %s)", g.How, c))
	}
	if len(how) > 0 {
		g.How = strings.Join(how, "; in other lanes ")
	}
	return g
}

// choose picks the mode of a lane on such a server. What that mode still lacks is said by problems, as if it had been asked for by name: there is no
// mode to fall back to that promises less.
//
// Prepared comes before Staged, since what it has prepared cannot be refused any more, and rows go over the wire once. It keeps locks until somebody
// settles it, though, which nobody should get unasked: max_prepared_transactions is 0 unless an administrator has set it. Other products have the
// setting, and not what it stands for.
//
// A lane has one prepared transaction at most, since it begins no checkpoint before the last one is committed. So this lane and those of its process
// before it need one each, of those that taken leaves: what others of the server hold. With fewer a checkpoint would now and then not be prepared, and be done again
// until somebody else's is over.
func (c capabilities) choose(l sink.Lane, taken int) choice {
	var why string
	switch {
	case l.OtherStore:
		why = "another store decides"
	case !c.advisory:
		why = fmt.Sprintf("the server (%s) lacks advisory locks that pg_locks shows, by which in-transaction fences", c.product)
	case !c.terminates:
		why = fmt.Sprintf("the server (%s) lacks pg_terminate_backend, by which in-transaction fences", c.product)
	default:
		return choice{InTransaction, "this sink is the store of its lane, and the server has all that it takes"}
	}
	switch {
	case c.product != postgreSQL:
		why += fmt.Sprintf(", and prepared transactions are not relied on with %s", c.product)
	default:
		why += fmt.Sprintf(", and max_prepared_transactions is %d", max(c.prepared, 0))
		if taken > 0 {
			why += fmt.Sprintf(", of which others hold %d", taken)
		}
		if c.prepared-taken > l.Number {
			return choice{Prepared, why}
		}
		if c.prepared > 0 {
			why += fmt.Sprintf(": too few, as this is lane %d of its process and each needs one", l.Number+1)
		}
	}
	return choice{Staged, why}
}

// taken is how many prepared transactions the server holds for others: other programs and bridges, of all its databases. Those of the lane's own sink are its
// predecessors', which Open ends before the first row, or those of the lanes beside it, which are counted by their number. It is what holds at this moment: a
// server whose others come and go needs room for all of them.
func (s *Sink) taken(ctx context.Context, l sink.Lane) (n int, err error) {
	db, err := s.database(ctx)
	if err != nil {
		return 0, err
	}
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM pg_catalog.pg_prepared_xacts WHERE NOT (database = current_database() AND starts_with(gid, $1))", s.gidPrefix(db, l.Bridge, l.Sink)).Scan(&n)
	return n, err
}

// on looks at the server, and returns the sink in the mode that it has there, with the server's version as server_version_num has it. What the server
// lacks for that mode is an ErrConfig.
func (s *Sink) on(ctx context.Context, l sink.Lane) (*Sink, int, error) {
	found, err := s.server(ctx)
	if err != nil {
		return nil, 0, err
	}
	if s.o.Mode != Auto {
		return s, found.version, found.refuse(s.o.Mode)
	}
	c := found.choose(l, 0)
	if c.mode == Prepared && found.product == postgreSQL && found.prepared > 0 {
		taken, err := s.taken(ctx, l)
		if err != nil {
			return nil, 0, err
		}
		c = found.choose(l, taken)
	}
	if wrong := found.problems(c.mode); len(wrong) > 0 {
		return nil, 0, configf("mode %s: %s", c, strings.Join(wrong, "\n"))
	}
	s.chosen.add(l.Number, c)
	on := *s
	on.o.Mode = c.mode
	return &on, found.version, nil
}

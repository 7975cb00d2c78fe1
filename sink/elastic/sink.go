package elastic

import (
	"context"
	"fmt"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Sink writes into an Elasticsearch index. It is safe for use by several goroutines. It needs another sink or a store of its own beside
// it that decides, see sink.Options.Store.
type Sink struct {
	client esapi.Transport
	index  string // "": the source table's name
	o      Options
}

var (
	_ sink.Sink             = (*Sink)(nil)
	_ sink.Committer        = (*committer)(nil)
	_ sink.Spiller          = (*committer)(nil)
	_ sink.Superseder       = (*committer)(nil)
	_ sink.DeadLetterKeeper = (*committer)(nil)
)

// Guarantee states what the sink gives with the chosen Deletes.
func (s *Sink) Guarantee() sink.Guarantee {
	g := sink.Guarantee{
		Level:   sink.Convergent,
		How:     "documents named by their key, versions made of incarnation and offset",
		Visible: "early; converges",
		Zombie:  "refused by version where they are stale",
		Weakest: "Elasticsearch shows a document before its checkpoint is decided, and has no transaction over several",
		Cure:    "readers that need whole checkpoints read from a sink that is exactly once",
	}
	if s.o.Deletes == Hard {
		g.Weakest = "the server forgets the version of a deleted document after index.gc_deletes or when a shard restarts: a change that is late can bring it back, until its delete is sent again two minutes later"
		g.Cure = "Options.Deletes: Tombstone"
	}
	return g
}

// String returns a name for the bridge's fingerprint.
func (s *Sink) String() string {
	if s.index == "" {
		return "elastic"
	}
	return "elastic " + s.index
}

// Lane returns the committer of one lane. What can be told without the server is checked here, the rest by Open, which is where a server that
// is away is ErrTransient.
func (s *Sink) Lane(_ context.Context, l sink.Lane) (sink.Committer, error) {
	c := &committer{s: s, lane: l, firstPause: firstPause, over: make(chan struct{}, 1)}
	told := s.o.Pressed
	if told != nil {
		told = func(err error) {
			if err != nil {
				err = c.classed("write", err)
			}
			s.o.Pressed(err)
		}
	}
	c.breaker = newBreaker(told, s.o.BulkActions)
	for i, t := range l.Tables {
		p, err := s.plan(t)
		if err != nil {
			return nil, c.fail("start", sink.ErrConfig, err)
		}
		// Rows of two tables with equal keys would be one document.
		for _, other := range l.Tables[:i] {
			if s.name(other) == s.name(t) {
				return nil, c.fail("start", sink.ErrConfig, fmt.Errorf("tables %q and %q both go to index %s, where rows with equal keys would overwrite one another: give each a sink of its own, "+
					"or New no name", other.Name, t.Name, p.index))
			}
		}
		c.plans = append(c.plans, p)
	}
	c.pipes = make([]*pipe, s.o.InFlight)
	budget := l.ByteBudget
	if budget <= 0 {
		budget = sink.DefaultByteBudget
	}
	// Two buffers a pipe: one is filled while the other is under way.
	most := min(s.o.BulkBytes, max(budget/(2*s.o.InFlight), 64<<10))
	for i := range c.pipes {
		c.pipes[i] = &pipe{c: c, most: most}
	}
	return c, nil
}

// name is the name that New was given, or its default.
func (s *Sink) name(t *changelog.Table) string {
	if s.index != "" {
		return s.index
	}
	return t.Name
}

// target is where documents of t go: an index, or the pattern that finds all of them where names come from rows.
func (s *Sink) target(t *changelog.Table) (string, error) {
	if s.index != "" {
		return pattern(s.index), nil
	}
	if why := badIndex(t.Name); why != "" {
		return "", fmt.Errorf("table %q %s as the name of an index: name one in New", t.Name, why)
	}
	return t.Name, nil
}

// field is the field that takes a column; "" leaves it out.
func (s *Sink) field(column string) string {
	if to, ok := s.o.Columns[column]; ok {
		return to
	}
	return column
}

// fail makes an error of this lane.
func (c *committer) fail(op string, class, err error) error {
	return &sink.Error{Op: op, Sink: c.lane.Sink, Bridge: c.lane.Bridge, Class: class, Err: err}
}

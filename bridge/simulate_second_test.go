package bridge

import (
	"context"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// A simulated bridge may have a second sink: another table of the same server, so that a failover takes both back to one moment.

// simPair is a server with a second sink.
type simPair interface {
	simServer
	second() sink.Sink
	secondRows() map[string]int
}

// pair is sinktest's server with two sinks.
type pair struct{ memory }

func (p pair) failover() simServer { return pair{p.memory.failover().(memory)} }

func (p pair) second() sink.Sink {
	return beside{sinktest.NewSink(p.srv, nil), besideOf(p.table)}
}

func (p pair) secondRows() map[string]int {
	return memory{p.srv, false, besideOf(p.table)}.rows()
}

func besideOf(t *changelog.Table) *changelog.Table {
	return &changelog.Table{Name: t.Name + "_beside", Schema: t.Schema, Mode: t.Mode}
}

// beside writes into another table than the one it is given.
type beside struct {
	sink.Sink
	table *changelog.Table
}

func (s beside) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	l.Tables = []*changelog.Table{s.table}
	c, err := s.Sink.Lane(ctx, l)
	return besideLane{c, s.table}, err
}

type besideLane struct {
	sink.Committer
	table *changelog.Table
}

func (c besideLane) Write(ctx context.Context, b *changelog.Batch) error {
	return c.Committer.Write(ctx, &changelog.Batch{Table: c.table, Changes: b.Changes})
}

// withSecond gives every third world a second sink.
func (p simPlan) withSecond() simPlan {
	p.second = p.seed%3 == 2
	return p
}

package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// simWrong are planted mistakes of a sink or its store, which the simulation must find.
type simWrong struct {
	doubles    bool // a Commit that is repeated shows the rows again
	early      bool // Prepare shows them
	undecided  bool // Open commits all that the ended generations left
	forgets    bool // Open commits nothing
	keeps      bool // Discard keeps what was written
	unlisted   bool // Acquire tells nothing of what the ended generations decided
	unsaved    bool // some Saves are answered and not done
	swallows   bool // deletes have no effect
	unnumbered bool // work is named by its checkpoint alone
}

// simple is a sink of the simplest kind that can be wrong, beside sinktest's store.
type simple struct {
	wrong simWrong
	table *changelog.Table
	mem   *sinktest.Server

	mu      *sync.Mutex
	visible map[string]int
	keyed   map[int64]string
	work    map[simWork][]simChange
	done    map[simWork]bool
	fenced  map[sink.GenerationID]bool
	saves   int
}

type simWork struct {
	generation sink.GenerationID
	checkpoint sink.CheckpointID
}

type simChange struct {
	adds bool
	id   int64
	text string
}

func newSimple(t *changelog.Table, wrong simWrong) *simple {
	return &simple{wrong: wrong, table: t, mem: sinktest.NewServer(), mu: new(sync.Mutex), visible: map[string]int{}, keyed: map[int64]string{},
		work: map[simWork][]simChange{}, done: map[simWork]bool{}, fenced: map[sink.GenerationID]bool{}}
}

func (s *simple) sink() sink.Sink   { return simpleSink{s} }
func (s *simple) store() sink.Store { return simpleStore{sinktest.NewStore(s.mem), s} }

func (s *simple) staged() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.work)
}

func (s *simple) rows() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := maps.Clone(s.visible)
	for _, text := range s.keyed {
		out[text]++
	}
	return out
}

func (s *simple) failover() simServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &simple{wrong: s.wrong, table: s.table, mem: s.mem.Crash(), mu: new(sync.Mutex), visible: maps.Clone(s.visible), keyed: maps.Clone(s.keyed),
		work: maps.Clone(s.work), done: maps.Clone(s.done), fenced: maps.Clone(s.fenced)}
}

func (s *simple) name(g sink.GenerationID, c sink.CheckpointID) simWork {
	if s.wrong.unnumbered {
		g = 0
	}
	return simWork{g, c}
}

func (s *simple) apply(changes []simChange) {
	for _, c := range changes {
		switch keyed := len(s.table.Schema.Key) > 0; {
		case !c.adds && s.wrong.swallows:
		case keyed && c.adds:
			s.keyed[c.id] = c.text
		case keyed:
			delete(s.keyed, c.id)
		default:
			s.visible[c.text]++
		}
	}
}

// commit shows work once.
func (s *simple) commit(w simWork) error {
	if s.done[w] && !s.wrong.doubles {
		return nil
	}
	changes, ok := s.work[w]
	if !ok && !s.wrong.early {
		return &sink.Error{Op: "commit", Class: sink.ErrLost, Err: fmt.Errorf("work %v is not there", w)}
	}
	s.apply(changes)
	if s.done[w] = true; !s.wrong.doubles {
		delete(s.work, w)
	}
	return nil
}

type simpleSink struct{ s *simple }

func (k simpleSink) Guarantee() sink.Guarantee { return memory{srv: k.s.mem}.sink().Guarantee() }

func (k simpleSink) Lane(context.Context, sink.Lane) (sink.Committer, error) {
	return &simpleCommitter{s: k.s}, nil
}

type simpleCommitter struct {
	s       *simple
	written []simChange
}

func (c *simpleCommitter) Open(_ context.Context, claim sink.Claim) error {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fenced[claim.Generation.ID] {
		return &sink.Error{Op: "open", Class: sink.ErrFenced, Err: errors.New("the generation was ended")}
	}
	for _, e := range claim.Ended {
		for _, d := range e.Decided {
			if !s.wrong.forgets {
				if err := s.commit(s.name(d.Generation, d.Checkpoint)); err != nil {
					return err
				}
			}
		}
	}
	for _, e := range claim.Ended {
		s.fenced[e.ID] = true
		for w := range s.work {
			if w.generation == e.ID && !s.done[w] {
				if s.wrong.undecided {
					s.apply(s.work[w])
				}
				delete(s.work, w)
			}
		}
	}
	if !s.wrong.keeps {
		c.written = nil
	}
	return nil
}

func (c *simpleCommitter) Write(_ context.Context, b *changelog.Batch) error {
	for i := range b.Changes {
		ch := &b.Changes[i]
		c.written = append(c.written, simChange{adds: ch.Kind.Adds(), id: ch.Row[0].Int(), text: rowText(ch.Row)})
	}
	return nil
}

func (c *simpleCommitter) Prepare(_ context.Context, cut sink.Cut) (sink.Committable, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fenced[cut.Generation.ID] {
		return sink.Committable{}, &sink.Error{Op: "prepare", Class: sink.ErrFenced, Err: errors.New("the generation was ended")}
	}
	if len(c.written) == 0 {
		return sink.Committable{}, nil
	}
	w := s.name(cut.Generation.ID, cut.Checkpoint)
	if s.wrong.early {
		s.apply(c.written)
	} else {
		s.work[w] = c.written
	}
	c.written = nil
	return sink.Committable{Version: 1, Data: []byte{1}}, nil
}

func (c *simpleCommitter) Discard(context.Context) error {
	if !c.s.wrong.keeps {
		c.written = nil
	}
	return nil
}

func (c *simpleCommitter) Commit(_ context.Context, r sink.Committable) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.commit(c.s.name(r.Generation, r.Checkpoint))
}

func (c *simpleCommitter) Abort(_ context.Context, r sink.Committable) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if w := c.s.name(r.Generation, r.Checkpoint); !c.s.done[w] {
		delete(c.s.work, w)
	}
	return nil
}

func (c *simpleCommitter) Close(context.Context) error { return nil }

type simpleStore struct {
	sink.Store
	s *simple
}

func (t simpleStore) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	c, err := t.Store.Acquire(ctx, r)
	if t.s.wrong.unlisted {
		c.Ended = nil
	}
	return c, err
}

func (t simpleStore) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	t.s.mu.Lock()
	t.s.saves++
	skip := t.s.wrong.unsaved && t.s.saves%20 == 0
	t.s.mu.Unlock()
	if skip {
		return nil
	}
	return t.Store.Save(ctx, gen, cp)
}

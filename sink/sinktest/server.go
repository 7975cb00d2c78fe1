package sinktest

import (
	"maps"
	"slices"
	"sync"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Server is what outlives every process: the tables, the prepared work and fences of sinks, and what stores hold. Sinks and stores
// made on one Server are clients of it, as processes are of one database; what they keep for themselves is gone with them. It is
// safe for use by several goroutines, and each call of a client is atomic on it.
type Server struct {
	mu     sync.Mutex // guards all below
	tables map[string]*table
	sinks  map[sinkName]*sinkState
	store  storeState

	letters []sink.DeadLetter // visible ones, in the order in which they were committed
}

// sinkName keys the state of one sink; two sinks of a bridge, or two bridges, never meet.
type sinkName struct{ bridge, sink string }

// workName names prepared work. A generation and a checkpoint number are never used twice, so the name tells late requests apart
// from those of successors.
type workName struct {
	generation sink.GenerationID
	checkpoint sink.CheckpointID
}

// sinkState is the server's side of one two-phase sink.
type sinkState struct {
	staged map[workName][]change      // prepared, neither committed nor rolled back
	done   map[workName]bool          // committed: the positive proof that a repeated Commit needs
	fenced map[sink.GenerationID]bool // may prepare nothing any more
}

// NewServer returns an empty server.
func NewServer() *Server {
	return &Server{tables: make(map[string]*table), sinks: make(map[sinkName]*sinkState), store: make(storeState)}
}

// Crash returns the world as a power loss at this moment leaves it, for the processes that begin afterwards. s itself goes on, for those
// that did not notice: [Server.Clone] under the name of what it plays.
func (s *Server) Crash() *Server { return s.Clone() }

// Clone returns a server that holds what this one would hold after a power loss at this moment: whatever clients of s have
// not made durable is not in it, and clients of s do not reach it.
func (s *Server) Clone() *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := NewServer()
	for name, t := range s.tables {
		c.tables[name] = t.clone()
	}
	for name, st := range s.sinks {
		c.sinks[name] = st.clone()
	}
	c.store = s.store.clone()
	c.letters = slices.Clone(s.letters) // nobody writes to one
	return c
}

// Table returns the rows of a table that readers see, in a fixed order. A table nothing was committed to has none.
func (s *Server) Table(name string) []changelog.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[name]
	if t == nil {
		return nil
	}
	return t.all()
}

// Staged returns how much prepared work is neither committed nor rolled back, over all sinks.
func (s *Server) Staged() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, st := range s.sinks {
		n += len(st.staged)
	}
	return n
}

// sink returns the state of one sink. The caller holds s.mu.
func (s *Server) sink(name sinkName) *sinkState {
	st := s.sinks[name]
	if st == nil {
		st = &sinkState{
			staged: make(map[workName][]change),
			done:   make(map[workName]bool),
			fenced: make(map[sink.GenerationID]bool),
		}
		s.sinks[name] = st
	}
	return st
}

// apply makes changes visible, in order. The caller holds s.mu.
func (s *Server) apply(changes []change) {
	for _, c := range changes {
		if c.letter != nil {
			s.letters = append(s.letters, *c.letter)
			continue
		}
		t := s.tables[c.table.Name]
		if t == nil {
			t = newTable(c.table)
			s.tables[c.table.Name] = t
		}
		t.apply(c)
	}
}

// clone shares the changes of prepared work, which nobody writes to once it is staged.
func (st *sinkState) clone() *sinkState {
	return &sinkState{staged: maps.Clone(st.staged), done: maps.Clone(st.done), fenced: maps.Clone(st.fenced)}
}

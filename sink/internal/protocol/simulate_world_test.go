package protocol

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// The world of the simulation: time, a network that loses and delays, a consumer group, a store, sinks. It is larger than the exploration's and
// written without it, so that a mistake in the one is not in the other.

// simulation is one schedule. The same seed, with the same faults left out, is the same schedule.
type simulation struct {
	seed  uint64
	r     *rand.Rand
	level float64      // how likely faults are
	off   map[int]bool // faults that are left out, by number
	draws int
	fired []firedFault
	calm  bool // no more faults
	log   func(format string, a ...any)
	// wrong is a planted mistake of the machine; then the checker looks away.
	wrong func(m *Machine, e Event, extra uint8) ([]Effect, uint8)

	now    int64 // in milliseconds
	seq    int
	queue  timeline
	late   []*event // requests on their way for long, in order of sending
	steps  int
	failed error

	parts    []changelog.Partition
	messages int64
	topic    byte // its incarnation; a topic that is made anew has another
	store    simStore
	sinks    []*simSink
	group    simGroup
	procs    []*simProcess
	next     int // number of the next process
}

type firedFault struct {
	number int
	what   string
}

// fault draws whether something goes wrong. Each draw has its own number and chance, so that leaving one out leaves the others be.
func (s *simulation) fault(chance float64, what string) bool {
	n := s.draws
	s.draws++
	if s.calm || s.off[n] {
		return false
	}
	x := s.seed*0x9e3779b97f4a7c15 + uint64(n)*0xbf58476d1ce4e5b9
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	if float64((x^x>>31)>>11)/(1<<53) >= chance*s.level {
		return false
	}
	s.fired = append(s.fired, firedFault{n, what})
	s.note("fault %d: %s", n, what)
	return true
}

func (s *simulation) note(format string, a ...any) {
	if s.log != nil {
		s.log("%6d ms  "+format, append([]any{s.now}, a...)...)
	}
}

func (s *simulation) fail(format string, a ...any) {
	if s.failed == nil {
		s.failed = fmt.Errorf(format, a...)
		s.note("FAILED: %v", s.failed)
	}
}

// event is something that happens at a time.
type event struct {
	at  int64
	seq int
	do  func()
}

type timeline []*event

func (q timeline) Len() int { return len(q) }
func (q timeline) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q timeline) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *timeline) Push(e any)   { *q = append(*q, e.(*event)) }
func (q *timeline) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

func (s *simulation) after(delay int64, do func()) *event {
	e := &event{s.now + delay, s.seq, do}
	s.seq++
	heap.Push(&s.queue, e)
	return e
}

// simGroup is the consumer group: who owns what, and what is being handed over.
type simGroup struct {
	generation int32
	owner      map[changelog.Partition]*simProcess
	moving     map[changelog.Partition]*simProcess // to whom, once the owner has given it back
}

// rebalance spreads the partitions over the members. An owner that is a member gives back in order, within a time; of the others it is taken.
func (s *simulation) rebalance() {
	var members []*simProcess
	for _, p := range s.procs {
		if p.alive && p.member {
			members = append(members, p)
		}
	}
	if len(members) == 0 {
		return
	}
	s.group.generation++
	s.note("group generation %d of %d members", s.group.generation, len(members))
	for _, p := range members {
		if p.pausedUntil <= s.now {
			p.generation = s.group.generation
		}
	}
	for i, part := range s.parts {
		old, to := s.group.owner[part], members[(i+int(s.group.generation))%len(members)]
		if s.r.IntN(2) == 0 && old != nil && old.alive && old.member {
			to = old // sticky
		}
		switch {
		case old == to:
			delete(s.group.moving, part)
		case old == nil || !old.alive || !old.member:
			s.give(part, to)
		default:
			s.group.moving[part] = to
			generation := s.group.generation
			s.after(400, func() { // the rebalance timeout
				if s.group.moving[part] == to && s.group.generation == generation {
					s.give(part, to)
				}
			})
		}
	}
}

func (s *simulation) give(part changelog.Partition, to *simProcess) {
	delete(s.group.moving, part)
	s.group.owner[part] = to
	s.note("%s is given to process %d", part, to.id)
}

type simStore struct {
	away   int64 // until when nothing is answered
	own    map[changelog.Partition]int64
	saved  map[changelog.Partition]changelog.Position
	newest map[changelog.Partition]int32
	gens   []*simGen // by number - 1
}

type simGen struct {
	parts          []changelog.Partition
	ended, settled bool
	last           int64
	pending        []Receipt // decided in last
	tx             *simTx    // of a sink that is its own store: what the server holds open
}

// simTx is an open transaction at the server.
type simTx struct {
	sink *simSink
	what []span
	dead bool
}

func (st *simStore) gen(g int64) *simGen { return st.gens[g-1] }

func (st *simStore) end(g int64) {
	e := st.gen(g)
	e.ended = true
	if e.tx != nil {
		e.tx.dead = true // the old backend is ended
	}
	for _, p := range e.parts {
		if st.own[p] == g {
			st.own[p] = 0
		}
	}
}

func (s *simulation) acquire(parts []changelog.Partition, group int32) Event {
	st := &s.store
	for _, p := range parts {
		if group < st.newest[p] {
			return Failed{Fenced}
		}
	}
	st.gens = append(st.gens, &simGen{parts: parts})
	a := Acquired{Generation: int64(len(st.gens))}
	held := slices.Clone(parts)
	for _, p := range parts {
		if g := st.own[p]; g != 0 {
			st.end(g)
		}
		st.own[p], st.newest[p] = a.Generation, group
		if at, ok := st.saved[p]; ok {
			a.Positions = append(a.Positions, at)
		}
	}
	claimed := make([]bool, len(st.gens))
	for grown := true; grown; {
		grown = false
		for i, g := range st.gens {
			if !claimed[i] && g.ended && !g.settled && overlap(g.parts, held) {
				claimed[i], grown = true, true
				held = append(held, g.parts...)
			}
		}
	}
	for i, is := range claimed {
		if is {
			a.Ended = append(a.Ended, Ended{int64(i + 1), len(st.gens[i].pending)})
		}
	}
	return a
}

func overlap(a, b []changelog.Partition) bool {
	return slices.ContainsFunc(a, func(p changelog.Partition) bool { return slices.Contains(b, p) })
}

func (s *simulation) save(f Save, tx *simTx) Event {
	st, g := &s.store, s.store.gen(f.Generation)
	switch {
	case tx != nil && tx.dead:
		return Failed{Uncertain} // the connection was cut: nobody says what became of COMMIT
	case g.ended:
		return Failed{Fenced}
	case g.last == f.Checkpoint:
		return Saved{}
	}
	for _, from := range f.From {
		if at, ok := st.saved[from.Partition]; ok && at.Offset != from.Offset {
			return Failed{Fenced}
		}
	}
	for _, to := range f.To {
		if at, ok := st.saved[to.Partition]; ok && to.Offset < at.Offset {
			s.fail("positions go back: %s to %s", at, to)
		}
		st.saved[to.Partition] = to
	}
	for _, e := range f.Settled {
		st.gen(e).settled = true
	}
	g.last, g.pending = f.Checkpoint, f.Receipts
	if tx != nil {
		s.apply(tx.sink, tx.what)
		tx.dead = true
		g.tx = nil
	}
	return Saved{}
}

// span is a run of messages of one partition.
type span struct {
	part     changelog.Partition
	from, to int64
}

type work struct{ generation, checkpoint int64 }

type simSink struct {
	number  int
	kind    kind
	staged  map[work][]span
	done    map[work]bool
	fenced  map[int64]bool
	visible map[changelog.Partition][]uint8 // how often each message took effect
}

func (s *simulation) apply(k *simSink, what []span) {
	for _, w := range what {
		for o := w.from; o < w.to; o++ {
			if k.visible[w.part][o]++; k.visible[w.part][o] > 1 && k.kind.exact() {
				s.fail("sink %d: message %d of %s takes effect twice", k.number, o, w.part)
			}
		}
		if at := s.store.saved[w.part]; k.kind.exact() && w.to > at.Offset {
			s.fail("sink %d: %s is visible up to %d and saved up to %d", k.number, w.part, w.to, at.Offset)
		}
	}
}

func (s *simulation) prepare(k *simSink, w work, what []span) Event {
	switch {
	case k.kind == convergent:
		s.apply(k, what)
		return Prepared{k.number, true}
	case k.kind != unfenced && k.fenced[w.generation]:
		return Failed{Fenced}
	}
	if _, again := k.staged[w]; again || k.done[w] {
		s.fail("sink %d: %d.%d is prepared twice", k.number, w.generation, w.checkpoint)
	}
	k.staged[w] = what
	return Prepared{k.number, false}
}

func (s *simulation) commit(k *simSink, w work) Event {
	if k.done[w] {
		return Committed{}
	}
	what, ok := k.staged[w]
	if !ok {
		s.fail("sink %d: %d.%d was decided and is gone", k.number, w.generation, w.checkpoint)
		return Failed{Lost}
	}
	delete(k.staged, w)
	k.done[w] = true
	s.apply(k, what)
	return Committed{}
}

// rollBack drops what generations prepared and did not decide.
func (s *simulation) rollBack(k *simSink, ended []Ended) {
	var drop []work
	for w := range k.staged {
		claimed := slices.ContainsFunc(ended, func(e Ended) bool { return e.Generation == w.generation })
		g := s.store.gen(w.generation)
		decided := g.last == w.checkpoint && !g.settled
		if claimed && !decided || k.kind == unfenced && g.settled {
			drop = append(drop, w)
		}
	}
	for _, w := range drop {
		delete(k.staged, w)
	}
}

// complete says what is missing until everything that was in the topic is visible, once, and nothing is left.
func (s *simulation) complete() error {
	for _, k := range s.sinks {
		for _, p := range s.parts {
			for o, n := range k.visible[p] {
				if n == 0 {
					return fmt.Errorf("sink %d: message %d of %s is missing", k.number, o, p)
				}
			}
		}
		for w := range k.staged {
			if k.kind != unfenced {
				return fmt.Errorf("sink %d: %d.%d is left", k.number, w.generation, w.checkpoint)
			}
		}
	}
	return nil
}

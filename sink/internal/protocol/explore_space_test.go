package protocol

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// The machines of an exploration are taken apart into nodes: a node is what machine and checker are in, with the effect that waits for its
// answer. The real machine takes each step of each node once; what came of it is remembered. A state of the world so holds a
// node's number in place of a machine.

// space is one exploration: its configuration, the nodes met so far, and scratch memory.
type space struct {
	config
	wrong     mistake
	unchecked bool // the machine's invariants are not looked at, so that only the world can tell
	cfg       Settings
	nodes     []node
	index     map[string]uint32
	steps     map[stepKey]stepped
	key       []byte
	problem   string // of the last step whose invariant is broken
	log       func(e Event, fx []Effect)
	claim     uint8 // of the last Acquire delivered
	queue     []wire
	rescued   map[uint64]uint8 // what rescue found, by state
}

type node struct {
	m     *Machine
	c     *checker
	extra uint8 // memory of a mistake
	out   want
	// What the machine tells when nothing is out.
	idle, owned, halted, moved bool
	cp                         uint8
	held                       uint8
	known                      uint8 // partitions whose source's place is known
	at                         [nParts]uint8
}

type stepKey struct {
	node uint32
	told told
}

// stepped is what a step leads to.
type stepped struct {
	to     uint32
	done   bool
	halt   Class // where the machine halted
	broken string
}

func newSpace(c config, wrong mistake) *space {
	x := &space{config: c, wrong: wrong, index: map[string]uint32{}, steps: map[stepKey]stepped{}}
	x.cfg = Settings{Group: !c.outer, Outer: c.outer} // no bounds on tries: the counters only print, and would make the space infinite
	for _, k := range c.kinds {
		if k != absent {
			x.cfg.Sinks++
		}
	}
	x.nodes = append(x.nodes, node{}) // number 0 is none
	x.intern(New(x.cfg), newChecker(x.cfg), 0, want{})
	return x
}

// fresh is the node of a machine that holds nothing.
const fresh = 1

// step lets the real machine take an event, once for each node and event.
func (x *space) step(n uint32, k told) stepped {
	key := stepKey{n, k}
	if s, ok := x.steps[key]; ok && x.log == nil {
		return s
	}
	from := &x.nodes[n]
	m, c, extra, out := from.m.clone(), from.c.clone(), from.extra, from.out
	var s stepped
	func() {
		defer func() {
			if p := recover(); p != nil {
				s.broken = fmt.Sprint(p)
			}
		}()
		e := k.event()
		var fx []Effect
		if x.wrong.machine != nil {
			fx, extra = x.wrong.machine(m, e, extra)
		} else {
			fx = m.Step(e)
		}
		if x.log != nil {
			x.log(e, fx)
		}
		if k.kind != tInterrupt {
			out = want{}
		}
		for _, f := range fx {
			if wantsAnswer(f) {
				out = wanted(f)
			}
			switch f := f.(type) {
			case Done:
				s.done = true
			case Halt:
				s.halt = f.Class
			}
		}
		if x.unchecked {
			return
		}
		if err := c.step(e, fx); err != nil {
			s.broken = err.Error()
		}
	}()
	m.tries, m.unclear, m.commits = 0, 0, 0
	s.to = x.intern(m, c, extra, out)
	x.steps[key] = s
	return s
}

// intern returns the number of a node.
func (x *space) intern(m *Machine, c *checker, extra uint8, out want) uint32 {
	x.key = append(c.append(m.append(x.key[:0])), extra, byte(out.kind), out.sink, out.gen, out.cp)
	if n, ok := x.index[string(x.key)]; ok {
		return n
	}
	n := node{m: m, c: c, extra: extra, out: out, idle: m.Idle(), owned: m.Owned(), halted: m.Halted(), cp: uint8(m.cp), held: setOf(m.parts)}
	n.moved = n.owned && m.Moved()
	for p := range nParts {
		if at, ok := m.Position(partition(p)); ok {
			n.known |= 1 << p
			n.at[p] = uint8(at.Offset)
		}
	}
	x.nodes = append(x.nodes, n)
	x.index[string(x.key)] = uint32(len(x.nodes) - 1)
	return uint32(len(x.nodes) - 1)
}

// clone copies a machine. What is changed in place is copied, what is only appended to is clipped.
func (m *Machine) clone() *Machine {
	c := *m
	c.at, c.from, c.to = slices.Clone(m.at), slices.Clone(m.from), slices.Clone(m.to)
	c.settle, c.receipts, c.retry = slices.Clip(m.settle), slices.Clip(m.receipts), slices.Clip(m.retry)
	return &c
}

// append writes everything that a machine's next steps depend on.
func (m *Machine) append(b []byte) []byte {
	b = append(b, byte(m.phase), byte(m.req), byte(m.gen), byte(m.cp), byte(m.sink), byte(m.then), byte(m.class), byte(m.decided), byte(m.decidedGen))
	b = appendFlags(b, m.atOnce, m.paused, m.lost, m.slept, m.told, m.interrupted)
	for _, ps := range [][]changelog.Partition{m.parts, m.added, m.gone} {
		b = append(b, setOf(ps))
	}
	for _, ps := range [][]changelog.Position{m.at, m.from, m.to} {
		b = appendPositions(b, ps)
	}
	b = append(b, byte(len(m.ended)))
	for _, e := range m.ended {
		b = append(b, byte(e.Generation), byte(e.Decided))
	}
	b = append(b, byte(len(m.settle)))
	for _, g := range m.settle {
		b = append(b, byte(g))
	}
	for _, rs := range [][]Receipt{m.receipts, m.pending, m.retry, m.aborts} {
		b = append(b, byte(len(rs)))
		for _, r := range rs {
			b = append(b, byte(r.Sink), byte(r.Generation), byte(r.Checkpoint))
		}
	}
	return append(b, byte(m.tries), byte(m.unclear), byte(m.commits))
}

func (c *checker) append(b []byte) []byte {
	b = append(b, byte(c.gen), byte(c.cp), byte(c.prepared), byte(c.nonEmpty), byte(c.sent), byte(c.saved), byte(c.waiting), byte(c.opened), byte(c.dirty))
	b = appendFlags(b, c.refused, c.unclear, c.mute, c.slept, c.owned, c.halted)
	b = append(b, byte(len(c.ended)))
	for _, g := range c.ended {
		b = append(b, byte(g))
	}
	gone := uint8(0)
	if r, ok := c.req.(Revoke); ok {
		gone = setOf(r.Gone) + 1
	}
	return append(appendPositions(b, c.lastTo), setOf(c.gone), gone)
}

func appendFlags(b []byte, flags ...bool) []byte {
	var n byte
	for i, f := range flags {
		if f {
			n |= 1 << i
		}
	}
	return append(b, n)
}

func appendPositions(b []byte, ps []changelog.Position) []byte {
	b = append(b, byte(len(ps)))
	for _, p := range ps {
		b = append(b, byte(p.Partition.Partition), byte(p.Offset))
	}
	return b
}

// TestExplore_HashesEveryByte fails when the compiler leaves room between the fields of a world, or behind them: equal worlds may then have
// unequal bytes.
func TestExplore_HashesEveryByte(t *testing.T) {
	var bytes func(t reflect.Type) uintptr
	bytes = func(t reflect.Type) (n uintptr) {
		switch t.Kind() {
		case reflect.Struct:
			for i := range t.NumField() {
				n += bytes(t.Field(i).Type)
			}
			return n
		case reflect.Array:
			return uintptr(t.Len()) * bytes(t.Elem())
		}
		return t.Size()
	}
	if w := reflect.TypeFor[world](); bytes(w) != w.Size() {
		t.Errorf("a world has %d bytes, its fields %d: mend Pad", w.Size(), bytes(w))
	}
}

// TestExplore_ClonesEveryField fails when a machine or a checker has a field that clone and append were not told of.
func TestExplore_ClonesEveryField(t *testing.T) {
	if n := reflect.TypeFor[Machine]().NumField(); n != 31 {
		t.Errorf("Machine has %d fields: look at clone and append in this file", n)
	}
	if n := reflect.TypeFor[checker]().NumField(); n != 22 {
		t.Errorf("checker has %d fields: look at clone in checker_test.go and append in this file", n)
	}
}

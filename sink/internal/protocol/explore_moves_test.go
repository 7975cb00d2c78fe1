package protocol

import "fmt"

// What can happen next in a world.

// move is a step of the world, for people.
type move struct {
	what string
	lane int
	r    wire
	arg  uint8
}

var wireNames = [...]string{"", "Acquire", "Save", "End", "Confirm", "Prepare", "Commit", "Abort", "Fence", "RollBack", "InitProducerID", "Send", "CommitTxn", "AbortTxn", "Statements", "Write", "Next"}

func (r wire) String() string {
	s := wireNames[r.Kind]
	switch r.Kind {
	case rAcquire:
		return fmt.Sprintf("%s %s as of group generation %d", s, partitions(partitionsOf(r.Mask)), r.Group)
	case rSave:
		return fmt.Sprintf("%s %d.%d from %d to %d", s, r.Gen, r.Cp, r.From, r.To)
	case rEnd:
		return fmt.Sprintf("%s %d", s, r.Gen)
	case rConfirm:
		return s
	case rNext:
		return fmt.Sprintf("%s for run %d", s, r.Group)
	case rRollBack, rFence, rInit:
		return fmt.Sprintf("%s %d at sink %d", s, r.Gen, r.Sink)
	}
	return fmt.Sprintf("%s %d.%d at sink %d", s, r.Gen, r.Cp, r.Sink)
}

func (a move) String() string {
	if a.lane < 0 {
		return a.what + ": " + a.r.String()
	}
	s := fmt.Sprintf("process %d: %s", a.lane, a.what)
	if a.r.Kind != 0 {
		s += ": " + a.r.String()
	}
	if a.arg != 0 {
		s += " " + partitions(partitionsOf(a.arg))
	}
	return s
}

type emit func(t *world, a move)

// expand calls emit with every state that can follow w.
func (x *space) expand(w *world, emit emit) {
	for i, r := range w.Ways {
		if r.Kind != 0 && (i == 0 || r != w.Ways[i-1]) {
			t := *w
			t.Ways[i] = wire{}
			if x.deliver(&t, r) != blocked {
				emit(&t, move{"arrives late", -1, r, 0})
			}
		}
	}
	for p := range uint8(nParts) {
		for l := range x.lanes {
			if x.parts>>p&1 == 1 && w.Budget.Moves > 0 && w.Assigned[p] != uint8(l)+1 && w.Lanes[l].Dead == 0 && !w.giving(p) && !x.outer {
				t := *w
				t.Budget.Moves--
				t.Assigned[p] = uint8(l) + 1
				t.Group++
				emit(&t, move{"the group gives it, without asking the owner,", l, wire{}, 1 << p})
			}
		}
	}
	for l := range x.lanes {
		if w.Lanes[l].Dead == 0 {
			x.lane(w, l, emit)
			if x.outer {
				x.restores(w, l, emit)
			}
		}
	}
}

// acquires reports a request that takes a generation's number.
func (r wire) acquires() bool { return r.Kind == rAcquire || r.Kind == rNext }

func (w *world) giving(p uint8) bool {
	for l := range w.Lanes {
		if w.Lanes[l].Giving>>p&1 == 1 {
			return true
		}
	}
	return false
}

func (x *space) lane(w *world, l int, emit emit) {
	ln := w.Lanes[l]
	n := &x.nodes[ln.Node]
	room := w.Ways[nWays-1].Kind == 0
	if n.idle {
		x.idle(w, l, emit)
	}
	if ln.Node == fresh {
		return
	}
	waits := x.outer && n.out.kind == wantSave // for the engine, in no call
	if w.Budget.Interrupts > 0 && !n.idle && n.out.kind != nothing && !waits {
		t := *w
		t.Budget.Interrupts--
		step := t.Lanes[l].Step
		x.feed(&t, l, told{kind: tInterrupt})
		t.Lanes[l].Step = step
		emit(&t, move{"patience ends", l, wire{}, 0})
	}
	if w.Budget.Crashes > 0 {
		t := *w
		t.Budget.Crashes--
		x.end(&t, l)
		emit(&t, move{"crashes", l, wire{}, 0})
	}
	if n.idle {
		return
	}
	if waits {
		x.engine(w, l, emit)
		return
	}
	r := x.requests(w, l)[ln.Step]
	t := *w
	if !r.acquires() || w.Next < x.gens {
		if x.ask(&t, l) {
			emit(&t, move{"does", l, r, 0})
		}
	}
	if r.acquires() && w.Next >= x.gens {
		return
	}
	lasting := r.Kind != rStatements && r.Kind != rConfirm // what may still arrive when the connection is gone
	if w.Budget.Crashes > 0 && room && lasting {
		t := *w
		t.Budget.Crashes--
		x.end(&t, l)
		t.Ways[nWays-1] = r
		emit(&t, move{"crashes while it asks", l, r, 0})
	}
	if w.Budget.Lost > 0 && (room || !lasting) {
		t := *w
		t.Budget.Lost--
		if lasting {
			t.Ways[nWays-1] = r
		}
		x.fails(&t, l, r, Uncertain)
		emit(&t, move{"gets no answer", l, r, 0})
	}
	if w.Budget.Refused > 0 {
		t := *w
		t.Budget.Refused--
		x.fails(&t, l, r, Transient)
		emit(&t, move{"is certainly refused", l, r, 0})
	}
}

// idle are the requests that a lane's caller may make.
func (x *space) idle(w *world, l int, emit emit) {
	ln := w.Lanes[l]
	n := x.nodes[ln.Node]
	full := n.cp >= nCps && (n.moved || x.outer) // one checkpoint more than the world has names for
	var add, gone uint8
	for p := range uint8(nParts) {
		if x.outer {
			break
		}
		switch mine := w.Assigned[p] == uint8(l)+1; {
		case mine && n.held>>p&1 == 0:
			add |= 1 << p
		case !mine && n.held>>p&1 == 1:
			gone |= 1 << p
		}
	}
	if add != 0 && !full {
		t := *w
		t.Lanes[l].Adding, t.Lanes[l].Group = add, w.Group
		x.feed(&t, l, told{kind: tAssign, parts: add})
		emit(&t, move{"is assigned", l, wire{}, add})
	}
	if gone != 0 {
		t := *w
		t.Lanes[l].Group = w.Group
		x.feed(&t, l, told{kind: tLose, parts: gone})
		emit(&t, move{"learns that it lost", l, wire{}, gone})
	}
	if n.held == 0 {
		return
	}
	unread := false
	for p := range uint8(nParts) {
		unread = unread || n.held>>p&1 == 1 && ln.Read[p] < nChanges
	}
	if n.owned && unread {
		for _, all := range []bool{false, true} {
			t := *w
			x.read(&t, l, all)
			what := "reads a message"
			if all {
				what = "reads all"
			}
			emit(&t, move{what, l, wire{}, 0})
		}
		if w.Budget.Writes > 0 {
			for p := range uint8(nParts) {
				if n.held>>p&1 == 1 && ln.Read[p] < nChanges {
					t := *w
					t.Budget.Writes--
					x.write(&t, &t.Lanes[l], p, 1)
					x.feed(&t, l, told{kind: tWriteFailed, sink: uint8(x.cfg.Sinks - 1), class: Redo, parts: 1 << p})
					emit(&t, move{"reads a message that a sink refuses of", l, wire{}, 1 << p})
				}
			}
		}
	}
	if (n.moved || !n.owned || x.outer) && !full {
		t := *w
		x.feed(&t, l, told{kind: tBarrier})
		emit(&t, move{"barrier", l, wire{}, 0})
	}
	for p := range uint8(nParts) {
		for to := range x.lanes {
			if !x.outer && w.Budget.Moves > 0 && to != l && n.held>>p&1 == 1 && w.Assigned[p] == uint8(l)+1 && !full && w.Lanes[to].Dead == 0 {
				t := *w
				t.Budget.Moves--
				t.Lanes[l].Giving, t.Lanes[l].GiveTo = 1<<p, uint8(to)
				x.feed(&t, l, told{kind: tRevoke, parts: 1 << p})
				emit(&t, move{fmt.Sprintf("is to hand to process %d", to), l, wire{}, 1 << p})
			}
		}
	}
}

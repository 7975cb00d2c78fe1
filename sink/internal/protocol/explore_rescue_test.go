package protocol

import "hash/maphash"

// rescue asks of a state whether somebody whom nothing disturbs brings everything to its end from here: a new owner of all partitions, and each
// process that is in the middle of something and not fenced.
func (x *space) rescue(w *world, seed maphash.Seed) uint8 {
	for l := range x.lanes {
		if n := &x.nodes[w.Lanes[l].Node]; n.out.kind != nothing && w.Lanes[l].Dead == 0 {
			if b := x.once(x.alone(w, l), seed, func(t *world) uint8 { return x.goesOn(t, l) }); b != 0 {
				return b
			}
		}
	}
	t := x.alone(w, last)
	t.Group++
	for p := range uint8(nParts) {
		if x.parts>>p&1 == 1 {
			t.Assigned[p] = last + 1
		}
	}
	return x.once(t, seed, x.recover)
}

// alone is the world with one process in it. Of the others only the locks of their open transactions are left, as of stopped ones.
func (x *space) alone(w *world, l int) *world {
	t := *w
	t.Budget = budget{}
	for i := range t.Lanes {
		if i == l {
			continue
		}
		open := t.Lanes[i]
		t.Lanes[i] = lane{Node: fresh}
		if open.Tx == 1 {
			t.Lanes[i].Tx, t.Lanes[i].Gen, t.Lanes[i].InTx = 1, open.Gen, open.InTx
		}
	}
	x.canon(&t)
	return &t
}

// once remembers what f found of a state: many states are the same but for processes that do not matter any more.
func (x *space) once(t *world, seed maphash.Seed, f func(t *world) uint8) uint8 {
	h := t.hash(seed)
	if b, ok := x.rescued[h]; ok {
		return b
	}
	b := f(t)
	x.rescued[h] = b
	return b
}

// goesOn has a process finish what it is doing. One that is fenced may wait for the locks of its successor.
func (x *space) goesOn(t *world, l int) uint8 {
	ln := &t.Lanes[l]
	for range 100 {
		n := &x.nodes[ln.Node]
		if n.out.kind == nothing || n.out.kind == wantAcquire && t.Next >= x.gens {
			return 0
		}
		if x.outer && n.out.kind == wantSave {
			x.settle(t, l)
		} else if !x.ask(t, l) {
			if t.Gens[ln.Gen].Set != 0 && !t.ended(ln.Gen) {
				return badStuck
			}
			return 0
		}
		if b := x.check(t); b != 0 {
			return b
		}
	}
	return badStuck
}

// recover has the last owner take, read, and save everything there is.
func (x *space) recover(t *world) uint8 {
	if b := x.takeAll(t); b != 0 {
		return b
	}
	if !x.good(t) {
		return badStuck
	}
	return x.afterwards(t)
}

func (x *space) takeAll(t *world) uint8 {
	ln := &t.Lanes[last]
	ln.Adding, ln.Group = x.parts, t.Group
	if x.outer {
		x.restore(t, last)
	} else {
		x.feed(t, last, told{kind: tAssign, parts: x.parts})
	}
	for range 200 {
		if b := x.check(t); b != 0 {
			return b
		}
		n := x.nodes[ln.Node]
		switch {
		case ln.Dead == 1:
			return badStuck
		case x.outer && n.out.kind == wantSave:
			x.settle(t, last)
		case !n.idle:
			if !x.ask(t, last) {
				return badStuck
			}
		case n.moved || !n.owned && n.held != 0:
			x.feed(t, last, told{kind: tBarrier})
		case x.unread(t, last):
			x.read(t, last, true)
		default:
			return 0
		}
	}
	return badStuck
}

func (x *space) unread(t *world, l int) bool {
	n := &x.nodes[t.Lanes[l].Node]
	for p := range uint8(nParts) {
		if n.held>>p&1 == 1 && t.Lanes[l].Read[p] < nChanges {
			return true
		}
	}
	return false
}

// afterwards lets what is still under way arrive after the end, in both orders. What that left, the next open sweeps, where a sink cannot
// refuse it.
func (x *space) afterwards(t *world) uint8 {
	for first := range nWays {
		late := *t
		for i := range nWays {
			if r := late.Ways[(first+i)%nWays]; r.Kind != 0 {
				late.Ways[(first+i)%nWays] = wire{}
				x.deliver(&late, r)
				if b := x.check(&late); b != 0 {
					return b
				}
			}
		}
		if !x.good(&late) {
			return badStuck
		}
		if !x.sweeping() {
			continue
		}
		late.Lanes[last] = lane{Node: fresh}
		late.Group++
		if b := x.takeAll(&late); b != 0 {
			return b
		}
		for s, k := range x.kinds {
			for h := uint8(1); h < nGens && k.sweeps(); h++ {
				if late.leftover(uint8(s), h) {
					return badLeftover
				}
			}
		}
	}
	return 0
}

func (x *space) sweeping() bool {
	for _, k := range x.kinds {
		if k.sweeps() {
			return true
		}
	}
	return false
}

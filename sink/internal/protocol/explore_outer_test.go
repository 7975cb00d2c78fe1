package protocol

// The world of an outer engine: no group, no store. The engine gives a process the newest state that it has made durable (Restore), makes the
// state of a barrier durable, or drops it, and tells the process so (Complete, Abort) now, later, or never. Processes that were replaced live
// on and may be told late. What External does beside the machine, it does here: the claim is made of the state that the process has, not of what
// the engine has decided since.

// outerWrongs are duties of an engine, or of External, that are not kept.
type outerWrongs struct {
	anyRunDecides      bool // a run that was replaced may still decide
	anyRunCounts       bool // or take a number
	completesUnkept    bool
	abortsKept         bool
	numberedAfterState bool // the generation's number is that of the state and one
	claimsTheStateOnly bool // of the runs since the state none is listed
	restoresOlder      bool // the first state is given again, when there is a newer one
}

// restores lets the engine begin a run in a process that holds nothing: where the newest run died, and once more while it lives.
func (x *space) restores(w *world, l int, emit emit) {
	if w.Lanes[l].Node != fresh {
		return
	}
	lives := false
	for i := range x.lanes {
		lives = lives || w.Lanes[i].Node != fresh && w.Lanes[i].Run == w.Run
	}
	if lives && w.Budget.Moves == 0 || w.Next >= x.gens {
		return
	}
	t := *w
	if lives {
		t.Budget.Moves--
	}
	x.restore(&t, l)
	emit(&t, move{"is given the newest state", l, wire{}, 0})
}

func (x *space) restore(t *world, l int) {
	t.Run++
	ln := &t.Lanes[l]
	ln.Run, ln.Base, ln.Adding = t.Run, t.Engine, x.parts
	if x.wrong.restoresOlder && ln.Base.Cp > 1 {
		ln.Base = t.Older
	}
	x.feed(t, l, told{kind: tAssign, parts: x.parts})
}

// engine is what an outer engine may do about a barrier that was taken.
func (x *space) engine(w *world, l int, emit emit) {
	ln := &w.Lanes[l]
	current := ln.Run == w.Run || x.wrong.anyRunDecides
	if ln.Kept == 0 && current {
		t := *w
		x.keep(&t, l)
		emit(&t, move{"has its state made durable", l, wire{}, 0})
	}
	if ln.Kept == 1 || x.wrong.completesUnkept {
		t := *w
		x.complete(&t, l)
		emit(&t, move{"is told Complete", l, wire{}, 0})
	}
	if ln.Kept == 0 || x.wrong.abortsKept {
		t := *w
		t.Lanes[l].Kept = 0
		x.feed(&t, l, told{kind: tFailed, class: Redo})
		emit(&t, move{"is told Abort", l, wire{}, 0})
	}
}

// settle does what ends a barrier best.
func (x *space) settle(t *world, l int) {
	switch ln := &t.Lanes[l]; {
	case ln.Kept == 1:
		x.complete(t, l)
	case ln.Run == t.Run:
		x.keep(t, l)
	default:
		x.feed(t, l, told{kind: tFailed, class: Redo})
	}
}

// keep is the decision: the state of the barrier is the newest from now on, with all that it lists.
func (x *space) keep(w *world, l int) {
	ln := &w.Lanes[l]
	f := &x.nodes[ln.Node].out
	if ln.Run != w.Run {
		w.bad(badZombie)
	}
	for p := range uint8(nParts) {
		if x.parts>>p&1 == 1 {
			if f.to[p] < w.Pos[p] {
				w.bad(badBack)
			}
			if f.to[p]%2 != 0 {
				w.bad(badSplit)
			}
			w.Pos[p] = f.to[p]
			w.Known |= 1 << p
		}
	}
	w.Gens[f.gen].Last, w.Gens[f.gen].Pend = f.cp, f.receipts
	for h := uint8(1); h < f.gen; h++ { // to be here its sinks were opened, which settled everything before
		if w.Gens[h].Set != 0 {
			w.Gens[h].Settled = 1
		}
	}
	w.Older, w.Engine = w.Engine, base{f.gen, f.cp, f.receipts, w.Pos}
	ln.Kept = 1
}

// complete tells a process that its state was kept.
func (x *space) complete(w *world, l int) {
	ln := &w.Lanes[l]
	f := &x.nodes[ln.Node].out
	ln.Base, ln.Kept = base{f.gen, f.cp, f.receipts, ln.Base.Pos}, 0
	for p := range uint8(nParts) {
		if x.parts>>p&1 == 1 {
			ln.Base.Pos[p] = f.to[p]
		}
	}
	x.feed(w, l, told{kind: tSaved})
}

// deliverNext counts, for the newest run only.
func (x *space) deliverNext(w *world, r wire) outcome {
	if r.Group != w.Run && !x.wrong.anyRunCounts {
		return refused
	}
	w.Next++
	n := w.Next
	w.Gens[n].Set = r.Mask
	for p := range uint8(nParts) {
		if r.Mask>>p&1 == 1 {
			w.Own[p] = n
		}
	}
	return ok
}

// number is what the process makes of the counter's answer.
func (x *space) number(w *world, ln *lane) uint8 {
	if x.wrong.numberedAfterState {
		w.Gens[ln.Base.Gen+1].Set = x.parts
		return ln.Base.Gen + 1
	}
	return w.Next
}

// outerClaim lists the generation of the state, and every number since, each of which may have been a run.
func (x *space) outerClaim(w *world, ln *lane) (claim uint8) {
	for h := max(ln.Base.Gen, 1); h < x.number(w, ln); h++ {
		if h == ln.Base.Gen || !x.wrong.claimsTheStateOnly {
			claim |= 1 << h
		}
	}
	return claim
}

// listed returns the checkpoint of a generation whose committable of a sink a claim lists, 0 for none.
func (x *space) listed(w *world, ln *lane, sink, h uint8) uint8 {
	if x.outer {
		if h != 0 && h == ln.Base.Gen && ln.Base.Pend>>sink&1 == 1 {
			return ln.Base.Cp
		}
		return 0
	}
	if cp := w.Gens[h].Last; cp != 0 && w.decided(sink, h, cp) {
		return cp
	}
	return 0
}

// keeps reports work that a rollback must leave.
func (x *space) keeps(w *world, r wire, h, cp uint8) bool {
	if x.outer {
		return h == r.Name && cp == r.Cp
	}
	return w.decided(r.Sink, h, cp)
}

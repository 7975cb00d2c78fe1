package protocol

import "math/bits"

// What servers do with a request, at its moment.

type outcome uint8

const (
	ok outcome = iota
	refused
	blocked // waits for a lock
	gone
	cut // the connection was ended by the server: unclear to the asker
)

func (w *world) ended(g uint8) bool {
	for p := range uint8(nParts) {
		if w.Gens[g].Set>>p&1 == 1 && w.Own[p] != g {
			return true
		}
	}
	return false
}

func (w *world) bad(b uint8) {
	if w.Bad == 0 {
		w.Bad = b
	}
}

func (w *world) apply(sink uint8, what content) {
	if w.Sinks[sink].Visible&what != 0 {
		w.bad(badDoubled)
	}
	w.Sinks[sink].Visible |= what
}

// decided reports work that a sink still has to commit.
func (w *world) decided(sink, g, cp uint8) bool {
	return w.Gens[g].Last == cp && w.Gens[g].Pend>>sink&1 == 1
}

// prepared reports prepared work of one of some generations.
func (w *world) prepared(sink, gens uint8) bool {
	for h := uint8(1); h < nGens; h++ {
		if gens>>h&1 == 1 {
			for cp := range w.Sinks[sink].Items[h] {
				if w.Sinks[sink].Items[h][cp].State == 1 {
					return true
				}
			}
		}
	}
	return false
}

// deliver is the moment of a request at its server.
func (x *space) deliver(w *world, r wire) outcome {
	s, g := &w.Sinks[r.Sink], r.Gen
	switch r.Kind {
	case rAcquire:
		return x.deliverAcquire(w, r)
	case rNext:
		return x.deliverNext(w, r)
	case rSave:
		return x.deliverSave(w, r)
	case rEnd:
		for p := range w.Own {
			if w.Own[p] == g {
				w.Own[p] = 0
			}
		}
	case rConfirm:
		if x.outer { // nobody could say so
			return refused
		}
		for p := range uint8(nParts) {
			if r.Mask>>p&1 == 1 && w.Assigned[p] != r.Lane+1 {
				return refused
			}
		}
		w.Lanes[r.Lane].Group = w.Group
	case rPrepare:
		if s.Fenced>>g&1 == 1 {
			return refused
		}
		it := &s.Items[g][r.Cp-1]
		if it.State != 0 {
			if *it == (item{1, r.What}) {
				return ok
			}
			return refused
		}
		*it = item{1, r.What}
	case rCommit:
		switch it := &s.Items[g][r.Cp-1]; it.State {
		case 0:
			return gone
		case 1:
			w.apply(r.Sink, it.What)
			*it = item{State: 2}
		}
	case rAbort:
		if it := &s.Items[g][r.Cp-1]; it.State == 1 {
			*it = item{}
		}
	case rFence:
		if x.kinds[r.Sink] == locked && w.prepared(r.Sink, r.Mask) {
			return blocked
		}
		s.Fenced |= r.Mask
	case rRollBack:
		for h := uint8(1); h < nGens; h++ {
			if x.rolledBack(w, r, h) {
				for cp := range uint8(nCps) {
					if s.Items[h][cp].State == 1 && !(x.keeps(w, r, h, cp+1) && r.Mask>>h&1 == 1 && !x.wrong.sweepsAll) {
						s.Items[h][cp] = item{}
					}
				}
			}
		}
	case rInit: // also aborts what is open under the id
		s.Sessions[r.Name] = session{Epoch: s.Sessions[r.Name].Epoch + 1}
	case rSend:
		t := &s.Sessions[r.Name]
		switch {
		case t.Epoch != r.Epoch:
			return refused
		case t.Open == 1:
			t.Mixed = 1
		default:
			*t = session{Epoch: t.Epoch, Open: 1, Gen: g, Cp: r.Cp, What: r.What}
		}
	case rCommitTxn, rAbortTxn: // what the log's own marker says of a transaction that is not open is no question here
		if t := &s.Sessions[r.Name]; t.Epoch == r.Epoch && t.Open == 1 {
			if r.Kind == rCommitTxn {
				if t.Mixed == 1 {
					w.bad(badMixed)
				}
				w.apply(r.Sink, t.What)
			}
			*t = session{Epoch: t.Epoch}
			if !x.wrong.epochOfSession {
				t.Epoch++ // transaction.version 2: each transaction has its epoch
			}
		}
	case rStatements: // the first of them asks whether the generation is over
		if w.ended(g) && !x.wrong.endedMayBegin {
			return refused
		}
		for l := range w.Lanes { // row locks of other open transactions
			if o := &w.Lanes[l]; uint8(l) != r.Lane && o.Tx == 1 && w.Gens[o.Gen].Set&w.Gens[g].Set != 0 {
				return blocked
			}
		}
	case rWrite:
		s.Visible |= r.What
	}
	return ok
}

func (x *space) rolledBack(w *world, r wire, h uint8) bool {
	if r.Mask>>h&1 == 1 {
		return true
	}
	if !x.wrong.rollBackByPartition || h == r.Gen || w.Gens[h].Set == 0 {
		return false
	}
	for e := uint8(1); e < nGens; e++ {
		if r.Mask>>e&1 == 1 && first(w.Gens[e].Set) == first(w.Gens[h].Set) {
			return true
		}
	}
	return false
}

func first(set uint8) uint8 { return uint8(bits.TrailingZeros8(set)) }

func (x *space) deliverAcquire(w *world, r wire) outcome {
	for p := range uint8(nParts) {
		if r.Mask>>p&1 == 1 && r.Group < w.Newest[p] {
			if !x.wrong.anyGroupGeneration {
				return refused
			}
			w.bad(badOvertaken)
		}
	}
	w.Next++
	g := w.Next
	w.Gens[g].Set = r.Mask
	var before uint8 // owners until now
	for p := range uint8(nParts) {
		if r.Mask>>p&1 == 1 {
			before |= 1 << w.Own[p]
			w.Own[p], w.Newest[p] = g, r.Group
		}
	}
	x.claim = 0
	for held, grown := r.Mask, true; grown; { // transitively
		grown = false
		for h := uint8(1); h < g; h++ {
			if x.claim>>h&1 == 0 && w.Gens[h].Set&held != 0 && w.Gens[h].Settled == 0 && w.ended(h) && (!x.wrong.claimsOnlyTheLast || before>>h&1 == 1) {
				x.claim |= 1 << h
				grown = true
				held |= w.Gens[h].Set
			}
		}
	}
	for h := uint8(1); h < g; h++ {
		if x.wrong.settledAtAcquire && x.claim>>h&1 == 1 {
			w.Gens[h].Settled = 1
		}
	}
	if !x.wrong.backendLives {
		for l := range w.Lanes {
			if o := &w.Lanes[l]; o.Tx == 1 && o.Gen != g && w.ended(o.Gen) {
				o.Tx = 2
			}
		}
	}
	return ok
}

func (x *space) deliverSave(w *world, r wire) outcome {
	g := r.Gen
	over := w.ended(g)
	if over && !x.wrong.saveChecksNoFence {
		return refused
	}
	if w.Gens[g].Last == r.Cp && !x.wrong.saveDoesNotCompare {
		return ok
	}
	for p := range uint8(nParts) {
		if w.Gens[g].Set>>p&1 == 1 && w.Known>>p&1 == 1 && w.Pos[p] != r.From[p] && !x.wrong.saveDoesNotCompare {
			return refused
		}
	}
	if over {
		w.bad(badZombie)
	}
	for p := range uint8(nParts) {
		if w.Gens[g].Set>>p&1 == 1 {
			if r.To[p] < w.Pos[p] {
				w.bad(badBack)
			}
			if r.To[p]%2 != 0 {
				w.bad(badSplit)
			}
			w.Pos[p] = r.To[p]
			w.Known |= 1 << p
		}
	}
	w.Gens[g].Last, w.Gens[g].Epoch = r.Cp, r.Epoch
	w.Gens[g].Pend = r.Receipts
	for h := uint8(1); h < nGens; h++ {
		if r.Mask>>h&1 == 1 {
			w.Gens[h].Settled = 1
		}
	}
	for s, k := range x.kinds {
		if k == ownStore {
			w.apply(uint8(s), r.What)
		}
	}
	return ok
}

// inert reports a request under way that can change nothing any more.
func (x *space) inert(w *world, r wire) bool {
	s := &w.Sinks[r.Sink]
	switch r.Kind {
	case rCommit:
		return s.Items[r.Gen][r.Cp-1].State == 2
	case rPrepare:
		return s.Fenced>>r.Gen&1 == 1
	case rFence:
		return s.Fenced|r.Mask == s.Fenced
	case rSend, rCommitTxn, rAbortTxn:
		return r.Epoch < s.Sessions[r.Name].Epoch
	case rSave:
		return w.ended(r.Gen) && !x.wrong.saveChecksNoFence
	case rEnd:
		return w.Gens[r.Gen].Set != 0 && !w.owns(r.Gen)
	case rAcquire:
		for p := range uint8(nParts) {
			if r.Mask>>p&1 == 1 && r.Group < w.Newest[p] && !x.wrong.anyGroupGeneration {
				return true
			}
		}
	case rNext:
		return r.Group != w.Run && !x.wrong.anyRunCounts
	case rConfirm, rStatements:
		return true
	}
	return false
}

func (w *world) owns(g uint8) bool {
	for _, o := range w.Own {
		if o == g {
			return true
		}
	}
	return false
}

package protocol

// The properties, by number. Invariants of the machine are badInvariant.
const (
	_ uint8 = iota
	badDoubled
	badBack
	badMixed
	badUndecided
	badLost
	badLeftover
	badSplit
	badZombie
	badOvertaken
	badInvariant
	badStuck
)

var badNames = [...]string{"",
	"a change takes effect twice",
	"positions go back",
	"two attempts are mixed in one transaction",
	"an undecided change is visible",
	"a change is lost: decided, not visible, and nothing left to commit",
	"undecided work of a settled generation is left: nobody will ever roll it back",
	"a -U and its +U are split",
	"a generation that is over moved the positions",
	"an Acquire of an older group generation ended the generation of its successor",
	"an invariant of the machine is broken",
	"an owner that nothing disturbs does not bring everything to its end",
}

// check looks at the properties that hold in every state.
func (x *space) check(w *world) uint8 {
	if w.Bad != 0 {
		return w.Bad
	}
	for s := range uint8(nSinks) {
		k := x.kinds[s]
		if k == absent {
			continue
		}
		var saved content
		for p := range uint8(nParts) {
			saved |= (1<<w.Pos[p] - 1) << (p * nChanges)
		}
		visible := w.Sinks[s].Visible
		if k.exact() {
			if visible&^saved != 0 {
				return badUndecided
			}
			for p := range uint8(nParts) {
				for o := uint8(0); o < nChanges; o += 2 {
					if m := visible & message(p, o); m != 0 && m != message(p, o) {
						return badSplit
					}
				}
			}
		}
		if saved&^(visible|x.coming(w, s)) != 0 {
			return badLost
		}
		if !k.sweeps() {
			for h := uint8(1); h < nGens; h++ {
				if w.Gens[h].Settled == 1 && w.leftover(s, h) {
					return badLeftover
				}
			}
		}
	}
	return 0
}

// coming is what is decided, not visible, and there to be committed.
func (x *space) coming(w *world, sink uint8) (c content) {
	for h := uint8(1); h < nGens; h++ {
		cp := w.Gens[h].Last
		if cp == 0 || !w.decided(sink, h, cp) {
			continue
		}
		if it := w.Sinks[sink].Items[h][cp-1]; it.State == 1 {
			c |= it.What
		}
		if t := w.Sinks[sink].Sessions[x.name(w, h)]; t.Open == 1 && t.Gen == h && t.Cp == cp && t.Epoch == w.Gens[h].Epoch {
			c |= t.What
		}
	}
	return c
}

// leftover reports undecided prepared work of a generation.
func (w *world) leftover(sink, h uint8) bool {
	for cp := range uint8(nCps) {
		if w.Sinks[sink].Items[h][cp].State == 1 && !w.decided(sink, h, cp+1) {
			return true
		}
	}
	for _, t := range w.Sinks[sink].Sessions {
		if t.Open == 1 && t.Gen == h && !w.decided(sink, h, t.Cp) {
			return true
		}
	}
	return false
}

// name is the id of a generation's session.
func (x *space) name(w *world, g uint8) uint8 {
	if x.wrong.sessionsNamedByPartition {
		return first(w.Gens[g].Set) + 1
	}
	return g
}

// good reports the good end: all is visible once, nothing is left.
func (x *space) good(w *world) bool {
	for s, k := range x.kinds {
		if k == absent {
			continue
		}
		if w.Sinks[s].Visible != 1<<(nParts*nChanges)-1 {
			return false
		}
		for h := uint8(1); h < nGens; h++ {
			if !k.sweeps() && w.leftover(uint8(s), h) {
				return false
			}
		}
	}
	return true
}

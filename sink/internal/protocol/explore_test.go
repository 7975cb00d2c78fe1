package protocol

import (
	"hash/maphash"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"
)

func (c config) first() (w world) {
	for l := range w.Lanes {
		w.Lanes[l].Node = fresh
	}
	w.Assigned, w.Group, w.Budget = c.start, 1, c.budget
	w.Known = allParts
	if c.fresh {
		w.Known = allParts &^ c.parts
	}
	for p := range uint8(nParts) {
		if c.parts>>p&1 == 0 { // not there: it is done
			w.Pos[p] = nChanges
			for s, k := range c.kinds {
				if k != absent {
					w.Sinks[s].Visible |= (1<<nChanges - 1) << (p * nChanges)
				}
			}
		}
	}
	return w
}

// canon gives equal worlds equal bytes: requests that are under way and can do nothing are dropped, the others sorted.
func (x *space) canon(w *world) {
	for i := range w.Ways {
		if w.Ways[i].Kind != 0 && x.inert(w, w.Ways[i]) {
			w.Ways[i] = wire{}
		}
	}
	for i := range w.Ways {
		for j := i; j > 0 && w.Ways[j-1].bytes() < w.Ways[j].bytes(); j-- {
			w.Ways[j], w.Ways[j-1] = w.Ways[j-1], w.Ways[j]
		}
	}
}

func (r *wire) bytes() string { return unsafe.String((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r)) }

func (w *world) hash(seed maphash.Seed) uint64 {
	return maphash.Bytes(seed, unsafe.Slice((*byte)(unsafe.Pointer(w)), unsafe.Sizeof(*w)))
}

// finding is what an exploration ends with.
type finding struct {
	bad    uint8
	note   string
	trace  []move // the shortest way there
	states int
	took   time.Duration
}

func (f finding) String() string {
	if f.bad == 0 {
		return "holds"
	}
	if f.note != "" {
		return badNames[f.bad] + ": " + f.note
	}
	return badNames[f.bad]
}

// explore visits every state, nearest first, and keeps of each a hash of 64 bits and its parent. That two of ten million states share a
// hash, and one of them is not looked at, has a chance of three in a million; the seed is another each time.
func (x *space) explore() finding {
	began, seed := time.Now(), maphash.MakeSeed()
	seen, parent := map[uint64]uint32{}, []uint32{}
	x.rescued = map[uint64]uint8{}
	hashes := []uint64{}
	w := x.first()
	x.canon(&w)
	var front shelf
	front.put(w, 0)
	seen[w.hash(seed)], parent, hashes = 0, append(parent, 0), append(hashes, w.hash(seed))
	result := func(id uint32, bad uint8) finding {
		f := finding{bad: bad, states: len(parent), took: time.Since(began)}
		if bad == badInvariant {
			f.note = x.problem
		}
		if bad != 0 {
			f.trace = x.path(id, parent, hashes, seed)
		}
		return f
	}
	for len(front) > 0 {
		var next shelf
		for i := range front {
			for j := range front[i] {
				at := &front[i][j]
				var badID uint32
				var bad uint8
				x.expand(&at.world, func(t *world, _ move) {
					if bad != 0 {
						return
					}
					x.canon(t)
					h := t.hash(seed)
					if _, old := seen[h]; old {
						return
					}
					id := uint32(len(parent))
					seen[h], parent, hashes = id, append(parent, at.id), append(hashes, h)
					if bad = x.check(t); bad == 0 {
						bad = x.rescue(t, seed)
					}
					badID = id
					next.put(*t, id)
				})
				if bad != 0 {
					return result(badID, bad)
				}
			}
			front[i] = nil // free for the next
		}
		front = next
	}
	return result(0, 0)
}

// shelf holds the states of one distance from the start, in pieces, so that it grows without being copied and is freed as it is used.
type shelf [][]stop

type stop struct {
	world
	id uint32
}

func (s *shelf) put(w world, id uint32) {
	const piece = 1 << 10
	if n := len(*s); n == 0 || len((*s)[n-1]) == piece {
		*s = append(*s, make([]stop, 0, piece))
	}
	at := &(*s)[len(*s)-1]
	*at = append(*at, stop{w, id})
}

// path finds the moves that lead to a state, by expanding its ancestors again.
func (x *space) path(id uint32, parent []uint32, hashes []uint64, seed maphash.Seed) (trace []move) {
	var chain []uint32
	for ; id != 0; id = parent[id] {
		chain = append(chain, id)
	}
	w := x.first()
	x.canon(&w)
	for i := len(chain) - 1; i >= 0; i-- {
		var found *world
		from := w
		x.expand(&from, func(t *world, a move) {
			if x.canon(t); found == nil && t.hash(seed) == hashes[chain[i]] {
				c := *t
				found = &c
				trace = append(trace, a)
			}
		})
		if found == nil {
			return append(trace, move{what: "the trace is lost: two states with one hash"})
		}
		w = *found
	}
	return trace
}

// TestExplore visits every state of every world of configs.
func TestExplore(t *testing.T) {
	long := os.Getenv("FLINKSINK_LONG") != ""
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			switch {
			case raced:
				c.budget, c.gens = budget{Moves: 1}, 2
			case long:
				c.budget, c.gens = c.long, c.longGens
			}
			x := newSpace(c, mistake{})
			f := x.explore()
			var ms runtime.MemStats
			runtime.ReadMemStats(&ms)
			t.Logf("%s, %d generations, %+v: %d states, %d nodes of the machine, %.1f s, %.0f states/s, %d MB", c.about, c.gens, c.budget, f.states, len(x.nodes), f.took.Seconds(), float64(f.states)/f.took.Seconds(), ms.HeapAlloc>>20)
			if f.bad != 0 {
				t.Errorf("%v; the shortest way there, for testdata/explore:\n%s", f, x.text(f))
			}
		})
	}
}

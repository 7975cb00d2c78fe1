package format

import "crypto/sha256"

// maxShared bounds the changes of one place that are told apart. One record of Postgres's log is of one page of a table, which holds fewer rows.
const maxShared = 1000

// change identifies what a message says of a row: a short hash of its op, 'before' and 'after' as they stand there. A connector that sends a
// change again writes the same bytes; if it does not, the change is taken for another one.
type change [16]byte

func changeOf(op string, before, after []byte) change {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(op), before, after} {
		n := len(part)
		h.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
		h.Write(part)
	}
	return change(h.Sum(nil))
}

// reached is the furthest place of a source, and the changes that stand there where there may be several.
//
// A place of several changes is passed row by row: the newest change of a topic may be the first of them, and the next row is none that was sent
// before. So a change of the furthest place is left out only if nothing else can be true:
//
//   - the source went back since the place was reached (again). Then this run of its log has all changes of the place, from the first on;
//   - it is the run's first change of this content, and a change of this content has passed.
//
// In the log the first change of a content comes first in every run, so the two are the same change. Where the source did not go
// back before it (it begins again exactly at the place, or one COPY holds two equal rows), a second change of a content may be either: it
// passes, and from there on so do all of this place, since nothing is known for certain of it any more.
type reached struct {
	place
	known  map[change]bool // that passed, by content, each of them once
	run    map[change]bool // those of this run of the log
	back   bool            // this run began before the place
	unsure bool            // known may lack changes of a content
}

// seen reports whether a change of the furthest place was sent before, and notes it.
func (r *reached) seen(c change) bool {
	switch {
	case r.unsure:
		return false
	case !r.known[c]:
		if len(r.known) >= maxShared {
			r.unsure = true
			return false
		}
		r.known[c] = true
	case r.back && !r.run[c]:
		r.run[c] = true
		return true
	default:
		r.unsure = true
		return false
	}
	if r.back {
		r.run[c] = true
	}
	return false
}

// stepBack notes that the source sent a change from before the place.
func (r *reached) stepBack() {
	r.back = true
	r.run = map[change]bool{}
}

package kafka

import (
	"encoding/binary"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// logged is a batch as a log holds it.
func logged(offset int64, p producer, records int32, control int16) []byte {
	b := &batch{sequence: 0}
	for range records {
		r := &changelog.Record{Key: []byte("key"), Value: []byte("value")}
		if control >= 0 {
			r.Key = []byte{0, 0, 0, byte(control)}
		}
		b.append(r, origin{})
	}
	out := b.encode(p, nil)
	binary.BigEndian.PutUint64(out, uint64(offset))
	if control >= 0 {
		out[22] |= 1 << 5
	}
	return out
}

// P83: what became of a transaction is read from its end in the log, and a later transaction of its producer is not taken for it.
func TestEndIn(t *testing.T) {
	me, other := producer{"id", 7, 4}, producer{"other", 8, 4}
	at := func(e int16) producer { return producer{"id", 7, e} }
	join := func(bs ...[]byte) (out []byte) {
		for _, b := range bs {
			out = append(out, b...)
		}
		return out
	}
	for _, c := range []struct {
		name  string
		log   []byte // from offset 10 on; the last record of the transaction is at 9
		o     outcome
		later bool
		next  int64
	}{
		{"nothing behind it", nil, undecided, false, 10},
		{"committed, transaction.version 1", logged(10, at(4), 1, controlCommit), committed, false, 11},
		{"committed, transaction.version 2", logged(10, at(5), 1, controlCommit), committed, false, 11},
		{"aborted by its producer", logged(10, at(4), 1, controlAbort), aborted, false, 11},
		{"timed out or fenced", logged(10, at(5), 1, controlAbort), aborted, false, 11},
		{"others in between", join(logged(10, other, 3, -1), logged(13, other, 1, controlAbort), logged(14, at(5), 1, controlCommit)), committed, false, 15},
		{"only others", join(logged(10, other, 3, -1), logged(13, other, 1, controlCommit)), undecided, false, 14},
		{"committed, then another that was aborted", join(logged(10, at(5), 1, controlCommit), logged(11, at(5), 2, -1), logged(13, at(6), 1, controlAbort)), committed, false, 11},
		{"its end was compacted away, the next one's data is there", join(logged(20, at(5), 2, -1), logged(22, at(6), 1, controlCommit)), undecided, true, 22},
		{"its end was compacted away, a later end is there", logged(30, at(7), 1, controlCommit), undecided, true, 31},
		{"an end of an earlier epoch", logged(10, at(3), 1, controlCommit), undecided, false, 11},
		{"a batch that is cut off", logged(10, at(5), 1, controlCommit)[:60], undecided, false, 10},
		{"a batch that reaches from before", join(logged(8, at(4), 2, -1), logged(10, at(5), 1, controlAbort)), aborted, false, 11},
		{"a control record of another kind", join(logged(10, at(4), 1, 3), logged(11, at(5), 1, controlCommit)), committed, false, 12},
	} {
		next, o, later := endIn(c.log, 10, me)
		if next != c.next || o != c.o || later != c.later {
			t.Errorf("%s: next %d, outcome %d, later %t; expected %d, %d, %t", c.name, next, o, later, c.next, c.o, c.later)
		}
	}
}

// Whatever stands in a log, reading it ends, in bounds.
func FuzzEndIn(f *testing.F) {
	f.Add(logged(10, producer{"id", 7, 5}, 1, controlCommit))
	f.Add(append(logged(10, producer{"id", 7, 4}, 3, -1), logged(13, producer{"id", 7, 4}, 1, controlAbort)...))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if next, _, _ := endIn(b, 10, producer{"id", 7, 4}); next < 10 {
			t.Errorf("goes back to %d", next)
		}
	})
}

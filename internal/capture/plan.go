package capture

import "fmt"

// fate is what becomes of the transaction that a record is written in.
type fate uint8

const (
	plain   fate = iota // no transaction
	commit              // committed
	abort               // aborted
	dangle              // left open
	nothing             // a transaction without a record, for a marker alone
)

func (f fate) String() string {
	return [...]string{"plain", "commit", "abort", "open", "empty"}[f]
}

// step is one action on a partition. Steps of a partition are done one after the other, each finished before the next.
type step struct {
	do   fate
	end  bool  // write the marker that ends the transaction of this fate, at offset at
	at   int64 // first offset the step takes
	recs []Record
}

func (s step) String() string {
	if s.end {
		return fmt.Sprintf("%d: marker, %s", s.at, s.do)
	}
	return fmt.Sprintf("%d: %d records, %s", s.at, len(s.recs), s.do)
}

// plan turns the records of one partition, in offset order, into steps that put every record at its own offset.
//
// A consumer sees where records are and which of them are visible; it does not see which transaction a record was in, nor which
// marker stood where. So one transaction of each fate at a time is enough: records join the transaction of their fate, and a
// transaction is ended at the next offset that the capture has no record for, since that is where the original had a marker. A gap with
// nothing to end gets the marker of a transaction without records. What is still going at the end is ended there.
//
// A partition without gaps, aborted or open records needs no transaction at all.
func plan(recs []Record) []step {
	transactional := false
	for i, r := range recs {
		transactional = transactional || r.Aborted || r.Open || r.Offset != int64(i)
	}
	var steps []step
	var going []fate // transactions that were begun and not ended, oldest first; at most one of each fate
	next := int64(0)
	end := func(f fate) {
		steps = append(steps, step{do: f, end: true, at: next})
		next++
	}
	for _, r := range recs {
		for next < r.Offset {
			f := nothing
			if len(going) > 0 {
				f, going = going[0], going[1:]
			}
			end(f)
		}
		f := plain
		switch {
		case r.Open:
			f = dangle
		case r.Aborted:
			f = abort
		case transactional:
			f = commit
		}
		if n := len(steps) - 1; n >= 0 && !steps[n].end && steps[n].do == f {
			steps[n].recs = append(steps[n].recs, r)
		} else {
			steps = append(steps, step{do: f, at: r.Offset, recs: []Record{r}})
		}
		if (f == commit || f == abort) && !contains(going, f) {
			going = append(going, f)
		}
		next = r.Offset + 1
	}
	for _, f := range going {
		end(f)
	}
	return steps
}

func contains(fs []fate, f fate) bool {
	for _, g := range fs {
		if g == f {
			return true
		}
	}
	return false
}

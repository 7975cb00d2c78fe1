package postgres

import (
	"slices"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
)

// adding returns those of changes that put a row there: all of them where the table takes no others.
func adding(changes []changelog.Change) []changelog.Change {
	i := slices.IndexFunc(changes, func(c changelog.Change) bool { return !c.Kind.Adds() })
	if i < 0 {
		return changes
	}
	out := slices.Clone(changes[:i])
	for _, c := range changes[i:] {
		if c.Kind.Adds() {
			out = append(out, c)
		}
	}
	return out
}

// part holds changes that all lack the same columns.
type part struct {
	columns []int // that they hold
	deletes bool  // rows that a delete leaves marked
	changes []changelog.Change
}

// partialOf returns the statement for p. A delete whose row is not in the table has nothing to mark.
func (tg *target) partialOf(p part) statement {
	st := tg.partial(p.columns)
	if p.deletes {
		st.missing = ""
	}
	return st
}

// byColumnsSent sets changes apart in which columns are Unchanged, keeping the order. Mostly there are none.
func byColumnsSent(tg *target, changes []changelog.Change) (whole []changelog.Change, parts []part) {
	first := 0
	for ; first < len(changes); first++ {
		if lacksColumns(tg, &changes[first]) {
			break
		}
	}
	if first == len(changes) {
		return changes, nil
	}
	whole = append(whole, changes[:first]...)
	index := make(map[string]int)
	for i := first; i < len(changes); i++ {
		c := &changes[i]
		if !lacksColumns(tg, c) {
			whole = append(whole, *c)
			continue
		}
		var sent []int
		var name []byte
		for n := range tg.columns {
			if col := &tg.columns[n]; col.key || col.version || col.origin != fromRow || !c.Row[col.source].IsUnchanged() {
				sent = append(sent, n)
				name = strconv.AppendInt(append(name, ','), int64(n), 10)
			}
		}
		if !c.Kind.Adds() {
			name = append(name, '-')
		}
		n, ok := index[string(name)]
		if !ok {
			n = len(parts)
			index[string(name)] = n
			parts = append(parts, part{columns: sent, deletes: !c.Kind.Adds()})
		}
		parts[n].changes = append(parts[n].changes, *c)
	}
	return whole, parts
}

func lacksColumns(tg *target, c *changelog.Change) bool {
	for i := range tg.columns {
		if col := &tg.columns[i]; col.origin == fromRow && c.Row[col.source].IsUnchanged() {
			return true
		}
	}
	return false
}

package elastic

import (
	"errors"
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// This file finds the indexes that a row was in before, where an update can change the name of its index.
//
// A batch never ends between a -U and its +U, so the change that takes a row out of an index is always beside the one that puts it into another. Its
// document of before gets the delete of the net change, with that one's version: older changes of the row are refused in each index that it was ever in,
// however a repetition cuts the batches.

// movers are the names that the rows of a batch had, by id.
type movers struct {
	names map[string][]string
	last  map[changelog.Partition]*changelog.Change
}

func (m *movers) reset() {
	clear(m.names)
	clear(m.last)
}

var (
	errKeyOnly = errors.New("the delete tells the key only, so the index that the row is in is not known: the index's name is made of other columns")
	errNoOld   = errors.New("the update does not tell what the row was before, so the index that it was in is not known: the index's name is made of columns outside the key")
)

// moving notes under which names the changes say that rows are or were.
func (c *committer) moving(p *plan, changes []changelog.Change, refused *refusals) {
	m := &c.movers
	if m.names == nil {
		m.names, m.last = make(map[string][]string), make(map[changelog.Partition]*changelog.Change)
	}
	for i := range changes {
		ch := &changes[i]
		before := m.last[ch.Partition]
		m.last[ch.Partition] = ch
		switch {
		case ch.KeyOnly:
			refused.add(ch, "", errKeyOnly)
			continue
		case ch.Kind == changelog.UpdateAfter && (before == nil || before.Kind != changelog.UpdateBefore):
			refused.add(ch, "", errNoOld)
			continue
		}
		var err error
		if c.name, err = p.naming.appendName(c.name[:0], ch.Row); err != nil {
			refused.add(ch, "", err)
			continue
		}
		c.id = c.s.appendID(c.id[:0], c.scratch, p.table, ch)
		if names := m.names[string(c.id)]; !slices.Contains(names, string(c.name)) {
			m.names[string(c.id)] = append(names, string(c.name))
		}
	}
}

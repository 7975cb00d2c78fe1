package postgres

import (
	"bytes"

	"github.com/flinksink/flinksink/changelog"
)

// This file works out the net effect of a batch where a delete leaves the row in the table, marked or as it is (Options.SoftDelete, IgnoreDeletes).
// The plain net effect forgets what a row was before its delete, so that a row which is inserted and deleted in one batch would never be
// there, and in two batches would. Where the cuts fall must not show in the table.

// spared tells the deletes of a.net apart: kept are rows that a change of the run had put there before the delete, to be written as the
// delete leaves them; gone are the others, whose row is in the table or nowhere. Of these, whole are deletes that tell the whole row, where that may
// have to be put there. All are sorted by key. changes are those that a.net was made of.
//
// Where a key is deleted several times in a row, the first delete is the one that marks it, as it would be in a batch of its own; under
// Options.Version it is the last, which is the newest.
//
// A kept row that is marked is a change of kind Delete at the position of the delete, with all that was told of the row, and behind its
// columns the value that the delete had for the mark.
func (a *applier) spared(tg *target, changes []changelog.Change) (gone, whole, kept []changelog.Change) {
	deletes := a.net.Deletes
	if len(deletes) == 0 {
		return nil, nil, nil
	}
	s := tg.table.Schema
	rows := make(map[string]*changelog.Change)
	var key []byte
	if a.net.Superseded > 0 { // else no key came twice
		lasts := make(map[string]int, len(deletes))
		firsts := make(map[string]int, len(deletes)) // of the deletes after it
		for i := range deletes {
			lasts[string(changelog.AppendKey(key[:0], s, deletes[i].Row))] = -1
		}
		keys := make([]string, len(changes)) // of those that are deleted
		for i := range changes {
			key = changelog.AppendKey(key[:0], s, changes[i].Row)
			if _, ok := lasts[string(key)]; ok {
				keys[i] = string(key)
				if _, again := firsts[keys[i]]; changes[i].Kind.Adds() {
					lasts[keys[i]] = i
					delete(firsts, keys[i])
				} else if !again {
					firsts[keys[i]] = i
				}
			}
		}
		before := make([]changelog.Change, 0, len(changes))
		for i := range changes {
			if last, ok := lasts[keys[i]]; !ok || i <= last {
				before = append(before, changes[i])
			}
		}
		if tg.soft && tg.version < 0 {
			for i := range deletes {
				key = changelog.AppendKey(key[:0], s, deletes[i].Row)
				deletes[i] = changes[firsts[string(key)]]
			}
		}
		a.old.Compute(s, before)
		for i := range a.old.Upserts {
			u := &a.old.Upserts[i]
			key = changelog.AppendKey(key[:0], s, u.Row)
			if _, ok := lasts[string(key)]; ok {
				rows[string(key)] = u
			}
		}
	}
	for _, d := range deletes {
		key = changelog.AppendKey(key[:0], s, d.Row)
		last := rows[string(key)]
		switch {
		case last != nil && tg.ignores:
			kept = append(kept, *last)
		case last != nil:
			kept = append(kept, tg.marked(last.Row, d))
		case tg.buries(&d):
			whole = append(whole, d)
		default:
			gone = append(gone, d)
		}
	}
	return gone, whole, kept
}

// buries reports whether the delete is written as a whole row, which stays marked: under Options.Version it may have to be put there.
func (tg *target) buries(d *changelog.Change) bool {
	return tg.soft && tg.version >= 0 && !d.KeyOnly && !lacksColumns(tg, d)
}

// removing says which statements make deletes true, of which no two are of one key.
func (tg *target) removing(deletes []changelog.Change) []work {
	if !tg.soft || tg.version < 0 {
		return []work{{tg.remove, deletes}}
	}
	var whole, rest []changelog.Change
	for i := range deletes {
		if d := &deletes[i]; tg.buries(d) {
			whole = append(whole, *d)
		} else {
			rest = append(rest, *d)
		}
	}
	return []work{{tg.remove, rest}, {tg.bury, whole}}
}

// marked is the row as the delete d leaves it.
func (tg *target) marked(row changelog.Row, d changelog.Change) changelog.Change {
	wide := make(changelog.Row, len(row), len(row)+1)
	copy(wide, row)
	if tg.version >= 0 {
		wide[tg.columns[tg.version].source] = d.Row[tg.columns[tg.version].source]
	}
	if from := tg.columns[tg.mark].source; from >= 0 {
		wide = append(wide, d.Row[from])
	}
	d.Kind, d.KeyOnly, d.Row = changelog.Delete, false, wide
	return d
}

// merged brings two runs that are sorted by key, and share none, into one.
func merged(s *changelog.Schema, a, b []changelog.Change) []changelog.Change {
	if len(b) == 0 {
		return a
	}
	out := make([]changelog.Change, 0, len(a)+len(b))
	var x, y []byte
	for len(a) > 0 && len(b) > 0 {
		x, y = changelog.AppendKey(x[:0], s, a[0].Row), changelog.AppendKey(y[:0], s, b[0].Row)
		if bytes.Compare(x, y) < 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// current leaves out the changes that are older, by Options.Version, than one of the same key before them. The server does so with what is in
// the table; the net effect takes the last change of a key, which must not be an older one for it. A change without a version is left in, to be
// refused if it is the one that counts; a delete that is ignored makes nothing old.
func current(tg *target, changes []changelog.Change) (out []changelog.Change, stale int) {
	if tg.version < 0 {
		return changes, 0
	}
	s := tg.table.Schema
	of := []int{tg.columns[tg.version].source}
	newest := make(map[string]string, len(changes))
	var key, version []byte
	out = changes
	for i := range changes {
		c := &changes[i]
		old := false
		if v := c.Row[of[0]]; !v.IsNull() && !v.IsUnchanged() && (c.Kind.Adds() || !tg.ignores) {
			key = changelog.AppendKey(key[:0], s, c.Row)
			version = changelog.AppendKeyColumns(version[:0], s, of, c.Row)
			if was, ok := newest[string(key)]; ok && string(version) < was {
				old = true
			} else {
				newest[string(key)] = string(version)
			}
		}
		switch {
		case old:
			if stale == 0 {
				out = append(make([]changelog.Change, 0, len(changes)), changes[:i]...)
			}
			stale++
		case stale > 0:
			out = append(out, *c)
		}
	}
	return out, stale
}

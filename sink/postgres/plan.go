package postgres

import (
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// This file decides which statements make a net effect true.

// work is what one kind of statement has to do for a batch.
type work struct {
	st      statement
	changes []changelog.Change
}

// malformed finds what would be a mistake of a decoder, and what Net could not work with: it goes by the key columns of the row and by the
// kind. A table without a key takes a row away by its content, and only where its stream is said to tell that.
func malformed(tg *target, changes []changelog.Change) (bad []sink.Rejection) {
	for i := range changes {
		switch c := &changes[i]; {
		case len(c.Row) != len(tg.table.Schema.Columns):
			bad = append(bad, rejection(c, &rowError{reason: fmt.Sprintf("the row has %d columns, and its table %d", len(c.Row), len(tg.table.Schema.Columns))}))
		case c.Kind > changelog.Delete:
			bad = append(bad, rejection(c, &rowError{reason: fmt.Sprintf("%s is no kind of change", c.Kind)}))
		case tg.ignores && !c.Kind.Adds():
		case len(tg.keys) == 0 && !c.Kind.Adds() && tg.remove.sql == "":
			bad = append(bad, rejection(c, &rowError{reason: fmt.Sprintf("a %s cannot be applied to a table without a key whose mode is %s", c.Kind, tg.table.Mode)}))
		case len(tg.keys) == 0 && c.KeyOnly:
			bad = append(bad, rejection(c, &rowError{reason: "a delete that knows its key only cannot be applied to a table without a key"}))
		}
	}
	return bad
}

// plan says which statements make changes true, in order. None of changes is malformed. What it returns is valid until the next plan.
func (a *applier) plan(tg *target, changes []changelog.Change) (todo []work, superseded int) {
	ahead := a.ahead
	a.ahead = planned{} // its memory is used again here
	switch {
	case ahead.of(tg, changes):
		return ahead.todo, ahead.superseded
	case len(tg.keys) == 0 && tg.remove.sql == "":
		added := adding(changes)
		return []work{{tg.insert, added}}, len(changes) - len(added)
	case len(tg.keys) == 0:
		a.net.ComputeMultiset(tg.table.Schema, changes)
		return []work{{tg.remove, a.net.Deletes}, {tg.insert, a.net.Upserts}}, a.net.Superseded
	}
	// Each key is written once a batch, whatever happened to it: two rows of one key in an ON CONFLICT statement are an error.
	// Deletes go first, so that they make room for rows that other unique indexes take for the same.
	changes, superseded = current(tg, changes)
	a.net.Compute(tg.table.Schema, changes)
	superseded += a.net.Superseded
	deletes, upserts := a.net.Deletes, a.net.Upserts
	if tg.soft || tg.ignores {
		var whole, kept []changelog.Change
		deletes, whole, kept = a.spared(tg, changes)
		upserts = merged(tg.table.Schema, upserts, kept)
		if len(whole) > 0 {
			todo = append(todo, work{tg.bury, whole})
		}
	}
	whole, parts := byColumnsSent(tg, upserts)
	todo = append(todo, work{tg.remove, deletes}, work{tg.upsert, whole})
	for _, p := range parts {
		todo = append(todo, work{tg.partialOf(p), p.changes})
	}
	return todo, superseded
}

// planned is the outcome of plan for some changes.
type planned struct {
	changes    []changelog.Change
	tg         *target
	todo       []work
	superseded int
}

// planAhead does the work of plan for a batch that is written next. It talks to nobody, so that it can be done while an answer is waited for.
func (a *applier) planAhead(tg *target, changes []changelog.Change) {
	if len(changes) == 0 || tg.swap != nil || len(malformed(tg, changes)) > 0 || a.plainly(tg, changes) {
		return
	}
	todo, superseded := a.plan(tg, changes)
	a.ahead = planned{changes, tg, todo, superseded}
}

// of reports whether p is about these very changes.
func (p *planned) of(tg *target, changes []changelog.Change) bool {
	return p.tg == tg && len(p.changes) > 0 && len(p.changes) == len(changes) && &p.changes[0] == &changes[0]
}

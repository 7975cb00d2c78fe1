package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// order is how the changes of a batch are written. What the table holds afterwards is the same; what is in it on the way is not, and a
// constraint that the server checks row by row, or a trigger, may refuse the one and take the other.
type order uint8

const (
	// bulk is deletes, then rows sorted by key: the fastest, and the order in which lanes do not lock rows crosswise.
	bulk order = iota
	// exact is the order of the topic, with every change written: rows that pass a unique value on from one to the next, a trigger that
	// looks at what is there.
	exact
	// afresh takes the rows out before it writes them: two rows that swap their unique values, which no order of single changes can do.
	// Only for tables in which a row that is put there anew is the same row: see replaceable.
	afresh
	// parked moves rows to values that no row has before it writes them: the same for all other tables. See parking.
	parked
)

func (o order) String() string { return [...]string{"bulk", "exact", "afresh", "parked"}[o] }

// inOrder writes changes as batch does, in the given order.
func (a *applier) inOrder(ctx context.Context, t *transaction, tg *target, changes []changelog.Change, how order) (superseded int, err error) {
	switch {
	case how == bulk:
		return a.batch(ctx, t, tg, changes)
	case tg.swap != nil:
		return 0, errNotInOrder
	}
	a.void = 0
	switch how {
	case exact:
		return a.exactly(ctx, t, tg, changes)
	case parked:
		return a.parked(ctx, t, tg, changes)
	}
	return a.afresh(ctx, t, tg, changes)
}

// errNotInOrder is told where an order cannot be used for a batch: the refusal in bulk order stands.
var errNotInOrder = errors.New("the changes cannot be written in this order")

// exactly writes changes one after the other. Runs of one kind and of different keys share a statement, which takes its rows in the order of
// the topic too, and checks unique and exclusion constraints row by row; foreign keys and AFTER triggers come at its end, when more is in place.
//
// The old row of an update goes first in the topic (-U, or a delete where the format has no -U). It is taken away only where a row that is
// put there anew is the same row; otherwise the row stays until its new content comes.
func (a *applier) exactly(ctx context.Context, t *transaction, tg *target, changes []changelog.Change) (superseded int, err error) {
	if tg.swap != nil || len(malformed(tg, changes)) > 0 {
		return 0, errNotInOrder
	}
	a.void = 0
	anew := false
	if len(tg.keys) > 0 && !tg.soft && !tg.ignores {
		if anew, err = tg.replaceable(ctx, t); err != nil {
			return 0, err
		}
	}
	changes, superseded = current(tg, changes)
	comesBack := readded(tg, changes)
	var seen map[string]bool
	var key []byte
	flush := func(adds bool, run []changelog.Change) error {
		clear(seen)
		switch {
		case len(run) == 0:
			return nil
		case !adds:
			for _, w := range tg.removing(run) {
				if err := a.told(a.run(ctx, t, tg, w.st, w.changes)); err != nil {
					return err
				}
			}
			return nil
		case len(tg.keys) == 0:
			return a.told(a.run(ctx, t, tg, tg.insert, run))
		}
		whole, parts := byColumnsSent(tg, run)
		if len(parts) == 0 {
			return a.told(a.run(ctx, t, tg, tg.upsert, whole))
		}
		for i := range run { // their statements differ
			one := run[i : i+1]
			st := tg.upsert
			if _, parts := byColumnsSent(tg, one); len(parts) > 0 {
				st = tg.partialOf(parts[0])
			}
			if err := a.told(a.run(ctx, t, tg, st, one)); err != nil {
				return err
			}
		}
		return nil
	}
	seen = make(map[string]bool)
	var run []changelog.Change
	adds := false
	for i := range changes {
		c := &changes[i]
		if len(tg.keys) > 0 {
			if !c.Kind.Adds() && comesBack[i] && !anew {
				superseded++
				continue
			}
			key = changelog.AppendKey(key[:0], tg.table.Schema, c.Row)
		}
		if len(run) > 0 && (c.Kind.Adds() != adds || len(tg.keys) > 0 && seen[string(key)]) {
			if err := flush(adds, run); err != nil {
				return 0, err
			}
			run = run[:0]
		}
		adds = c.Kind.Adds()
		run = append(run, *c)
		if len(tg.keys) > 0 {
			seen[string(key)] = true
		}
	}
	err = flush(adds, run)
	return superseded + a.void, err
}

// told makes of a value that does not fit its column, in a change that a later one makes void, the end of this order.
func (a *applier) told(err error) error {
	if errors.Is(err, errUnfit) {
		return errNotInOrder
	}
	return err
}

// readded tells for each change that takes a row away whether a later one puts a row of the key there.
func readded(tg *target, changes []changelog.Change) []bool {
	out := make([]bool, len(changes))
	if len(tg.keys) == 0 {
		return out
	}
	later := make(map[string]bool)
	var key []byte
	for i, c := range slices.Backward(changes) {
		key = changelog.AppendKey(key[:0], tg.table.Schema, c.Row)
		out[i] = !c.Kind.Adds() && later[string(key)]
		if c.Kind.Adds() {
			later[string(key)] = true
		}
	}
	return out
}

// afresh takes all rows out whose keys the batch writes, and puts those there that are left.
func (a *applier) afresh(ctx context.Context, t *transaction, tg *target, changes []changelog.Change) (superseded int, err error) {
	if len(malformed(tg, changes)) > 0 {
		return 0, errNotInOrder
	}
	if err := tg.comesAfresh(ctx, t); err != nil {
		return 0, err
	}
	todo, superseded := a.plan(tg, changes)
	if len(todo) != 2 {
		return 0, errNotInOrder // columns that were not sent have nothing to be kept from
	}
	for _, w := range []work{todo[0], {tg.takeOut, todo[1].changes}, todo[1]} {
		if err := a.told(a.run(ctx, t, tg, w.st, w.changes)); err != nil {
			return 0, err
		}
	}
	return superseded + a.void, nil
}

// comesAfresh returns errNotInOrder where rows of the table cannot be taken out and put there anew.
func (tg *target) comesAfresh(ctx context.Context, t *transaction) error {
	// A row that is taken out has no version to be compared with.
	if len(tg.keys) == 0 || !tg.deletes || tg.version >= 0 {
		return errNotInOrder
	}
	anew, err := tg.replaceable(ctx, t)
	if err == nil && !anew {
		err = errNotInOrder
	}
	return err
}

// replaceable reports whether a row that is deleted and inserted again is what it was: nothing is in the row that the sink does not write, no
// foreign key does anything when the row goes, and no trigger sees it go. (Sequences of columns that the sink does not write would count on.)
func (tg *target) replaceable(ctx context.Context, t *transaction) (yes bool, err error) {
	names := make([]string, len(tg.columns))
	for i := range tg.columns {
		names[i] = tg.columns[i].name
	}
	err = t.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = r AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attname <> ALL ($2::text[]))
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.confrelid = r AND k.confdeltype IN ('c', 'n', 'd'))
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE NOT g.tgisinternal AND g.tgenabled <> 'D' AND (g.tgrelid = r OR g.tgrelid IN (SELECT p.relid FROM pg_catalog.pg_partition_tree(r) p)))
		FROM to_regclass($1) AS r`, tg.name.SQL(), names).Scan(&yes)
	return yes, err
}

// byOrder reports whether a refusal can be due to the order in which rows were written, so that another order may be taken: unique and
// exclusion constraints, foreign keys, and what a trigger raises. All others of the server's checks see one row and nothing else.
func byOrder(err error) bool {
	if classify(err) != sink.ErrRejected || len(named(err)) > 0 {
		return false
	}
	switch code := state(err); code {
	case "23503", "23001", "23505", "23P01":
		return true
	default:
		return len(code) == 5 && code[:2] == "P0" || raised(err)
	}
}

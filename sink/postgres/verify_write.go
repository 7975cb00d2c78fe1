package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// This file writes rows that differ, and looks at what became of them.

// mending is one transaction that mends differences.
type mending struct {
	v       *view
	t       *transaction
	mended  sink.Mended
	altered int64             // of mended.Refused: rows that were written, and differ all the same
	refused []sink.Difference // by the table, up to now
}

// all mends what the table takes. A row that was refused may have waited for another one: for a unique value that this one gave up, or for the row that it
// refers to.
func (w *mending) all(ctx context.Context, ds []sink.Difference) error {
	w.v.mends.stamp = stamp{bridge: w.v.r.Bridge}
	if err := w.apart(ctx, ds); err != nil {
		return err
	}
	for before := int64(0); len(w.refused) > 0 && w.mended.Written+w.mended.Deleted > before; {
		before = w.mended.Written + w.mended.Deleted
		again := w.refused
		w.refused = nil
		if err := w.apart(ctx, again); err != nil {
			return err
		}
	}
	w.mended.Refused += int64(len(w.refused))
	return nil
}

// apart mends ds, or else each half of them by itself, down to single rows.
func (w *mending) apart(ctx context.Context, ds []sink.Difference) error {
	refusal := w.together(ctx, ds)
	switch {
	case refusal == nil:
		return nil
	case !errors.Is(refusal, errUnfit) && classify(refusal) != sink.ErrRejected:
		return refusal
	case len(ds) == 1:
		w.refused = append(w.refused, ds[0])
		return nil
	}
	if err := w.apart(ctx, ds[:len(ds)/2]); err != nil {
		return err
	}
	return w.apart(ctx, ds[len(ds)/2:])
}

// together mends all of ds, in one of the orders in which Write would: two rows that hold each other's unique value are taken out first. After a refusal the
// transaction is as it was before.
func (w *mending) together(ctx context.Context, ds []sink.Difference) (refusal error) {
	orders := []order{bulk, exact, afresh}
	if len(ds) == 1 {
		orders = orders[:1]
	}
	for _, how := range orders {
		if _, err := w.t.Exec(ctx, "SAVEPOINT mend"); err != nil {
			return err
		}
		m, altered, err := w.once(ctx, ds, how)
		if err == nil {
			if _, err = w.t.Exec(ctx, "RELEASE SAVEPOINT mend"); err != nil {
				return err
			}
			w.mended = w.mended.Add(m)
			w.altered += altered
			return nil
		}
		if !errors.Is(err, errNotInOrder) && !errors.Is(err, errUnfit) && classify(err) != sink.ErrRejected {
			return err // which is the end of the transaction
		}
		if _, err := w.t.Exec(ctx, "ROLLBACK TO SAVEPOINT mend; RELEASE SAVEPOINT mend"); err != nil {
			return err
		}
		if !errors.Is(err, errNotInOrder) {
			refusal = err
		}
		if !byOrder(refusal) {
			break
		}
	}
	return refusal
}

// once mends all of ds in one order.
func (w *mending) once(ctx context.Context, ds []sink.Difference, how order) (m sink.Mended, altered int64, err error) {
	// What is deferred is looked at when all of it is in place, and here, where it can still be taken apart.
	if _, err := w.t.Exec(ctx, "SET CONSTRAINTS ALL DEFERRED"); err != nil {
		return m, 0, err
	}
	written := make([][]changelog.Change, len(w.v.targets))
	for n, tg := range w.v.targets {
		var extra []place
		var write []changelog.Change
		var seen []*place
		for i := range ds {
			d := &ds[i]
			at, ok := d.Seen.(seenRow)
			switch {
			case !ok:
				return m, 0, configf("a difference is not one of this view: a mistake of the caller")
			case at.target != tg:
			case d.Kind == sink.Extra:
				extra = append(extra, at.place)
			case d.Kind == sink.Missing && lacksColumns(tg, &d.Change): // what was not sent nobody knows
				m.Refused++
			case d.Kind == sink.Missing:
				write, seen = append(write, d.Change), append(seen, nil)
			default:
				write, seen = append(write, d.Change), append(seen, &at.place)
			}
		}
		// Rows that should not be there go first: they may hold what a unique index lets only one row have.
		deleted, err := w.v.takeExtra(ctx, w.t, tg, extra)
		if err != nil {
			return m, 0, err
		}
		m.Deleted += deleted
		m.Changed += int64(len(extra)) - deleted
		same, err := w.asSeen(ctx, tg, write, seen)
		if err != nil {
			return m, 0, err
		}
		if err := w.write(ctx, tg, same, how); err != nil {
			return m, 0, err
		}
		m.Written += int64(len(same))
		m.Changed += int64(len(write) - len(same))
		written[n] = same
	}
	if _, err := w.t.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
		return m, 0, err
	}
	for n, tg := range w.v.targets {
		differ, err := w.differ(ctx, tg, written[n])
		if err != nil {
			return m, 0, err
		}
		altered += differ
	}
	m.Written, m.Refused = m.Written-altered, m.Refused+altered
	return m, altered, nil
}

// write writes rows of different keys.
func (w *mending) write(ctx context.Context, tg *target, changes []changelog.Change, how order) error {
	a := &w.v.mends
	switch {
	case len(changes) == 0:
		return nil
	case how != bulk:
		changes = slices.Clone(changes)
		slices.SortStableFunc(changes, func(a, b changelog.Change) int {
			return cmp.Or(a.Partition.Compare(b.Partition), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Index, b.Index))
		})
		_, err := a.inOrder(ctx, w.t, tg, changes, how)
		return err
	}
	// Sorted by key, as every writer of the table does it.
	a.net.Compute(tg.table.Schema, changes)
	defer a.net.Reset()
	whole, parts := byColumnsSent(tg, a.net.Upserts)
	if len(whole) > 0 {
		if err := a.run(ctx, w.t, tg, tg.upsert, whole); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if err := a.run(ctx, w.t, tg, tg.partialOf(p), p.changes); err != nil {
			return err
		}
	}
	return nil
}

// differ counts the rows of changes that are not what was just written.
func (w *mending) differ(ctx context.Context, tg *target, changes []changelog.Change) (n int64, err error) {
	whole, parts := byColumnsSent(tg, changes)
	n, err = w.differIn(ctx, tg, tg.compared(nil), whole)
	for _, p := range parts {
		if err != nil {
			break
		}
		var more int64
		more, err = w.differIn(ctx, tg, tg.compared(p.columns), p.changes)
		n += more
	}
	return n, err
}

func (w *mending) differIn(ctx context.Context, tg *target, columns []int, changes []changelog.Change) (n int64, err error) {
	a := &w.v.mends
	st := tg.statement(columns, tg.lookUpSQL(columns))
	for len(changes) > 0 {
		filled, err := a.fill(tg, st, changes)
		if err != nil {
			return 0, err
		}
		r := w.t.Conn().PgConn().ExecParams(ctx, st.sql, a.params[:len(columns)], st.oids, binaryFormat(), nil).Read()
		if r.Err != nil {
			return 0, r.Err
		}
		for _, row := range r.Rows {
			if row[2] == nil || string(row[4]) == "t" {
				n++
			}
		}
		changes = changes[filled:]
	}
	return n, nil
}

// asSeen returns those of changes whose rows are still as they were seen, and locks them: seen is where each lay, nil: nowhere.
func (w *mending) asSeen(ctx context.Context, tg *target, changes []changelog.Change, seen []*place) (same []changelog.Change, err error) {
	a, t := &w.v.mends, w.t
	st := tg.statement(tg.keys, "SELECT s.ord, t.tableoid, t.ctid, t.xmin FROM "+tg.unnest(tg.keys, " WITH ORDINALITY")+" JOIN "+tg.name.SQL()+" AS t ON "+tg.sameKey(tg.keys)+" FOR UPDATE OF t")
	for rest, at := changes, seen; len(rest) > 0; {
		n, err := a.fill(tg, st, rest)
		if err != nil {
			return nil, err
		}
		r := t.Conn().PgConn().ExecParams(ctx, st.sql, a.params[:len(tg.keys)], st.oids, binaryFormat(), nil).Read()
		if r.Err != nil {
			return nil, r.Err
		}
		now := make([]*place, n)
		for _, row := range r.Rows {
			ord, err := strconv.Atoi(string(row[0]))
			if err != nil || ord < 1 || ord > n {
				return nil, fmt.Errorf("the server numbered a row %q of %d", row[0], n)
			}
			p, err := parsePlace(row[1], row[2], row[3])
			if err != nil {
				return nil, err
			}
			now[ord-1] = &p
		}
		for i := range now {
			if now[i] == nil && at[i] == nil || now[i] != nil && at[i] != nil && *now[i] == *at[i] {
				same = append(same, rest[i])
			}
		}
		rest, at = rest[n:], at[n:]
	}
	return same, nil
}

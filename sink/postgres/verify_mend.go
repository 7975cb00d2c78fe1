package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// This file mends what a view found.
//
// What is written is the topic's last change of a key below the view's positions, so nothing later may have been written since, nor be on its way. Looking
// at the row alone cannot show that: a row that is missing now may have been put there and deleted meanwhile, and a delete that found no row leaves no
// trace. So each transaction here begins as a move of positions by hand does: the bridge's row is locked, generations that hold its partitions are silenced
// and ended, and then the positions are compared with the view's. If they are the same, nothing of any later change is in the table or can still
// come before this transaction is over. A bridge that runs on acquires anew, and its next checkpoint moves the positions: then
// the next transaction here does nothing and says so.
//
// Others than the bridge may write the table too. So each row is locked, and left alone if it is not the version that the view saw (ctid and xmin).

// Mend implements [sink.View], in one transaction. If it is refused for one row, halves of ds are tried each in its own. A process that is killed
// between two of them leaves whole ones behind; the rest is found by the next view.
func (v *view) Mend(ctx context.Context, ds []sink.Difference) (sink.Mended, error) {
	m, err := v.mend(ctx, ds)
	if err != nil {
		return m, v.fail("repair", err)
	}
	return m, nil
}

func (v *view) mend(ctx context.Context, ds []sink.Difference) (m sink.Mended, err error) {
	if len(ds) == 0 {
		return m, nil
	}
	if !v.exact {
		return m, configf("the positions are kept elsewhere, so a repair cannot be fenced against the bridge: set its positions back to the beginning, and let it write the rows again")
	}
	m, err = v.mendOnce(ctx, ds)
	if err == nil || classify(err) != sink.ErrRejected {
		return m, err
	}
	if len(ds) == 1 {
		return sink.Mended{Refused: 1}, nil
	}
	m, err = v.mend(ctx, ds[:len(ds)/2])
	if err != nil {
		return m, err
	}
	n, err := v.mend(ctx, ds[len(ds)/2:])
	return m.Add(n), err
}

func (v *view) mendOnce(ctx context.Context, ds []sink.Difference) (sink.Mended, error) {
	t, err := v.s.beginStore(ctx, "")
	if err != nil {
		return sink.Mended{}, lift(err)
	}
	m, err := v.mendIn(ctx, t, ds)
	if err != nil {
		t.rollback(ctx)
		return sink.Mended{}, err
	}
	if err := t.commit(ctx); err != nil {
		return sink.Mended{}, err
	}
	return m, nil
}

func (v *view) mendIn(ctx context.Context, t *transaction, ds []sink.Difference) (m sink.Mended, err error) {
	ended, err := v.still(ctx, t)
	if err != nil {
		return m, err
	}
	for n := range v.targets {
		tg := v.targets[n]
		var extra []place
		var write []changelog.Change
		var seen []*place
		for i := range ds {
			d := &ds[i]
			at, ok := d.Seen.(seenRow)
			switch {
			case !ok:
				return m, configf("a difference is not one of this view: a mistake of the caller")
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
		deleted, err := v.takeExtra(ctx, t, tg, extra)
		if err != nil {
			return m, err
		}
		m.Deleted += deleted
		m.Changed += int64(len(extra)) - deleted
		written, err := v.rewrite(ctx, t, tg, write, seen)
		if err != nil {
			return m, err
		}
		m.Written += written
		m.Changed += int64(len(write)) - written
	}
	if m.Written+m.Deleted == 0 {
		return m, nil
	}
	at := v.positions[0]
	what := fmt.Sprintf("%d rows written, %d deleted in %s", m.Written, m.Deleted, targetNames(v.targets))
	if v.r.Why != "" {
		what = v.r.Why + " (" + what + ")"
	}
	return m, v.s.writeAudit(ctx, t, whoami(), v.r.Bridge, "repair", what, []Moved{{Partition: at.Partition, Before: &at, After: &at}}, ended)
}

// still fences the bridge and makes sure that it is where the view saw it.
func (v *view) still(ctx context.Context, t *transaction) ([]sink.GenerationID, error) {
	var one int
	err := t.QueryRow(ctx, "SELECT 1 FROM "+v.s.store.bridge+" WHERE name = $1 FOR UPDATE", v.r.Bridge).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, v.s.noBridge(ctx, t, v.r.Bridge)
	}
	if err != nil {
		return nil, err
	}
	same := func() error {
		now, err := v.s.storedPositions(ctx, t, v.r.Bridge)
		if err != nil {
			return err
		}
		pending, err := v.s.readPending(ctx, t, v.r.Bridge)
		if err != nil {
			return err
		}
		waiting, err := v.s.uncommitted(ctx, t, v.r.Bridge, v.r.Sink, pending)
		if err != nil {
			return err
		}
		if len(waiting) > 0 {
			return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("%d decided checkpoints wait to be committed: let the bridge do that, or settle them, then repair", len(waiting))}
		}
		for i := range now {
			if i >= len(v.positions) || now[i].Partition != v.positions[i].Partition || now[i].Offset != v.positions[i].Offset || len(now) != len(v.positions) {
				return &sink.Error{Class: sink.ErrTransient, Position: &now[i], Err: errors.New("the bridge went on while its target was compared, so what was found is out of date: stop the bridge and repair again; " +
					"what was mended until now stays")}
			}
		}
		return nil
	}
	// Refusals come before anybody is disturbed.
	if err := same(); err != nil {
		return nil, err
	}
	var all []Moved
	for _, p := range v.positions {
		all = append(all, Moved{Partition: p.Partition})
	}
	held, err := v.s.endHolders(ctx, t, v.r.Bridge, all)
	if err != nil {
		return nil, err
	}
	ids := make([]sink.GenerationID, len(held))
	for i, g := range held {
		ids[i] = g.ID
	}
	return ids, same()
}

// takeExtra deletes rows, or marks them as deleted, that are still where they were seen.
func (v *view) takeExtra(ctx context.Context, t *transaction, tg *target, at []place) (int64, error) {
	if len(at) == 0 {
		return 0, nil
	}
	var mark string
	if tg.soft {
		switch col := &tg.columns[tg.mark]; {
		case col.source >= 0:
			return 0, configf("Options.SoftDelete.From takes the mark out of the change that deletes a row, and of an extra row there is none: delete or mark such rows by hand")
		case col.clock:
			mark = "now()"
		case col.deleted.Kind() == changelog.KindBool:
			mark = "true"
		case col.deleted.Kind() == changelog.KindInt:
			mark = strconv.FormatInt(col.deleted.Int(), 10)
		default:
			mark = quoteText(col.deleted.Str()) + "::" + col.typ
		}
	}
	find := func(at []place) ([]uint32, []string) {
		var tables []uint32
		var ctids []string
		for _, p := range at {
			tables, ctids = append(tables, p.table), append(ctids, p.ctid())
		}
		return tables, ctids
	}
	tables, ctids := find(at)
	// A row that somebody changes just now is waited for. What it is then is told by its own ctid and xmin, which need not be those asked for.
	rows, err := t.Query(ctx, "SELECT t.tableoid::int8, t.ctid::text, t.xmin::text FROM "+tg.name.SQL()+" AS t JOIN unnest($1::oid[], $2::text[]) AS s(o, c) ON t.tableoid = s.o AND t.ctid = s.c::tid FOR UPDATE OF t",
		tables, ctids)
	if err != nil {
		return 0, err
	}
	now, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (place, error) {
		var table int64
		var ctid, xmin string
		if err := row.Scan(&table, &ctid, &xmin); err != nil {
			return place{}, err
		}
		return parsePlace([]byte(strconv.FormatInt(table, 10)), []byte(ctid), []byte(xmin))
	})
	if err != nil {
		return 0, err
	}
	is := make(map[place]bool, len(at))
	for _, p := range at {
		is[p] = true
	}
	var same []place
	for _, p := range now {
		if is[p] {
			same = append(same, p)
		}
	}
	tables, ctids = find(same)
	sql := "DELETE FROM %s AS t USING unnest($1::oid[], $2::text[]) AS s(o, c) WHERE t.tableoid = s.o AND t.ctid = s.c::tid"
	args := []any{tg.name.SQL()}
	if tg.soft {
		sql = "UPDATE %s AS t SET %s = %s FROM unnest($1::oid[], $2::text[]) AS s(o, c) WHERE t.tableoid = s.o AND t.ctid = s.c::tid"
		args = append(args, quote(tg.columns[tg.mark].name), mark)
	}
	tag, err := t.Exec(ctx, fmt.Sprintf(sql, args...), tables, ctids)
	return tag.RowsAffected(), err
}

// rewrite writes the rows of changes that are still as they were seen: seen is where each lay, nil: nowhere.
func (v *view) rewrite(ctx context.Context, t *transaction, tg *target, changes []changelog.Change, seen []*place) (int64, error) {
	if len(changes) == 0 {
		return 0, nil
	}
	a := &v.mends
	a.stamp = stamp{bridge: v.r.Bridge}
	var same []changelog.Change
	st := tg.statement(tg.keys, "SELECT s.ord, t.tableoid, t.ctid, t.xmin FROM "+tg.unnest(tg.keys, " WITH ORDINALITY")+" JOIN "+tg.name.SQL()+" AS t ON "+tg.sameKey(tg.keys)+" FOR UPDATE OF t")
	for rest, at := changes, seen; len(rest) > 0; {
		n, err := a.fill(tg, st, rest)
		if err != nil {
			return 0, err
		}
		r := t.Conn().PgConn().ExecParams(ctx, st.sql, a.params[:len(tg.keys)], st.oids, binaryFormat(), nil).Read()
		if r.Err != nil {
			return 0, r.Err
		}
		now := make([]*place, n)
		for _, row := range r.Rows {
			ord, err := strconv.Atoi(string(row[0]))
			if err != nil || ord < 1 || ord > n {
				return 0, fmt.Errorf("the server numbered a row %q of %d", row[0], n)
			}
			p, err := parsePlace(row[1], row[2], row[3])
			if err != nil {
				return 0, err
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
	// Sorted by key, as every writer of the table does it.
	a.net.Compute(tg.table.Schema, same)
	defer a.net.Reset()
	whole, parts := byColumnsSent(tg, a.net.Upserts)
	if len(whole) > 0 {
		if err := a.run(ctx, t, tg, tg.upsert, whole); err != nil {
			return 0, err
		}
	}
	for _, p := range parts {
		if err := a.run(ctx, t, tg, tg.partialOf(p), p.changes); err != nil {
			return 0, err
		}
	}
	return int64(len(same)), nil
}

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

// Mend implements [sink.View], in one transaction. If the table refuses some rows, halves of ds are tried each by itself, and then once more those that were
// refused, as long as others were mended meanwhile. What it refuses for good is counted, and so is a row that is written and differs all the same, since
// a trigger alters what is written.
func (v *view) Mend(ctx context.Context, ds []sink.Difference) (sink.Mended, error) {
	m, err := v.mend(ctx, ds)
	if err != nil {
		return m, v.fail("repair", err)
	}
	return m, nil
}

func (v *view) mend(ctx context.Context, ds []sink.Difference) (sink.Mended, error) {
	if len(ds) == 0 {
		return sink.Mended{}, nil
	}
	if !v.exact {
		return sink.Mended{}, configf("the positions are kept elsewhere, so a repair cannot be fenced against the bridge: set its positions back to the beginning, and let it write the rows again")
	}
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

func (v *view) mendIn(ctx context.Context, t *transaction, ds []sink.Difference) (sink.Mended, error) {
	ended, err := v.still(ctx, t)
	if err != nil {
		return sink.Mended{}, err
	}
	w := mending{v: v, t: t}
	if err := w.all(ctx, ds); err != nil {
		return sink.Mended{}, err
	}
	m := w.mended
	if m.Written+m.Deleted+w.altered == 0 {
		return m, nil
	}
	at := v.positions[0]
	what := fmt.Sprintf("%d rows written, %d deleted in %s", m.Written, m.Deleted, targetNames(v.targets))
	if w.altered > 0 {
		what += fmt.Sprintf("; %d more written that the table alters", w.altered)
	}
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

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// compared lists the columns that a row is compared in, of those given or of all: not those that say where the row came from.
func (tg *target) compared(of []int) (out []int) {
	for i := range tg.columns {
		if of != nil && !slices.Contains(of, i) {
			continue
		}
		if o := tg.columns[i].origin; o == fromRow || o == fromMark {
			out = append(out, i)
		}
	}
	return out
}

// lookUp finds the rows of changes by their keys and compares them in the given columns, which include the key's. note is told of each change: where its
// row lies, nil: nowhere, and how it differs, 0: not.
func (v *view) lookUp(ctx context.Context, tg *target, columns []int, changes []changelog.Change, note func(*changelog.Change, *place, sink.DifferenceKind)) error {
	st := tg.statement(columns, tg.lookUpSQL(columns))
	for len(changes) > 0 {
		n, err := v.apply.fill(tg, st, changes)
		if errors.Is(err, errUnfit) {
			bad := v.apply.unfit(tg, changes)
			if len(bad) == 0 {
				return err
			}
			var rest []changelog.Change
			for i := range changes {
				if slices.ContainsFunc(bad, func(r sink.Rejection) bool {
					return r.Partition == changes[i].Partition && r.Offset == changes[i].Offset && r.Index == changes[i].Index
				}) {
					note(&changes[i], nil, sink.Unwritable)
					continue
				}
				rest = append(rest, changes[i])
			}
			changes = rest
			continue
		}
		if err != nil {
			return err
		}
		if err := v.ask(ctx, tg, st, changes[:n], note); err != nil {
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// ask is lookUp of one chunk, whose parameters are filled in.
func (v *view) ask(ctx context.Context, tg *target, st statement, changes []changelog.Change, note func(*changelog.Change, *place, sink.DifferenceKind)) error {
	// The server reads some values as texts, and may refuse one. That must not end the transaction, which is the snapshot.
	reads := slices.ContainsFunc(st.columns, func(i int) bool { return tg.columns[i].bind.cast != "" })
	if reads {
		if _, err := v.tx.Exec(ctx, "SAVEPOINT chunk"); err != nil {
			return err
		}
	}
	r := v.tx.Conn().PgConn().ExecParams(ctx, st.sql, v.apply.params[:len(st.columns)], st.oids, binaryFormat(), nil).Read()
	if reads {
		end := "RELEASE SAVEPOINT chunk"
		if r.Err != nil {
			end = "ROLLBACK TO SAVEPOINT chunk"
		}
		if _, err := v.tx.Exec(ctx, end); err != nil {
			return errors.Join(r.Err, err)
		}
	}
	switch {
	case r.Err != nil && reads && classify(r.Err) == sink.ErrRejected && len(changes) == 1:
		note(&changes[0], nil, sink.Unwritable)
		return nil
	case r.Err != nil && reads && classify(r.Err) == sink.ErrRejected:
		half := len(changes) / 2
		if err := v.lookUp(ctx, tg, st.columns, changes[:half], note); err != nil {
			return err
		}
		return v.lookUp(ctx, tg, st.columns, changes[half:], note)
	case r.Err != nil:
		return r.Err
	}
	for _, row := range r.Rows {
		ord, err := strconv.Atoi(string(row[0]))
		if err != nil || ord < 1 || ord > len(changes) {
			return fmt.Errorf("the server numbered a row %q of %d", row[0], len(changes))
		}
		if row[2] == nil {
			note(&changes[ord-1], nil, sink.Missing)
			continue
		}
		at, err := parsePlace(row[1], row[2], row[3])
		if err != nil {
			return err
		}
		v.seen[tg.name].add(at)
		kind := sink.DifferenceKind(0)
		if string(row[4]) == "t" {
			kind = sink.Stale
		}
		note(&changes[ord-1], &at, kind)
	}
	return nil
}

// lookUpSQL numbers rows s, and tells of each where the row t of its key lies, if there is one, and whether that differs.
func (tg *target) lookUpSQL(columns []int) string {
	var is, becomes []string
	only := ""
	for n, i := range columns {
		col := &tg.columns[i]
		if col.version {
			name := quote(col.name)
			only = fmt.Sprintf(" AND (t.%s IS NULL OR %s >= t.%s)", name, tg.typed(n, i), name)
		}
		if !col.key {
			is, becomes = append(is, "t."+quote(col.name)), append(becomes, tg.typed(n, i))
		}
	}
	differs := "false"
	if len(is) > 0 {
		differs = fmt.Sprintf("ROW(%s)::record *<> ROW(%s)::record%s", strings.Join(is, ", "), strings.Join(becomes, ", "), only)
	}
	return fmt.Sprintf("SELECT s.ord, t.tableoid, t.ctid, t.xmin, %s FROM %s LEFT JOIN %s AS t ON %s ORDER BY 1", differs,
		tg.unnest(columns, " WITH ORDINALITY"), tg.name.SQL(), tg.sameKey(columns))
}

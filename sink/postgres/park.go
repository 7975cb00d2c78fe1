package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file writes rows that swap the values of a unique column where they cannot be taken out and put there anew: there are columns in them that the sink does
// not write, others refer to them, triggers would see them go, a version guards them, or the change does not carry all of the row. The rows stay, and give up
// their values for a moment: a first UPDATE puts values there that no row has (NULL where the column may be NULL), and then the ordinary statements
// write what the rows become. Nobody else sees the moment between, which is within the transaction.
//
// Why nothing is lost by it:
//
//   - Only columns are moved that the statement after it writes, of the same rows: a change that lacks a column has a statement without it, in which another column of the
//     index is moved, or none, since what is not written is in nobody's way that was not there before. So nothing has to be put back.
//   - Only rows are moved which that statement will write. Under Options.Version those are the rows that the guard lets through, by the same condition; the UPDATE locks
//     them, so nobody makes them newer in between; what is merged into them the table is not ahead of, see applier.passed. Under Options.SkipUnchanged a row that
//     has moved has to differ from what it becomes, see insteadOfNull.
//   - A trigger may still keep the second statement from a row, or make it a newer one. So at the end the sink looks whether a row is still the very version that was moved (its
//     ctid: any UPDATE makes another one). If one is, all of it is undone, and the refusal stands. In mode Staged whoever merges looks once more.
//   - No foreign key may carry the move into other tables: columns that others refer to with ON UPDATE CASCADE, SET NULL or SET DEFAULT are not moved. All
//     other foreign keys and checks are the server's to look at, and where they refuse the move, the first refusal stands.
//
// Why it is enough: once all rows have moved whose values change, the table holds rows that nobody writes and rows that keep their values, both as they are at the end,
// and new values are put beside those one by one. If the source's rows break no constraint at the end, none is broken on the way.

// parking is how rows of a table are moved out of one another's way, and which were.
type parking struct {
	indexes    []distinct
	columns    []pgColumn // of the table
	referenced []string   // columns that take others with them

	tables, places []string // of the rows that were moved
}

// distinct is a unique index, or an exclusion constraint's.
type distinct struct {
	Keyed   []string // what its keys are made of: columns, those of expressions, and those that generated columns are made of
	Touches []string // all that it depends on, of its condition too
	Nulls   bool     // NULLs are taken for the same
	Names   []string // of all indexes that are alike in this, with their schemas, as pgconn.PgError has them
}

// parking reads which indexes can keep rows of the table from being written, those of its partitions among them.
func (tg *target) parking(ctx context.Context, t *transaction) (*parking, error) {
	p := new(parking)
	// What an expression is made of stands in its tree (nodes of type Var), and what index and condition need in all, in pg_depend.
	rows, err := t.Query(ctx, `WITH RECURSIVE tables AS (SELECT to_regclass($1)::oid AS oid UNION SELECT p.relid::oid FROM pg_catalog.pg_partition_tree(to_regclass($1)) p),
		of AS (SELECT x.indexrelid, x.indrelid, n.nspname || '.' || i.relname AS name, (x.indkey::int2[])[0:x.indnkeyatts-1] AS keys, x.indexprs::text AS tree, coalesce((to_jsonb(x)->>'indnullsnotdistinct')::bool, false) AS nulls
			FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid = i.relnamespace
			WHERE x.indrelid IN (SELECT oid FROM tables) AND (x.indisunique OR x.indisexclusion)),
		touched(indexrelid, indrelid, attnum, keyed) AS (
			(SELECT o.indexrelid, o.indrelid, k::int, true FROM of o, unnest(o.keys) k WHERE k > 0
			UNION SELECT o.indexrelid, o.indrelid, v[1]::int, true FROM of o, regexp_matches(o.tree, ':varattno (\d+)', 'g') v
			UNION SELECT o.indexrelid, o.indrelid, d.refobjsubid, false FROM of o JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = o.indexrelid
				AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = o.indrelid AND d.refobjsubid > 0)
			UNION SELECT c.indexrelid, c.indrelid, d.refobjsubid, c.keyed FROM touched c JOIN pg_catalog.pg_depend d ON (d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.indrelid AND d.objsubid = c.attnum
					OR d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.objid IN (SELECT f.oid FROM pg_catalog.pg_attrdef f WHERE f.adrelid = c.indrelid AND f.adnum = c.attnum))
				AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = c.indrelid AND d.refobjsubid > 0) -- what a generated column is made of
		SELECT ARRAY(SELECT a.attname::text FROM touched c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.indrelid AND a.attnum = c.attnum WHERE c.indexrelid = o.indexrelid AND c.keyed ORDER BY 1),
			ARRAY(SELECT DISTINCT a.attname::text FROM touched c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.indrelid AND a.attnum = c.attnum WHERE c.indexrelid = o.indexrelid ORDER BY 1), o.nulls, array_agg(o.name ORDER BY o.name)
		FROM of o GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`, tg.name.SQL())
	if err != nil {
		return nil, err
	}
	if p.indexes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[distinct]); err != nil {
		return nil, err
	}
	var oid uint32
	err = t.QueryRow(ctx, `SELECT to_regclass($1)::oid, ARRAY(SELECT a.attname::text FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = ANY (k.confkey)
		WHERE k.contype = 'f' AND k.confupdtype IN ('c', 'n', 'd') AND (k.confrelid = to_regclass($1) OR k.confrelid IN (SELECT p.relid FROM pg_catalog.pg_partition_tree(to_regclass($1)) p)))`,
		tg.name.SQL()).Scan(&oid, &p.referenced)
	if err != nil {
		return nil, err
	}
	p.columns, err = readColumns(ctx, t, oid)
	return p, err
}

// parks says which statements move rows out of the way of works, which are of tg.
func (p *parking) parks(tg *target, works []work) (out []work) {
	for _, w := range works {
		// A mark leaves all unique values where they are.
		if len(w.changes) == 0 || w.st.sql == "" || w.st.sql == tg.remove.sql || w.st.sql == tg.bury.sql {
			continue
		}
		if st := p.statement(tg, w.st.columns); st.sql != "" {
			out = append(out, work{st, w.changes})
		}
	}
	return out
}

// statement moves rows of which the given columns are written afterwards; its sql is "" where there is nothing to move.
func (p *parking) statement(tg *target, columns []int) statement {
	type move struct {
		to   string
		when []string
	}
	moves := make(map[int]*move) // by the place in columns
	for _, ix := range p.indexes {
		place, to := p.place(tg, columns, ix)
		if place < 0 {
			continue
		}
		var is, becomes []string
		for n, i := range columns {
			if col := &tg.columns[i]; !col.key && slices.Contains(ix.Touches, col.name) {
				is, becomes = append(is, "t."+quote(col.name)), append(becomes, tg.typed(n, i))
			}
		}
		m := moves[place]
		if m == nil {
			m = &move{to: to}
			moves[place] = m
		}
		if to != "NULL" {
			m.to = to
		}
		m.when = append(m.when, fmt.Sprintf("ROW(%s)::record *<> ROW(%s)::record", strings.Join(is, ", "), strings.Join(becomes, ", ")))
	}
	var set, any []string
	where := []string{tg.sameKey(columns)}
	for n, i := range columns {
		name := quote(tg.columns[i].name)
		if tg.columns[i].version {
			where = append(where, fmt.Sprintf("(t.%s IS NULL OR %s >= t.%[1]s)", name, tg.typed(n, i)))
		}
		if m := moves[n]; m != nil {
			when, to := strings.Join(m.when, " OR "), m.to
			if to == "NULL" && tg.skips {
				to = p.insteadOfNull(tg, columns, n, func(n int) bool { return moves[n] != nil })
			}
			set, any = append(set, fmt.Sprintf("%s = CASE WHEN %s THEN %s ELSE t.%[1]s END", name, when, to)), append(any, when)
		}
	}
	if len(set) == 0 {
		return statement{}
	}
	st := tg.statement(columns, fmt.Sprintf("UPDATE %s AS t SET %s FROM %s WHERE %s AND (%s) RETURNING t.tableoid, t.ctid", tg.name.SQL(), strings.Join(set, ", "),
		numbered(tg.few(columns)), strings.Join(where, " AND "), strings.Join(any, " OR ")))
	st.parks = p
	return st
}

// place says which of columns, by its place in them, is moved for an index, and to what; -1 where none can be.
func (p *parking) place(tg *target, columns []int, ix distinct) (place int, to string) {
	place = -1
	for n, i := range columns {
		if tg.columns[i].key {
			continue
		}
		way := p.way(tg, n, i, ix)
		if better := place < 0 || way == "NULL" && to != "NULL"; way != "" && better {
			place, to = n, way
		}
	}
	return place, to
}

// frees reports whether what the statement of the given columns moves are values of the very index that a refusal names.
func (p *parking) frees(tg *target, columns []int, refusal error) bool {
	var pe *pgconn.PgError
	if !errors.As(refusal, &pe) {
		return false
	}
	i := slices.IndexFunc(p.indexes, func(ix distinct) bool { return slices.Contains(ix.Names, pe.SchemaName+"."+pe.ConstraintName) })
	if i < 0 {
		return false
	}
	place, _ := p.place(tg, columns, p.indexes[i])
	return place >= 0
}

// numbered adds s.ord to the rows of target.few.
func numbered(few string) string {
	return strings.TrimSuffix(strings.Replace(few, " AS s(", " WITH ORDINALITY AS s(", 1), ")") + ", ord)"
}

// moved notes where the rows are that a statement returned.
func (p *parking) moved(r *pgconn.Result) {
	for _, row := range r.Rows {
		p.tables, p.places = append(p.tables, string(row[0])), append(p.places, string(row[1]))
	}
}

// held is how many rows were moved. p may be nil.
func (p *parking) held() int {
	if p == nil {
		return 0
	}
	return len(p.places)
}

// back forgets rows of statements that were taken back.
func (p *parking) back(held int) {
	if p != nil {
		p.tables, p.places = p.tables[:held], p.places[:held]
	}
}

// left reports whether a row of a table is still as it was moved. If none is, it forgets those of that table, and of its partitions: a merge knows of rows of other tables, which
// are to be written yet.
func (p *parking) left(ctx context.Context, t *transaction, table string) (left bool, err error) {
	if len(p.places) == 0 {
		return false, nil
	}
	var own []string
	err = t.QueryRow(ctx, `WITH RECURSIVE own(oid) AS (SELECT to_regclass($3)::oid UNION SELECT i.inhrelid FROM own JOIN pg_catalog.pg_inherits i ON i.inhparent = own.oid)
		SELECT EXISTS (SELECT FROM `+table+` AS t WHERE t.ctid = ANY ($2::text::tid[])
			AND (t.tableoid, t.ctid) IN (SELECT * FROM unnest($1::text::oid[], $2::text::tid[]))), ARRAY(SELECT oid::text FROM own)`,
		textArray(p.tables), textArray(p.places), table).Scan(&left, &own)
	if err != nil || left {
		return left, err
	}
	var tables, places []string
	for i, oid := range p.tables {
		if !slices.Contains(own, oid) {
			tables, places = append(tables, oid), append(places, p.places[i])
		}
	}
	p.tables, p.places = tables, places
	return false, nil
}

// parked writes the net effect of changes, with rows moved out of one another's way.
func (a *applier) parked(ctx context.Context, t *transaction, tg *target, changes []changelog.Change) (superseded int, err error) {
	if len(tg.keys) == 0 || len(malformed(tg, changes)) > 0 {
		return 0, errNotInOrder
	}
	p, err := tg.parking(ctx, t)
	if err != nil {
		return 0, err
	}
	changes, passed, err := a.passed(ctx, t, tg, changes)
	if err != nil {
		return 0, err
	}
	works, superseded := a.plan(tg, changes)
	superseded += passed
	parks := p.parks(tg, works)
	if len(parks) == 0 {
		return 0, errNotInOrder
	}
	var todo, rest []work
	for _, w := range works {
		if tg.isRemove(w.st) {
			todo = append(todo, w)
		} else {
			rest = append(rest, w)
		}
	}
	for _, w := range slices.Concat(todo, parks, rest) {
		if err := a.told(a.run(ctx, t, tg, w.st, w.changes)); err != nil {
			return 0, err
		}
	}
	return superseded + a.void, a.written(ctx, t, tg, p)
}

// written returns errNotInOrder where a row that was moved is not written.
func (a *applier) written(ctx context.Context, t *transaction, tg *target, p *parking) error {
	s := a.stage
	if !s.of(t) || !s.later {
		left, err := p.left(ctx, t, tg.name.SQL())
		switch {
		case err != nil:
			return err
		case left:
			return errNotInOrder
		}
	}
	if s.of(t) {
		s.add(chunk{statement: stagedStatement{Written: tg.name.SQL()}, params: [][]byte{}})
	}
	return nil
}

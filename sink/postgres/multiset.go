package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgtype"
)

// This file takes rows away from a table without a key, whose rows are a multiset: each delete takes one row that is equal in all columns
// that are not metadata.

// takesAway reports whether rows of a table without a key can go away: its stream tells the old row of every change.
func takesAway(t *changelog.Table) bool {
	return len(t.Schema.Key) == 0 && t.Mode.Contains(changelog.UpdateBefore) && t.Mode.Contains(changelog.Delete)
}

// takeOne returns the statement that takes one row for each row of its arrays. It returns the numbers of those for which it found one, and
// whether it took it. Equal rows are counted through on both sides, so that n equal deletes take n rows.
//
// Rows are compared as records: that takes NULLs for equal, and can be hashed (sorted before Postgres 14), where a comparison by IS NOT DISTINCT
// FROM would look at every pair. Columns that are NOT NULL are compared by themselves as well, so that an index over them can help; without one
// each statement reads the table once.
func (tg *target) takeOne() statement {
	var columns []int
	var theirs, ours, texts, equal, names, args []string
	for i := range tg.columns {
		col := &tg.columns[i]
		if col.origin != fromRow || tg.table.Schema.Columns[col.source].Metadata != "" {
			continue
		}
		columns = append(columns, i)
		n := len(columns)
		args, names = append(args, fmt.Sprintf("$%d", n)), append(names, fmt.Sprintf("c%d", n))
		// A record is only compared with one of the same types and collations.
		theirs, texts = append(theirs, "t."+quote(col.name)+col.collate), append(texts, fmt.Sprintf("c%d%s", n, col.collate))
		ours = append(ours, fmt.Sprintf("c%d::%s AS c%[1]d", n, col.typ))
		if col.notNull {
			equal = append(equal, fmt.Sprintf(" AND s.c%d = t.%s", n, quote(col.name)))
		}
	}
	record := "ROW(" + strings.Join(theirs, ", ") + ")"
	cols := strings.Join(names, ", ")
	sql := fmt.Sprintf(`WITH s AS MATERIALIZED (SELECT *, row_number() OVER (PARTITION BY r ORDER BY ord) AS n
	FROM (SELECT ord, %[1]s, ROW(%[7]s) AS r FROM (SELECT ord, %[2]s FROM unnest(%[3]s) WITH ORDINALITY AS u(%[1]s, ord)) u) s),
	x AS (SELECT t.ctid AS at, t.tableoid AS part, %[4]s AS r, row_number() OVER (PARTITION BY %[4]s) AS n
	FROM %[5]s AS t WHERE EXISTS (SELECT FROM s WHERE s.r = %[4]s%[6]s)),
	f AS MATERIALIZED (SELECT s.ord, x.at, x.part FROM s JOIN x ON x.r = s.r AND x.n = s.n),
	d AS (DELETE FROM %[5]s AS t USING f WHERE t.ctid = f.at AND t.tableoid = f.part RETURNING f.ord)
	SELECT f.ord, (d.ord IS NOT NULL)::int FROM f LEFT JOIN d ON d.ord = f.ord`,
		cols, strings.Join(ours, ", "), strings.Join(args, ", "), record, tg.name.SQL(), strings.Join(equal, ""), strings.Join(texts, ", "))
	st := tg.statement(columns, sql)
	st.takes = true
	return st
}

var errNoEqualRow = &rowError{reason: "there is no equal row in the table to take away: somebody else changed the table, or the bridge began in the middle of the topic"}

// take runs a statement of takeOne over the parameters of a chunk. A row that it found may have been taken meanwhile by another lane, for
// whose transaction it waited; then it looks again, at the table as it is now.
func (a *applier) take(ctx context.Context, t *transaction, tg *target, st statement, left []changelog.Change) error {
	for vain := 0; ; vain++ {
		r := t.Conn().PgConn().ExecParams(ctx, st.sql, a.params[:len(st.columns)], st.oids, binaryFormat(), nil).Read()
		if r.Err != nil {
			return r.Err
		}
		found, taken := make([]bool, len(left)), make([]bool, len(left))
		for _, row := range r.Rows {
			n, err := strconv.Atoi(string(row[0]))
			if err != nil || n < 1 || n > len(left) || found[n-1] {
				return fmt.Errorf("the server numbered a row %q of %d", row[0], len(left))
			}
			found[n-1], taken[n-1] = true, string(row[1]) == "1"
		}
		var rest []changelog.Change
		var missing []sink.Rejection
		for i := range left {
			switch {
			case !found[i]:
				missing = append(missing, rejection(&left[i], errNoEqualRow))
			case !taken[i]:
				rest = append(rest, left[i])
			}
		}
		switch {
		case len(missing) > 0:
			return rejected(missing)
		case len(rest) == 0:
			return nil
		case len(rest) < len(left):
			vain = 0
		case vain >= maxVain:
			return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("rows of table %s were found and not taken away, %d times in a row: "+
				"a BEFORE DELETE trigger returns NULL for them, or other lanes were always faster", tg.name.SQL(), vain)}
		}
		left = rest
		if _, err := a.fill(tg, st, left); err != nil {
			return err
		}
	}
}

// maxVain bounds how often rows are looked for that are then gone.
const maxVain = 100

// noEquality are types without an operator =.
var noEquality = [...]uint32{pgtype.JSONOID, pgtype.XMLOID}

// unequal says why rows cannot be found again by the value of a column.
func (c *pgColumn) unequal() string {
	t := &c.typ
	for t.elem != nil {
		t = t.elem
	}
	switch {
	case slices.Contains(noEquality[:], t.oid), c.typ.unequal():
		return fmt.Sprintf("has type %s, whose values the server cannot compare, so rows of a table without a key cannot be taken away by it: make the column jsonb or text", c.typ.shown)
	case t.kind == 'c', t.hstore:
		return fmt.Sprintf("has type %s, by which rows of a table without a key are not looked for: make the column jsonb", c.typ.shown)
	case t.citext, c.loose:
		return "takes different texts for equal, so another row of a table without a key could be taken away: make it text with a deterministic collation"
	}
	return ""
}

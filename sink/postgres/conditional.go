package postgres

import (
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// This file makes the parts of statements that leave a row of the table as it is.

// onlyIf returns the conditions under which a row t of the table takes the given columns of another, whose values theirs names (by their
// place in columns, and in tg.columns). ever is false where it would not under any: there is nothing in them that could differ.
//
// The guard of Options.Version lets an equal version through, since rows of one transaction upstream may share one, and the later of two such
// changes is not the older row. A row without a version was written before there were any. The server looks at the condition once more after it waited for
// another transaction's change of the row, so two lanes cannot both find themselves the newer.
//
// Options.SkipUnchanged compares what is stored, byte by byte (*<> is record_image_ne), and not by the types' own =. That takes less for equal: 1.0
// and 1.00, 'a' and 'A' of a citext, 1 month and 30 days are different rows to a reader. And it takes any type: json, xml and point have no = at
// all. A record is only compared with one of the same types.
func (tg *target) onlyIf(columns []int, theirs func(n, i int) string) (only []string, ever bool) {
	var is, becomes []string
	for n, i := range columns {
		col := &tg.columns[i]
		if col.version {
			name := quote(col.name)
			only = append(only, fmt.Sprintf("(t.%s IS NULL OR %s >= t.%s)", name, theirs(n, i), name))
		}
		if !col.key && (col.origin == fromRow || col.origin == fromMark) {
			is, becomes = append(is, "t."+quote(col.name)), append(becomes, theirs(n, i))
		}
	}
	if !tg.skips {
		return only, true
	}
	if len(is) == 0 {
		return only, false
	}
	return append(only, fmt.Sprintf("ROW(%s)::record *<> ROW(%s)::record", strings.Join(is, ", "), strings.Join(becomes, ", "))), true
}

// typed is a column of the rows s with the column's own type, length and precision: what it will be when it is stored.
func (tg *target) typed(n, i int) string {
	col := &tg.columns[i]
	typ := col.typ
	if strings.HasPrefix(typ, "pg_catalog.") {
		typ = col.shown // a word of SQL, which needs no schema, with its length
	}
	return fmt.Sprintf("s.c%d%s::%s", n+1, col.bind.cast, typ)
}

// isDeleted tells of a row t whether it is marked.
func (tg *target) isDeleted() string {
	col := &tg.columns[tg.mark]
	name := "t." + quote(col.name)
	switch {
	case col.clock || col.source >= 0:
		return "(" + name + " IS NOT NULL)"
	case col.deleted.Kind() == changelog.KindBool:
		return "(" + name + " IS TRUE)"
	case col.deleted.Kind() == changelog.KindInt:
		return fmt.Sprintf("(%s IS NOT NULL AND %[1]s = %d)", name, col.deleted.Int())
	}
	return fmt.Sprintf("(%s IS NOT NULL AND %[1]s = %s::%s)", name, quoteText(col.deleted.Str()), col.typ)
}

// quoteText quotes a text, whatever standard_conforming_strings says.
func quoteText(s string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// markDeleted returns the statement that marks rows by their keys. A row that is not there stays away, except under Options.Version: without
// a row to hold the version, an older change of another bridge would put the row back.
func (tg *target) markDeleted() statement {
	var columns []int
	columns = append(columns, tg.keys...)
	if tg.version >= 0 {
		columns = append(columns, tg.version)
	}
	columns = append(columns, tg.filled()...)
	var set []string
	where := []string{tg.sameKey(columns)}
	for n, i := range columns {
		if col := &tg.columns[i]; !col.key {
			set = append(set, fmt.Sprintf("%s = s.c%d%s", quote(col.name), n+1, col.bind.cast))
		}
		if tg.columns[i].version {
			name := quote(tg.columns[i].name)
			where = append(where, fmt.Sprintf("(t.%s IS NULL OR %s >= t.%s)", name, tg.typed(n, i), name))
		}
	}
	if tg.version < 0 {
		where = append(where, "NOT "+tg.isDeleted())
	}
	st := tg.statement(columns, fmt.Sprintf("UPDATE %s AS t SET %s FROM %s WHERE %s", tg.name.SQL(), strings.Join(set, ", "), tg.few(columns), strings.Join(where, " AND ")))
	if tg.version >= 0 {
		st.counts = true
		// What NOT EXISTS does not see yet, another lane is about to put there; then ON CONFLICT waits for it.
		st.then = fmt.Sprintf("%s WHERE NOT EXISTS (SELECT FROM %s AS t WHERE %s)%s", tg.insertSQL(columns, tg.unnest(columns, "")), tg.name.SQL(), tg.sameKey(columns), tg.onConflict(append(tg.filled(), tg.version)))
	}
	return st
}

// onConflictOnce passes over a change whose position is in the table.
func (tg *target) onConflictOnce() string {
	var names []string
	for _, o := range []origin{fromTopic, fromPartition, fromOffset, fromIndex} {
		for i := range tg.columns {
			if tg.columns[i].origin == o {
				names = append(names, quote(tg.columns[i].name))
			}
		}
	}
	return fmt.Sprintf(" ON CONFLICT (%s) DO NOTHING", strings.Join(names, ", "))
}

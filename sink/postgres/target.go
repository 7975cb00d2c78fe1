package postgres

import (
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// target is a table that was checked, and the statements that write into it.
type target struct {
	table   *changelog.Table
	name    qualified
	columns []column // those that are written, in the order of the source
	keys    []int    // of columns, in the order of the key

	upsert, insert, remove statement
}

// column is one column that is written.
type column struct {
	source  int    // index in the schema and in rows
	name    string // not quoted
	key     bool
	notNull bool
	shown   string // type, as people write it
	typ     string // type, for casts
	collate string // what makes texts compare by their bytes; "" where nothing has to
	bind    binder
}

// statement takes one array for each of some columns, so that the number of parameters does not grow with the rows.
type statement struct {
	sql     string
	columns []int // of the target's columns, in the order of the parameters
	oids    []uint32
	takes   bool   // see takeOne
	copy    string // COPY for rows of which none is there, "" where there is none that does the same
	missing string // a query with the parameters of the key columns alone, for the rows that are not in the table; "" when that is no mistake
}

// prepare makes the statements that every batch needs.
func (tg *target) prepare(rules bool) {
	for _, k := range tg.table.Schema.Key {
		for i := range tg.columns {
			if tg.columns[i].source == k {
				tg.keys = append(tg.keys, i)
			}
		}
	}
	all := make([]int, len(tg.columns))
	for i := range all {
		all[i] = i
	}
	tg.insert = tg.statement(all, tg.insertSQL(all))
	tg.insert.copy = tg.copySQL(rules)
	if takesAway(tg.table) {
		tg.remove = tg.takeOne()
	}
	if len(tg.keys) > 0 {
		tg.upsert = tg.statement(all, tg.insertSQL(all)+tg.onConflict())
		tg.upsert.copy = tg.insert.copy
		tg.remove = tg.statement(tg.keys, fmt.Sprintf("DELETE FROM %s AS t USING %s WHERE %s", tg.name.SQL(), tg.unnest(tg.keys, ""), tg.sameKey(tg.keys)))
	}
}

func (tg *target) statement(columns []int, sql string) statement {
	s := statement{sql: sql, columns: columns}
	for _, i := range columns {
		s.oids = append(s.oids, tg.columns[i].bind.array)
	}
	return s
}

// partial returns the statement for rows that hold some columns only, the key among them: the others were not sent by the source and
// stay what they are. Rows that are not in the table yet would have nothing to keep.
func (tg *target) partial(columns []int) statement {
	var set []string
	for n, i := range columns {
		if !tg.columns[i].key {
			set = append(set, fmt.Sprintf("%s = s.c%d%s", quote(tg.columns[i].name), n+1, tg.columns[i].bind.cast))
		}
	}
	sql := ""
	if len(set) > 0 {
		sql = fmt.Sprintf("UPDATE %s AS t SET %s FROM %s WHERE %s", tg.name.SQL(), strings.Join(set, ", "), tg.unnest(columns, ""), tg.sameKey(columns))
	}
	st := tg.statement(columns, sql)
	st.missing = fmt.Sprintf("SELECT s.ord FROM %s WHERE NOT EXISTS (SELECT FROM %s AS t WHERE %s) ORDER BY s.ord LIMIT %d",
		tg.unnest(tg.keys, " WITH ORDINALITY"), tg.name.SQL(), tg.sameKey(tg.keys), maxNamed)
	return st
}

// insertSQL keeps the order of the arrays, which is the order of keys: two lanes that write the same keys lock them in the same order.
func (tg *target) insertSQL(columns []int) string {
	var into, from []string
	for n, i := range columns {
		into = append(into, quote(tg.columns[i].name))
		from = append(from, fmt.Sprintf("s.c%d%s", n+1, tg.columns[i].bind.cast))
	}
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", tg.name.SQL(), strings.Join(into, ", "), strings.Join(from, ", "), tg.unnest(columns, ""))
}

func (tg *target) onConflict() string {
	var key, set []string
	for _, i := range tg.keys {
		key = append(key, quote(tg.columns[i].name))
	}
	for i := range tg.columns {
		if name := quote(tg.columns[i].name); !tg.columns[i].key {
			set = append(set, name+" = EXCLUDED."+name)
		}
	}
	if len(set) == 0 {
		return fmt.Sprintf(" ON CONFLICT (%s) DO NOTHING", strings.Join(key, ", "))
	}
	return fmt.Sprintf(" ON CONFLICT (%s) DO UPDATE SET %s", strings.Join(key, ", "), strings.Join(set, ", "))
}

// unnest makes rows s(c1, c2, ...) of the parameters.
func (tg *target) unnest(columns []int, more string) string {
	var args, names []string
	for n := range columns {
		args = append(args, fmt.Sprintf("$%d", n+1))
		names = append(names, fmt.Sprintf("c%d", n+1))
	}
	if more != "" {
		names = append(names, "ord")
	}
	return fmt.Sprintf("unnest(%s)%s AS s(%s)", strings.Join(args, ", "), more, strings.Join(names, ", "))
}

// sameKey compares the key of t with that of s, whose columns are given.
func (tg *target) sameKey(columns []int) string {
	var out []string
	for n, i := range columns {
		if tg.columns[i].key {
			out = append(out, fmt.Sprintf("t.%s = s.c%d%s", quote(tg.columns[i].name), n+1, tg.columns[i].bind.cast))
		}
	}
	return strings.Join(out, " AND ")
}

// same reports whether rows are written in the same way.
func (tg *target) same(other *target) bool {
	if tg.name != other.name || tg.insert.sql != other.insert.sql || tg.upsert.sql != other.upsert.sql || tg.remove.sql != other.remove.sql || len(tg.columns) != len(other.columns) {
		return false
	}
	for i := range tg.columns {
		if tg.columns[i].shown != other.columns[i].shown || tg.columns[i].notNull != other.columns[i].notNull {
			return false
		}
	}
	return true
}

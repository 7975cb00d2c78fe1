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
	topic   string     // that its rows come from; "": see destination
	adds    []addition // columns that Options.Evolve adds with the first rows
	columns []column   // those that are written, in the order of the source
	keys    []int      // of columns, in the order of the key

	soft    bool // deleted rows are marked
	ignores bool // deletes are ignored
	skips   bool // rows that are equal already are not written
	once    bool // a change that the table holds already is not written
	clock   bool // rows hold the time
	mark    int  // of columns, -1: none
	version int  // of columns, -1: none
	deletes bool // the role may delete rows

	shape shape // of the table when it was checked; zero: not known

	upsert, insert statement
	remove         statement // what a delete does: take the row away, mark it, or nothing
	bury           statement // the same for a delete that tells the whole row, under Options.Version
	takeOut        statement // takes rows away by their keys, whatever remove does
	swap           *swap     // nil: rows are written one by one
}

// column is one column that is written.
type column struct {
	source  int    // index in the schema and in rows; of an origin beside fromRow, that of SoftDelete.From or -1
	origin  origin // where its values come from
	name    string // not quoted
	key     bool
	notNull bool
	shown   string // type, as people write it
	typ     string // type, for casts
	collate string // what makes texts compare by their bytes; "" where nothing has to
	bind    binder

	version       bool            // it is that of Options.Version
	live, deleted changelog.Value // of fromMark
	clock         bool            // of fromMark: the time, in place of deleted
	width         int             // of fromMark: of a row of the source
	swap          *swap           // of fromRun
}

// statement takes one array for each of some columns, so that the number of parameters does not grow with the rows.
type statement struct {
	sql     string
	columns []int // of the target's columns, in the order of the parameters
	oids    []uint32
	takes   bool     // see takeOne
	then    string   // with the same parameters, after sql
	counts  bool     // the rows that it did not write are superseded, and the server's count tells how many it wrote
	ignores bool     // it does nothing, and its rows are superseded
	parts   bool     // it may be run over a part of the rows after the other; see upsertAll
	merge   *merging // the same by way of a temporary table, nil where there is none
	copy    string   // COPY for rows of which none is there, "" where there is none that does the same
	parks   *parking // it returns the rows that it moved
	missing string   // a query with the parameters of the key columns alone, for the rows that are not in the table; "" when that is no mistake
}

// prepare makes the statements that every batch needs.
func (tg *target) prepare(rules, temporary bool) {
	for _, k := range tg.table.Schema.Key {
		for i := range tg.columns {
			if tg.columns[i].origin == fromRow && tg.columns[i].source == k {
				tg.keys = append(tg.keys, i)
			}
		}
	}
	all := make([]int, len(tg.columns))
	for i := range all {
		all[i] = i
	}
	if tg.swap != nil {
		tg.prepareSwap(all)
		return
	}
	from := tg.unnest(all, "")
	tg.insert = tg.statement(all, tg.insertSQL(all, from))
	if tg.once {
		tg.insert.sql += tg.onConflictOnce()
		tg.insert.counts = true
	}
	tg.insert.copy, tg.insert.parts = tg.copySQL(rules), true
	if len(tg.keys) == 0 {
		switch {
		case tg.ignores:
			tg.remove = statement{ignores: true}
		case takesAway(tg.table):
			tg.remove = tg.takeOne()
		}
		return
	}
	tg.upsert = tg.statement(all, tg.insertSQL(all, from)+tg.onConflict(all))
	tg.upsert.copy, tg.upsert.parts = tg.insert.copy, true
	if temporary {
		tg.upsert.merge = tg.mergeSQL(all)
	}
	tg.upsert.counts = tg.skips || tg.version >= 0
	tg.takeOut = tg.statement(tg.keys, fmt.Sprintf("DELETE FROM %s AS t USING %s WHERE %s", tg.name.SQL(), tg.few(tg.keys), tg.sameKey(tg.keys)))
	switch {
	case tg.ignores:
		tg.remove = statement{ignores: true}
	case tg.soft:
		tg.remove = tg.markDeleted()
		if tg.version >= 0 {
			tg.bury = tg.statement(all, tg.insertSQL(all, from)+tg.onConflict(append(tg.filled(), tg.version)))
			tg.bury.counts = true
		}
	default:
		tg.remove = tg.takeOut
	}
}

// isRemove reports whether a statement is what deletes do.
func (tg *target) isRemove(st statement) bool { return tg.remove.sql != "" && st.sql == tg.remove.sql }

func (tg *target) statement(columns []int, sql string) statement {
	s := statement{sql: sql, columns: columns}
	for _, i := range columns {
		s.oids = append(s.oids, tg.columns[i].bind.array)
	}
	return s
}

// partial returns the statement for rows that hold some columns only, the key among them: the others were not sent by the source and
// stay what they are. Rows that are not in the table yet would have nothing to keep; nor would those that are marked as deleted.
func (tg *target) partial(columns []int) statement {
	var set []string
	for n, i := range columns {
		if !tg.columns[i].key {
			set = append(set, fmt.Sprintf("%s = s.c%d%s", quote(tg.columns[i].name), n+1, tg.columns[i].bind.cast))
		}
	}
	only, ever := tg.onlyIf(columns, func(n, i int) string { return tg.typed(n, i) })
	sql := ""
	if len(set) > 0 && ever {
		sql = fmt.Sprintf("UPDATE %s AS t SET %s FROM %s WHERE %s", tg.name.SQL(), strings.Join(set, ", "), tg.few(columns),
			strings.Join(append([]string{tg.sameKey(columns)}, only...), " AND "))
	}
	st := tg.statement(columns, sql)
	st.counts = sql != "" && len(only) > 0
	st.ignores = sql == "" && tg.skips
	live := ""
	if tg.soft {
		live = " AND NOT " + tg.isDeleted()
	}
	st.missing = fmt.Sprintf("SELECT s.ord FROM %s WHERE NOT EXISTS (SELECT FROM %s AS t WHERE %s%s) ORDER BY s.ord LIMIT %d",
		tg.unnest(tg.keys, " WITH ORDINALITY"), tg.name.SQL(), tg.sameKey(tg.keys), live, maxNamed)
	return st
}

// into is where rows are written.
func (tg *target) into() qualified {
	if tg.swap != nil {
		return tg.swap.into
	}
	return tg.name
}

// insertSQL keeps the order of the rows of from, which is the order of keys: two lanes that write the same keys lock them in the same order. from is
// a relation s(c1, c2, ...) with the given columns.
func (tg *target) insertSQL(columns []int, from string) string {
	var into, values []string
	for n, i := range columns {
		into = append(into, quote(tg.columns[i].name))
		values = append(values, fmt.Sprintf("s.c%d%s", n+1, tg.columns[i].bind.cast))
	}
	return fmt.Sprintf("INSERT INTO %s AS t (%s) SELECT %s FROM %s", tg.into().SQL(), strings.Join(into, ", "), strings.Join(values, ", "), from)
}

func (tg *target) keyNames() string {
	var key []string
	for _, i := range tg.keys {
		key = append(key, quote(tg.columns[i].name))
	}
	return strings.Join(key, ", ")
}

// filled lists the columns that the sink fills by itself.
func (tg *target) filled() (out []int) {
	for i := range tg.columns {
		if tg.columns[i].origin != fromRow {
			out = append(out, i)
		}
	}
	return out
}

// onConflict writes some columns of a row that is there.
func (tg *target) onConflict(columns []int) string {
	var set []string
	for _, i := range columns {
		if name := quote(tg.columns[i].name); !tg.columns[i].key {
			set = append(set, name+" = EXCLUDED."+name)
		}
	}
	only, ever := tg.onlyIf(columns, func(_, i int) string { return "EXCLUDED." + quote(tg.columns[i].name) })
	if len(set) == 0 || !ever {
		return fmt.Sprintf(" ON CONFLICT (%s) DO NOTHING", tg.keyNames())
	}
	where := ""
	if len(only) > 0 {
		where = " WHERE " + strings.Join(only, " AND ")
	}
	return fmt.Sprintf(" ON CONFLICT (%s) DO UPDATE SET %s%s", tg.keyNames(), strings.Join(set, ", "), where)
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

// few is unnest for a join with the table, by its index: the planner cannot see how long the arrays are, and takes them for short. If it knows of some thousand
// rows, and the table has some hundred thousand, it reads all of the table once a statement, and writes hashes of it to disk; to look each row up by its key, in the order of the
// index, takes half to two thirds of that, and as long in a table of any size.
func (tg *target) few(columns []int) string {
	var args, names []string
	for n := range columns {
		args = append(args, fmt.Sprintf("(SELECT $%d)", n+1))
		names = append(names, fmt.Sprintf("c%d", n+1))
	}
	return fmt.Sprintf("unnest(%s) AS s(%s)", strings.Join(args, ", "), strings.Join(names, ", "))
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
	if tg.name != other.name || len(tg.adds) != len(other.adds) || tg.insert.sql != other.insert.sql || tg.upsert.sql != other.upsert.sql || tg.remove.sql != other.remove.sql || len(tg.columns) != len(other.columns) {
		return false
	}
	for i := range tg.columns {
		if tg.columns[i].shown != other.columns[i].shown || tg.columns[i].notNull != other.columns[i].notNull {
			return false
		}
	}
	return true
}

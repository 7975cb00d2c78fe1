package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file notices that a table was altered while a lane writes into it.
//
// The server would take much of it without a word. A binary COPY fills a column that became double precision with the bits of a bigint; INSERT rounds to a scale that
// became smaller; without its unique index a table takes a key twice; rows that a new policy hides are not deleted. So the statements of a checkpoint are held to be
// right only if the table is, at its end, what it was when they were made. A transaction that has written into a table keeps others from altering it until it ends (ALTER
// TABLE, CREATE INDEX, DROP INDEX and CREATE POLICY all wait for its lock), so what one look at the end sees was so at its first statement.

// shape is what a table was when statements for it were made, as digests of what matters to them.
type shape struct {
	rows  string // columns that are written: their types, which values are cast to
	rules string // what the server does with rows: the key's index, row security, whether the table survives a crash
}

// altered returns what of a shape is another one now.
func (s shape) altered(now shape) string {
	switch {
	case now == shape{}:
		return "is not there any more, or another table has its name"
	case s.rows != now.rows && s.rules != now.rules:
		return "has other columns, and another key, row security or persistence"
	case s.rows != now.rows:
		return "has other columns (one that is written was dropped, or has another type, NOT NULL or default by identity)"
	case s.rules != now.rules:
		return "has another key, row security or persistence"
	}
	return ""
}

// shapedTable names a table and what of it is written.
type shapedTable struct {
	Name    string   `json:"name"` // as SQL
	Columns []string `json:"columns"`
	Keys    []string `json:"keys,omitempty"`
	Rows    string   `json:"rows,omitempty"`
	Rules   string   `json:"rules,omitempty"`
}

func (tg *target) shaped() shapedTable {
	out := shapedTable{Name: tg.name.SQL(), Rows: tg.shape.rows, Rules: tg.shape.rules}
	for i := range tg.columns {
		out.Columns = append(out.Columns, tg.columns[i].name)
	}
	for _, k := range tg.keys {
		out.Keys = append(out.Keys, tg.columns[k].name)
	}
	slices.Sort(out.Keys)
	return out
}

// shapeSQL takes names of tables, and of their columns and keys as texts of arrays.
const shapeSQL = `SELECT w.n, CASE WHEN c.oid IS NULL THEN '' ELSE md5(concat(c.oid, (
		SELECT string_agg(concat_ws(',', quote_ident(a.attname), a.atttypid, a.atttypmod, a.attnotnull, a.attgenerated, a.attidentity, a.attcollation, (
			SELECT string_agg(concat_ws(',', quote_ident(b.attname), b.atttypid, b.atttypmod), ';' ORDER BY b.attnum) FROM pg_catalog.pg_type t
			JOIN pg_catalog.pg_attribute b ON b.attrelid = t.typrelid AND b.attnum > 0 AND NOT b.attisdropped WHERE t.oid = a.atttypid AND t.typtype = 'c')), ';' ORDER BY a.attname)
		FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attname = ANY (w.columns::text[])))) END,
	CASE WHEN c.oid IS NULL THEN '' ELSE md5(concat_ws(',', c.oid, c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity,
		EXISTS (SELECT FROM pg_catalog.pg_index x WHERE x.indrelid = c.oid AND x.indisunique AND x.indisvalid AND x.indimmediate AND x.indpred IS NULL AND x.indexprs IS NULL
			AND ARRAY(SELECT k.attname::text FROM pg_catalog.pg_attribute k WHERE k.attrelid = c.oid AND k.attnum = ANY ((x.indkey::int2[])[0:x.indnkeyatts - 1]) ORDER BY k.attname::text COLLATE "C") = w.keys::text[]),
		(SELECT string_agg(concat_ws(',', p.oid, p.polcmd, p.polpermissive, p.polroles, p.polqual, p.polwithcheck), ';' ORDER BY p.oid) FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid))) END
	FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS w(name, columns, keys, n) LEFT JOIN pg_catalog.pg_class c ON c.oid = to_regclass(w.name) ORDER BY w.n`

// shapesQuery returns the parameters of shapeSQL.
func shapesQuery(tables []shapedTable) []any {
	names, columns, keys := make([]string, len(tables)), make([]string, len(tables)), make([]string, len(tables))
	for i, t := range tables {
		names[i], columns[i], keys[i] = t.Name, textArray(t.Columns), textArray(t.Keys)
	}
	return []any{names, columns, keys}
}

// textArray is an array as its text.
func textArray(values []string) string {
	out := []byte{'{'}
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		for _, b := range []byte(v) {
			if b == '"' || b == '\\' {
				out = append(out, '\\')
			}
			out = append(out, b)
		}
		out = append(out, '"')
	}
	return string(append(out, '}'))
}

// readShapes reads the answer to shapeSQL.
func readShapes(rows pgx.Rows, n int) ([]shape, error) {
	out := make([]shape, n)
	var i int64
	var s shape
	seen := 0
	_, err := pgx.ForEachRow(rows, []any{&i, &s.rows, &s.rules}, func() error {
		if i < 1 || i > int64(n) {
			return fmt.Errorf("the server numbered a table %d of %d", i, n)
		}
		out[i-1] = s
		seen++
		return nil
	})
	if err == nil && seen != n {
		err = fmt.Errorf("the server told of %d tables of %d", seen, n)
	}
	return out, err
}

// shapes reads what tables are now.
func shapes(ctx context.Context, q querier, tables []shapedTable) ([]shape, error) {
	rows, err := q.Query(ctx, shapeSQL, shapesQuery(tables)...)
	if err != nil {
		return nil, err
	}
	return readShapes(rows, len(tables))
}

// errAltered says that statements may not be right any more. The checkpoint is to be done again, with statements that Open makes anew.
var errAltered = errors.New("a table was altered while it was written")

// sameShapes compares targets with what they are now.
func sameShapes(targets []*target, now []shape) error {
	for i, tg := range targets {
		if what := tg.shape.altered(now[i]); what != "" {
			return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("%w: table %s %s", errAltered, tg.name.SQL(), what)}
		}
	}
	return nil
}

// known are the targets whose shape is known, or will be once Options.Evolve has added their columns: not those of a server that has not all of the catalogue.
func known(targets []*target) (out []*target) {
	for _, tg := range targets {
		if tg.shape != (shape{}) || len(tg.adds) > 0 {
			out = append(out, tg)
		}
	}
	return out
}

func shapedTables(targets []*target) []shapedTable {
	out := make([]shapedTable, len(targets))
	for i, tg := range targets {
		out[i] = tg.shaped()
	}
	return out
}

// checkEnd has the server check what is deferred to the end of the transaction, and whether the tables are what they were: both in one message.
func (c *committer) checkEnd(ctx context.Context) error {
	targets := known(c.targets)
	if len(targets) == 0 {
		_, err := c.tx.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE")
		return err
	}
	var b pgx.Batch
	b.Queue("SET CONSTRAINTS ALL IMMEDIATE")
	b.Queue(shapeSQL, shapesQuery(shapedTables(targets))...)
	answers := c.tx.SendBatch(ctx, &b)
	_, err := answers.Exec()
	var now []shape
	if err == nil {
		var rows pgx.Rows
		if rows, err = answers.Query(); err == nil {
			now, err = readShapes(rows, len(targets))
		}
	}
	if end := answers.Close(); err == nil {
		err = end
	}
	if err != nil {
		return err
	}
	for i, tg := range targets {
		if tg.shape == (shape{}) { // Options.Evolve has added its columns, in this transaction or before
			tg.shape = now[i]
		}
	}
	return sameShapes(targets, now)
}

// alteredSince reports whether a table that is written was altered. It takes a connection of the pool.
func (c *committer) alteredSince(ctx context.Context) error {
	targets := slices.DeleteFunc(known(c.targets), func(tg *target) bool { return tg.shape == (shape{}) })
	if len(targets) == 0 {
		return nil
	}
	now, err := shapes(ctx, c.s.pool, shapedTables(targets))
	if err != nil {
		return err // whether the rows are to blame nobody knows
	}
	return sameShapes(targets, now)
}

// readShape notes what the table is, which found is a description of: both are read again until they are of the same moment.
func (tg *target) readShape(ctx context.Context, q querier, found *pgTable, name qualified) error {
	if len(tg.adds) > 0 {
		return nil
	}
	now, err := shapes(ctx, q, []shapedTable{tg.shaped()})
	var pe *pgconn.PgError
	if errors.As(err, &pe) && strings.HasPrefix(pe.Code, "42") || state(err) == "0A000" {
		return nil // another product, whose catalogue has not all of it
	}
	if err != nil {
		return err
	}
	again, err := readTable(ctx, q, name)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(found, again) {
		return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("table %s is being altered", tg.name.SQL())}
	}
	tg.shape = now[0]
	return nil
}

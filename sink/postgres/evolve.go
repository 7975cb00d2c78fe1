package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// This file adds columns that the source table has and the Postgres table lacks: Options.Evolve.

// evolveWait bounds the wait for the table's lock, behind which everybody else's statements on the table queue up meanwhile.
const evolveWait = 2 * time.Second

// addition is a column that is to be added.
type addition struct {
	name string // not quoted
	typ  string // SQL
}

// sql is the statement for all columns of a table. Another lane may be faster, hence IF NOT EXISTS. No default, no NOT NULL: so it changes the
// catalogue and rewrites nothing.
func additionsSQL(table qualified, add []addition) string {
	parts := make([]string, len(add))
	for i, a := range add {
		parts[i] = fmt.Sprintf("ADD COLUMN IF NOT EXISTS %s %s", quote(a.name), a.typ)
	}
	return fmt.Sprintf("ALTER TABLE %s %s", table.SQL(), strings.Join(parts, ", "))
}

// invent puts the columns into found that the table lacks and Evolve will add, as they will be. A key column is not added: the table would need
// a unique index over it, and values for the rows that it holds.
func (s *Sink) invent(ctx context.Context, q querier, t *changelog.Table, found *pgTable) (add []addition, err error) {
	if !s.o.Evolve || found.kind != 'r' && found.kind != 'p' {
		return nil, nil
	}
	isKey := keyColumns(t.Schema)
	for i := range t.Schema.Columns {
		source := &t.Schema.Columns[i]
		name := s.column(source.Name)
		if name == "" || isKey[i] || found.column(name) != nil || found.similar(name) != "" {
			continue
		}
		sql, ok := sqlType(&source.Type, rule{truncate: s.o.TruncateNanos})
		if !ok {
			continue
		}
		col, err := columnOfType(ctx, q, sql)
		if err != nil {
			return nil, err
		}
		col.name = name
		found.columns = append(found.columns, col)
		add = append(add, addition{name, sql})
	}
	if len(add) == 0 {
		return nil, nil
	}
	var owner bool
	if err := q.QueryRow(ctx, "SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_catalog.pg_class c WHERE c.oid = $1::oid", found.oid).Scan(&owner); err != nil {
		return nil, err
	}
	if !owner {
		return nil, configf("table %s lacks columns, and Options.Evolve cannot add them, since role %s does not own the table: let its owner run %s",
			found.name.SQL(), quote(found.role), additionsSQL(found.name, add))
	}
	return add, nil
}

// columnOfType returns what the catalogue will say of a new column of a type. The server reads the type: its number and modifier are those of a
// result column.
func columnOfType(ctx context.Context, q querier, sql string) (pgColumn, error) {
	rows, err := q.Query(ctx, "SELECT NULL::"+sql)
	if err != nil {
		return pgColumn{}, err
	}
	fields := slices.Clone(rows.FieldDescriptions())
	rows.Close()
	if err := rows.Err(); err != nil {
		return pgColumn{}, err
	}
	if len(fields) == 0 { // a protocol in which the description comes with the first row
		return pgColumn{}, errors.New("the server did not describe a result")
	}
	col := pgColumn{mayInsert: true, mayUpdate: true, maySelect: true}
	t := &col.typ
	t.oid, t.mod = fields[0].DataTypeOID, fields[0].TypeModifier
	var kind string
	var elemOID *uint32
	var elemName, elemShown, elemKind *string
	err = q.QueryRow(ctx, `SELECT format('%I.%I', n.nspname, t.typname), format_type(t.oid, $2::int), t.typtype::text, t.typcollation <> 0,
			e.oid, quote_ident(en.nspname) || '.' || quote_ident(e.typname), format_type(e.oid, $2::int), e.typtype::text
		FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
		LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
		LEFT JOIN pg_catalog.pg_namespace en ON en.oid = e.typnamespace WHERE t.oid = $1::oid`, t.oid, t.mod).
		Scan(&t.name, &t.shown, &kind, &col.collated, &elemOID, &elemName, &elemShown, &elemKind)
	if err != nil {
		return col, err
	}
	t.kind = kind[0]
	if elemOID != nil && elemKind != nil {
		t.elem = &pgType{oid: *elemOID, name: *elemName, shown: *elemShown, mod: t.mod, kind: (*elemKind)[0]}
	}
	return col, nil
}

// evolve adds what the targets lack, in the transaction of a checkpoint: the columns are there together with the first rows that hold them, or not at all.
// It comes before the first row, so no lane waits for the table with rows of it locked. The lock is held to the end of the
// checkpoint; others wait for the table that long.
func (c *committer) evolve(ctx context.Context, t *transaction) error {
	for _, tg := range c.targets {
		if len(tg.adds) == 0 {
			continue
		}
		if err := c.s.add(ctx, t, tg); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sink) add(ctx context.Context, t *transaction, tg *target) error {
	names := make([]string, len(tg.adds))
	for i, a := range tg.adds {
		names[i] = a.name
	}
	// Once another lane, or an earlier checkpoint, has added them, nothing more is locked.
	tables := []string{tg.name.SQL()}
	if tg.swap != nil {
		tables = append(tables, tg.swap.into.SQL())
	}
	var there int
	err := t.QueryRow(ctx, `SELECT count(*) FROM unnest($1::text[]) AS n JOIN pg_catalog.pg_attribute ON attrelid = to_regclass(n) AND attnum > 0 AND NOT attisdropped AND attname = ANY ($2::text[])`,
		tables, names).Scan(&there)
	if err != nil || there == len(names)*len(tables) {
		return err
	}
	sql := additionsSQL(tg.name, tg.adds)
	if tg.swap != nil { // whose rows have all columns of the table, and so have those that wait: NULL, as in the rows that are in the table
		sql += "; " + additionsSQL(tg.swap.into, tg.adds)
	}
	_, err = t.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d; %s; SET LOCAL lock_timeout = %d",
		min(evolveWait, s.o.LockTimeout).Milliseconds(), sql, s.o.LockTimeout.Milliseconds()))
	if err == nil {
		return nil
	}
	class := undone(err)
	if class == sink.ErrRejected {
		class = sink.ErrConfig
	}
	return &sink.Error{Class: class, Err: fmt.Errorf("Options.Evolve: %s: %w", sql, tell(err))}
}

// evolveNow adds what the targets lack in a transaction of its own, for the modes in which rows become visible in another transaction than the one
// that writes them.
func (c *committer) evolveNow(ctx context.Context) error {
	if !slices.ContainsFunc(c.targets, func(tg *target) bool { return len(tg.adds) > 0 }) {
		return nil
	}
	t, err := c.s.beginStore(ctx, "")
	if err != nil {
		return err
	}
	if err := c.evolve(ctx, t); err != nil {
		t.rollback(ctx)
		return err
	}
	return t.commit(ctx)
}

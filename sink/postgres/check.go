package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// configf returns an ErrConfig.
func configf(format string, a ...any) error {
	return &sink.Error{Class: sink.ErrConfig, Err: fmt.Errorf(format, a...)}
}

// check compares every table with the server's catalogue and returns how to write into it. All that does not fit is one ErrConfig.
func (s *Sink) check(ctx context.Context, tables []*changelog.Table) ([]*target, error) {
	if len(tables) == 0 {
		return nil, configf("the lane has no tables: name those whose batches will be written (Options.Tables)")
	}
	to, problems := s.destinations(tables)
	if len(to) == 0 {
		return nil, &sink.Error{Class: sink.ErrConfig, Err: errors.Join(problems...)}
	}
	if len(to) > 1 && len(s.o.Swap.Group) > 0 {
		return nil, configf("Options.Swap is for a lane of one table, since rows of several may have to wait for one another, and this one has %d: give the table a bridge of its own", len(to))
	}
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	var out []*target
	problems = append(problems, s.checkRenames(tables)...)
	problems = append(problems, s.checkCasts(tables)...)
	for _, d := range to {
		if err := d.s.checkNames(d.table); err != nil {
			problems = append(problems, err)
			continue
		}
		found, err := readTable(ctx, conn, d.s.name(d.table))
		if err != nil {
			return nil, err
		}
		if found == nil {
			problems = append(problems, d.s.missing(ctx, conn, d.table))
			continue
		}
		adds, err := d.s.invent(ctx, conn, d.table, found)
		switch {
		case err != nil && undone(err) == sink.ErrConfig:
			problems = append(problems, err)
			continue
		case err != nil:
			return nil, err
		}
		tg, errs := d.s.compare(d.table, found)
		problems = append(problems, errs...)
		if tg != nil {
			tg.topic, tg.adds = d.topic, adds
			if err := tg.readShape(ctx, conn, found, d.s.name(d.table)); err != nil {
				return nil, err
			}
		}
		out = append(out, tg)
	}
	if len(problems) > 0 {
		return nil, &sink.Error{Class: sink.ErrConfig, Err: errors.Join(problems...)}
	}
	return out, nil
}

// checkRenames finds renames of columns that no table has, which would be misspelt.
func (s *Sink) checkRenames(tables []*changelog.Table) (problems []error) {
	for _, source := range slices.Sorted(maps.Keys(s.o.Columns)) {
		if !slices.ContainsFunc(tables, func(t *changelog.Table) bool { return columnNamed(t, source) >= 0 }) {
			hint := ""
			if outer, _, ok := strings.Cut(source, "."); ok && slices.ContainsFunc(tables, func(t *changelog.Table) bool { return t.Schema.Index(outer) >= 0 }) {
				hint = fmt.Sprintf(": a field within column %q has no column of its own, and goes where the column goes", outer)
			}
			problems = append(problems, fmt.Errorf("Options.Columns renames %q, which is no column of the source table%s", source, hint))
		}
	}
	return problems
}

// Limits of the server, as it is built by default: MaxHeapAttributeNumber and INDEX_MAX_KEYS
// (https://www.postgresql.org/docs/current/limits.html).
const (
	maxColumns = 1600
	maxKey     = 32
)

// written counts the columns that are not left out.
func (s *Sink) written(t *changelog.Table) (n int) {
	for i := range t.Schema.Columns {
		if s.column(t.Schema.Columns[i].Name) != "" {
			n++
		}
	}
	return n
}

// checkNames finds what is wrong with a table before the server is asked.
func (s *Sink) checkNames(t *changelog.Table) error {
	if err := t.Schema.Validate(); err != nil {
		return err
	}
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if err := checkIdent("table", s.name(t).table); err != nil {
		errs = append(errs, err)
	}
	if len(t.Schema.Key) == 0 && t.Mode != changelog.Append && !takesAway(t) {
		bad("table %q has no key, and its topic can hold updates and deletes that do not tell the old row (mode %s): declare a PRIMARY KEY", t.Name, t.Mode)
	}
	s.checkTableShape(t, bad)
	isKey := keyColumns(t.Schema)
	if n := s.written(t) + len(s.extras(t)); n > maxColumns {
		bad("table %q has %d columns, and Postgres allows %d in a table: leave some out with an empty name in Options.Columns", t.Name, n, maxColumns)
	}
	if n := len(t.Schema.Key); n > maxKey {
		bad("table %q has a key of %d columns, and Postgres allows %d in an index: declare a shorter PRIMARY KEY", t.Name, n, maxKey)
	}
	from := make(map[string]string)
	for i := range t.Schema.Columns {
		source := t.Schema.Columns[i].Name
		name := s.column(source)
		if name == "" {
			if isKey[i] {
				bad("Options.Columns leaves out %q, which is part of the key: give it a name", source)
			}
			continue
		}
		if err := checkIdent("column", name); err != nil {
			errs = append(errs, err)
		}
		if other, twice := from[name]; twice {
			bad("source columns %q and %q both go into column %s: change Options.Columns", other, source, quote(name))
		}
		from[name] = source
	}
	if s.takesAway(t) && !slices.ContainsFunc(t.Schema.Columns, func(c changelog.Column) bool { return c.Metadata == "" && s.column(c.Name) != "" }) {
		bad("table %q has no key, and only METADATA columns are written: a row that goes away cannot be found by them: write another column", t.Name)
	}
	if len(from) == 0 {
		bad("Options.Columns leaves out every column of table %q", t.Name)
	}
	return errors.Join(errs...)
}

// missing says that the table is not there, what would make it, and what may have been meant.
func (s *Sink) missing(ctx context.Context, q querier, t *changelog.Table) error {
	name := s.name(t)
	var like string
	err := q.QueryRow(ctx, `SELECT format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE lower(c.relname) = lower($1) AND c.relkind IN ('r', 'p') AND n.nspname = ANY (CASE WHEN $2 = '' THEN current_schemas(false) ELSE ARRAY[$2::name] END)
		ORDER BY 1 LIMIT 1`, name.table, name.schema).Scan(&like)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	hint := ""
	if like != "" {
		hint = fmt.Sprintf(" (there is %s; names are compared exactly)", like)
	}
	return &missingTable{name.SQL() + " does not exist" + hint, s.SQL(t)}
}

// missingTable is a table that is not there. Who writes into it can have it made; who looks at it cannot.
type missingTable struct {
	what string // `"name" does not exist`, and what may have been meant
	sql  string // that would make it
}

func (e *missingTable) Error() string {
	return fmt.Sprintf("table %s: set Options.CreateTable, or run\n%s;", e.what, e.sql)
}

// compare returns how to write rows of t into the table that was found, and everything that is wrong with it.
func (s *Sink) compare(t *changelog.Table, found *pgTable) (*target, []error) {
	var errs []error
	at := found.name.SQL()
	bad := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("table "+strings.ReplaceAll(at, "%", "%%")+": "+format, a...))
	}
	keyed := len(t.Schema.Key) > 0
	switch found.kind {
	case 'r', 'p':
	case 'f':
		bad("it is a foreign table, which does not commit together with the positions: name a table of this database")
		return nil, errs // its columns and indexes say nothing more
	default:
		bad("it is %s: name a table, e.g. the one behind it", relation(found.kind))
		return nil, errs
	}
	switch {
	case found.persistence == 'u':
		bad("it is UNLOGGED: a crash of the server would empty it and keep the positions: run ALTER TABLE %s SET LOGGED", at)
	case found.persistence == 't':
		bad("it is a temporary table: name a permanent one")
	case found.rules && keyed:
		bad("it has rules, with which the server refuses ON CONFLICT: use triggers instead")
	}
	if found.secured {
		bad("%s", found.security())
	}
	tg := &target{table: t, name: found.name}
	isKey := keyColumns(t.Schema)
	needs := []string{}
	for i := range t.Schema.Columns {
		source := &t.Schema.Columns[i]
		name := s.column(source.Name)
		if name == "" {
			continue
		}
		col := found.column(name)
		if col == nil {
			want, _ := sqlType(&source.Type, rule{key: isKey[i], truncate: s.o.TruncateNanos})
			hint := ""
			if like := found.similar(name); like != "" {
				hint = fmt.Sprintf(" (there is %s; names are compared exactly)", quote(like))
			}
			bad("column %s is missing%s: run ALTER TABLE %s ADD COLUMN %s %s, set Options.Evolve, or rename or leave it out in Options.Columns", quote(name), hint, at, quote(name), want)
			continue
		}
		if problem := col.unwritable(); problem != "" {
			bad("column %s %s", quote(name), problem)
			continue
		}
		// Rows that are found again by a number's text need one text for each number, as keys do.
		byText := s.takesAway(t) && (source.Type.Root == changelog.RootFloat || source.Type.Root == changelog.RootDouble)
		bind, err := fit(&source.Type, &col.typ, rule{key: isKey[i] || byText, truncate: s.o.TruncateNanos, cast: slices.Contains(s.o.Cast, source.Name)})
		if err != nil {
			bad("column %s: %w", quote(name), err)
			continue
		}
		if isKey[i] && col.loose {
			bad("column %s has a nondeterministic collation, which takes different keys for equal: use a deterministic one", quote(name))
		}
		needs = append(needs, col.lacks(keyed, isKey[i])...)
		if s.takesAway(t) && source.Metadata == "" {
			if problem := col.unequal(); problem != "" {
				bad("column %s %s", quote(name), problem)
			}
			if !col.maySelect {
				needs = append(needs, "SELECT")
			}
		}
		collate := ""
		if col.collated {
			collate = ` COLLATE pg_catalog."C"`
		}
		tg.columns = append(tg.columns, column{source: i, name: name, key: isKey[i], notNull: col.notNull, shown: col.typ.shown, typ: col.typ.name, collate: collate, bind: bind})
	}
	needs = append(needs, s.compareShape(tg, found, bad)...)
	for i := range found.columns {
		col := &found.columns[i]
		if col.notNull && !col.filled && !slices.ContainsFunc(tg.columns, func(c column) bool { return c.name == col.name }) && !s.takes(t, col.name) {
			bad("column %s is NOT NULL, has no default and no source column: give it a default, or run ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL", quote(col.name), at, quote(col.name))
		}
	}
	if s.removes(t) && !found.mayDelete {
		needs = append(needs, "DELETE")
	}
	if len(needs) > 0 {
		slices.Sort(needs)
		needs = slices.Compact(needs)
		bad("role %s may not %s: run GRANT %s ON %s TO %s", quote(found.role), strings.Join(needs, ", "), strings.Join(needs, ", "), at, quote(found.role))
	}
	if keyed {
		if problem := found.uniqueOver(s.keyColumnNames(t), "the key"); problem != "" {
			bad("%s", problem)
		}
	}
	if len(errs) == 0 {
		tg.prepare(found.rules, found.temporary && s.o.Mode == InTransaction)
	}
	return tg, errs
}

// relation names a pg_class.relkind that is no table.
func relation(kind byte) string {
	switch kind {
	case 'v':
		return "a view"
	case 'm':
		return "a materialized view"
	case 'S':
		return "a sequence"
	case 'i', 'I':
		return "an index"
	case 'c':
		return "a composite type"
	}
	return fmt.Sprintf("no table (relkind %q)", kind)
}

// takes reports whether a source column goes into the column.
func (s *Sink) takes(t *changelog.Table, name string) bool {
	return slices.ContainsFunc(t.Schema.Columns, func(c changelog.Column) bool { return s.column(c.Name) == name })
}

// keyColumnNames returns the names of the key's columns in the table, in the order of the key.
func (s *Sink) keyColumnNames(t *changelog.Table) (out []string) {
	for _, k := range t.Schema.Key {
		out = append(out, s.column(t.Schema.Columns[k].Name))
	}
	return out
}

// uniqueOver says that no unique index covers exactly these columns, which ON CONFLICT needs, and why those that come near do not count.
func (found *pgTable) uniqueOver(columns []string, what string) string {
	want := slices.Clone(columns)
	slices.Sort(want)
	var near []string
	for _, ix := range found.indexes {
		got := slices.Clone(ix.columns)
		slices.Sort(got)
		same := slices.Equal(got, want)
		switch {
		case same && ix.problem == "":
			return ""
		case same:
			near = append(near, fmt.Sprintf("%s is %s", quote(ix.name), ix.problem))
		case ix.problem == "expression":
			near = append(near, fmt.Sprintf("%s is over an expression", quote(ix.name)))
		}
	}
	why := ""
	if len(near) > 0 {
		why = " (" + strings.Join(near, "; ") + ", which does not count)"
	}
	cols := strings.Join(quoteAll(columns), ", ")
	return fmt.Sprintf("there is no unique index over exactly %s (%s)%s: run CREATE UNIQUE INDEX ON %s (%s)", what, cols, why, found.name.SQL(), cols)
}

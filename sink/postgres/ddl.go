package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// SQL returns the CREATE TABLE of a table that fits t under the sink's options: what an ErrConfig for a missing table shows, and what
// Options.CreateTable runs. It is a statement to begin with; wider types and more columns are fine.
func (s *Sink) SQL(t *changelog.Table) string {
	s = s.at(s.name(t), t)
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE %s (", s.name(t).SQL())
	sep := "\n  "
	isKey := keyColumns(t.Schema)
	for i := range t.Schema.Columns {
		col := &t.Schema.Columns[i]
		name := s.column(col.Name)
		if name == "" {
			continue
		}
		typ, ok := sqlType(&col.Type, rule{key: isKey[i], truncate: s.o.TruncateNanos})
		if !ok {
			fmt.Fprintf(&b, "%s-- %s is left out: %s cannot be written to Postgres", sep, comment(col.Name), comment(col.Type.String()))
			sep = "\n  "
			continue
		}
		fmt.Fprintf(&b, "%s%s %s", sep, quote(name), typ)
		if isKey[i] || col.Type.NotNull {
			b.WriteString(" NOT NULL")
		}
		sep = ",\n  "
	}
	for _, e := range s.extras(t) {
		fmt.Fprintf(&b, "%s%s %s", sep, quote(e.name), e.create)
		sep = ",\n  "
	}
	switch {
	case len(t.Schema.Key) > 0:
		fmt.Fprintf(&b, "%sPRIMARY KEY (%s)", sep, strings.Join(s.keyNames(t), ", "))
	case s.o.AppendOnce:
		fmt.Fprintf(&b, "%sUNIQUE (%s)", sep, strings.Join(quoteAll(s.o.Audit.position()), ", "))
	}
	b.WriteString("\n)")
	if updates(t) {
		fmt.Fprintf(&b, " WITH (fillfactor = %d)", fillfactor)
	}
	return b.String()
}

// fillfactor leaves room in each page for new versions of its rows. An update whose new version finds room beside the old one, and that changes no
// indexed column, is HOT: no index is touched, and the old version goes without VACUUM. Measured with Postgres 17, 200,000 narrow rows updated
// again and again, 20,000 a transaction: where each transaction updates neighbours, 205,000 rows a second at the default of 100 (0.5 % HOT, 60 MB of WAL a round, the
// table grew to four times its size), 330,000 at 75 (60 % HOT, 41 MB) and 410,000 at 50 (99 % HOT, 33 MB); where it updates one row in
// ten, the rate is the same, and the index stays half as large at 75. 50 would double every table that is mostly read, or
// scanned, for the sake of those that are rewritten; this is the middle. Whoever knows better says so with ALTER TABLE.
const fillfactor = 70

// updates reports whether rows of t are ever written again.
func updates(t *changelog.Table) bool {
	return len(t.Schema.Key) > 0 && t.Mode != changelog.Append
}

// comment keeps a name from ending the line of a comment.
func comment(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }

// keyNames returns the quoted names of the key columns in key order.
func (s *Sink) keyNames(t *changelog.Table) []string { return quoteAll(s.keyColumnNames(t)) }

func quoteAll(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = quote(n)
	}
	return out
}

func keyColumns(s *changelog.Schema) []bool {
	isKey := make([]bool, len(s.Columns))
	for _, k := range s.Key {
		isKey[k] = true
	}
	return isKey
}

// create runs SQL where Options.CreateTable says so and the table of d, one of all that the lane has, is missing.
func (s *Sink) create(ctx context.Context, l sink.Lane, d destination, all []destination) error {
	t := d.table
	if !s.o.CreateTable || s.checkNames(t) != nil {
		return nil // check reports bad names
	}
	name := s.name(t).SQL()
	// Two lanes that start at once: the second waits here and then finds the table.
	tx, err := s.beginStore(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", lockKey("create", name)))
	if err != nil {
		return err
	}
	var exists bool
	err = tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&exists)
	if err == nil && !exists {
		if _, err = tx.Exec(ctx, s.SQL(t)); err != nil {
			class := undone(err)
			if class == sink.ErrRejected { // there is no change that could be rejected
				class = sink.ErrConfig
			}
			cure := "let somebody who may run\n" + s.SQL(t)
			if state(err) == "3F000" {
				cure = "create the schema, or name a table in another one"
			}
			err = &sink.Error{Class: class, Err: fmt.Errorf("Options.CreateTable: %w: %s", tell(err), cure)}
		}
	}
	var table qualified
	var m made
	if err == nil && !exists {
		table, m, err = s.justMade(ctx, tx, l, d, all)
	}
	if err != nil || exists {
		tx.rollback(ctx)
		return err
	}
	if err := tx.commit(ctx); err != nil {
		return err
	}
	s.remade.add(l.Bridge, table, m)
	return nil
}

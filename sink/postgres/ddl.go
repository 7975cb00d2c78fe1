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
	if len(t.Schema.Key) > 0 {
		fmt.Fprintf(&b, "%sPRIMARY KEY (%s)", sep, strings.Join(s.keyNames(t), ", "))
	}
	b.WriteString("\n)")
	return b.String()
}

// comment keeps a name from ending the line of a comment.
func comment(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }

// keyNames returns the quoted names of the key columns in key order.
func (s *Sink) keyNames(t *changelog.Table) []string {
	var out []string
	for _, k := range t.Schema.Key {
		out = append(out, quote(s.column(t.Schema.Columns[k].Name)))
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

// create runs SQL where Options.CreateTable says so and the table is missing.
func (s *Sink) create(ctx context.Context, t *changelog.Table) error {
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
			err = &sink.Error{Class: class, Err: fmt.Errorf("Options.CreateTable: %w: let somebody who may run\n%s", tell(err), s.SQL(t))}
		}
	}
	if err != nil || exists {
		tx.rollback(ctx)
		return err
	}
	return tx.commit(ctx)
}

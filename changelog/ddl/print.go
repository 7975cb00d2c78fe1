package ddl

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
)

// SQL returns a CREATE TABLE that parses back to the same table, laid out as SHOW CREATE TABLE does, without ';'. Secrets of the
// options are ******; see [Table.SQLWithSecrets].
func (t *Table) SQL() string { return t.sql(true) }

// SQLWithSecrets is SQL with the options as they are, passwords and keys too: for Flink, not for people or logs.
func (t *Table) SQLWithSecrets() string { return t.sql(false) }

// String is SQL.
func (t *Table) String() string { return t.SQL() }

// GoString is SQL.
func (t *Table) GoString() string { return t.SQL() }

// Format prints SQL for every verb.
func (t *Table) Format(f fmt.State, verb rune) { io.WriteString(f, t.SQL()) }

// LogValue is SQL.
func (t *Table) LogValue() slog.Value { return slog.StringValue(t.SQL()) }

func (t *Table) sql(hide bool) string {
	if t == nil {
		return "<nil>"
	}
	var b strings.Builder
	b.WriteString("CREATE ")
	if t.Temporary {
		b.WriteString("TEMPORARY ")
	}
	b.WriteString("TABLE ")
	if t.IfNotExists {
		b.WriteString("IF NOT EXISTS ")
	}
	b.WriteString(t.fullName())
	b.WriteString(" (")
	var lines []string
	for i := range t.Columns {
		lines = append(lines, t.Columns[i].sql())
	}
	if w := t.Watermark; w != nil {
		lines = append(lines, "WATERMARK FOR "+quoteName(w.Column)+" AS "+w.Expression)
	}
	if len(t.PrimaryKey) > 0 {
		name := ""
		if t.Constraint != "" {
			name = "CONSTRAINT " + quoteName(t.Constraint) + " "
		}
		lines = append(lines, name+"PRIMARY KEY "+nameList(t.PrimaryKey)+" NOT ENFORCED")
	}
	for i, l := range lines {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  " + l)
	}
	b.WriteString("\n)")
	if t.Comment != "" {
		b.WriteString("\nCOMMENT " + quoteString(t.Comment))
	}
	if d := t.DistributedBy; d != nil {
		b.WriteString("\nDISTRIBUTED")
		if len(d.Columns) > 0 {
			b.WriteString(" BY " + d.Kind + nameList(d.Columns))
		}
		if d.Buckets > 0 {
			b.WriteString(" INTO " + strconv.Itoa(d.Buckets) + " BUCKETS")
		}
	}
	if len(t.PartitionedBy) > 0 {
		b.WriteString("\nPARTITIONED BY " + nameList(t.PartitionedBy))
	}
	if len(t.Options) > 0 {
		b.WriteString("\nWITH (\n  " + t.Options.list(",\n  ", hide) + "\n)")
	}
	return b.String()
}

func (c *Column) sql() string {
	s := quoteName(c.Name)
	if c.Computed != "" {
		s += " AS " + c.Computed
	} else {
		s += " " + c.Type.SQL()
		if c.Metadata != "" {
			s += " METADATA"
			if c.Metadata != c.Name {
				s += " FROM " + quoteString(c.Metadata)
			}
			if c.Virtual {
				s += " VIRTUAL"
			}
		}
	}
	if c.Comment != "" {
		s += " COMMENT " + quoteString(c.Comment)
	}
	return s
}

func nameList(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = quoteName(n)
	}
	return "(" + strings.Join(q, ", ") + ")"
}

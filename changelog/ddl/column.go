package ddl

import (
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// definition is a table with the offsets that the mistakes found at its end need.
type definition struct {
	table         *Table
	columnAt      []int
	keyAt         []int // one for each of PrimaryKey
	keyGiven      bool
	partitionedAt []int
	distributedAt []int
	watermarkAt   int
	noType        int // offset of a column of which only the name was given, as AS SELECT allows, plus one; 0: none
	clause        int // which of the clauses after the columns came last
}

// next lists the clauses that may still come.
func (d *definition) next() string {
	return strings.Join([]string{"COMMENT, ", "DISTRIBUTED, ", "PARTITIONED BY, ", "WITH, "}[d.clause:], "")
}

// elements reads columns, constraint and watermark, up to and with the ')'.
func (p *parser) elements(d *definition) error {
	for {
		if err := p.element(d); err != nil {
			return err
		}
		if p.acceptMark(')') {
			return nil
		}
		if !p.acceptMark(',') {
			return p.expected("',' or ')'")
		}
	}
}

func (p *parser) element(d *definition) error {
	switch {
	case p.is("CONSTRAINT"), p.is("PRIMARY"), p.is("UNIQUE"):
		return p.constraint(d, "")
	case p.is("WATERMARK"):
		saved := *p
		at := p.tok.start
		p.advance()
		if p.accept("FOR") {
			return p.watermark(d, at)
		}
		*p = saved
	}
	return p.column(d)
}

// column reads one column of any kind.
func (p *parser) column(d *definition) (err error) {
	at := p.tok.start
	var c Column
	if c.Name, err = p.name("a column, PRIMARY KEY or WATERMARK"); err != nil {
		return err
	}
	switch {
	case p.accept("AS"):
		if c.Computed, err = p.expression(); err != nil {
			return err
		}
	case p.isMark(',') || p.isMark(')'):
		d.noType = p.tok.start + 1
		return nil
	default:
		typeAt := p.tok.start
		var declared changelog.Type
		if c.Type, declared, err = p.dataType(); err != nil {
			return err
		}
		if !declared.Equal(c.Type) {
			c.Declared = &declared
		}
		if holdsInterval(&c.Type) && d.table.Catalog == "" {
			return p.mistake(typeAt, "Flink takes no INTERVAL in a CREATE TABLE; a table that has one was made otherwise, so use what SHOW CREATE TABLE prints of it, with its full name (`catalog`.`database`.`table`)")
		}
		if p.accept("METADATA") {
			c.Metadata = c.Name
			if p.accept("FROM") {
				if c.Metadata, err = p.str("a metadata key in single quotes"); err != nil {
					return err
				}
			}
			c.Virtual = p.accept("VIRTUAL")
		} else if p.is("CONSTRAINT") || p.is("PRIMARY") || p.is("UNIQUE") {
			if err := p.constraint(d, c.Name); err != nil {
				return err
			}
		}
	}
	if p.accept("COMMENT") {
		if c.Comment, err = p.str("a comment in single quotes"); err != nil {
			return err
		}
	}
	d.table.Columns = append(d.table.Columns, c)
	d.columnAt = append(d.columnAt, at)
	return nil
}

// holdsInterval reports an INTERVAL anywhere in a type. Flink's grammar has none where a column's type stands, but a table can have such columns:
// those of CREATE TABLE AS, and of the Table API. SHOW CREATE TABLE prints them, under the table's full name.
func holdsInterval(t *changelog.Type) bool {
	if t == nil {
		return false
	}
	if t.Root == changelog.RootIntervalYearMonth || t.Root == changelog.RootIntervalDayTime {
		return true
	}
	for i := range t.Fields {
		if holdsInterval(&t.Fields[i].Type) {
			return true
		}
	}
	return holdsInterval(t.Key) || holdsInterval(t.Elem)
}

// constraint reads a PRIMARY KEY. With a column it is the one of that column, else it lists its columns.
func (p *parser) constraint(d *definition, column string) (err error) {
	at := p.tok.start
	name := ""
	if p.accept("CONSTRAINT") {
		if name, err = p.name("a constraint name"); err != nil {
			return err
		}
	}
	if p.is("UNIQUE") {
		return p.mistake(p.tok.start, "UNIQUE is not supported, as in Flink: leave it out, or declare a PRIMARY KEY")
	}
	keyword := p.tok.start
	if !p.accept("PRIMARY") {
		return p.expected("PRIMARY KEY")
	}
	if !p.accept("KEY") {
		return p.expected("KEY")
	}
	if d.keyGiven {
		return p.mistake(at, "a second PRIMARY KEY: a table has one, which may list several columns: PRIMARY KEY (a, b) NOT ENFORCED")
	}
	d.keyGiven = true
	t := d.table
	t.Constraint = name
	if column != "" {
		t.PrimaryKey, d.keyAt = []string{column}, []int{keyword}
	} else if t.PrimaryKey, d.keyAt, err = p.names("a column name"); err != nil {
		return err
	}
	if p.accept("NOT", "ENFORCED") {
		return nil
	}
	// ENFORCED is the default, and Flink refuses it: such a table cannot exist.
	if p.is("ENFORCED") {
		return p.mistake(p.tok.start, "a PRIMARY KEY cannot be ENFORCED, as in Flink: write NOT ENFORCED")
	}
	return p.expected("NOT ENFORCED after PRIMARY KEY")
}

// watermark reads what follows WATERMARK FOR.
func (p *parser) watermark(d *definition, at int) error {
	if d.table.Watermark != nil {
		return p.mistake(at, "a second WATERMARK: a table has one")
	}
	d.watermarkAt = p.tok.start
	column, err := p.name("the column of the watermark")
	if err != nil {
		return err
	}
	if !p.accept("AS") {
		return p.expected("AS")
	}
	expr, err := p.expression()
	if err != nil {
		return err
	}
	d.table.Watermark = &Watermark{Column: column, Expression: expr}
	return nil
}

package ddl

import (
	"errors"
	"strconv"
)

// created is one CREATE TABLE of a text. A table that was understood and cannot be used has refused set: it stands in nobody's way
// unless it is the one that is asked for.
type created struct {
	table   *Table
	offset  int
	refused error
}

// Parse returns the table of every CREATE TABLE in text, in order, and skips other statements; a text without one gives no table and no
// error. The error is an [*Error], or
// several joined: also of tables that are made by LIKE or AS SELECT, which have columns that the text does not tell.
func Parse(text string) ([]*Table, error) {
	all, _, err := parse(text)
	if err != nil {
		return nil, err
	}
	var tables []*Table
	var refused []error
	for _, c := range all {
		tables = append(tables, c.table)
		if c.refused != nil {
			refused = append(refused, c.refused)
		}
	}
	if len(refused) > 0 {
		return nil, errors.Join(refused...)
	}
	return tables, nil
}

func parse(text string) ([]created, *parser, error) {
	p, err := newParser(text)
	if err != nil {
		return nil, nil, err
	}
	var all []created
	for p.tok.kind != tokenEnd {
		p.hide = false
		c := created{table: &Table{}, offset: p.tok.start}
		if !p.createTable(c.table) {
			if err := p.other(); err != nil {
				return nil, nil, err
			}
			continue
		}
		if err := p.statement(&c); err != nil {
			return nil, nil, err
		}
		all = append(all, c)
	}
	return all, p, nil
}

// statement reads what follows CREATE TABLE, up to and with the ';'.
func (p *parser) statement(c *created) error {
	t := c.table
	t.IfNotExists = p.accept("IF", "NOT", "EXISTS")
	if err := p.tableName(t); err != nil {
		return err
	}
	d := &definition{table: t}
	if p.acceptMark('(') {
		if err := p.elements(d); err != nil {
			return err
		}
	}
	if err := p.clauses(d); err != nil {
		return err
	}
	switch {
	case p.is("LIKE"):
		c.refused = p.mistake(p.tok.start, "table %s takes columns from another one (LIKE), which only Flink's catalog knows: "+
			"run SHOW CREATE TABLE %s in Flink and use what it prints", t.Name(), quoteName(t.Name()))
		p.skipStatement()
		return nil
	case p.is("AS"):
		at := *p
		if columns, ok := p.asSelect(); ok && len(t.Columns) == 0 && d.noType == 0 {
			t.Columns = columns
			d.columnAt = make([]int, len(columns))
			for i := range d.columnAt {
				d.columnAt[i] = at.tok.start
			}
			p.skipStatement()
			return p.check(d)
		}
		*p = at
		c.refused = p.mistake(p.tok.start, "table %s takes its columns from a query (AS), which only Flink can plan: "+
			"run SHOW CREATE TABLE %s in Flink and use what it prints", t.Name(), quoteName(t.Name()))
		p.skipStatement()
		return nil
	}
	if !p.acceptMark(';') && p.tok.kind != tokenEnd && !p.beginsTable() {
		return p.expected(d.next() + "';' or the end of the text")
	}
	if err := p.check(d); err != nil {
		return err
	}
	if len(t.Columns) == 0 {
		c.refused = p.mistake(c.offset, "table %s has no columns", t.Name())
	}
	return nil
}

// tableName reads one to three names with dots between them.
func (p *parser) tableName(t *Table) error {
	at := p.tok.start
	var parts []string
	for {
		n, err := p.name("a table name")
		if err != nil {
			return err
		}
		parts = append(parts, n)
		if !p.acceptMark('.') {
			break
		}
	}
	switch len(parts) {
	case 1:
		t.Table = parts[0]
	case 2:
		t.Database, t.Table = parts[0], parts[1]
	case 3:
		t.Catalog, t.Database, t.Table = parts[0], parts[1], parts[2]
	default:
		return p.mistake(at, "a table name has at most three parts (catalog, database, table), this one has %d", len(parts))
	}
	return nil
}

// clauses reads what may follow the columns, in Flink's order.
func (p *parser) clauses(d *definition) (err error) {
	t := d.table
	if p.accept("COMMENT") {
		d.clause = 1
		if t.Comment, err = p.str("a comment in single quotes"); err != nil {
			return err
		}
	}
	if p.accept("DISTRIBUTED") {
		d.clause = 2
		if err := p.distribution(d); err != nil {
			return err
		}
	}
	if p.is("PARTITIONED") {
		d.clause = 3
		p.advance()
		if !p.accept("BY") {
			return p.expected("BY")
		}
		if t.PartitionedBy, d.partitionedAt, err = p.names("a column name"); err != nil {
			return err
		}
	}
	if p.accept("WITH") {
		d.clause = 4
		p.hide = true
		if t.Options, err = p.options(); err != nil {
			return err
		}
	}
	return nil
}

// distribution reads what follows DISTRIBUTED.
func (p *parser) distribution(d *definition) (err error) {
	dist := &Distribution{}
	d.table.DistributedBy = dist
	if p.accept("BY") {
		switch {
		case p.accept("HASH"):
			dist.Kind = "HASH"
		case p.accept("RANGE"):
			dist.Kind = "RANGE"
		}
		if dist.Columns, d.distributedAt, err = p.names("a column name"); err != nil {
			return err
		}
		if !p.is("INTO") {
			return nil
		}
	}
	if !p.accept("INTO") {
		return p.expected("BY or INTO")
	}
	if p.tok.kind != tokenNumber {
		return p.expected("a number of buckets")
	}
	if dist.Buckets, err = strconv.Atoi(p.text(p.tok)); err != nil || dist.Buckets < 1 {
		return p.mistake(p.tok.start, "the number of buckets is not one that fits: expected 1 or more")
	}
	p.advance()
	if !p.accept("BUCKETS") {
		return p.expected("BUCKETS")
	}
	return nil
}

// options reads the list of a WITH clause. A key that is given twice has its last value, as in Flink.
func (p *parser) options() (Options, error) {
	if !p.acceptMark('(') {
		return nil, p.expected("'('")
	}
	if p.acceptMark(')') {
		return nil, nil
	}
	o := Options{}
	for {
		key, err := p.str("an option name in single quotes")
		if err != nil {
			return nil, err
		}
		if !p.acceptMark('=') {
			return nil, p.expected("'='")
		}
		value, err := p.str("an option value in single quotes")
		if err != nil {
			return nil, err
		}
		o[key] = value
		if p.acceptMark(')') {
			return o, nil
		}
		if !p.acceptMark(',') {
			return nil, p.expected("',' or ')'")
		}
	}
}

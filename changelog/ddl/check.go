package ddl

import (
	"strconv"
	"strings"
)

// check finds the mistakes that show once the whole table was read, and makes the columns of the key NOT NULL, as Flink does
// even where a column was declared NULL.
func (p *parser) check(d *definition) error {
	t := d.table
	if d.noType > 0 {
		return p.mistake(d.noType-1, "expected a type for the column")
	}
	index := make(map[string]int, len(t.Columns))
	metadata := map[string]string{}
	for i := range t.Columns {
		c := &t.Columns[i]
		if _, ok := index[c.Name]; ok {
			return p.mistake(d.columnAt[i], "two columns are called %q", c.Name)
		}
		index[c.Name] = i
		if c.Metadata == "" {
			continue
		}
		if other, ok := metadata[c.Metadata]; ok {
			return p.mistake(d.columnAt[i], "columns %q and %q both are METADATA FROM %q: keep one, and make the other a computed column",
				other, c.Name, c.Metadata)
		}
		metadata[c.Metadata] = c.Name
	}
	inKey := map[string]bool{}
	for i, n := range t.PrimaryKey {
		k, ok := index[n]
		switch {
		case !ok:
			return p.mistake(d.keyAt[i], "PRIMARY KEY column %q does not exist: %s", n, t.have())
		case inKey[n]:
			return p.mistake(d.keyAt[i], "PRIMARY KEY lists column %q twice", n)
		case t.Columns[k].Computed != "" || t.Columns[k].Metadata != "":
			return p.mistake(d.keyAt[i], "PRIMARY KEY column %q is not a physical column: computed and METADATA columns cannot be part of a key", n)
		}
		inKey[n] = true
		t.Columns[k].Type.NotNull = true
	}
	for i, n := range t.PartitionedBy {
		if _, ok := index[n]; !ok {
			return p.mistake(d.partitionedAt[i], "PARTITIONED BY column %q does not exist: %s", n, t.have())
		}
	}
	if t.DistributedBy != nil {
		for i, n := range t.DistributedBy.Columns {
			if _, ok := index[n]; !ok {
				return p.mistake(d.distributedAt[i], "DISTRIBUTED BY column %q does not exist: %s", n, t.have())
			}
		}
	}
	if w := t.Watermark; w != nil {
		if _, ok := index[w.Column]; !ok {
			return p.mistake(d.watermarkAt, "WATERMARK column %q does not exist: %s", w.Column, t.have())
		}
	}
	return nil
}

// have lists the columns that there are, as many as fit a message.
func (t *Table) have() string {
	const most = 20
	var names []string
	for i := range t.Columns {
		if i == most {
			names = append(names, "...")
			break
		}
		names = append(names, strconv.Quote(t.Columns[i].Name))
	}
	return "there are " + strings.Join(names, ", ")
}

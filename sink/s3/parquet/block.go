package parquet

import (
	"github.com/parquet-go/parquet-go"

	"github.com/flinksink/flinksink/changelog"
)

// block is rows of one file that wait to be handed to parquet-go together, column by column: what it does for each call is more than what it
// does for a value.
type block struct {
	columns [][]parquet.Value // by leaf
	bytes   []byte            // what values point to: a caller's memory is the caller's again when WriteRow returns
	rows    int
	size    int // of the values, before encoding
}

const (
	blockRows  = 128
	blockBytes = 64 << 10
)

func newBlock(columns int) block { return block{columns: make([][]parquet.Value, columns)} }

// full reports that the block has to be handed on before WriteRow returns.
func (b *block) full() bool { return b.rows >= blockRows || b.size >= blockBytes }

// keep returns v in memory of the block. What fills a block by itself is not copied, since the block is handed on with its row.
func (b *block) keep(v []byte) []byte {
	b.size += len(v)
	if len(v) >= blockBytes {
		return v
	}
	begin := len(b.bytes)
	b.bytes = append(b.bytes, v...)
	return b.bytes[begin:len(b.bytes):len(b.bytes)]
}

// row cuts a row into values with their levels. After an error the block is of no use any more.
func (b *block) row(t *tree, row changelog.Row) *changelog.DataError {
	for i, n := range t.fields {
		if err := n.cut(b, row[i], 0, 0); err != nil {
			if err.Field == "" {
				err.Field = n.name
			} else {
				err.Field = n.name + "." + err.Field
			}
			return err
		}
	}
	b.rows++
	return nil
}

// put appends a value of a leaf. Levels of a leaf that has none are not looked at.
func (b *block) put(column int, v parquet.Value, rep, def int) {
	if rep|def != 0 {
		v.SetRepetitionLevel(rep)
		v.SetDefinitionLevel(def)
	}
	b.columns[column] = append(b.columns[column], v)
	b.size += 8
}

// writeTo hands the rows on, and empties the block.
func (b *block) writeTo(columns []*parquet.ColumnWriter) error {
	for i, vs := range b.columns {
		if len(vs) == 0 {
			continue
		}
		if _, err := columns[i].WriteRowValues(vs); err != nil {
			return err
		}
		clear(vs) // they may point to memory of a caller
		b.columns[i] = vs[:0]
	}
	b.bytes, b.rows, b.size = b.bytes[:0], 0, 0
	return nil
}

// cut appends v with its levels: rep says at which repetition it is the next one, def how many optional and repeated places on its way are filled.
func (n *node) cut(b *block, v changelog.Value, rep, def int) *changelog.DataError {
	if v.Kind() != n.kind {
		if v.IsUnchanged() {
			return bad(changelog.Missing, "the source did not send the value")
		}
		if !v.IsNull() {
			return bad(changelog.WrongType, "a value of another kind than %s", n.typ)
		}
		if !n.optional {
			return bad(changelog.Missing, "NULL in a place that is NOT NULL")
		}
		n.empty(b, rep, def)
		return nil
	}
	if n.optional {
		def++
	}
	if n.value != nil {
		p, err := n.value(b, v)
		if err == nil {
			b.put(n.column, p, rep, def)
		}
		return err
	}
	elems := v.Elems()
	if n.kind == changelog.KindRow {
		if len(elems) != len(n.children) {
			return bad(changelog.SchemaMismatch, "a ROW of %d fields for one of %d", len(elems), len(n.children))
		}
		for i, e := range elems {
			if err := n.children[i].cut(b, e, rep, def); err != nil {
				return err
			}
		}
		return nil
	}
	width := len(n.children)
	if len(elems) == 0 {
		n.empty(b, rep, def)
		return nil
	}
	if len(elems)%width != 0 {
		return bad(changelog.Malformed, "a map whose last key has no value")
	}
	for i, e := range elems {
		if i >= width {
			rep = n.depth
		}
		if err := n.children[i%width].cut(b, e, rep, def+1); err != nil {
			return err
		}
	}
	return nil
}

// empty appends, to every leaf below n, that there is nothing from this level on.
func (n *node) empty(b *block, rep, def int) {
	for c := n.column; c < n.column+n.leaves; c++ {
		b.put(c, parquet.NullValue(), rep, def)
	}
}

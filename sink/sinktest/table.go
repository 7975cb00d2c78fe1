package sinktest

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// change is a copy of a changelog.Change that owns its memory, or a dead letter: what a checkpoint holds.
type change struct {
	table  *changelog.Table
	kind   changelog.Kind
	row    changelog.Row
	letter *sink.DeadLetter // nil: a change
}

// table holds rows as the dumbest thing that can be right: changes are applied to it one by one, in order.
type table struct {
	def  *changelog.Table
	rows map[string]changelog.Row // by key; of a table without a key, by content
	n    map[string]int           // of a table without a key: how often the row is there
}

func newTable(def *changelog.Table) *table {
	return &table{def: def, rows: make(map[string]changelog.Row), n: make(map[string]int)}
}

func (t *table) clone() *table {
	c := newTable(t.def)
	for k, r := range t.rows {
		c.rows[k] = r // rows are never written to once they are here
	}
	for k, n := range t.n {
		c.n[k] = n
	}
	return c
}

func (t *table) apply(c change) {
	k := rowKey(t.def.Schema, c.row)
	keyed := len(t.def.Schema.Key) > 0
	switch {
	case keyed && c.kind.Adds():
		t.rows[k] = c.row
	case keyed:
		delete(t.rows, k)
	case c.kind.Adds():
		t.rows[k] = c.row
		t.n[k]++
	case t.n[k] > 1:
		t.n[k]--
	default: // a delete of the last equal row, or of one that is not there
		delete(t.n, k)
		delete(t.rows, k)
	}
}

func (t *table) all() []changelog.Row {
	keys := make([]string, 0, len(t.rows))
	for k := range t.rows {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	rows := make([]changelog.Row, 0, len(keys))
	for _, k := range keys {
		for range max(1, t.n[k]) {
			rows = append(rows, cloneRow(t.rows[k]))
		}
	}
	return rows
}

// rowKey returns the canonical bytes of the row's key, or of the whole row where there is no key.
func rowKey(s *changelog.Schema, r changelog.Row) string {
	var b []byte
	if len(s.Key) == 0 {
		for _, v := range r {
			b = appendValue(b, v)
		}
		return string(b)
	}
	for _, i := range s.Key {
		b = appendValue(b, r[i])
	}
	return string(b)
}

// appendValue gives equal values equal bytes. It is written without changelog.AppendKey on purpose: a memory sink that shared its
// key form with the sinks it is compared with would share its mistakes. Integers keep their order, so that tables print well.
func appendValue(b []byte, v changelog.Value) []byte {
	b = append(b, byte(v.Kind()))
	switch v.Kind() {
	case changelog.KindBool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case changelog.KindInt:
		return binary.BigEndian.AppendUint64(b, uint64(v.Int())^1<<63)
	case changelog.KindFloat:
		return appendFloat(b, float64(v.Float()))
	case changelog.KindDouble:
		return appendFloat(b, v.Double())
	case changelog.KindDecimal:
		hi, lo, scale := v.Decimal()
		b = binary.BigEndian.AppendUint64(b, uint64(hi)^1<<63)
		b = binary.BigEndian.AppendUint64(b, lo)
		return append(b, byte(scale))
	case changelog.KindString, changelog.KindBytes:
		b = binary.BigEndian.AppendUint64(b, uint64(len(v.Bytes())))
		return append(b, v.Bytes()...)
	case changelog.KindDate:
		return binary.BigEndian.AppendUint64(b, uint64(v.Date()))
	case changelog.KindTime:
		return binary.BigEndian.AppendUint64(b, uint64(v.Time()))
	case changelog.KindTimestamp, changelog.KindTimestampLTZ:
		sec, nsec := v.Timestamp()
		b = binary.BigEndian.AppendUint64(b, uint64(sec))
		return binary.BigEndian.AppendUint32(b, uint32(nsec))
	case changelog.KindArray, changelog.KindRow:
		b = binary.BigEndian.AppendUint64(b, uint64(len(v.Elems())))
		for _, e := range v.Elems() {
			b = appendValue(b, e)
		}
		return b
	case changelog.KindMap:
		// The pairs of a map have no order.
		var pairs [][]byte
		for p := range slices.Chunk(v.Elems(), 2) {
			var one []byte
			for _, e := range p {
				one = appendValue(one, e)
			}
			pairs = append(pairs, one)
		}
		slices.SortFunc(pairs, bytes.Compare)
		b = binary.BigEndian.AppendUint64(b, uint64(len(pairs)))
		return append(b, bytes.Join(pairs, nil)...)
	}
	return b
}

func appendFloat(b []byte, f float64) []byte {
	switch {
	case f != f:
		f = math.NaN() // one of the many
	case f == 0:
		f = 0 // -0 equals 0
	}
	return binary.BigEndian.AppendUint64(b, math.Float64bits(f))
}

func cloneRow(r changelog.Row) changelog.Row {
	c := make(changelog.Row, len(r))
	for i, v := range r {
		c[i] = cloneValue(v)
	}
	return c
}

// cloneValue copies all memory that v points to.
func cloneValue(v changelog.Value) changelog.Value {
	switch v.Kind() {
	case changelog.KindString:
		return changelog.StringValue(strings.Clone(v.Str()))
	case changelog.KindBytes:
		return changelog.BytesValue(bytes.Clone(v.Bytes()))
	case changelog.KindArray:
		return changelog.ArrayValue(cloneRow(v.Elems()))
	case changelog.KindMap:
		return changelog.MapValue(cloneRow(v.Elems()))
	case changelog.KindRow:
		return changelog.RowValue(cloneRow(v.Elems()))
	}
	return v
}

package changelog

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// Net is the net effect of a run of changes: what a table has to be told so that it ends as if it had been told every change in order.
//
// With a key, that is at most one change a key, so the two sets are disjoint and it does not matter which is applied first. Applied in
// order of their keys, as both are sorted, two writers of one table cannot lock each other's rows crosswise.
//
// A Net keeps its memory from one run to the next: both slices are overwritten by the next Compute. It is not safe for use by several
// goroutines at once.
type Net struct {
	// Deletes are rows to take away, sorted by the bytes of their key. Kind is Delete, or UpdateBefore where an update moved the row
	// to another key. KeyOnly and Row are as they came.
	Deletes []Change
	// Upserts are rows to put there, sorted by the bytes of their key. Kind is Insert or UpdateAfter, as it came; it says nothing
	// about whether the table has the row. A column is Unchanged only if no change of the run told its value: if the run had deleted
	// the row before, the value is in the table no more by rights, and a sink must say what it does then.
	Upserts []Change
	// Superseded counts the changes that are in neither, because a later one of the same key (or, without a key, a delete of an
	// equal row) made them void: len(changes) = len(Deletes) + len(Upserts) + Superseded.
	Superseded int

	seed    maphash.Seed
	seeded  bool
	table   []int32 // hash table: number of a group + 1, 0 is free; a power of two
	groups  []netGroup
	order   []netOrder
	keys    []byte // canonical keys of the groups, one after another
	befores []netBefore
	inserts []netInsert
	deletes []netDelete
	cols    []int
	values  []Value // rest of the chunk that filled-in rows are cut from
}

// netGroup is what is known of one key (or, without a key, of one row).
type netGroup struct {
	from, to int // in keys
	last     *Change
	holds    bool  // whether the key has a row after last
	row      Row   // that row
	insert   int32 // without a key: newest insert that no delete has met, index + 1
}

// netOrder is what is sorted: a group by its key, of which the first bytes are at hand, so that most comparisons need no look at it.
type netOrder struct {
	prefix uint64
	group  int32
}

// netBefore is a -U whose +U has not come: the next change of the same partition decides.
type netBefore struct {
	change *Change
	row    Row // what its key held before it, as far as the run knows
}

// netDelete is a delete that met no insert of the run.
type netDelete struct {
	change   *Change
	from, to int // of its row in keys
}

type netInsert struct {
	change *Change // nil: a delete met it
	older  int32   // the insert before of an equal row, index + 1
}

// Compute works out the net effect of changes of one table, given as one or several runs that follow one another. The last change of a
// key decides, whatever its kind:
//
//   - +I and +U put the row there. Columns that are Unchanged get the value that the run last told for them.
//   - -D takes it away, and so does a -U, unless a later +U has the same key. So an update that moves a row to another key is a delete
//     of the old key and an upsert of the new one.
//
// A +U belongs to the -U that comes directly before it in the same partition, and its Unchanged columns are those of that -U's row;
// without one it is the next state of its own key. A row is copied only where Unchanged columns were filled in.
//
// With no key in s rows are a multiset, see [Net.ComputeMultiset].
//
// s must be valid ([Schema.Validate]) and rows as wide as it. A narrower row counts as if NULL stood in the columns that it lacks, and is
// handed on as it came: a sink checks the width of the rows it applies.
func (n *Net) Compute(s *Schema, runs ...[]Change) {
	if len(s.Key) == 0 {
		n.ComputeMultiset(s, runs...)
		return
	}
	n.begin(runs)
	for _, run := range runs {
		for i := range run {
			n.add(s, &run[i])
		}
	}
	n.sortGroups()
	for _, o := range n.order {
		g := &n.groups[o.group]
		if !g.holds {
			n.Deletes = append(n.Deletes, *g.last)
			continue
		}
		c := *g.last
		c.Row = g.row
		n.Upserts = append(n.Upserts, c)
	}
	n.finish(runs)
}

func (n *Net) add(s *Schema, c *Change) {
	start := len(n.keys)
	n.keys = AppendKey(n.keys, s, c.Row)
	g := n.group(start)
	before := n.takeBefore(c)
	g.last = c
	if !c.Kind.Adds() {
		if c.Kind == UpdateBefore {
			n.befores = append(n.befores, netBefore{c, g.row})
		}
		g.holds, g.row = false, nil
		return
	}
	row := c.Row
	if hasUnchanged(row) {
		if before.change != nil {
			// Newest knowledge first: the old row itself, then what the run told of it earlier.
			if !before.change.KeyOnly {
				row = n.fill(row, c.Row, before.change.Row)
			}
			row = n.fill(row, c.Row, before.row)
		} else {
			row = n.fill(row, c.Row, g.row)
		}
	}
	g.holds, g.row = true, row
}

// takeBefore removes the -U that waits in c's partition and returns it if c is its +U. In any other case the -U was a delete.
func (n *Net) takeBefore(c *Change) (b netBefore) {
	for i := range n.befores {
		if n.befores[i].change.Partition != c.Partition {
			continue
		}
		if c.Kind == UpdateAfter {
			b = n.befores[i]
		}
		n.befores = slices.Delete(n.befores, i, i+1)
		break
	}
	return b
}

func hasUnchanged(row Row) bool {
	for i := range row {
		if row[i].kind == KindUnchanged {
			return true
		}
	}
	return false
}

// fill returns row with its Unchanged columns taken from old, in a copy if row is still the change's own.
func (n *Net) fill(row, own, old Row) Row {
	if old == nil {
		return row
	}
	copied := &row[0] != &own[0]
	for i := range min(len(row), len(old)) {
		if row[i].kind != KindUnchanged || old[i].kind == KindUnchanged {
			continue
		}
		if !copied {
			row, copied = n.copyRow(row), true
		}
		row[i] = old[i]
	}
	return row
}

func (n *Net) copyRow(row Row) Row {
	if len(row) > len(n.values) {
		n.values = make([]Value, max(len(row), valueChunk))
	}
	c := n.values[:len(row):len(row)]
	n.values = n.values[len(row):]
	copy(c, row)
	return c
}

// ComputeMultiset works out the net effect for a table without a key, whose rows are a multiset: a delete (-D, -U) takes away one row
// that is equal in all columns that are not metadata, if the run has put one there before, and else is in Deletes, as often as it
// came; the sink then takes away one equal row each. Upserts are the inserts that are left, in the order they came. Deletes,
// sorted by row, go first.
func (n *Net) ComputeMultiset(s *Schema, runs ...[]Change) {
	n.begin(runs)
	n.cols = n.cols[:0]
	for i := range s.Columns {
		// A metadata column says where the record came from: the delete of a row has another offset than its insert.
		if s.Columns[i].Metadata == "" {
			n.cols = append(n.cols, i)
		}
	}
	for _, run := range runs {
		for i := range run {
			n.addRow(s, &run[i])
		}
	}
	slices.SortStableFunc(n.deletes, func(a, b netDelete) int {
		return bytes.Compare(n.keys[a.from:a.to], n.keys[b.from:b.to])
	})
	for _, d := range n.deletes {
		n.Deletes = append(n.Deletes, *d.change)
	}
	for i := range n.inserts {
		if c := n.inserts[i].change; c != nil {
			n.Upserts = append(n.Upserts, *c)
		}
	}
	n.finish(runs)
}

func (n *Net) addRow(s *Schema, c *Change) {
	start := len(n.keys)
	n.keys = AppendKeyColumns(n.keys, s, n.cols, c.Row)
	g := n.group(start)
	switch {
	case c.Kind.Adds():
		n.inserts = append(n.inserts, netInsert{c, g.insert})
		g.insert = int32(len(n.inserts))
	case g.insert != 0:
		met := &n.inserts[g.insert-1]
		g.insert = met.older
		met.change = nil
	default:
		n.deletes = append(n.deletes, netDelete{c, g.from, g.to})
	}
}

// Reset forgets the last run, so that its rows can be collected, and keeps the memory.
func (n *Net) Reset() {
	clear(n.Deletes)
	clear(n.Upserts)
	n.Deletes, n.Upserts, n.Superseded = n.Deletes[:0], n.Upserts[:0], 0
	n.drop()
}

func (n *Net) begin(runs [][]Change) {
	n.Reset()
	if !n.seeded {
		n.seed, n.seeded = maphash.MakeSeed(), true
	}
	size := 64
	for want := 2 * count(runs); size < want; {
		size *= 2
	}
	if size > cap(n.table) {
		n.table = make([]int32, size)
	}
	n.table = n.table[:size] // a small run after a big one clears a small table
	clear(n.table)
}

func (n *Net) finish(runs [][]Change) {
	n.drop()
	n.Superseded = count(runs) - len(n.Deletes) - len(n.Upserts)
}

// drop lets go of what only the computation needed.
func (n *Net) drop() {
	clear(n.groups)
	clear(n.befores)
	clear(n.inserts)
	clear(n.deletes)
	n.groups, n.befores, n.inserts, n.deletes = n.groups[:0], n.befores[:0], n.inserts[:0], n.deletes[:0]
	n.keys = n.keys[:0]
	n.values = nil // rows cut from it stay with whoever has them
}

func count(runs [][]Change) (sum int) {
	for _, run := range runs {
		sum += len(run)
	}
	return sum
}

// group finds or makes the group of the key that stands at the end of n.keys from start on; a key that is known is taken off again.
func (n *Net) group(start int) *netGroup {
	key := n.keys[start:]
	mask := uint64(len(n.table) - 1)
	for at := maphash.Bytes(n.seed, key) & mask; ; at = (at + 1) & mask {
		if n.table[at] == 0 {
			n.groups = append(n.groups, netGroup{from: start, to: len(n.keys)})
			n.table[at] = int32(len(n.groups))
			return &n.groups[len(n.groups)-1]
		}
		g := &n.groups[n.table[at]-1]
		if bytes.Equal(n.keys[g.from:g.to], key) {
			n.keys = n.keys[:start]
			return g
		}
	}
}

// keyPrefix skips the first byte, which is that of the kind and nearly always the same.
func keyPrefix(key []byte) uint64 {
	if len(key) > 8 {
		return binary.BigEndian.Uint64(key[1:])
	}
	var b [8]byte
	if len(key) > 0 {
		copy(b[:], key[1:])
	}
	return binary.BigEndian.Uint64(b[:])
}

func (n *Net) sortGroups() {
	n.order = n.order[:0]
	for i := range n.groups {
		g := &n.groups[i]
		n.order = append(n.order, netOrder{keyPrefix(n.keys[g.from:g.to]), int32(i)})
	}
	slices.SortFunc(n.order, func(a, b netOrder) int {
		x, y := &n.groups[a.group], &n.groups[b.group]
		// The prefixes decide only between keys that begin with the same kind.
		if a.prefix != b.prefix && n.keys[x.from] == n.keys[y.from] {
			if a.prefix < b.prefix {
				return -1
			}
			return 1
		}
		return bytes.Compare(n.keys[x.from:x.to], n.keys[y.from:y.to])
	})
}

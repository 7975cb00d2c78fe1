package changelog_test

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/flinksink/flinksink/changelog"
)

func newBatch(t testing.TB) *changelog.Batch {
	return changelog.NewBatch(&changelog.Table{Name: "t", Schema: netSchema(t), Mode: changelog.Upsert})
}

// Rows from the arena are NULL, and neither overlap nor grow into one another.
func TestBatch_RowsAreApart(t *testing.T) {
	b := newBatch(t)
	var rows []changelog.Row
	for i := range 2000 {
		row := b.NewRow()
		if len(row) != 3 || cap(row) != 3 {
			t.Fatalf("row of length %d, capacity %d", len(row), cap(row))
		}
		for c := range row {
			if !row[c].IsNull() {
				t.Fatalf("row %d is not NULL", i)
			}
			row[c] = changelog.IntValue(int64(i))
		}
		rows = append(rows, row)
	}
	for i, row := range rows {
		for _, v := range row {
			if v.Int() != int64(i) {
				t.Fatalf("row %d was overwritten with %d", i, v.Int())
			}
		}
	}
	_ = append(b.NewValues(2), changelog.IntValue(1))
	if v := b.NewValues(1); !v[0].IsNull() {
		t.Error("appending to a piece of the arena wrote into the next")
	}
}

func TestBatch_BytesAreApart(t *testing.T) {
	b := newBatch(t)
	var all [][]byte
	for i := range 200 {
		p := b.NewBytes(i * 7)
		if len(p) != i*7 || cap(p) != i*7 {
			t.Fatalf("length %d, capacity %d, want %d", len(p), cap(p), i*7)
		}
		for j := range p {
			p[j] = byte(i)
		}
		all = append(all, p)
	}
	for i, p := range all {
		if !bytes.Equal(p, bytes.Repeat([]byte{byte(i)}, i*7)) {
			t.Fatalf("piece %d was overwritten", i)
		}
	}
	if big := b.NewBytes(1 << 20); len(big) != 1<<20 {
		t.Errorf("%d bytes, want a megabyte", len(big))
	}
}

// What was handed out before Reset is not used again: a row that somebody wrongly kept goes stale, but is never another row.
func TestBatch_ResetGivesFreshMemory(t *testing.T) {
	b := newBatch(t)
	old := b.NewRow()
	old[0] = changelog.IntValue(1)
	text := b.NewBytes(3)
	copy(text, "old")
	b.Append(changelog.Change{Row: old})
	b.Pin(1000)
	if b.Len() != 1 || b.Bytes() <= 1000 {
		t.Errorf("%d changes, %d bytes", b.Len(), b.Bytes())
	}
	b.Reset()
	if b.Len() != 0 {
		t.Errorf("%d changes after Reset", b.Len())
	}
	if b.Changes[:1][0].Row != nil {
		t.Error("Reset keeps the old row alive")
	}
	empty := b.Bytes()
	row := b.NewRow()
	if b.Bytes() <= empty {
		t.Error("the row is cut from memory that Reset gave back")
	}
	row[0] = changelog.IntValue(2)
	copy(b.NewBytes(3), "new")
	if old[0].Int() != 1 || string(text) != "old" {
		t.Error("memory was handed out twice")
	}
	if b.Table == nil {
		t.Error("Reset forgot the table")
	}
}

func TestBatch_BytesCountsArenaChangesAndPins(t *testing.T) {
	b := newBatch(t)
	if b.Bytes() != 0 {
		t.Errorf("an empty batch holds %d bytes", b.Bytes())
	}
	b.Pin(500)
	if b.Bytes() != 500 {
		t.Errorf("%d bytes, want the 500 that are pinned", b.Bytes())
	}
	b.NewValues(100_000)
	if b.Bytes() < 100_000*int(unsafe.Sizeof(changelog.Value{})) {
		t.Errorf("%d bytes, less than the values take", b.Bytes())
	}
	before := b.Bytes()
	b.NewBytes(100_000)
	if b.Bytes() < before+100_000 {
		t.Errorf("%d bytes, less than the arena takes", b.Bytes())
	}
	before = b.Bytes()
	for range 1000 {
		b.Append(changelog.Change{})
	}
	if b.Bytes() < before+1000*int(unsafe.Sizeof(changelog.Change{})) {
		t.Errorf("%d bytes, less than the changes take", b.Bytes())
	}
	b.Reset()
	if held := b.Bytes(); held >= before {
		t.Errorf("%d bytes after Reset", held)
	}
}

func TestBatch_Truncate(t *testing.T) {
	b := newBatch(t)
	for i := range 5 {
		b.Append(changelog.Change{Offset: int64(i), Row: b.NewRow()})
	}
	b.Truncate(2)
	if b.Len() != 2 || b.Changes[1].Offset != 1 {
		t.Errorf("%d changes left", b.Len())
	}
	if b.Changes[:5][4].Row != nil {
		t.Error("a dropped row is kept alive")
	}
}

// A row costs no allocation of its own, only a chunk for many.
func TestBatch_FewAllocations(t *testing.T) {
	b := newBatch(t)
	n := testing.AllocsPerRun(10, func() {
		b.Reset()
		for range 1000 {
			b.Append(changelog.Change{Row: b.NewRow()})
			b.NewBytes(16)
		}
	})
	if n > 5 {
		t.Errorf("%v allocations for 1000 rows", n)
	}
}

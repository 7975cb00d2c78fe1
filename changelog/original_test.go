package changelog_test

import (
	"testing"
	"unsafe"

	"github.com/flinksink/flinksink/changelog"
)

// Originals count, and are gone with the batch's changes.
func TestBatch_Originals(t *testing.T) {
	b := newBatch(t)
	b.KeepOriginals = true
	before := b.Bytes()
	for i := range int64(100) {
		b.Originals = append(b.Originals, changelog.Original{Partition: changelog.Partition{Topic: "t"}, Offset: i, Changes: 1, Value: []byte("v")})
	}
	if n := b.Bytes() - before; n < 100*int(unsafe.Sizeof(changelog.Original{})) {
		t.Errorf("100 originals count as %d bytes", n)
	}
	all := b.Originals
	b.Reset()
	if b.KeepOriginals || len(b.Originals) != 0 || all[0].Value != nil {
		t.Error("Reset left originals, or the memory that they point to")
	}
}

func TestOriginal_Of(t *testing.T) {
	o := changelog.Original{Partition: changelog.Partition{Topic: "t", Partition: 1}, Offset: 7}
	for _, c := range []changelog.Change{{Partition: o.Partition, Offset: 8}, {Partition: changelog.Partition{Topic: "t"}, Offset: 7}, {Partition: changelog.Partition{Topic: "u", Partition: 1}, Offset: 7}} {
		if o.Of(&c) {
			t.Errorf("offset 7 of t/1 is taken for the original of %v offset %d", c.Partition, c.Offset)
		}
	}
	if !o.Of(&changelog.Change{Partition: o.Partition, Offset: 7, Index: 3}) {
		t.Error("not the original of its own change")
	}
}

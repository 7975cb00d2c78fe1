package bridge

import (
	"slices"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// A load that holds changes of a partition that was sent back loses those, and no others.
func TestLoad_Drop(t *testing.T) {
	parts := make([]*partition, 3)
	b := changelog.NewBatch(sinktest.Appended())
	ld := &load{batch: b}
	for i := range parts {
		parts[i] = &partition{Partition: changelog.Partition{Topic: "t", Partition: int32(i)}}
		s := ld.span(&chunk{part: parts[i]})
		s.to, s.records = 10, 2
	}
	for o := range int64(2) {
		for _, p := range parts {
			b.Append(changelog.Change{Partition: p.Partition, Offset: o})
		}
	}
	parts[1].epoch.Add(1)
	ld.bad = &bad{part: parts[1]}
	ld.drop()
	if len(ld.spans) != 2 || ld.spans[0].part != parts[0] || ld.spans[1].part != parts[2] || ld.bad != nil {
		t.Fatalf("spans %+v, bad %v", ld.spans, ld.bad)
	}
	var got []changelog.Partition
	for _, c := range b.Changes {
		got = append(got, c.Partition)
	}
	if want := []changelog.Partition{parts[0].Partition, parts[2].Partition, parts[0].Partition, parts[2].Partition}; !slices.Equal(got, want) {
		t.Fatalf("changes of %v", got)
	}
	parts[0].epoch.Store(dead)
	ld.drop()
	if b.Len() != 2 || len(ld.spans) != 1 {
		t.Fatalf("%d changes, %d spans", b.Len(), len(ld.spans))
	}
}

// A load holds one epoch and one assignment of a partition, so that drop may go by the partition's name.
func TestLoad_OneEpochAPartition(t *testing.T) {
	p := &partition{Partition: changelog.Partition{Topic: "t"}}
	ld := &load{batch: changelog.NewBatch(sinktest.Appended())}
	first := ld.span(&chunk{part: p})
	if first == nil || ld.span(&chunk{part: p}) != first {
		t.Fatal("the same chunk has the same span")
	}
	if ld.span(&chunk{part: p, epoch: 1}) != nil {
		t.Fatal("another epoch joined the load")
	}
	if ld.span(&chunk{part: &partition{Partition: p.Partition}}) != nil {
		t.Fatal("another assignment joined the load")
	}
}

func TestQueue_Budget(t *testing.T) {
	q := queue{limit: 100, more: make(chan struct{}, 1)}
	if q.add(chunk{bytes: 60}) {
		t.Fatal("full at 60")
	}
	if !q.add(chunk{bytes: 60}) {
		t.Fatal("not full at 120")
	}
	for range 2 {
		if _, ok := q.next(); !ok {
			t.Fatal("a chunk is missing")
		}
	}
	if q.low() || q.size() != 120 {
		t.Fatal("what the decoder holds still counts")
	}
	q.release(70)
	if !q.low() {
		t.Fatal("half of it is free")
	}
}

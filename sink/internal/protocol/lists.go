package protocol

import (
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// Partitions and positions are kept as sorted lists, so that effects come out the same each time.

func find(ps []changelog.Position, p changelog.Partition) (int, bool) {
	return slices.BinarySearchFunc(ps, p, func(a changelog.Position, b changelog.Partition) int { return a.Partition.Compare(b) })
}

// put sets the position of p's partition.
func put(ps []changelog.Position, p changelog.Position) []changelog.Position {
	i, ok := find(ps, p.Partition)
	if ok {
		ps[i] = p
		return ps
	}
	return slices.Insert(ps, i, p)
}

func insert(ps []changelog.Partition, p changelog.Partition) []changelog.Partition {
	i, ok := slices.BinarySearchFunc(ps, p, changelog.Partition.Compare)
	if ok {
		return ps
	}
	return slices.Insert(slices.Clone(ps), i, p)
}

func contains(ps []changelog.Partition, p changelog.Partition) bool {
	_, ok := slices.BinarySearchFunc(ps, p, changelog.Partition.Compare)
	return ok
}

func samePositions(a, b []changelog.Position) bool {
	return slices.EqualFunc(a, b, func(p, q changelog.Position) bool { return p.Partition == q.Partition && p.Offset == q.Offset })
}

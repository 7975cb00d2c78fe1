package sinktest

import (
	"bytes"
	"maps"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// clone copies everything that the store changes in place. Checkpoints are replaced whole and may be shared.
func (st storeState) clone() storeState {
	c := make(storeState, len(st))
	for name, b := range st {
		nb := *b
		nb.generations = maps.Clone(b.generations)
		for id, g := range nb.generations {
			ng := *g
			nb.generations[id] = &ng
		}
		nb.partitions = maps.Clone(b.partitions)
		for p, s := range nb.partitions {
			ns := *s
			nb.partitions[p] = &ns
		}
		c[name] = &nb
	}
	return c
}

// cloneCheckpoint copies all that cp points to, and leaves empty committables out.
func cloneCheckpoint(cp sink.Checkpoint) sink.Checkpoint {
	cp.From, cp.To, cp.Settled = slices.Clone(cp.From), slices.Clone(cp.To), slices.Clone(cp.Settled)
	var waiting []sink.Committable
	for _, c := range cp.Committables {
		if !c.Empty() {
			c.From, c.To, c.Data = slices.Clone(c.From), slices.Clone(c.To), bytes.Clone(c.Data)
			waiting = append(waiting, c)
		}
	}
	cp.Committables = waiting
	return cp
}

func sameCheckpoint(a, b sink.Checkpoint) bool {
	return a.ID == b.ID && a.Counters == b.Counters && slices.Equal(a.From, b.From) && slices.Equal(a.To, b.To) &&
		slices.Equal(a.Settled, b.Settled) && slices.EqualFunc(a.Committables, b.Committables, sameCommittable)
}

func sameCommittable(a, b sink.Committable) bool {
	return a.Sink == b.Sink && a.Generation == b.Generation && a.Checkpoint == b.Checkpoint && a.Version == b.Version &&
		bytes.Equal(a.Data, b.Data) && slices.Equal(a.From, b.From) && slices.Equal(a.To, b.To)
}

// samePlace compares what names a place in a log. A leader epoch is a hint about it, and a topic id may be unknown to one side.
func samePlace(a, b changelog.Position) bool {
	return a.Partition == b.Partition && a.Offset == b.Offset &&
		(a.TopicID == b.TopicID || a.TopicID == changelog.TopicID{} || b.TopicID == changelog.TopicID{})
}

func ascending(parts []changelog.Partition) bool {
	for i := range parts[1:] {
		if parts[i].Compare(parts[i+1]) >= 0 {
			return false
		}
	}
	return true
}

// covers reports whether there is a position for each of the partitions, in their order.
func covers(pos []changelog.Position, parts []changelog.Partition) bool {
	return slices.EqualFunc(pos, parts, func(x changelog.Position, p changelog.Partition) bool { return x.Partition == p })
}

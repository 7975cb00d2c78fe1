package kafka

import (
	"maps"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// This file is what the store has to decide, on what the topic says.

// refuses reports why a request is refused, whoever asks.
func (k *known) refuses(r sink.AcquireRequest, prefix string) error {
	b := k.bridge
	if b == nil {
		return nil
	}
	if b.Fingerprint != r.Fingerprint {
		return refuse(sink.ErrConfig, "the name belongs to a bridge of other topics, group or target (%q, and this is %q): give this bridge another name", b.Fingerprint, r.Fingerprint)
	}
	if b.Prefix != prefix { // processes exclude and fence each other by these names
		return refuse(sink.ErrConfig, "the bridge works with Options.Prefix %q, and this is %q: give all its processes the same", b.Prefix, prefix)
	}
	newest := int32(-1)
	for _, p := range r.Partitions {
		if i, ok := b.find(p); ok {
			newest = max(newest, b.Partitions[i].Group)
		}
	}
	if r.GroupGeneration >= 0 && r.GroupGeneration < newest && (r.GroupRestarted == 0 || r.GroupRestarted != newest) {
		return &sink.Error{Class: sink.ErrFenced, Err: &sink.StaleGroupError{Asked: r.GroupGeneration, Stored: newest}}
	}
	return nil
}

func (b *bridgeRecord) find(p changelog.Partition) (int, bool) {
	return slices.BinarySearchFunc(b.Partitions, p, func(a ownedPartition, p changelog.Partition) int { return a.out().Compare(p) })
}

// holders returns the generations that hold one of the partitions.
func (k *known) holders(ps []changelog.Partition) []sink.GenerationID {
	if k.bridge == nil {
		return nil
	}
	var out []sink.GenerationID
	for _, p := range ps {
		if i, ok := k.bridge.find(p); ok {
			if owner := k.bridge.Partitions[i].Owner; owner != 0 && !slices.Contains(out, owner) {
				out = append(out, owner)
			}
		}
	}
	return out
}

// acquire returns what the bridge is once r has its partitions, and the records that nobody needs any more.
func (k *known) acquire(r sink.AcquireRequest, prefix string, now time.Time) (b *bridgeRecord, gen sink.Generation, gone []stateKey) {
	b = &bridgeRecord{Format: storedFormat, Bridge: r.Bridge, Prefix: prefix, Fingerprint: r.Fingerprint, Next: 1, Generations: make(map[sink.GenerationID]*generationEnd)}
	if k.bridge != nil {
		b.Fingerprint, b.Incarnation, b.Next = k.bridge.Fingerprint, k.bridge.Incarnation, k.bridge.Next
		b.Partitions = slices.Clone(k.bridge.Partitions)
		for id, g := range k.bridge.Generations {
			if _, settled := k.settled[id]; settled {
				gone = append(gone, stateKey{kind: "generation", bridge: r.Bridge, generation: id})
				continue
			}
			mine := *g
			b.Generations[id] = &mine
		}
	}
	for _, id := range k.forgettable() {
		gone = append(gone, stateKey{kind: "settled", bridge: r.Bridge, generation: id})
	}
	gen = sink.Generation{Bridge: r.Bridge, ID: b.Next, Partitions: slices.Clone(r.Partitions)}
	b.Next++
	for _, q := range r.Partitions {
		i, ok := b.find(q)
		if !ok {
			b.Partitions = slices.Insert(b.Partitions, i, ownedPartition{partitionJSON: partitionJSON{q.Topic, q.Partition}, Group: -1})
		}
		if owner := b.Partitions[i].Owner; owner != 0 {
			b.end(owner)
		}
		b.Partitions[i].Owner = gen.ID
		if r.GroupGeneration >= 0 {
			b.Partitions[i].Group = r.GroupGeneration
		}
	}
	b.Generations[gen.ID] = &generationEnd{Owner: r.Owner, Partitions: partitionsIn(r.Partitions), Acquired: now}
	return b, gen, gone
}

// end ends a generation, whole: a lane that lost one of its partitions can save none.
func (b *bridgeRecord) end(id sink.GenerationID) {
	if g := b.Generations[id]; g != nil {
		g.Ended = true
	}
	for i := range b.Partitions {
		if b.Partitions[i].Owner == id {
			b.Partitions[i].Owner = 0
		}
	}
}

// forgettable returns settled generations that are so old that nobody asks End about them.
func (k *known) forgettable() []sink.GenerationID {
	if len(k.settled) <= remembered {
		return nil
	}
	ids := slices.Sorted(maps.Keys(k.settled))
	return ids[:len(ids)-remembered]
}

// claim is the answer to the Acquire of gen, which k holds already.
func (k *known) claim(gen sink.Generation) (sink.Claim, error) {
	c := sink.Claim{Generation: gen, Incarnation: k.bridge.Incarnation}
	for _, p := range gen.Partitions {
		saved := k.positions[p]
		if saved == nil {
			continue
		}
		pos, err := saved.positionJSON.out()
		if err != nil {
			return sink.Claim{}, refuse(sink.ErrLost, "%w", err)
		}
		c.Positions = append(c.Positions, pos)
	}
	for _, id := range k.unsettled(gen.Partitions) {
		decided, err := k.saved[id].committables()
		if err != nil {
			return sink.Claim{}, refuse(sink.ErrLost, "what generation %d decided: %w", id, err)
		}
		c.Ended = append(c.Ended, sink.EndedGeneration{ID: id, Decided: decided})
	}
	return c, nil
}

// unsettled lists the ended generations that the partitions lead to: those that held one of them, those that held a partition of those, and
// so on. Without the "and so on", a generation whose successor died before it settled would be in nobody's claim.
func (k *known) unsettled(parts []changelog.Partition) []sink.GenerationID {
	held := make(map[partitionJSON]bool)
	for _, p := range partitionsIn(parts) {
		held[p] = true
	}
	found := make(map[sink.GenerationID]bool)
	for grown := true; grown; {
		grown = false
		for id, g := range k.bridge.Generations {
			_, settled := k.settled[id]
			if found[id] || settled || !g.Ended || !slices.ContainsFunc(g.Partitions, func(p partitionJSON) bool { return held[p] }) {
				continue
			}
			found[id], grown = true, true
			for _, p := range g.Partitions {
				held[p] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// last is the last checkpoint that a generation saved, 0: none.
func (k *known) last(id sink.GenerationID) sink.CheckpointID {
	if s := k.saved[id]; s != nil {
		return s.ID
	}
	return 0
}

// allows reports whether a checkpoint may be saved. again: it was saved already. Whether the generation is over, the broker tells: its id is gone
// then.
func (t *tenure) allows(cp sink.Checkpoint) (again bool, err error) {
	next := savedOf(cp)
	if t.last.same(next) {
		return true, nil
	}
	parts := partitionsIn(t.gen.Partitions)
	covers := func(ps []positionJSON) bool {
		return slices.EqualFunc(ps, parts, func(p positionJSON, q partitionJSON) bool { return p.partitionJSON == q })
	}
	if !covers(next.From) || !covers(next.To) {
		return false, refuse(sink.ErrConfig, "From and To of checkpoint %d are not of the partitions of generation %d, sorted", cp.ID, t.gen.ID)
	}
	if cp.ID < 1 || t.last != nil && cp.ID <= t.last.ID {
		return false, refuse(sink.ErrFenced, "checkpoint %d of generation %d was used before", cp.ID, t.gen.ID)
	}
	for _, from := range cp.From {
		saved, ok := t.positions[from.Partition]
		// A topic id may be unknown to one side; a leader epoch is a hint.
		none := changelog.TopicID{}
		if ok && (saved.Offset != from.Offset || saved.TopicID != from.TopicID && saved.TopicID != none && from.TopicID != none) {
			return false, refuse(sink.ErrFenced, "checkpoint %d begins at %s, and %s is saved", cp.ID, from, saved)
		}
	}
	for _, id := range cp.Settled {
		if _, ok := t.ended[id]; !ok {
			return false, refuse(sink.ErrConfig, "generation %d is not over and cannot be settled", id)
		}
	}
	return false, nil
}

// state is what Read tells.
func (k *known) state() (sink.State, error) {
	b := k.bridge
	if b == nil {
		return sink.State{}, nil
	}
	out := sink.State{Bridge: b.Bridge, Format: b.Format, Fingerprint: b.Fingerprint, Incarnation: b.Incarnation}
	for _, id := range slices.Sorted(maps.Keys(b.Generations)) {
		if _, settled := k.settled[id]; settled {
			continue
		}
		g := b.Generations[id]
		s := sink.GenerationState{ID: id, Owner: g.Owner, Ended: g.Ended, Acquired: g.Acquired, Last: k.last(id)}
		for _, p := range g.Partitions {
			s.Partitions = append(s.Partitions, p.out())
		}
		pending, err := k.saved[id].committables()
		if err != nil {
			return sink.State{}, err
		}
		out.Generations, out.Pending = append(out.Generations, s), append(out.Pending, pending...)
	}
	for _, p := range b.Partitions {
		saved := k.positions[p.out()]
		if saved == nil {
			continue
		}
		pos, err := saved.positionJSON.out()
		if err != nil {
			return sink.State{}, err
		}
		out.Positions = append(out.Positions, sink.StoredPosition{Position: pos, Generation: saved.Generation, Checkpoint: saved.Checkpoint,
			Owner: p.Owner, Saved: saved.At, Counters: sink.Counters(saved.Counters)})
	}
	return out, nil
}

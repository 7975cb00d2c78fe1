package ledger

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// This file is what a store has to decide, on its content in memory. After an error the content is of no use any more: nothing of it is stored, so that a call is
// done whole or not at all.

// remembered is how many settled generations End still answers for: about 24 KB of each write of the content.
const remembered = 1000

func refuse(class error, format string, a ...any) error {
	return &sink.Error{Class: class, Err: fmt.Errorf(format, a...)}
}

// Acquire ends every generation that holds one of the partitions, whole: a lane that lost one of them can save none.
func (c *Content) Acquire(r sink.AcquireRequest, now time.Time) (sink.Claim, error) {
	if r.Bridge == "" || len(r.Partitions) == 0 || !slices.IsSortedFunc(r.Partitions, changelog.Partition.Compare) {
		return sink.Claim{}, refuse(sink.ErrConfig, "a request needs a bridge and at least one partition, sorted")
	}
	b := c.Bridges[r.Bridge]
	if b == nil {
		b = &bridge{Fingerprint: r.Fingerprint, Next: 1, Generations: map[sink.GenerationID]*generation{}}
		c.Bridges[r.Bridge] = b
	}
	if b.Fingerprint != r.Fingerprint {
		return sink.Claim{}, refuse(sink.ErrConfig, "the name belongs to a bridge of other topics, group or target (%q, and this is %q): give this bridge another name", b.Fingerprint, r.Fingerprint)
	}
	newest := int32(-1)
	for _, p := range r.Partitions {
		if i, ok := b.find(p); ok {
			newest = max(newest, b.Partitions[i].Group)
		}
	}
	if r.GroupGeneration >= 0 && r.GroupGeneration < newest && (r.GroupRestarted == 0 || r.GroupRestarted != newest) {
		return sink.Claim{}, &sink.Error{Class: sink.ErrFenced, Err: &sink.StaleGroupError{Asked: r.GroupGeneration, Stored: newest}}
	}
	claim := sink.Claim{Generation: sink.Generation{Bridge: r.Bridge, ID: b.Next, Partitions: slices.Clone(r.Partitions)}, Incarnation: b.Incarnation}
	b.Next++
	b.Generations[claim.Generation.ID] = &generation{Owner: r.Owner, Partitions: placesOf(r.Partitions), Acquired: now}
	for _, q := range r.Partitions {
		i, ok := b.find(q)
		if !ok {
			b.Partitions = slices.Insert(b.Partitions, i, &partition{place: placeOf(q), Group: -1})
		}
		p := b.Partitions[i]
		if p.Owner != 0 {
			b.end(p.Owner)
		}
		p.Owner = claim.Generation.ID
		if r.GroupGeneration >= 0 {
			p.Group = r.GroupGeneration
		}
		if p.Saved != nil {
			pos, err := p.Saved.position.out()
			if err != nil {
				return sink.Claim{}, refuse(sink.ErrLost, "the saved position of %s: %w", q, err)
			}
			claim.Positions = append(claim.Positions, pos)
		}
	}
	var err error
	claim.Ended, err = b.unsettled(r.Partitions)
	return claim, err
}

func (b *bridge) find(p changelog.Partition) (int, bool) {
	return slices.BinarySearchFunc(b.Partitions, p, func(a *partition, p changelog.Partition) int { return a.out().Compare(p) })
}

func (b *bridge) end(id sink.GenerationID) {
	g := b.Generations[id]
	g.Ended = true
	for _, p := range g.Partitions {
		if i, ok := b.find(p.out()); ok && b.Partitions[i].Owner == id {
			b.Partitions[i].Owner = 0
		}
	}
}

// unsettled lists the ended generations that the partitions lead to: those that held one of them, those that held a partition of those, and
// so on. Without the "and so on", a generation whose successor died before it settled would be in nobody's claim.
func (b *bridge) unsettled(parts []changelog.Partition) ([]sink.EndedGeneration, error) {
	held := make(map[place]bool)
	for _, p := range parts {
		held[placeOf(p)] = true
	}
	found := make(map[sink.GenerationID]bool)
	for grown := true; grown; {
		grown = false
		for id, g := range b.Generations {
			if found[id] || !g.Ended || !slices.ContainsFunc(g.Partitions, func(p place) bool { return held[p] }) {
				continue
			}
			found[id], grown = true, true
			for _, p := range g.Partitions {
				held[p] = true
			}
		}
	}
	var out []sink.EndedGeneration
	for _, id := range b.ids() {
		if !found[id] {
			continue
		}
		e := sink.EndedGeneration{ID: id}
		if g := b.Generations[id]; g.Last != nil {
			var err error
			if e.Decided, err = g.Last.out(); err != nil {
				return nil, refuse(sink.ErrLost, "what generation %d decided: %w", id, err)
			}
		}
		out = append(out, e)
	}
	return out, nil
}

func (b *bridge) ids() []sink.GenerationID {
	ids := make([]sink.GenerationID, 0, len(b.Generations))
	for id := range b.Generations {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Save is the decision, once the content is stored. It compares: a request that arrives late finds that its generation is over or that the
// positions have moved on, and changes nothing.
func (c *Content) Save(gen sink.Generation, cp sink.Checkpoint, now time.Time) error {
	b := c.Bridges[gen.Bridge]
	if b == nil || b.Generations[gen.ID] == nil || b.Generations[gen.ID].Ended {
		return refuse(sink.ErrFenced, "generation %d is over", gen.ID)
	}
	g, next := b.Generations[gen.ID], checkpointOf(cp)
	if g.Last != nil && reflect.DeepEqual(g.Last, next) {
		return nil
	}
	if !covers(next.From, g.Partitions) || !covers(next.To, g.Partitions) {
		return refuse(sink.ErrConfig, "From and To of checkpoint %d are not of the partitions of generation %d, sorted", cp.ID, gen.ID)
	}
	if cp.ID < 1 || g.Last != nil && cp.ID <= g.Last.ID {
		return refuse(sink.ErrFenced, "checkpoint %d of generation %d was used before", cp.ID, gen.ID)
	}
	for _, from := range cp.From {
		i, ok := b.find(from.Partition)
		if !ok || b.Partitions[i].Owner != gen.ID {
			return refuse(sink.ErrFenced, "generation %d does not own %s", gen.ID, from.Partition)
		}
		s := b.Partitions[i].Saved
		if s == nil {
			continue
		}
		// A topic id may be unknown to one side; a leader epoch is a hint.
		if mine := positionOf(from); s.Offset != from.Offset || s.TopicID != mine.TopicID && s.TopicID != "" && mine.TopicID != "" {
			return refuse(sink.ErrFenced, "checkpoint %d begins at %s, and offset %d is saved", cp.ID, from, s.Offset)
		}
	}
	for _, id := range cp.Settled {
		e, live := b.Generations[id]
		if _, settled := b.Settled[id]; live && !e.Ended || !live && !settled && id >= b.Next || id < 1 {
			return refuse(sink.ErrConfig, "generation %d is not over and cannot be settled", id)
		}
	}
	// Nothing is refused from here on.
	for _, id := range cp.Settled {
		b.settle(id)
	}
	g.Last = next
	for _, to := range next.To {
		i, _ := b.find(to.place.out())
		b.Partitions[i].Saved = &saved{position: to, Generation: gen.ID, Checkpoint: cp.ID, At: now, Counters: next.Counters}
	}
	return nil
}

func covers(ps []position, parts []place) bool {
	return slices.EqualFunc(ps, parts, func(p position, q place) bool { return p.place == q })
}

// settle forgets a generation but for what End tells of it.
func (b *bridge) settle(id sink.GenerationID) {
	g := b.Generations[id]
	if g == nil {
		return
	}
	if b.Settled == nil {
		b.Settled = make(map[sink.GenerationID]sink.CheckpointID)
	}
	b.Settled[id] = 0
	if g.Last != nil {
		b.Settled[id] = g.Last.ID
	}
	delete(b.Generations, id)
	for len(b.Settled) > remembered {
		oldest := id
		for other := range b.Settled {
			oldest = min(oldest, other)
		}
		delete(b.Settled, oldest)
	}
}

// End ends gen, and tells its last checkpoint. changed is false where it was over before: then nothing has to be stored.
func (c *Content) End(gen sink.Generation) (last sink.CheckpointID, changed bool, err error) {
	b := c.Bridges[gen.Bridge]
	if b == nil {
		return 0, false, refuse(sink.ErrConfig, "there is no bridge %q", gen.Bridge)
	}
	if last, ok := b.Settled[gen.ID]; ok {
		return last, false, nil
	}
	g := b.Generations[gen.ID]
	if g == nil {
		return 0, false, refuse(sink.ErrConfig, "generation %d is not known, or was settled long ago", gen.ID)
	}
	changed = !g.Ended
	b.end(gen.ID)
	if g.Last != nil {
		last = g.Last.ID
	}
	return last, changed, nil
}

// Rewind ends every generation of a bridge and forgets its positions. The same offsets then come again as other writes, so the incarnation rises. What
// was decided and waits to be committed is left to the next claim.
func (c *Content) Rewind(name string) error {
	b := c.Bridges[name]
	switch {
	case b == nil:
		return refuse(sink.ErrConfig, "there is no such bridge")
	case b.Incarnation == math.MaxUint16:
		return refuse(sink.ErrConfig, "the bridge was rewound %d times, which is the most: give it another name", b.Incarnation)
	}
	for _, p := range b.Partitions {
		if p.Owner != 0 {
			b.end(p.Owner)
		}
		p.Saved = nil
	}
	b.Incarnation++
	return nil
}

// Read returns what is stored for a bridge.
func (c *Content) Read(name string) (sink.State, error) {
	b := c.Bridges[name]
	if b == nil {
		return sink.State{}, nil
	}
	out := sink.State{Bridge: name, Format: c.Format, Fingerprint: b.Fingerprint, Incarnation: b.Incarnation}
	for _, id := range b.ids() {
		g := b.Generations[id]
		state := sink.GenerationState{ID: id, Owner: g.Owner, Ended: g.Ended, Partitions: each(g.Partitions, place.out), Acquired: g.Acquired}
		if g.Last != nil {
			state.Last = g.Last.ID
			pending, err := g.Last.out()
			if err != nil {
				return sink.State{}, refuse(sink.ErrLost, "what generation %d decided: %w", id, err)
			}
			out.Pending = append(out.Pending, pending...)
		}
		out.Generations = append(out.Generations, state)
	}
	for _, p := range b.Partitions {
		if p.Saved == nil {
			continue
		}
		pos, err := p.Saved.position.out()
		if err != nil {
			return sink.State{}, refuse(sink.ErrLost, "the saved position of %s: %w", p.out(), err)
		}
		out.Positions = append(out.Positions, sink.StoredPosition{Position: pos, Generation: p.Saved.Generation, Checkpoint: p.Saved.Checkpoint,
			Owner: p.Owner, Saved: p.Saved.At, Counters: sink.Counters(p.Saved.Counters)})
	}
	return out, nil
}

package sinktest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Store is a [sink.Store] in memory, strict about everything that the interface says: what it refuses, any store may refuse.
type Store struct {
	srv *Server
}

var _ sink.Store = (*Store)(nil)

// NewStore returns a client of the store on s.
func NewStore(s *Server) *Store { return &Store{srv: s} }

// Acquire ends every generation that holds one of the partitions, whole. A request without a group (-1) is not compared with the
// group generations that are stored, and leaves them.
func (s *Store) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	if err := s.lock(ctx, "acquire", r.Bridge); err != nil {
		return sink.Claim{}, err
	}
	defer s.srv.mu.Unlock()
	return s.srv.store.acquire(r, time.Now())
}

// Save also refuses, with ErrConfig, what no lane should send: positions of other partitions than the generation's, and generations
// called settled that are not over. A checkpoint number that was used is ErrFenced.
func (s *Store) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	if err := s.lock(ctx, "save", gen.Bridge); err != nil {
		return err
	}
	defer s.srv.mu.Unlock()
	return s.srv.store.save(gen, cp)
}

// End answers for every generation there ever was; for one that never was it is an ErrConfig.
func (s *Store) End(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	if err := s.lock(ctx, "end", gen.Bridge); err != nil {
		return 0, err
	}
	defer s.srv.mu.Unlock()
	return s.srv.store.end(gen)
}

// Read returns positions sorted by partition and generations sorted by number.
func (s *Store) Read(ctx context.Context, bridge string) (sink.State, error) {
	if err := s.lock(ctx, "read", bridge); err != nil {
		return sink.State{}, err
	}
	defer s.srv.mu.Unlock()
	return s.srv.store.read(bridge), nil
}

// Close does nothing: the client holds nothing.
func (s *Store) Close(ctx context.Context) error { return nil }

// lock takes the server's lock for a call, unless ctx has ended, when nothing was sent.
func (s *Store) lock(ctx context.Context, op, bridge string) error {
	if err := ctx.Err(); err != nil {
		return storeError(op, bridge, sink.ErrTransient, err)
	}
	s.srv.mu.Lock()
	return nil
}

func storeError(op, bridge string, class, err error) error {
	return &sink.Error{Op: op, Bridge: bridge, Class: class, Err: err}
}

// storeState is what all bridges' stores hold, by bridge. Its methods are the store's rules, without lock or clock.
type storeState map[string]*bridgeState

type bridgeState struct {
	fingerprint string
	next        sink.GenerationID // numbers rise and are never used twice
	incarnation uint16
	generations map[sink.GenerationID]*generation // all there ever were: End answers for them
	partitions  map[changelog.Partition]*partition
}

type generation struct {
	id         sink.GenerationID
	owner      string
	partitions []changelog.Partition
	acquired   time.Time
	ended      bool             // can save no more
	settled    bool             // ended, and nothing of it is left to commit
	last       *sink.Checkpoint // that was saved; its Committables wait until a later one leaves them out or the generation is settled
}

type partition struct {
	owner sink.GenerationID // 0: nobody
	group int32             // newest consumer group generation that acquired it; -1: none did
	saved *sink.StoredPosition
}

func (st storeState) acquire(r sink.AcquireRequest, now time.Time) (sink.Claim, error) {
	if r.Bridge == "" || len(r.Partitions) == 0 || !ascending(r.Partitions) {
		return sink.Claim{}, storeError("acquire", r.Bridge, sink.ErrConfig, fmt.Errorf("a request needs a bridge and at least one partition, sorted, none twice"))
	}
	b := st[r.Bridge]
	if b != nil && b.fingerprint != r.Fingerprint {
		return sink.Claim{}, storeError("acquire", r.Bridge, sink.ErrConfig,
			fmt.Errorf("the name belongs to a bridge of other topics, group or target (fingerprint %q, this one is %q): give this bridge another name", b.fingerprint, r.Fingerprint))
	}
	if b != nil {
		if stored := b.group(r.Partitions); r.GroupGeneration >= 0 && r.GroupGeneration < stored && (r.GroupRestarted == 0 || r.GroupRestarted != stored) {
			return sink.Claim{}, storeError("acquire", r.Bridge, sink.ErrFenced, &sink.StaleGroupError{Asked: r.GroupGeneration, Stored: stored})
		}
	} else {
		b = &bridgeState{fingerprint: r.Fingerprint, next: 1,
			generations: make(map[sink.GenerationID]*generation), partitions: make(map[changelog.Partition]*partition)}
		st[r.Bridge] = b
	}
	g := &generation{id: b.next, owner: r.Owner, partitions: slices.Clone(r.Partitions), acquired: now}
	b.next++
	b.generations[g.id] = g
	var saved []changelog.Position
	for _, p := range g.partitions {
		s := b.partitions[p]
		if s == nil {
			s = &partition{group: -1}
			b.partitions[p] = s
		}
		if s.owner != 0 {
			b.end(s.owner)
		}
		s.owner = g.id
		if r.GroupGeneration >= 0 {
			s.group = r.GroupGeneration
		}
		if s.saved != nil {
			saved = append(saved, s.saved.Position)
		}
	}
	return sink.Claim{
		Generation:  sink.Generation{Bridge: r.Bridge, ID: g.id, Partitions: slices.Clone(g.partitions)},
		Positions:   saved,
		Ended:       b.unsettled(g.partitions),
		Incarnation: b.incarnation,
	}, nil
}

// group returns the newest consumer group generation that any of the partitions has seen.
func (b *bridgeState) group(parts []changelog.Partition) int32 {
	newest := int32(-1)
	for _, p := range parts {
		if s := b.partitions[p]; s != nil {
			newest = max(newest, s.group)
		}
	}
	return newest
}

// end ends one generation whole: a lane that lost one partition can save none.
func (b *bridgeState) end(id sink.GenerationID) {
	g := b.generations[id]
	g.ended = true
	for _, p := range g.partitions {
		if s := b.partitions[p]; s.owner == id {
			s.owner = 0
		}
	}
}

// unsettled returns the ended generations that ever held one of the partitions, or one that such a generation held, and so on.
// Without the "and so on" a generation whose successor died before it settled would be in nobody's claim.
func (b *bridgeState) unsettled(parts []changelog.Partition) []sink.EndedGeneration {
	held := make(map[changelog.Partition]bool)
	for _, p := range parts {
		held[p] = true
	}
	found := make(map[sink.GenerationID]bool)
	for grown := true; grown; {
		grown = false
		for id, g := range b.generations {
			if found[id] || !g.ended || g.settled || !slices.ContainsFunc(g.partitions, func(p changelog.Partition) bool { return held[p] }) {
				continue
			}
			found[id], grown = true, true
			for _, p := range g.partitions {
				held[p] = true
			}
		}
	}
	var ended []sink.EndedGeneration
	for _, id := range b.ids() {
		if found[id] {
			ended = append(ended, sink.EndedGeneration{ID: id, Decided: b.generations[id].pending()})
		}
	}
	return ended
}

func (b *bridgeState) ids() []sink.GenerationID {
	ids := make([]sink.GenerationID, 0, len(b.generations))
	for id := range b.generations {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (g *generation) pending() []sink.Committable {
	if g.last == nil || g.settled {
		return nil
	}
	return cloneCheckpoint(*g.last).Committables
}

func (st storeState) save(gen sink.Generation, cp sink.Checkpoint) error {
	refuse := func(class error, format string, a ...any) error {
		return storeError("save", gen.Bridge, class, fmt.Errorf(format, a...))
	}
	b := st[gen.Bridge]
	if b == nil || b.generations[gen.ID] == nil {
		return refuse(sink.ErrFenced, "generation %d is not known", gen.ID)
	}
	g := b.generations[gen.ID]
	if g.ended {
		return refuse(sink.ErrFenced, "generation %d was ended", gen.ID)
	}
	cp = cloneCheckpoint(cp)
	if g.last != nil && sameCheckpoint(*g.last, cp) {
		return nil
	}
	if !covers(cp.From, g.partitions) || !covers(cp.To, g.partitions) {
		return refuse(sink.ErrConfig, "From and To of checkpoint %d are not the partitions of generation %d, sorted", cp.ID, gen.ID)
	}
	for _, from := range cp.From {
		s := b.partitions[from.Partition]
		if s.owner != gen.ID {
			return refuse(sink.ErrFenced, "%s belongs to generation %d", from.Partition, s.owner)
		}
		if s.saved != nil && !samePlace(s.saved.Position, from) {
			return refuse(sink.ErrFenced, "checkpoint %d begins at %s, but %d is saved", cp.ID, from, s.saved.Offset)
		}
	}
	if cp.ID < 1 || g.last != nil && cp.ID <= g.last.ID {
		return refuse(sink.ErrFenced, "checkpoint %d of generation %d was used before", cp.ID, gen.ID)
	}
	for _, id := range cp.Settled {
		if e := b.generations[id]; e == nil || !e.ended {
			return refuse(sink.ErrConfig, "generation %d is not over and cannot be settled", id)
		}
	}
	// Nothing is refused from here on: all of it happens.
	for _, id := range cp.Settled {
		b.generations[id].settled = true
	}
	g.last = &cp
	now := time.Now()
	for _, to := range cp.To {
		b.partitions[to.Partition].saved = &sink.StoredPosition{Position: to, Generation: gen.ID, Checkpoint: cp.ID, Saved: now, Counters: cp.Counters}
	}
	return nil
}

// saved reports whether a checkpoint of that name, or a later one of its generation, was saved.
func (st storeState) saved(bridge string, w workName) bool {
	b := st[bridge]
	if b == nil || b.generations[w.generation] == nil {
		return false
	}
	last := b.generations[w.generation].last
	return last != nil && last.ID >= w.checkpoint
}

func (st storeState) end(gen sink.Generation) (sink.CheckpointID, error) {
	b := st[gen.Bridge]
	if b == nil || b.generations[gen.ID] == nil {
		return 0, storeError("end", gen.Bridge, sink.ErrConfig, fmt.Errorf("there never was a generation %d", gen.ID))
	}
	b.end(gen.ID)
	if last := b.generations[gen.ID].last; last != nil {
		return last.ID, nil
	}
	return 0, nil
}

func (st storeState) read(bridge string) sink.State {
	b := st[bridge]
	if b == nil {
		return sink.State{}
	}
	s := sink.State{Bridge: bridge, Format: 1, Fingerprint: b.fingerprint, Incarnation: b.incarnation}
	for _, id := range b.ids() {
		g := b.generations[id]
		s.Pending = append(s.Pending, g.pending()...)
		if g.settled {
			continue
		}
		gs := sink.GenerationState{ID: id, Owner: g.owner, Ended: g.ended, Partitions: slices.Clone(g.partitions), Acquired: g.acquired}
		if g.last != nil {
			gs.Last = g.last.ID
		}
		s.Generations = append(s.Generations, gs)
	}
	for p, ps := range b.partitions {
		if ps.saved != nil {
			sp := *ps.saved
			sp.Owner = b.partitions[p].owner
			s.Positions = append(s.Positions, sp)
		}
	}
	slices.SortFunc(s.Positions, func(x, y sink.StoredPosition) int { return x.Partition.Compare(y.Partition) })
	return s
}

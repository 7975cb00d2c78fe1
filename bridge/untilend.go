package bridge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// ending is Options.UntilEnd: the last stable offset of every partition at start, and which of them are saved. A nil *ending has no
// end. A bound counts as reached when a position at or beyond it is saved: whether records lie below it or not.
type ending struct {
	done  chan struct{} // closed when every bound is reached
	mu    sync.Mutex
	below map[changelog.Partition]int64 // bounds that are not reached
	all   map[changelog.Partition]int64 // not changed
}

// newEnding asks for the last stable offsets of all partitions.
func (f *fetcher) newEnding(ctx context.Context, topics map[string]int) (*ending, error) {
	e := &ending{done: make(chan struct{}), below: make(map[changelog.Partition]int64)}
	var parts []changelog.Partition
	for t, n := range topics {
		for p := range n {
			parts = append(parts, changelog.Partition{Topic: t, Partition: int32(p)})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, f.r.o.Connect)
	defer cancel()
	err := retry(ctx, func() error {
		last, err := listed(f.adm.ListCommittedOffsets(ctx, slices.Collect(maps.Keys(topics))...))(parts)
		if err != nil {
			return err
		}
		for _, p := range parts {
			o, _ := last.Lookup(p.Topic, p.Partition)
			e.below[p] = o.Offset
		}
		return nil
	})
	if err != nil {
		return nil, &sink.Error{Op: "start", Bridge: f.r.name, Class: sink.ErrConfig, Err: fmt.Errorf("asking for the last stable offsets: %w", err)}
	}
	e.all = maps.Clone(e.below)
	return e, nil
}

// bound returns where reading of p ends, -1 for never. A partition that was added later has nothing to read.
func (e *ending) bound(p changelog.Partition) int64 {
	if e == nil {
		return -1
	}
	return e.all[p]
}

// saved notes positions that are in the store.
func (e *ending) saved(to []changelog.Position) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := len(e.below)
	for _, p := range to {
		if b, ok := e.below[p.Partition]; ok && p.Offset >= b {
			delete(e.below, p.Partition)
		}
	}
	if before > 0 && len(e.below) == 0 {
		close(e.done)
	}
}

// left returns the partitions whose bound is not reached.
func (e *ending) left() []changelog.Partition {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.SortedFunc(maps.Keys(e.below), changelog.Partition.Compare)
}

// ended reports whether the lane has read all its partitions to their bounds.
func (f *fetcher) ended(l *lane) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.of(l) {
		if p.bound >= 0 && p.read < p.bound {
			return false
		}
	}
	return true
}

// elsewhere asks the store, for UntilEnd, how far other members of the group are with their partitions: two bridges that each waited
// for the other's would both wait for ever. The group's offsets would be easier to ask for, but they are a hint, and may be of a store
// that was dropped since.
func (l *lane) elsewhere() {
	if !slices.ContainsFunc(l.r.end.left(), func(p changelog.Partition) bool { return !l.r.f.holds(p) }) {
		return
	}
	_, _ = l.look(func(ctx context.Context) error {
		if what, err := l.lookElsewhere(ctx); err != nil && ctx.Err() == nil {
			l.r.log.Warn("flinksink: asking "+what, "bridge", l.r.name, "error", err)
		}
		return nil
	})
}

// lookElsewhere names what it asked for when that failed.
func (l *lane) lookElsewhere(outer context.Context) (what string, err error) {
	ctx, cancel := context.WithTimeout(outer, l.r.grace)
	defer cancel()
	st, err := l.co.Store().Read(ctx, l.r.name)
	if err != nil {
		return "the store for the positions of other members", err
	}
	// A position is of the topic that has its id. One of a topic that was deleted and made anew says nothing about this one, however large
	// its offset; whoever acquires the partition finds out and says so.
	topics := slices.Sorted(maps.Keys(l.r.topics))
	ids, err := l.r.f.topicIDs(ctx, topics)
	if err != nil {
		return "for topic ids", err
	}
	end := l.r.end
	left := end.left()
	ends, err := listed(l.r.f.adm.ListEndOffsets(ctx, topics...))(left) // after the positions: a log only grows
	if err != nil {
		return "for the ends of partitions", err
	}
	for _, p := range st.Positions {
		if !slices.Contains(left, p.Partition) {
			continue
		}
		// Neither does one beyond the end of the log, which was cut off, or where a person set it.
		if o, _ := ends.Lookup(p.Topic, p.Partition.Partition); p.Offset > o.Offset {
			continue
		}
		if id := ids[p.Topic]; p.TopicID == (changelog.TopicID{}) || id == (changelog.TopicID{}) || p.TopicID == id {
			end.saved([]changelog.Position{p.Position})
		}
	}
	return "", nil
}

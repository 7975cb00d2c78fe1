package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// member is this process in the consumer group: the client's callbacks, and what a store's fence asks of the group.
//
// The order that the client keeps (kgo, setupAssignedAndHeartbeat): OnPartitionsRevoked for what is lost, then OnPartitionsAssigned, then
// it fetches the group's offsets, then AdjustFetchOffsetsFn, then the partitions have cursors. SetOffsets between the
// second and the last is kept and wins. So assigned pauses the new partitions and returns at once, adjust gives each a cursor at
// a place that is never fetched, and the lane, which may be busy for long, moves and resumes them when it has acquired them. A store
// that is away thus delays no rebalance. Revoked and lost do wait for the lanes, in bounds.
type member struct {
	r          *run
	generation atomic.Int32
}

var _ sink.Group = (*member)(nil)

// Generation returns the generation of the last session that began; it does not go back to none when the group throws the member out.
func (m *member) Generation() int32 { return m.generation.Load() }

// Confirm sends a heartbeat with the member's id, instance id and generation: the broker refuses one that is not the group's current.
func (m *member) Confirm(ctx context.Context) (bool, error) {
	id, generation := m.r.cl.GroupMetadata()
	if id == "" || generation != m.Generation() {
		return false, nil // between two sessions
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = m.r.o.Group
	req.MemberID = id
	req.Generation = generation
	if instance := m.r.instance(); instance != "" {
		req.InstanceID = &instance
	}
	resp, err := req.RequestWith(ctx, m.r.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	switch {
	case err == nil, errors.Is(err, kerr.RebalanceInProgress):
		return true, nil // a rebalance that has begun takes nothing from the member before it joins again
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.FencedInstanceID):
		return false, nil
	}
	return false, err
}

// assigned begins a group session. parts are those that the member did not hold before.
func (m *member) assigned(_ context.Context, cl *kgo.Client, parts map[string][]int32) {
	_, generation := cl.GroupMetadata()
	m.generation.Store(generation)
	f := m.r.f
	added := sorted(parts)
	byLane := make(map[*lane][]*partition)
	f.mu.Lock()
	for _, p := range added {
		if old := f.parts[p]; old != nil {
			// Never seen: the client assigns only what it gave up before. If it happens, the old assignment is over.
			old.epoch.Store(dead)
			old.lane.send(event{kind: evLose, parts: []*partition{old}, deadline: time.Now().Add(m.r.grace), done: make(chan struct{})})
		}
		part := &partition{Partition: p, in: m.r.input(p.Topic), lane: f.leastLane(m.r.lanes), bound: m.r.end.bound(p), next: -1, read: -1, given: -1, saved: -1, high: -1, last: -1}
		f.parts[p] = part
		f.setHold(holdStart, true, part)
		byLane[part.lane] = append(byLane[part.lane], part)
	}
	f.mu.Unlock()
	for _, l := range m.r.lanes {
		if ps := byLane[l]; len(ps) > 0 {
			l.send(event{kind: evAssign, parts: ps, done: make(chan struct{})})
		}
		l.send(event{kind: evSession, done: make(chan struct{})})
	}
	if len(added) > 0 {
		m.r.log.Info("flinksink: assigned", "bridge", m.r.name, "partitions", names(added), "groupGeneration", generation)
	}
	if h := m.r.o.Hooks.Assigned; h != nil && len(added) > 0 {
		h(added)
	}
}

// adjust gives new partitions a cursor. They are paused; the offset is never read from.
func (m *member) adjust(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	f := m.r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for t, ps := range offsets {
		for p := range ps {
			part := f.parts[changelog.Partition{Topic: t, Partition: p}]
			at := int64(0)
			if part != nil && part.holds&holdStart == 0 {
				at = part.next // its lane was quicker
			}
			ps[p] = kgo.NewOffset().At(at).WithEpoch(-1)
		}
	}
	return offsets, nil
}

// revoked gives partitions back in order: it returns when every lane that held one has finished a checkpoint, or its time is over.
func (m *member) revoked(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	m.give(sorted(parts), evRevoke)
}

// lost tells the lanes to drop partitions that somebody else may own already.
func (m *member) lost(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	m.give(sorted(parts), evLose)
}

// give asks the lanes and waits. The group gives everybody the rebalance timeout, of which grace is a third: after half of the grace a
// call that keeps a lane from turning to the event is cut short; at its end the checkpoint is aborted, but for a Save that was
// sent, whose outcome has a grace of its own. So all is over after twice the grace. Whatever is still going on then can do no
// harm: the next owner's Acquire fences it.
func (m *member) give(gone []changelog.Partition, kind eventKind) {
	if len(gone) == 0 {
		return
	}
	f := m.r.f
	began := time.Now()
	byLane := make(map[*lane][]*partition)
	f.mu.Lock()
	for _, p := range gone {
		if part := f.parts[p]; part != nil {
			byLane[part.lane] = append(byLane[part.lane], part)
		}
	}
	f.mu.Unlock()
	waiting := make(map[*lane]chan struct{})
	for l, ps := range byLane {
		e := event{kind: kind, parts: ps, deadline: began.Add(m.r.grace), done: make(chan struct{})}
		waiting[l] = e.done
		l.send(e)
	}
	half, all := time.NewTimer(m.r.grace/2), time.NewTimer(2*m.r.grace)
	defer half.Stop()
	defer all.Stop()
	for l, done := range waiting {
		for waits := true; waits; {
			select {
			case <-done:
				waits = false
			case <-l.over: // the bridge stops: what the lane could save is saved
				waits = false
			case <-half.C:
				for l, done := range waiting {
					select {
					case <-done:
					default:
						l.interrupt(false)
					}
				}
			case <-all.C:
				m.r.log.Warn("flinksink: a lane did not give its partitions back in time; their next owner fences it", "bridge", m.r.name, "lane", l.n)
				waits = false
				all.Reset(0) // nor are the others waited for
			}
		}
	}
	f.remove(gone)
	m.r.log.Info("flinksink: gave back", "bridge", m.r.name, "partitions", names(gone), "lost", kind == evLose)
	if h := m.r.o.Hooks.Revoked; h != nil {
		h(gone, kind == evLose)
	}
}

// remove forgets partitions: what is still on its way of them is dropped.
func (f *fetcher) remove(gone []changelog.Partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resume := make(map[string][]int32)
	for _, p := range gone {
		if part := f.parts[p]; part != nil {
			part.epoch.Store(dead)
			delete(f.parts, p)
			if part.holds != 0 { // the client remembers pauses beyond an assignment
				resume[p.Topic] = append(resume[p.Topic], p.Partition)
			}
		}
	}
	if len(resume) > 0 {
		f.cl.ResumeFetchPartitions(resume)
	}
}

// stopReading ends the epoch of partitions until their lane seeks them again.
func (f *fetcher) stopReading(parts ...*partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range parts {
		if f.parts[p.Partition] == p {
			p.epoch.Add(1)
			f.setHold(holdStart, true, p)
		}
	}
}

// leastLane returns the lane with the fewest partitions; a partition then stays with it. f.mu is held.
func (f *fetcher) leastLane(lanes []*lane) *lane {
	count := make(map[*lane]int)
	for _, p := range f.parts {
		count[p.lane]++
	}
	least := lanes[0]
	for _, l := range lanes[1:] {
		if count[l] < count[least] {
			least = l
		}
	}
	return least
}

// fetchError sorts an error that a poll returned: nil goes on, anything else ends the bridge.
func (f *fetcher) fetchError(ctx context.Context, p changelog.Partition, err error) error {
	r := f.r
	config := func(format string, args ...any) error {
		return &sink.Error{Op: "fetch", Bridge: r.name, Class: sink.ErrConfig, Err: fmt.Errorf(format, args...)}
	}
	var session *kgo.ErrGroupSession
	var loss *kgo.ErrDataLoss
	var tooLarge *kgo.ErrDecompressTooLarge
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrClientClosed):
		return nil
	case errors.Is(err, kerr.FencedInstanceID):
		return r.replaced(err)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return config("this user may not use the consumer group %q: allow READ on it: %w", r.o.Group, err)
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		return config("the consumer group %q is used by a program with another balancing strategy: give the bridge a group of its own (Options.Group): %w", r.o.Group, err)
	case errors.Is(err, kerr.InvalidSessionTimeout), errors.Is(err, kerr.InvalidGroupID), errors.Is(err, kerr.GroupMaxSizeReached), errors.Is(err, kerr.GroupIDNotFound):
		return config("the brokers refuse the consumer group %q with these settings: %w", r.o.Group, err)
	case errors.As(err, &session):
		r.log.Warn("flinksink: the consumer group threw this member out; it joins again", "bridge", r.name, "group", r.o.Group, "error", err)
		return nil
	case errors.As(err, &loss):
		return r.lost("fetch", changelog.Position{Partition: p, Offset: loss.ConsumedTo, LeaderEpoch: loss.ConsumedToEpoch}, fmt.Errorf(
			"the log was cut off: read up to offset %d, of which %d on is gone or other records (an unclean leader election). Read the topic again with a new bridge, or accept what was read of them and go on %s: %w",
			loss.ConsumedTo, loss.ResetTo, movedTo(p, loss.ResetTo), err))
	case errors.As(err, &tooLarge):
		return config("%s: %w; raise it in Options.Client with kgo.MaxDecompressBatchBytes", p, err)
	}
	at, first, ok := f.passed(p, err)
	if !ok {
		return nil
	}
	if first && errors.Is(err, kerr.TopicAuthorizationFailed) {
		return config("topic %q: this user may not read it: allow READ: %w", p.Topic, err)
	}
	if errors.Is(err, kerr.OffsetOutOfRange) || errors.Is(err, kerr.UnknownTopicID) {
		ctx, cancel := context.WithTimeout(ctx, max(r.o.Connect, 2*goneAfter))
		defer cancel()
		if err := f.check(ctx, []changelog.Position{at}); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// passed logs an error that may pass, once a partition, and tells where the partition is read, and whether nothing of it was ever
// read.
func (f *fetcher) passed(p changelog.Partition, err error) (at changelog.Position, first, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	part := f.parts[p]
	if part == nil || part.holds&holdStart != 0 {
		return changelog.Position{}, false, false
	}
	if part.trouble != err.Error() {
		part.trouble = err.Error()
		f.r.log.Warn("flinksink: fetch failed, and is tried again", "bridge", f.r.name, "partition", p.String(), "error", err)
	}
	return changelog.Position{Partition: p, Offset: part.next, LeaderEpoch: -1, TopicID: part.topicID}, part.taken == 0, true
}

func sorted(m map[string][]int32) []changelog.Partition {
	var out []changelog.Partition
	for t, ps := range m {
		for _, p := range ps {
			out = append(out, changelog.Partition{Topic: t, Partition: p})
		}
	}
	slices.SortFunc(out, changelog.Partition.Compare)
	return out
}

func names(ps []changelog.Partition) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.String()
	}
	return out
}

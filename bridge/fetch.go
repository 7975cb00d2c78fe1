package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// record is what the client fetched.
type record = *kgo.Record

const (
	// pollRecords bounds how much one poll can put on top of a lane's budget.
	pollRecords = 10_000
	// recordBytes is what a record costs beside its key, value and headers.
	recordBytes = 200
	// rouseEvery is how often the client is told to fetch, whatever it is doing; see fetcher.rouse.
	rouseEvery = time.Second
)

func recordSize(r record) int {
	n := recordBytes + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// fetcher owns the client's consuming side: which partitions are assigned, which of them are fetched, and how far.
//
// Its poll goroutine never waits for a lane: full lanes have their partitions paused instead. So a Seek, which the poll goroutine
// serves, always gets through, and BlockRebalanceOnPoll is not needed: what that option guards, that nothing is written for a
// partition after it was revoked, the callbacks do by asking the lanes and waiting for them (group.go), and records that a poll
// returned before a revoke are dropped by their epoch. A slow sink then costs a paused partition, never a missed poll or heartbeat.
type fetcher struct {
	r   *run
	cl  *kgo.Client
	adm *kadm.Client

	mu    sync.Mutex
	parts map[changelog.Partition]*partition
	seeks []*seek            // for the poll goroutine
	asked time.Time          // when the watcher last had an answer
	wake  context.CancelFunc // ends the poll in progress
	done  chan struct{}      // closed when the poll goroutine has ended
}

// seek asks the poll goroutine to move partitions.
type seek struct {
	to   []changelog.Position
	done chan struct{}
}

// poll fetches until ctx ends or the client is closed.
func (f *fetcher) poll(ctx context.Context) error {
	defer close(f.done)
	roused := time.Now()
	for {
		if now := time.Now(); now.Sub(roused) >= rouseEvery {
			f.rouse()
			roused = now
		}
		f.mu.Lock()
		seeks := f.seeks
		f.seeks = nil
		pctx, cancel := context.WithTimeout(ctx, rouseEvery)
		f.wake = cancel
		f.mu.Unlock()
		if len(seeks) > 0 {
			for _, s := range seeks {
				f.move(s.to)
				close(s.done)
			}
			cancel()
			continue
		}
		fetches := f.cl.PollRecords(pctx, pollRecords)
		cancel()
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return nil
		}
		var err error
		fetches.EachTopic(func(t kgo.FetchTopic) {
			t.EachPartition(func(p kgo.FetchPartition) {
				if p.Err != nil && err == nil {
					err = f.fetchError(ctx, changelog.Partition{Topic: t.Topic, Partition: p.Partition}, p.Err)
				}
				if err == nil {
					err = f.take(t, p)
				}
			})
		})
		if err != nil {
			return err
		}
	}
}

// rouse tells the client again which partitions to fetch. It should know, but once in many thousand seeks it does not (kgo 1.22.3): SetOffsets
// ends its fetch session, begins another one, and tells the fetch loop of each broker. A loop that was started in the old session and has
// not yet counted itself in (loopFetch, between loadSession and incWorker) notes that there is more to do, then finds its session over and
// ends, note and all. Nothing would tell it again, no metadata update and no poll: the partitions are assigned, where they begin is
// saved, and then the bridge stands for ever. A loop that is at work goes round once more, which costs nothing.
func (f *fetcher) rouse() {
	f.mu.Lock()
	defer f.mu.Unlock()
	fetched := make(map[string][]int32)
	for p, part := range f.parts {
		if part.holds == 0 {
			fetched[p.Topic] = append(fetched[p.Topic], p.Partition)
		}
	}
	if len(fetched) > 0 {
		f.cl.ResumeFetchPartitions(fetched)
	}
}

// take hands the records of one partition to its lane.
func (f *fetcher) take(t kgo.FetchTopic, p kgo.FetchPartition) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	part := f.parts[changelog.Partition{Topic: t.Topic, Partition: p.Partition}]
	if part == nil || part.holds&holdStart != 0 {
		return nil // given back, or not begun: what a poll had in its hands before
	}
	if p.Err == nil {
		part.high, part.last = p.HighWatermark, p.LastStableOffset
	}
	if len(p.Records) == 0 {
		return nil
	}
	part.trouble = ""
	id := changelog.TopicID(t.TopicID)
	if id == (changelog.TopicID{}) {
		id = part.topicID // brokers before 3.1 fetch by name
	} else if part.topicID == (changelog.TopicID{}) {
		part.topicID = id
	} else if id != part.topicID {
		return f.r.lost("fetch", changelog.Position{Partition: part.Partition, Offset: part.next, LeaderEpoch: -1, TopicID: part.topicID}, recreated(changelog.Position{Partition: part.Partition, TopicID: part.topicID}, id))
	}
	from := part.next
	c := chunk{part: part, epoch: part.epoch.Load(), topicID: id, to: from, leader: -1}
	for _, rec := range p.Records {
		if rec.Offset < part.next {
			continue // delivered again
		}
		if part.bound >= 0 && rec.Offset >= part.bound {
			f.setHold(holdEnd, true, part)
			break
		}
		c.to, c.leader = rec.Offset+1, rec.LeaderEpoch
		part.next = c.to
		if rec.Attrs.IsControl() {
			continue
		}
		if c.records == nil {
			c.records = make([]record, 0, len(p.Records))
		}
		c.bytes += recordSize(rec)
		c.records = append(c.records, rec)
	}
	if part.bound >= 0 && part.next >= part.bound {
		f.setHold(holdEnd, true, part)
	}
	part.taken++
	if c.to > from {
		f.push(part, c)
	}
	return nil
}

// push queues c for its lane and pauses the lane's partitions when its budget is full. f.mu is held.
func (f *fetcher) push(part *partition, c chunk) {
	if part.lane.queue.add(c) {
		f.setHold(holdBudget, true, f.of(part.lane)...)
	}
}

// drained lets a lane's partitions be fetched again, once half of its budget is free.
func (f *fetcher) drained(l *lane) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.queue.low() {
		f.setHold(holdBudget, false, f.of(l)...)
	}
}

// of returns the partitions of a lane. f.mu is held.
func (f *fetcher) of(l *lane) []*partition {
	var out []*partition
	for _, p := range f.parts {
		if p.lane == l {
			out = append(out, p)
		}
	}
	return out
}

// setHold sets or clears a reason not to fetch, and tells the client where that changes something. f.mu is held: pausing and resuming
// must reach the client in the order in which they were decided. (The client takes its own locks only, and calls nothing of ours.)
func (f *fetcher) setHold(why hold, on bool, parts ...*partition) {
	change := make(map[string][]int32)
	for _, p := range parts {
		was := p.holds
		if on {
			p.holds |= why
		} else {
			p.holds &^= why
		}
		if (was == 0) != (p.holds == 0) {
			change[p.Topic] = append(change[p.Topic], p.Partition.Partition)
		}
	}
	if len(change) == 0 {
		return
	}
	if on {
		f.cl.PauseFetchPartitions(change)
	} else {
		f.cl.ResumeFetchPartitions(change)
	}
}

// move begins a new epoch at each position. It runs in the poll goroutine, between two polls: whatever the client fetched for these
// partitions before is dropped by SetOffsets or was tagged with an older epoch.
func (f *fetcher) move(to []changelog.Position) {
	set := make(map[string]map[int32]kgo.EpochOffset)
	var begun []*partition
	f.mu.Lock()
	for _, pos := range to {
		part := f.parts[pos.Partition]
		if part == nil {
			continue // given back meanwhile
		}
		part.epoch.Add(1)
		part.next, part.read, part.topicID, part.trouble = pos.Offset, pos.Offset, pos.TopicID, ""
		if set[pos.Topic] == nil {
			set[pos.Topic] = make(map[int32]kgo.EpochOffset)
		}
		// Without an epoch: that the position still is what it was, the lane has just asked the broker (source.check).
		set[pos.Topic][pos.Partition.Partition] = kgo.EpochOffset{Epoch: -1, Offset: pos.Offset}
		begun = append(begun, part)
	}
	f.mu.Unlock()
	// A partition whose committed offsets the client is fetching at this moment begins here too: SetOffsets takes precedence.
	f.cl.SetOffsets(set)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, part := range begun {
		if f.parts[part.Partition] != part {
			continue
		}
		f.setHold(holdStart|holdBad, false, part)
		f.setHold(holdEnd, part.bound >= 0 && part.next >= part.bound, part)
	}
}

// send has the poll goroutine move partitions and waits until it did.
func (f *fetcher) send(ctx context.Context, to []changelog.Position) error {
	s := &seek{to: to, done: make(chan struct{})}
	f.mu.Lock()
	f.seeks = append(f.seeks, s)
	if f.wake != nil {
		f.wake()
	}
	f.mu.Unlock()
	select {
	case <-s.done:
		return nil
	case <-f.done:
		return errors.New("the bridge has stopped fetching")
	case <-ctx.Done():
		// It may still be served: then the partitions stand there in a new epoch, which is what a later Seek makes of them anyway.
		return context.Cause(ctx)
	}
}

// gives remembers how far the sinks are about to be given a load's partitions.
func (f *fetcher) gives(ld *load) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range ld.spans {
		s := &ld.spans[i]
		s.part.given = max(s.part.given, s.to)
	}
}

// note remembers how far changes of a partition were written, for Status.
func (f *fetcher) note(part *partition, read int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	part.read = max(part.read, read)
}

func recreated(at changelog.Position, found changelog.TopicID) error {
	return fmt.Errorf("the topic was deleted and made again: the position is of topic id %s, the broker has topic id %s; its offsets mean other records. "+
		"Read the new topic with a new bridge, or with this one from its start setting on, by 'flinksink positions reset' (of all that it reads; name the partitions, as in %s:%d, where that is more than this topic), "+
		"or the store's Reset; what only the old topic said stays in the target", at.TopicID, found, at.Topic, at.Partition.Partition)
}

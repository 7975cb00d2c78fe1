package bridge

import (
	"slices"
	"sync"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Status is a bridge at one moment.
type Status struct {
	Bridge, Group string
	Running       bool
	Started       time.Time     // when Run was called, zero before the first time
	Ended         time.Time     // when it returned, zero while it runs
	Err           error         // what it returned: why the bridge halted
	Interval      time.Duration // Options.Interval
	Watch         time.Duration // Options.Watch
	Asked         time.Time     // when the brokers last answered where partitions end, zero: not yet
	Generation    int32         // of the consumer group, -1 before the first
	Lanes         []LaneStatus
	Partitions    []PartitionStatus
	// Counters of all checkpoints that were decided since Run began, with the time of the last and how many there were.
	Counters       sink.Counters
	Checkpoints    int64
	LastCheckpoint time.Time
	Last           sink.Report
	Retries        int64 // tries again after failures
	// Buffered is what was fetched and is not yet written, in bytes, over all lanes.
	Buffered int
	// Left lists the partitions that Options.UntilEnd still waits for.
	Left []changelog.Partition
	// Open lists the open transactions that Hooks.OpenTransaction told of and that still keep records from being read.
	Open []OpenTransaction
	Pace Pace
}

// PartitionStatus is one partition that the bridge holds.
type PartitionStatus struct {
	changelog.Partition
	Lane             int
	Read             int64 // position that is written, saved or not; -1: not begun
	Saved            int64 // position of the last decided checkpoint, -1: not known yet
	LastStableOffset int64 // what can be read, -1: not known yet
	HighWatermark    int64 // where the partition ends, -1: not known yet
	Paused           bool  // not fetched at this moment: memory is full, a sink is slow, or the end is reached
	// StandsSince is since when Saved has not moved although there is more to read, to within Options.Watch. Zero: it moves, or all that
	// is to be read is saved.
	StandsSince time.Time
	Trouble     string
}

// Lag is how many offsets lie between what is saved and the end of the partition, records of open transactions included; -1: not
// known yet.
func (p PartitionStatus) Lag() int64 {
	if p.Saved < 0 || p.HighWatermark < 0 {
		return -1
	}
	return max(0, p.HighWatermark-p.Saved)
}

// Waiting is how many offsets at the end of the partition lie behind an open transaction and cannot be read yet.
func (p PartitionStatus) Waiting() int64 {
	if p.LastStableOffset < 0 {
		return 0
	}
	return max(0, p.HighWatermark-p.LastStableOffset)
}

// Lag is the sum over all partitions, -1 if one is not known yet.
func (s Status) Lag() int64 {
	var n int64
	for _, p := range s.Partitions {
		l := p.Lag()
		if l < 0 {
			return -1
		}
		n += l
	}
	return n
}

// Waiting lists the partitions with records that wait behind an open transaction.
func (s Status) Waiting() []PartitionStatus {
	return slices.DeleteFunc(slices.Clone(s.Partitions), func(p PartitionStatus) bool { return p.Waiting() == 0 })
}

// TimeLeft estimates how long it takes until everything that can be read is saved, if saving and producing go on as in Pace. ok is false
// while that is not known, and when the topics grow at least as fast as they are read.
func (s Status) TimeLeft() (left time.Duration, ok bool) {
	var n int64
	for _, p := range s.Partitions {
		if p.Saved < 0 || p.LastStableOffset < 0 {
			return 0, false
		}
		n += max(0, p.LastStableOffset-p.Saved)
	}
	if n == 0 {
		return 0, len(s.Partitions) > 0
	}
	gain := s.Pace.Saved - s.Pace.Arrived
	if gain <= 0 {
		return 0, false
	}
	seconds := float64(n) / gain
	if seconds > (1000 * 24 * time.Hour).Seconds() {
		return 0, false // a guess, and one that a Duration may not hold
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// totals is what Status sums up over the lanes.
type totals struct {
	mu          sync.Mutex
	counters    sink.Counters
	checkpoints int64
	at          time.Time
	last        sink.Report
	retries     int64
}

// decided notes a report of a lane. A report sums up over one call of the coordinator, which may decide twice; counted holds what it
// said before.
func (r *run) decided(l *lane, rep sink.Report) {
	before := l.counted
	l.counted = rep.Counters
	r.totals.mu.Lock()
	r.totals.counters = r.totals.counters.Add(rep.Counters).Add(negative(before))
	r.totals.checkpoints++
	r.totals.at, r.totals.last = time.Now(), rep
	r.totals.mu.Unlock()
	r.saved(rep.To)
}

func negative(c sink.Counters) sink.Counters {
	return sink.Counters{Records: -c.Records, Read: -c.Read, Applied: -c.Applied, Superseded: -c.Superseded,
		DeadLettered: -c.DeadLettered, Skipped: -c.Skipped}
}

// saved notes positions that are in the store. A partition that its lane has not sought yet counts for no end: a generation saves its
// beginning at once, before anybody looked whether that position still exists.
func (r *run) saved(to []changelog.Position) {
	sought := make([]changelog.Position, 0, len(to))
	r.f.mu.Lock()
	for _, p := range to {
		part := r.f.parts[p.Partition]
		if part != nil {
			part.saved = p.Offset
		}
		if part == nil || part.holds&holdStart == 0 {
			sought = append(sought, p)
		}
	}
	r.f.mu.Unlock()
	r.end.saved(sought)
}

func (r *run) status() Status {
	s := Status{Bridge: r.name, Group: r.o.Group, Generation: r.m.Generation()}
	r.f.mu.Lock()
	lanes, end := r.lanes, r.end
	s.Asked = r.f.asked
	for _, p := range r.f.parts {
		s.Partitions = append(s.Partitions, PartitionStatus{Partition: p.Partition, Lane: p.lane.n, Read: p.read, Saved: p.saved,
			LastStableOffset: p.last, HighWatermark: p.high, Paused: p.holds != 0, StandsSince: p.stands, Trouble: p.trouble})
		if t := p.open; t != nil {
			now := *t
			now.HighWatermark, now.For = p.high, time.Since(p.openSince)
			s.Open = append(s.Open, now)
		}
	}
	if r.final != nil {
		s.Partitions = r.final
	}
	r.f.mu.Unlock()
	slices.SortFunc(s.Partitions, func(a, b PartitionStatus) int { return a.Partition.Compare(b.Partition) })
	slices.SortFunc(s.Open, func(a, b OpenTransaction) int { return a.Partition.Compare(b.Partition) })
	s.Left = end.left()
	s.Pace = r.pace.until(time.Now(), s.Partitions)
	r.totals.mu.Lock()
	defer r.totals.mu.Unlock()
	for _, l := range lanes {
		ls := l.status
		ls.Lane, ls.Buffered, ls.Sinks = l.n, l.queue.size(), slices.Clone(ls.Sinks)
		if settled(l.n, s.Partitions) {
			ls.FailingSince = time.Time{}
		}
		s.Lanes = append(s.Lanes, ls)
		s.Buffered += ls.Buffered
	}
	s.Counters, s.Checkpoints, s.LastCheckpoint, s.Last, s.Retries = r.totals.counters, r.totals.checkpoints, r.totals.at, r.totals.last, r.totals.retries
	return s
}

package bridge

import (
	"slices"
	"sync"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// LaneStatus is one lane at one moment.
type LaneStatus struct {
	Lane       int
	Generation sink.GenerationID // 0: it has acquired nothing yet
	Checkpoint sink.CheckpointID // the last that was decided in this generation, 0: none
	Decided    time.Time         // when that was; in an earlier generation too
	Buffered   int               // what was fetched and is not yet written, in bytes
	Retries    int64             // tries again after failures, since Run began
	// LastError is the last failure that was tried again, a refused change that is dropped by the data policy included, and stays when the
	// lane has recovered; nil: there was none.
	LastError   error
	LastErrorAt time.Time
	// FailingSince is when the failures began that are still being tried again. Zero: the lane works. A failure is over with the next
	// checkpoint, or once nothing that can be read is left to save.
	FailingSince time.Time
	// Fenced counts the generations of this lane that another one ended, or that ended because the group threw this member out.
	Fenced int64
	// Uncommitted says why a decided checkpoint cannot be committed, from Hooks.Alarm on until it is committed; else nil.
	Uncommitted error
	// Sinks are the sinks of the lane in the order in which they are prepared and committed.
	Sinks []SinkStatus
}

// observe returns hooks that note for Status what the coordinator of l tells, and pass it on.
func (r *run) observe(l *lane, user sink.Hooks) sink.Hooks {
	note := func(f func(s *LaneStatus)) {
		r.totals.mu.Lock()
		f(&l.status)
		r.totals.mu.Unlock()
	}
	h := user
	h.Acquired = func(c sink.Claim) {
		l.dropped()
		l.retried(0, nil)
		note(func(s *LaneStatus) {
			s.Generation, s.Checkpoint = c.Generation.ID, 0
			s.claimed(c)
			// What is decided may also have been committed by whoever held the partitions in between.
			l.owes = slices.ContainsFunc(c.Ended, func(e sink.EndedGeneration) bool { return len(e.Decided) > 0 })
			if !l.owes {
				s.Uncommitted = nil
			}
		})
		if user.Acquired != nil {
			user.Acquired(c)
		}
	}
	h.Saved = func(rep sink.Report) {
		l.owes = true
		r.decided(l, rep)
		l.settle(rep)
		note(func(s *LaneStatus) {
			s.Generation, s.Checkpoint, s.Decided = rep.Generation, rep.Checkpoint, time.Now()
			s.FailingSince = time.Time{}
			s.decidedFor(rep)
		})
		if user.Saved != nil {
			user.Saved(rep)
		}
	}
	h.Committed = func(rep sink.Report) {
		l.owes = false
		note(func(s *LaneStatus) { s.FailingSince, s.Uncommitted = time.Time{}, nil })
		if user.Committed != nil {
			user.Committed(rep)
		}
	}
	h.Aborted = func(c sink.Cut, err error) {
		l.aborted = err
		l.dropped()
		if user.Aborted != nil {
			user.Aborted(c, err)
		}
	}
	h.Retry = func(err error, n int) {
		l.retried(n, err)
		note(func(s *LaneStatus) {
			s.Retries++
			s.LastError, s.LastErrorAt = err, time.Now()
			if s.FailingSince.IsZero() {
				s.FailingSince = s.LastErrorAt
			}
			r.totals.retries++
		})
		if user.Retry != nil {
			user.Retry(err, n)
		}
	}
	h.Fenced = func(err error) {
		note(func(s *LaneStatus) {
			s.LastError, s.LastErrorAt = err, time.Now()
			s.Fenced++
			s.Uncommitted = nil // to commit it is now the new owner's first duty
			s.claimed(sink.Claim{})
		})
		if user.Fenced != nil {
			user.Fenced(err)
		}
	}
	h.Step = func(e sink.SinkStep) {
		note(func(s *LaneStatus) { s.stepped(e) })
		if user.Step != nil {
			user.Step(e)
		}
	}
	h.Alarm = func(err error, n int) {
		note(func(s *LaneStatus) { s.Uncommitted = err })
		if user.Alarm != nil {
			user.Alarm(err, n)
		}
	}
	return h
}

// settled reports whether all that can be read of a lane's partitions is saved.
func settled(lane int, parts []PartitionStatus) bool {
	for _, p := range parts {
		if p.Lane == lane && (p.Saved < 0 || p.LastStableOffset < 0 || p.Saved < p.LastStableOffset) {
			return false
		}
	}
	return true
}

// Pace is how fast a bridge saved and its topics grew lately, over the partitions that it held all the while.
type Pace struct {
	Over    time.Duration // the time this was measured over, up to about a minute; 0: not known yet
	Saved   float64       // offsets a second that checkpoints passed
	Arrived float64       // offsets a second that producers added
}

const (
	paceOver  = time.Minute
	paceEvery = paceOver / 12
)

// pace remembers what Pace is computed from.
type pace struct {
	mu      sync.Mutex
	samples []sample // oldest first, at least paceEvery apart
}

type sample struct {
	at    time.Time
	parts map[changelog.Partition]reach
}

type reach struct{ saved, high int64 }

func newSample(at time.Time, parts []PartitionStatus) sample {
	s := sample{at: at, parts: make(map[changelog.Partition]reach, len(parts))}
	for _, p := range parts {
		if p.Saved >= 0 && p.HighWatermark >= 0 {
			s.parts[p.Partition] = reach{p.Saved, p.HighWatermark}
		}
	}
	return s
}

// add keeps a sample, unless the last one is too young, and drops those that are too old.
func (p *pace) add(at time.Time, parts []PartitionStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.samples); n > 0 && at.Sub(p.samples[n-1].at) < paceEvery {
		return
	}
	// The oldest one kept is the youngest that is old enough, so that the whole span stays covered.
	for len(p.samples) > 1 && at.Sub(p.samples[1].at) >= paceOver {
		p.samples = p.samples[1:]
	}
	p.samples = append(p.samples, newSample(at, parts))
}

// until compares parts with the oldest sample that knows them all; one of before the last rebalance does not.
func (p *pace) until(at time.Time, parts []PartitionStatus) Pace {
	now := newSample(at, parts)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, old := range p.samples {
		saved, arrived, all := int64(0), int64(0), len(now.parts) > 0
		for part, to := range now.parts {
			from, ok := old.parts[part]
			all = all && ok
			saved += to.saved - from.saved
			arrived += to.high - from.high
		}
		if over := at.Sub(old.at); all && over > 0 && saved >= 0 && arrived >= 0 {
			return Pace{Over: over, Saved: float64(saved) / over.Seconds(), Arrived: float64(arrived) / over.Seconds()}
		}
	}
	return Pace{}
}

package bridge

import (
	"sync/atomic"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// hold is a set of reasons not to fetch a partition. It is fetched while there is none.
type hold uint8

const (
	holdStart  hold = 1 << iota // its lane has not yet said where to begin
	holdBudget                  // the lane's memory for unread records is full
	holdSink                    // the coordinator paused it
	holdEnd                     // read as far as asked
	holdBad                     // a record cannot be decoded
	holdStop                    // the bridge stops
)

// dead is the epoch of a partition that was given back.
const dead = -1

// partition is one assignment of a partition to this member. When it comes back later it is another one.
//
// Between the fetch of a record and the Write of its changes the lane may be sent back (Seek), or lose the partition. Each record is
// therefore tagged with the epoch that was current when the poll goroutine took it; Seek begins the next epoch, and what carries
// an older one is dropped wherever it is found: of this partition only, and only because of a Seek. The poll goroutine alone
// begins an epoch, and between two polls, so that no record of before the Seek can be tagged with the epoch of after it. Others only
// end one, together with holdStart, under which nothing is taken until the next Seek.
type partition struct {
	changelog.Partition
	lane  *lane
	in    int // number of the input that reads its topic
	epoch atomic.Int64

	// Guarded by fetcher.mu.
	holds   hold
	topicID changelog.TopicID
	next    int64 // offset after the last record that was taken; set by Seek
	bound   int64 // records from here on are not read; -1: no bound
	taken   uint64
	seen    uint64 // taken, when the watcher last looked
	trouble string // the last error that passes, to log it once

	// What Status shows; guarded by fetcher.mu.
	read  int64 // position written into the current checkpoint, -1 before the first Seek
	given int64 // the furthest position that was ever given to the sinks, whatever became of it; -1: none
	saved int64 // last saved position, -1 unknown
	high  int64 // high watermark, -1 unknown
	last  int64 // last stable offset, -1 unknown

	open      *OpenTransaction // that Hooks.OpenTransaction was told of, nil: none
	openSince time.Time
	stands    time.Time // since when saved has not moved although there is more to read, zero: it is not so
	behind    time.Time // since when there has been more to read than what is saved, behindAt; zero: there is not
	behindAt  int64
	marks     []mark // where the partition ended at looks whose end is not yet saved, oldest first; at most mostMarks
}

// mark is where a partition ended at some time.
type mark struct {
	at  time.Time
	end int64
}

// mostMarks bounds the marks of a partition. When there are more, every other one is left out, so an age is known to within a 32nd.
const mostMarks = 64

// mark notes where the partition ends now, and forgets the ends that are saved.
func (p *partition) mark(now time.Time) {
	if p.saved < 0 || p.holds&(holdEnd|holdStop) != 0 {
		p.marks = nil
		return
	}
	passed := 0
	for passed < len(p.marks) && p.marks[passed].end <= p.saved {
		passed++
	}
	p.marks = p.marks[passed:]
	if n := len(p.marks); p.last > p.saved && (n == 0 || p.last > p.marks[n-1].end) {
		p.marks = append(p.marks, mark{now, p.last})
	}
	if len(p.marks) > mostMarks {
		var some []mark
		for i := 0; i < len(p.marks); i += 2 { // the oldest stays
			some = append(some, p.marks[i])
		}
		p.marks = some
	}
}

// look notes whether what can be read gets saved.
func (p *partition) look(now time.Time) {
	p.mark(now)
	switch {
	case p.saved >= p.last || p.holds&(holdEnd|holdStop) != 0:
		p.stands, p.behind = time.Time{}, time.Time{}
	case p.behind.IsZero() || p.behindAt != p.saved:
		p.stands, p.behind, p.behindAt = time.Time{}, now, p.saved
	default: // a second look finds it where the first did
		p.stands = p.behind
	}
}

// chunk is a run of records of one partition on its way to the decoder.
type chunk struct {
	part    *partition
	epoch   int64
	records []record
	to      int64 // offset after the chunk: beyond its last record where control records or gaps follow
	leader  int32 // leader epoch at to
	topicID changelog.TopicID
	bytes   int
}

func (c chunk) stale() bool { return c.part.epoch.Load() != c.epoch }

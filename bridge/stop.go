package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// This file is about a stop while the sink or the store is away. A failure before the decision drops what was written, so that trying
// again saves nothing that the next start does not read anyway; and what was decided, the next start commits. So an outage is not
// worth the whole grace, which is for a Save whose answer is out. A failure or two may be a matter of a moment, after which an unclear Save
// is known and a decided checkpoint committed.

// stopTries is how many failures in a row end a lane that is to stop: less than two seconds of pauses.
const stopTries = 5

var errGivenUp = errors.New("the bridge stopped without a last checkpoint")

// allSaved reports that there is nothing for a stop to wait for: all that was ever given to the sinks is saved, and nothing that is decided waits to be
// committed. A lane that is about to acquire more partitions, or could not, has then given its generation up and needs none any more.
func (l *lane) allSaved() bool {
	f := l.r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.of(l) {
		if p.saved < p.given {
			return false
		}
	}
	return !l.owes
}

// failing reports that the last call failed and did not recover.
func (l *lane) failing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tries > 0
}

// written returns how far the partitions of a lane are written, saved or not.
func (f *fetcher) written(l *lane) map[*partition]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := make(map[*partition]int64)
	for _, p := range f.of(l) {
		to[p] = p.read
	}
	return to
}

// unsaved is the error of a last checkpoint that was dropped and not done again: the lane could acquire anew, and so is in order, but what it
// had written it would have to read once more. Only the positions tell: of a Save that was unclear, it may turn out that it was the decision.
func (f *fetcher) unsaved(written map[*partition]int64, cause error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, to := range written {
		if p.saved >= 0 && p.saved < to { // before its first position is known nothing of a partition is written
			return fmt.Errorf("%w: it failed; nothing is lost, the next start reads %s again from offset %d: %w", errGivenUp, p.Partition, p.saved, cmp.Or(cause, errUnknown))
		}
	}
	return nil
}

var errUnknown = errors.New("the generation was ended")

// begin returns the context of a call that a stop may give up; end is called after it.
func (l *lane) begin() (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(l.r.hard)
	l.mu.Lock()
	l.giveUp, l.tries, l.failed = cancel, 0, nil
	l.mu.Unlock()
	return ctx, cancel
}

func (l *lane) end(cancel context.CancelCauseFunc) {
	l.mu.Lock()
	l.cancel, l.giveUp = nil, nil
	l.mu.Unlock()
	cancel(nil)
}

// retried notes that the call in progress failed for the nth time in a row, and works again if n is 0.
func (l *lane) retried(n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries, l.failed = n, err
	select {
	case <-l.r.stopping:
		l.surrender()
	default:
	}
}

// halting ends the call in progress, for a stop, if it has nothing to save or if it will not succeed. A Save that was sent and what follows
// from it do not end with the call: the coordinator waits for their outcome.
func (l *lane) halting() {
	l.interrupt(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.surrender()
}

// surrender is called with mu held.
func (l *lane) surrender() {
	if l.giveUp != nil && l.tries >= stopTries {
		l.giveUp(l.r.givenUp(l.tries, l.failed))
	}
}

// givenUp is the error of all lanes that give up, so that it is told once.
func (r *run) givenUp(tries int, err error) error {
	r.giveUpOnce.Do(func() {
		r.gaveUp = fmt.Errorf("%w: it failed %d times in a row; nothing is lost, the next start reads again what was not saved: %w", errGivenUp, tries, err)
	})
	return r.gaveUp
}

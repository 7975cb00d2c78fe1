package elastic

import (
	"context"
	"errors"
	"sync"
	"time"
)

// breakAfter is how many requests in a row have to fail as a whole before the breaker opens.
const breakAfter = 5

// breaker keeps a lane from pressing a server that takes nothing.
//
// A request fails as a whole if no answer comes, if it is refused with 429 or a status above 500, or if each of its items is. After breakAfter of them in
// a row the lane has one request under way at a time, a probe, whatever Options.InFlight says, with pauses between them; and each that fails makes the next one half as
// large, since a server that bounds the bytes under way (indexing_pressure.memory.limit) refuses a large request for ever and takes a small one. The first
// answer that settles anything ends that: the others go on, and sizes double with each success until they are what they were.
//
// It outlives checkpoints: one that was given up, after Options.Patience, is begun again with a probe.
type breaker struct {
	told func(err error) // Options.Pressed; nil: nobody is told
	most int             // items of a request

	mu       sync.Mutex
	failures int // in a row
	limit    int // items of a request; 0: no limit

	turn chan struct{} // of capacity 1: holds who has the probe
}

func newBreaker(told func(error), most int) *breaker {
	return &breaker{told: told, most: most, turn: make(chan struct{}, 1)}
}

// broken returns how many requests in a row failed if the breaker is open, else 0.
func (b *breaker) broken() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < breakAfter {
		return 0
	}
	return b.failures
}

// failed notes a request of n items that failed as a whole.
func (b *breaker) failed(n int, why error) {
	b.mu.Lock()
	b.failures++
	opens := b.failures == breakAfter
	if b.failures >= breakAfter {
		if b.limit == 0 || n < b.limit {
			b.limit = n
		}
		b.limit = max(1, b.limit/2)
	}
	b.mu.Unlock()
	if opens && b.told != nil {
		b.told(transientf("the server took none of %d requests in a row; they are sent one at a time, and smaller, until one is taken: %w", breakAfter, why))
	}
}

// answered notes a request that settled something.
func (b *breaker) answered() {
	b.mu.Lock()
	closes := b.failures >= breakAfter
	b.failures = 0
	if b.limit > 0 {
		if b.limit *= 2; b.limit >= b.most {
			b.limit = 0
		}
	}
	b.mu.Unlock()
	if closes && b.told != nil {
		b.told(nil)
	}
}

// size is how many of n items the next request may have.
func (b *breaker) size(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit > 0 {
		return min(n, b.limit)
	}
	return n
}

var errNoTurn = errors.New("the request that is under way alone has no answer yet")

// enter waits until the delivery may send, of n items as many as it returns. leave is called when the request was answered, and after the pause that follows a
// failure.
func (d *delivery) enter(ctx context.Context, n int) (most int, leave func()) {
	b := d.p.c.breaker
	if b.broken() == 0 {
		return b.size(n), func() {}
	}
	began := time.Now()
	t := time.NewTimer(d.left)
	defer t.Stop()
	select {
	case b.turn <- struct{}{}:
		d.left -= time.Since(began)
		return b.size(n), func() { <-b.turn }
	case <-t.C:
		d.giveUp(errNoTurn)
	case <-ctx.Done():
		d.err = context.Cause(ctx)
	}
	return 0, nil
}

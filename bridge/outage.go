package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// outage reports whether a decoder failed over a system that it needs, a schema registry, and not over the message. That is no matter for
// the data policy: set aside or skipped, a good message would be lost to a server that was restarted.
func outage(err error) bool {
	if err == nil {
		return false // of nearly every message: what follows allocates
	}
	var out *changelog.UnavailableError
	return errors.As(err, &out)
}

// await tells of the outage over the message after which the decoder cannot go on, and waits until the nth try. It reports false when there is
// none: ctx ended, or the partition is read from elsewhere. The lane goes on meanwhile: it keeps its place in the group,
// and saves what came before.
func (d *decoder) await(ctx context.Context, c *chunk, err error, n int) bool {
	r := d.l.r
	r.totals.mu.Lock()
	s := &d.l.status
	s.Retries++
	s.LastError, s.LastErrorAt = err, time.Now()
	if s.FailingSince.IsZero() {
		s.FailingSince = s.LastErrorAt
	}
	r.totals.retries++
	r.totals.mu.Unlock()
	r.log.Warn("flinksink: a message cannot be decoded now, and is tried again", "bridge", r.name, "lane", d.l.n, "try", n, "error", err)
	until := time.Now().Add(r.pause(n))
	for left := time.Until(until); left > 0; left = time.Until(until) {
		select {
		case <-time.After(min(left, time.Second)): // to see that the partition was taken away
		case <-ctx.Done():
			return false
		}
		if c.stale() {
			return false
		}
	}
	return ctx.Err() == nil && !c.stale()
}

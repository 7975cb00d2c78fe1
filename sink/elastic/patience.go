package elastic

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/sink"
)

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// patience is what is left of Options.Patience for a server that cannot take something now (429, 503, a connection that fails). All that is sent again is
// sent again by it: the bulks of a lane, and the requests of Purge, and of a view and its repair, which no lane stands behind that would do them anew.
type patience struct {
	whole time.Duration // Options.Patience
	left  time.Duration
	first time.Duration // pause
	tries int           // pauses since something was last settled
}

func (s *Sink) patience(first time.Duration) patience {
	return patience{whole: s.o.Patience, left: s.o.Patience, first: first}
}

var errImpatient = errors.New("Options.Patience is over")

// pause waits before the next try, longer each time: half of it by chance, so that those whom a server refused at once do not come back at once. It is
// errImpatient, and does not wait, once Options.Patience is over.
func (p *patience) pause(ctx context.Context) error {
	pause := min(p.first<<min(p.tries, 10), lastPause)
	pause = pause/2 + rand.N(pause/2+1)
	p.tries++
	if p.left -= pause; p.left <= 0 {
		return errImpatient
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retry does something until its error is none that passes by itself. What do does has to be harmless when it is repeated after an answer that was lost.
func (p *patience) retry(ctx context.Context, do func() error) error {
	for {
		began := time.Now()
		err := do()
		if err == nil || ctx.Err() != nil || sink.ClassOf(err) != sink.ErrTransient {
			return err
		}
		p.left -= time.Since(began)
		if stop := p.pause(ctx); errors.Is(stop, errImpatient) {
			return transientf("tried again for %v (Options.Patience): %w", p.whole, unclassed(err))
		} else if stop != nil {
			return err
		}
	}
}

// retryBulk sends a bulk that is none of a lane's until each of its items has an answer that stays, and calls answered for each as it comes. Items that the
// server cannot take now go again, those only, and all of them where it took none or its answer was lost.
func (p *patience) retryBulk(ctx context.Context, s *Sink, what string, r esapi.BulkRequest, items [][]byte, answered func(i int, a *answer)) error {
	left := make([]int, len(items))
	for i := range left {
		left[i] = i
	}
	return p.retry(ctx, func() error {
		var body []byte
		for _, i := range left {
			body = append(body, items[i]...)
		}
		r.Body = bytes.NewReader(body)
		answers, err := s.sendBulk(ctx, what, r, len(left))
		if err != nil {
			return err
		}
		var again []int
		var why error
		for k := range answers {
			if a := &answers[k]; a.verdict() != later {
				answered(left[k], a)
			} else {
				again, why = append(again, left[k]), a.why()
			}
		}
		if len(again) < len(left) {
			p.tries = 0
		}
		if left = again; len(left) > 0 {
			return transientf("the server does not %s: %d of %d documents cannot be taken now: %w", what, len(left), len(items), why)
		}
		return nil
	})
}

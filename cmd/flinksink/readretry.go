package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// patient decodes as the decoder in it does, and waits for a system that a record takes, such as a schema registry: nothing is wrong with the
// record, so it is no bad one. It tells of the first outage at once, and gives up after the patience; from then on every record is its error.
type patient struct {
	changelog.Decoder
	ctx      context.Context
	patience time.Duration
	tell     func(text string) // one line, once for each outage
	over     error
}

// outage is why nothing can be decoded any more.
type outage struct{ err error }

func (o *outage) Error() string { return o.err.Error() }
func (o *outage) Unwrap() error { return o.err }

func (p *patient) Decode(b *changelog.Batch, r *changelog.Record) error {
	if p.over != nil {
		return p.over
	}
	told := false
	var until time.Time
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := p.Decoder.Decode(b, r)
		var away *changelog.UnavailableError
		if !errors.As(err, &away) {
			return err
		}
		if !told {
			p.tell(fmt.Sprintf("%v; trying again for %s", err, p.patience))
			told, until = true, time.Now().Add(p.patience)
		}
		if time.Now().After(until) {
			p.over = &outage{fmt.Errorf("read: gave up after %s: %w", p.patience, err)}
			return p.over
		}
		select {
		case <-time.After(wait):
		case <-p.ctx.Done():
			p.over = &outage{context.Cause(p.ctx)}
			return p.over
		}
	}
}

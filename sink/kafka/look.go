package kafka

import (
	"context"

	"github.com/flinksink/flinksink/sink"
)

// Check asks the server what the Open of a lane asks before it takes anything: whether the topics of the sink are there, and whether the transaction
// timeout is within the brokers' limit; and whether the table's columns can be written. It changes nothing and fences nobody, so it may be called beside
// a running bridge.
func (s *Sink) Check(ctx context.Context, l sink.Lane) error {
	if _, err := s.Lane(ctx, l); err != nil {
		return err
	}
	c := &committer{s: s, lane: l}
	if err := c.check(ctx); err != nil {
		return c.fail("check", sink.ErrTransient, err)
	}
	if s.o.DeadLetterTopic == "" {
		return nil
	}
	return c.writeLetters(ctx, nil)
}

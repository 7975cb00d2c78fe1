package sinktest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

var (
	_ sink.DeadLetterKeeper = (*committer)(nil)
	_ sink.Superseder       = (*committer)(nil)
)

// DeadLetters returns the dead letters that readers see, in the order in which they were committed. They are not to be changed.
func (s *Server) DeadLetters() []sink.DeadLetter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.letters)
}

// WriteDeadLetters copies letters: they are the caller's again after Prepare, while what is prepared waits on the server.
func (c *committer) WriteDeadLetters(ctx context.Context, letters []sink.DeadLetter) error {
	if err := c.begin(ctx, "write dead letters"); err != nil {
		c.broken = true
		return err
	}
	defer c.srv.mu.Unlock()
	var err error
	switch {
	case c.gen == 0:
		err = c.fail("write dead letters", sink.ErrConfig, fmt.Errorf("WriteDeadLetters before Open"))
	case c.prepared != nil:
		err = c.fail("write dead letters", sink.ErrConfig, fmt.Errorf("WriteDeadLetters between Prepare and Save"))
	case c.fenced(c.gen):
		err = c.fail("write dead letters", sink.ErrFenced, fmt.Errorf("generation %d was ended", c.gen))
	}
	if err != nil {
		c.broken = true
		return err
	}
	for _, l := range letters {
		l.Topic, l.Column, l.Class, l.Error = strings.Clone(l.Topic), strings.Clone(l.Column), strings.Clone(l.Class), strings.Clone(l.Error)
		l.Key, l.Value = bytes.Clone(l.Key), bytes.Clone(l.Value)
		l.Headers = slices.Clone(l.Headers)
		for i := range l.Headers {
			l.Headers[i] = changelog.Header{Key: strings.Clone(l.Headers[i].Key), Value: bytes.Clone(l.Headers[i].Value)}
		}
		c.pending = append(c.pending, change{letter: &l})
	}
	return nil
}

// Superseded is 0: every change is applied by itself.
func (c *committer) Superseded() int64 { return 0 }

// Spill implements [sink.Spiller]: Write has copied the rows.
func (c *committer) Spill() {}

// faultyKeeper is a faultyCommitter of one that keeps dead letters.
type faultyKeeper struct {
	faultyCommitter
	k sink.DeadLetterKeeper
}

func (w faultyKeeper) WriteDeadLetters(ctx context.Context, letters []sink.DeadLetter) error {
	return w.f.callInParts(ctx, "letters", w.name, func(ctx context.Context) error { return w.k.WriteDeadLetters(ctx, letters) },
		func(ctx context.Context) error { return w.k.WriteDeadLetters(ctx, letters[:len(letters)/2]) })
}

// faultyOwnKeeper is a faultyOwnStore of one that keeps dead letters.
type faultyOwnKeeper struct {
	faultyKeeper
	faultyStore
}

func (w faultyOwnKeeper) Close(ctx context.Context) error { return w.faultyCommitter.Close(ctx) }

// Superseded needs no fault: it reaches no server. A committer that does not tell has superseded nothing, which is what the coordinator takes it for.
func (w faultyCommitter) Superseded() int64 {
	if s, ok := w.c.(sink.Superseder); ok {
		return s.Superseded()
	}
	return 0
}

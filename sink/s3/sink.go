package s3

import (
	"context"
	"errors"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// Sink writes objects into a bucket. It is safe for use by several goroutines. Its committers are checked by sinktest.
type Sink struct {
	b      bucket
	prefix string
	o      Options

	// Limits of S3, which tests lower.
	minPart, maxParts   int
	copyLimit, copyPart int64
	maxInline           int

	stranded stranded
}

var (
	_ sink.Sink      = (*Sink)(nil)
	_ sink.Pacer     = (*Sink)(nil)
	_ sink.Committer = (*committer)(nil)
	_ sink.Spiller   = spiller{}

	_ sink.DeadLetterKeeper = (*committer)(nil)
)

// Guarantee states what the mode gives.
func (s *Sink) Guarantee() sink.Guarantee {
	g := sink.Guarantee{
		Level:   sink.ExactlyOnce,
		How:     "parts uploaded, the upload completed at commit",
		Visible: "at commit, file by file",
		Zombie:  "fenced by an object for each ended generation",
	}
	if s.o.Mode == Rename {
		g.How = "staged objects, copied at commit"
	}
	if s.o.Manifest {
		g.Visible = "at commit, file by file; all at once to readers of the manifest"
	}
	return g
}

// DefaultInterval is how long a checkpoint lasts in a bridge that writes nothing but files and has no interval of its own.
const DefaultInterval = 5 * time.Minute

// Interval implements [sink.Pacer]: a checkpoint ends every file, so that checkpoints of a second would be 86,400 files a day.
func (s *Sink) Interval() time.Duration { return DefaultInterval }

// String returns "s3://bucket/prefix", the sink's part of a bridge's fingerprint: another place is another bridge.
func (s *Sink) String() string {
	if s.prefix == "" {
		return "s3://" + s.b.name
	}
	return "s3://" + s.b.name + "/" + s.prefix
}

// Lane returns the committer of one lane. It checks the tables against the settings, and asks whether the bucket is there. A server that cannot be
// reached is ErrTransient.
func (s *Sink) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	fail := func(err error) error { return wrap(ctx, "start", l.Sink, l.Bridge, undone(err), err) }
	if l.Bridge == "" || l.Sink == "" {
		return nil, fail(errorf(sink.ErrConfig, "the bridge or the sink has no name"))
	}
	c := &committer{s: s, lane: l, names: newNames(s.prefix, l.Bridge, l.Sink), slots: make(chan struct{}, s.o.Uploads)}
	if c.lane.ByteBudget <= 0 {
		c.lane.ByteBudget = sink.DefaultByteBudget
	}
	var errs []error
	for _, t := range l.Tables {
		tg, err := s.newTarget(t)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.targets = append(c.targets, tg)
	}
	if len(errs) > 0 {
		return nil, fail(&sink.Error{Class: sink.ErrConfig, Err: errors.Join(errs...)})
	}
	if err := s.b.there(ctx); err != nil {
		return nil, fail(err)
	}
	if s.o.Kind == Upsert {
		return c, nil // rows are kept until their file is written
	}
	return spiller{c}, nil
}

// spiller is a committer that keeps no rows: Write has them in its files, or on the server.
type spiller struct{ *committer }

// Spill implements [sink.Spiller].
func (spiller) Spill() {}

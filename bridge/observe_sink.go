package bridge

import (
	"slices"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// SinkStatus is one sink of a lane at one moment.
type SinkStatus struct {
	Sink      string         // its declared name
	Prepared  SinkCheckpoint // the last that it prepared; whether it was decided is another matter
	Decided   SinkCheckpoint // the last decided one that it has a part in
	Committed SinkCheckpoint // the last decided one whose part is visible
	Pending   int            // decided checkpoints that wait for its Commit; at most one of this generation, and what ended ones left
	Since     time.Time      // since when the oldest of them waits, as far as this process knows; zero: none does
	Err       error          // why its last Commit failed, until one succeeds; nil: none did
	Given     int64          // changes that it was given and prepared, since Run began, those of checkpoints that were done again included
	Passed    int64          // those of them that it did not write by themselves: a later change made them void, or it has newer

	waits bool             // Prepared has a receipt
	claim []SinkCheckpoint // that the lane's generation found decided and not known to be committed; never changed in place
	done  []SinkCheckpoint // those of them that this process has committed by an Open; the same
}

// SinkCheckpoint names a checkpoint, and says when something happened to it. The zero one is none.
type SinkCheckpoint struct {
	Generation sink.GenerationID
	Checkpoint sink.CheckpointID
	At         time.Time
}

// Waiting is for how long the oldest decided checkpoint of the sink has waited to be committed, 0 if none does.
func (s SinkStatus) Waiting() time.Duration {
	if s.Since.IsZero() {
		return 0
	}
	return time.Since(s.Since)
}

// sinkOf returns the status of a sink, made if it is not there.
func (s *LaneStatus) sinkOf(name string) *SinkStatus {
	i := slices.IndexFunc(s.Sinks, func(x SinkStatus) bool { return x.Sink == name })
	if i < 0 {
		s.Sinks = append(s.Sinks, SinkStatus{Sink: name})
		i = len(s.Sinks) - 1
	}
	return &s.Sinks[i]
}

// claimed notes what ended generations have decided and left. The store learns with the next Save what was committed: until then it is in each claim, and what
// this process has committed does not wait for anything.
func (s *LaneStatus) claimed(c sink.Claim) {
	for i := range s.Sinks {
		s.Sinks[i].Pending, s.Sinks[i].claim = 0, nil
	}
	for _, e := range c.Ended {
		for _, d := range e.Decided {
			k, is := s.sinkOf(d.Sink), SinkCheckpoint{Generation: e.ID, Checkpoint: d.Checkpoint}
			if k.Committed.Generation == e.ID && k.Committed.Checkpoint >= d.Checkpoint || slices.Contains(k.done, is) {
				continue
			}
			k.claim = append(k.claim, is)
			k.Pending++
			if k.Since.IsZero() {
				k.Since = time.Now()
			}
		}
	}
	for i := range s.Sinks {
		if k := &s.Sinks[i]; k.Pending == 0 { // somebody else has settled it
			k.Since, k.Err = time.Time{}, nil
		}
	}
}

// stepped notes what a sink did.
func (s *LaneStatus) stepped(e sink.SinkStep) {
	k := s.sinkOf(e.Sink)
	at := SinkCheckpoint{e.Generation, e.Checkpoint, time.Now()}
	switch e.Kind {
	case sink.SinkOpened:
		if n := len(k.claim); n > 0 {
			k.Committed = k.claim[n-1]
			k.Committed.At = at.At
			if k.Decided == (SinkCheckpoint{}) { // by another process
				k.Decided = k.claim[n-1]
			}
			k.done, k.claim = append(slices.Clone(k.done), k.claim...), nil
		}
		k.Pending, k.Since, k.Err = 0, time.Time{}, nil
	case sink.SinkPrepared:
		k.Prepared, k.waits = at, e.Waits
		k.Given += e.Given
		k.Passed += e.Superseded
	case sink.SinkCommitted:
		k.Committed, k.Pending, k.Since, k.Err = at, 0, time.Time{}, nil
	case sink.SinkCommitFailed:
		k.Err = e.Err
	}
}

// decided notes that a checkpoint is decided. A sink that has nothing to commit for it is done with that.
func (s *LaneStatus) decidedFor(r sink.Report) {
	for i := range s.Sinks {
		k := &s.Sinks[i]
		if k.Prepared.Generation != r.Generation || k.Prepared.Checkpoint != r.Checkpoint {
			continue
		}
		k.Decided, k.done = SinkCheckpoint{r.Generation, r.Checkpoint, time.Now()}, nil // this Save has told the store
		if k.waits {
			k.Pending, k.Since = k.Pending+1, k.Decided.At
		} else {
			k.Committed = k.Decided
		}
	}
}

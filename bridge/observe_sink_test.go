package bridge

import (
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// One sink fails to open again and again, and no checkpoint is saved meanwhile: so each claim lists what another sink has committed long ago, in this process or in
// the one before. That waits for nothing.
func TestSinkStatus_ClaimedAgain(t *testing.T) {
	left := func(generations ...sink.GenerationID) sink.Claim {
		var c sink.Claim
		for _, g := range generations {
			c.Ended = append(c.Ended, sink.EndedGeneration{ID: g, Decided: []sink.Committable{{Sink: "copy", Generation: g, Checkpoint: 2}}})
		}
		return c
	}
	for _, c := range []struct {
		name  string
		began func(s *LaneStatus)
		first int // what is pending in the first claim
	}{
		{"committed by this process", func(s *LaneStatus) {
			s.stepped(sink.SinkStep{Kind: sink.SinkPrepared, Sink: "copy", Generation: 1, Checkpoint: 2, Waits: true})
			s.decidedFor(sink.Report{Generation: 1, Checkpoint: 2})
			s.stepped(sink.SinkStep{Kind: sink.SinkCommitted, Sink: "copy", Generation: 1, Checkpoint: 2})
		}, 0},
		{"decided by another", func(*LaneStatus) {}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s LaneStatus
			c.began(&s)
			for n := range 3 {
				s.claimed(left(1))
				k := s.sinkOf("copy")
				want := 0
				if n == 0 {
					want = c.first
				}
				if k.Pending != want || k.Since.IsZero() != (want == 0) {
					t.Fatalf("claim %d: %+v", n, k)
				}
				s.stepped(sink.SinkStep{Kind: sink.SinkOpened, Sink: "copy", Generation: sink.GenerationID(5 + n)})
				if k := s.sinkOf("copy"); k.Pending != 0 || k.Committed.Generation != 1 || k.Committed.Checkpoint != 2 || k.Decided.Checkpoint != 2 || k.Committed.At.Before(time.Now().Add(-time.Minute)) {
					t.Fatalf("after open %d: %+v", n, k)
				}
			}
			s.claimed(left(1, 4)) // one that another process has left meanwhile
			if k := s.sinkOf("copy"); k.Pending != 1 || k.Since.IsZero() {
				t.Fatalf("a newer one: %+v", k)
			}
			s.claimed(left(1, 4)) // the sink was not opened
			if k := s.sinkOf("copy"); k.Pending != 1 || k.Since.IsZero() {
				t.Fatalf("the newer one again: %+v", k)
			}
		})
	}
}

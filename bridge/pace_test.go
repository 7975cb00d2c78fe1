package bridge

import (
	"math"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// pacing is a sink that prefers large checkpoints.
type pacing struct {
	sink.Sink
	every time.Duration
}

func (p pacing) Interval() time.Duration { return p.every }

// Sinks that prefer large checkpoints have them where they are alone. Beside another sink, and where the options say so, they do not.
func TestOptions_Pace(t *testing.T) {
	plain := newTarget()
	slow, slower := pacing{plain, time.Minute}, pacing{plain, time.Hour}
	half := sink.DefaultByteBudget / 2
	for _, c := range []struct {
		name           string
		o              *Options
		sinks          []sink.Sink
		interval       time.Duration
		changes, bytes int
	}{
		{"one", nil, []sink.Sink{slow}, time.Minute, math.MaxInt, math.MaxInt},
		{"the shortest of two", nil, []sink.Sink{slower, slow}, time.Minute, math.MaxInt, math.MaxInt},
		{"beside another", nil, []sink.Sink{slow, plain}, DefaultInterval, DefaultChanges, half},
		{"another beside it", nil, []sink.Sink{plain, slow}, DefaultInterval, DefaultChanges, half},
		{"none", nil, nil, DefaultInterval, DefaultChanges, half},
		{"not there", nil, []sink.Sink{nil}, DefaultInterval, DefaultChanges, half},
		{"by its options", &Options{Interval: 5 * time.Second, Changes: 7, Bytes: 9}, []sink.Sink{slow}, 5 * time.Second, 7, 9},
	} {
		var outs []Output
		for _, s := range c.sinks {
			outs = append(outs, Output{Sink: s})
		}
		d := c.o.withDefaults("b", nil, outs)
		if d.Interval != c.interval || d.Changes != c.changes || d.Bytes != c.bytes {
			t.Errorf("%s: interval %s, changes %d, bytes %d", c.name, d.Interval, d.Changes, d.Bytes)
		}
	}
}

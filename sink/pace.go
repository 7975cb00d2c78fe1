package sink

import "time"

// Pacer is a [Sink] that is at its best with few, large checkpoints: one that makes files, whose size follows from how long a checkpoint lasts.
//
// A bridge all of whose sinks are Pacers makes its checkpoints at the shortest of their intervals where its options do not say otherwise, and not earlier
// because of what a checkpoint holds. The memory of a lane stays bounded as ever: a committer that keeps batches, and is no [Spiller], is given a
// checkpoint when half the lane's byte budget is full.
type Pacer interface {
	// Interval returns how long a checkpoint lasts by default. It is longer than 0.
	Interval() time.Duration
}

// PaceOf returns the shortest interval of sinks, 0 if there are none or one of them is no [Pacer].
func PaceOf(sinks ...Sink) (interval time.Duration) {
	for _, s := range sinks {
		p, ok := s.(Pacer)
		if !ok {
			return 0
		}
		if d := p.Interval(); interval == 0 || d < interval {
			interval = d
		}
	}
	return interval
}

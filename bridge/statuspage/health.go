package statuspage

import (
	"fmt"
	"time"

	"github.com/flinksink/flinksink/bridge"
)

// Stall is how long a partition may stand, or the brokers be silent, before a running bridge counts as not moving. It is longer for a
// bridge whose Interval or Watch is long.
const Stall = 5 * time.Minute

// trouble says in one sentence why a bridge is not healthy, "" when it is.
//
// A failure that is tried again is no trouble yet: a database that restarts would ring somebody out of bed each time. It becomes one when
// nothing is saved for Stall, or when a checkpoint that is decided does not get visible, since then readers of the sink already wait.
func trouble(now time.Time, s bridge.Status) string {
	switch {
	case s.Started.IsZero() && !s.Running:
		return "the bridge was not started yet"
	case !s.Running && s.Err != nil:
		return "the bridge halted: " + line(s.Err.Error())
	case !s.Running:
		return "the bridge has stopped, without an error"
	}
	for _, l := range s.Lanes {
		if l.Uncommitted != nil {
			return fmt.Sprintf("lane %d cannot commit a checkpoint that is decided: %s", l.Lane, line(l.Uncommitted.Error()))
		}
	}
	stall := max(Stall, 10*s.Interval, 10*s.Watch)
	first := -1
	for i, p := range s.Partitions {
		if !p.StandsSince.IsZero() && (first < 0 || p.StandsSince.Before(s.Partitions[first].StandsSince)) {
			first = i
		}
	}
	if first >= 0 {
		if p := s.Partitions[first]; now.Sub(p.StandsSince) >= stall {
			return fmt.Sprintf("nothing of %s was saved for %s, although there is more to read%s", p.Partition, duration(now.Sub(p.StandsSince)), because(s, p))
		}
	}
	asked := s.Asked
	if asked.Before(s.Started) {
		asked = s.Started
	}
	if silent := now.Sub(asked); silent >= stall {
		return fmt.Sprintf("the brokers have not answered for %s", duration(silent))
	}
	return ""
}

// because gives what is known of why a partition stands.
func because(s bridge.Status, p bridge.PartitionStatus) string {
	if p.Trouble != "" {
		return ": " + line(p.Trouble)
	}
	for _, l := range s.Lanes {
		if l.Lane == p.Lane && !l.FailingSince.IsZero() && l.LastError != nil {
			return ": " + line(l.LastError.Error())
		}
	}
	return ""
}

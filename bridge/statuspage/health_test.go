package statuspage

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

func TestTrouble(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	running := func(f func(s *bridge.Status)) bridge.Status {
		s := bridge.Status{Bridge: "b", Running: true, Started: before(24 * time.Hour), Asked: before(time.Second), Interval: time.Second,
			Watch: 5 * time.Second, Lanes: []bridge.LaneStatus{{Lane: 0}, {Lane: 1}},
			Partitions: []bridge.PartitionStatus{
				{Partition: changelog.Partition{Topic: "t"}, Saved: 5, LastStableOffset: 9, HighWatermark: 9},
				{Partition: changelog.Partition{Topic: "t", Partition: 1}, Lane: 1, Saved: 5, LastStableOffset: 9, HighWatermark: 9}}}
		if f != nil {
			f(&s)
		}
		return s
	}
	away := &sink.Error{Op: "save", Class: sink.ErrTransient, Err: errors.New("the server is away")}
	for _, c := range []struct {
		name string
		s    bridge.Status
		want string // a part of the sentence; "": healthy
	}{
		{"new", bridge.Status{}, "not started"},
		{"stopped", bridge.Status{Started: before(time.Hour), Ended: before(time.Minute)}, "stopped, without an error"},
		{"halted", bridge.Status{Started: before(time.Hour), Ended: before(time.Minute), Err: errors.Join(away, errors.New("and more"))}, "halted: flinksink: save: transient: the server is away; and more"},
		{"just started", running(func(s *bridge.Status) { s.Started, s.Asked, s.Partitions = now, time.Time{}, nil }), ""},
		{"moving", running(nil), ""},
		{"a standby without partitions", running(func(s *bridge.Status) { s.Partitions = nil }), ""},
		{"tries again for a minute", running(func(s *bridge.Status) {
			s.Lanes[0].FailingSince, s.Lanes[0].LastError, s.Partitions[0].StandsSince = before(time.Minute), away, before(time.Minute)
		}), ""},
		{"tries again for long", running(func(s *bridge.Status) {
			s.Lanes[1].FailingSince, s.Lanes[1].LastError = before(time.Hour), away
			s.Partitions[0].StandsSince, s.Partitions[1].StandsSince = before(6*time.Minute), before(7*time.Minute)
		}), "nothing of t/1 was saved for 7 min, although there is more to read: flinksink: save: transient: the server is away"},
		{"fetches fail for long", running(func(s *bridge.Status) {
			s.Partitions[0].StandsSince, s.Partitions[0].Trouble = before(time.Hour), "not\nauthorized"
		}), "for 1 h, although there is more to read: not; authorized"},
		{"slow by its settings", running(func(s *bridge.Status) { s.Interval, s.Partitions[0].StandsSince = time.Minute, before(9*time.Minute) }), ""},
		{"slow by its settings, and stands", running(func(s *bridge.Status) { s.Interval, s.Partitions[0].StandsSince = time.Minute, before(11*time.Minute) }), "nothing of t/0"},
		{"cannot commit", running(func(s *bridge.Status) { s.Lanes[1].Uncommitted = away }), "lane 1 cannot commit a checkpoint that is decided: flinksink: save: transient"},
		{"silent brokers", running(func(s *bridge.Status) { s.Asked = before(time.Hour) }), "brokers have not answered for 1 h"},
		{"brokers that never answered", running(func(s *bridge.Status) { s.Asked, s.Started = time.Time{}, before(10*time.Minute) }), "brokers have not answered for 10 min"},
		{"brokers asked in an earlier run", running(func(s *bridge.Status) { s.Asked, s.Started = before(time.Hour), before(time.Minute) }), ""},
		{"brokers that are asked rarely", running(func(s *bridge.Status) { s.Asked, s.Watch = before(time.Hour), time.Hour }), ""},
	} {
		got := trouble(now, c.s)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if strings.ContainsAny(got, "\r\n") {
			t.Errorf("%s: %q is more than one line", c.name, got)
		}
	}
}

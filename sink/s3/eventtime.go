package s3

import (
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// EventTime is the greatest event time of a source partition's rows in one checkpoint.
type EventTime struct {
	Table     string    `json:"table"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Max       time.Time `json:"max"` // UTC; a TIMESTAMP without zone is read as if it were
}

// saw is what a checkpoint has seen of one partition for one table.
type saw struct {
	target *target
	part   changelog.Partition
	max    time.Time
}

// observe notes the event times of changes that are about to be written. Changes of a partition come in runs, so the last entry is mostly the right one.
func (c *committer) observe(tg *target, changes []changelog.Change) {
	last := -1
	for i := range changes {
		ch := &changes[i]
		t, ok := timeOf(ch.Row[tg.eventTime])
		if !ok {
			continue
		}
		if last < 0 || c.saw[last].part != ch.Partition || c.saw[last].target != tg {
			last = c.sawAt(tg, ch.Partition)
		}
		if s := &c.saw[last]; t.After(s.max) {
			s.max = t
		}
	}
}

// sawAt finds the entry of a partition: a lane has a few dozen.
func (c *committer) sawAt(tg *target, p changelog.Partition) int {
	for i := range c.saw {
		if c.saw[i].target == tg && c.saw[i].part == p {
			return i
		}
	}
	c.saw = append(c.saw, saw{target: tg, part: p})
	return len(c.saw) - 1
}

// timeOf reads a DATE or a timestamp. NULL has none, and neither has what JSON cannot hold, which no clock shows.
func timeOf(v changelog.Value) (t time.Time, ok bool) {
	switch v.Kind() {
	case changelog.KindDate:
		t = time.Unix(v.Date()*86400, 0).UTC()
	case changelog.KindTimestamp, changelog.KindTimestampLTZ:
		sec, nsec := v.Timestamp()
		t = time.Unix(sec, int64(nsec)).UTC()
	default:
		return t, false
	}
	return t, t.Year() >= 1 && t.Year() <= 9999
}

// eventTimes is what goes into the receipt.
func (c *committer) eventTimes() (out []EventTime) {
	for _, s := range c.saw {
		out = append(out, EventTime{s.target.table.Name, s.part.Topic, s.part.Partition, s.max})
	}
	return out
}

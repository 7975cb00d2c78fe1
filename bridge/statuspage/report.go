package statuspage

import (
	"errors"
	"strings"
	"time"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/sink"
)

// Report is what /status.json holds. Its field names are stable: fields are added, and none is renamed or given another meaning. A
// null means "not known yet" or "there is none".
type Report struct {
	At      time.Time `json:"at"`
	Healthy bool      `json:"healthy"` // what /healthz answers
	Bridges []Bridge  `json:"bridges"`
}

// The values of Bridge.State.
const (
	StateNew     = "new"     // Run was not called yet
	StateRunning = "running" // it may fail meanwhile and try again: see Bridge.Reason and Lane.FailingSince
	StateHalted  = "halted"  // Run returned an error
	StateStopped = "stopped" // Run returned nil: it was asked to stop, or all was read that it was to read
)

// Bridge is one bridge in a [Report]. What it tells of partitions is of this process: other members of the consumer group show theirs.
type Bridge struct {
	Name    string `json:"name"`
	Group   string `json:"group"` // the consumer group
	State   string `json:"state"`
	Healthy bool   `json:"healthy"`
	Reason  string `json:"reason"` // why it is not healthy, one sentence; "" when it is
	Error   *Error `json:"error"`  // what it halted with

	Guarantee       Guarantee  `json:"guarantee"`
	Started         *time.Time `json:"started"`
	Ended           *time.Time `json:"ended"`
	IntervalSeconds float64    `json:"interval_seconds"` // the longest time between two checkpoints while there is something to save
	Generation      *int32     `json:"group_generation"` // of the consumer group
	BrokersAnswered *time.Time `json:"brokers_answered"` // when they last told where partitions end

	Lanes      []Lane            `json:"lanes"`
	Partitions []Partition       `json:"partitions"`
	Open       []OpenTransaction `json:"open_transactions"`   // that were seen to stand for Options.OpenFor
	Lag        *int64            `json:"lag"`                 // of all partitions together
	Waiting    int64             `json:"waiting"`             // of all partitions together
	Buffered   int               `json:"buffered_bytes"`      // fetched and not yet written
	Pace       *Pace             `json:"pace"`                // null: not measured yet
	TimeLeft   *float64          `json:"time_left_seconds"`   // an estimate until all that can be read is saved; null: not known, or producers are as fast
	UntilEnd   []PartitionName   `json:"until_end_waits_for"` // with Options.UntilEnd: partitions not yet saved to their end

	Last        *Checkpoint `json:"last_checkpoint"`
	Checkpoints int64       `json:"checkpoints"` // decided since started
	Counters    Counters    `json:"counters"`    // of all of them
	Retries     int64       `json:"retries"`     // tries again after failures, since started
}

// Error is a failure. Text holds no row value and no secret as far as sink and decoder keep their contracts.
type Error struct {
	Class string     `json:"class"` // of package sink: transient, uncertain, fenced, rejected, configuration, lost
	Text  string     `json:"text"`
	At    *time.Time `json:"at"`
}

// Guarantee is [sink.Guarantee].
type Guarantee struct {
	Level    string `json:"level"`
	Sentence string `json:"sentence"`
	How      string `json:"how"`
	Visible  string `json:"visible"`
	Zombie   string `json:"zombie"`
	Weakest  string `json:"weakest"`
	Cure     string `json:"cure"`
}

// Lane is [bridge.LaneStatus].
type Lane struct {
	Lane         int        `json:"lane"`
	Generation   *int64     `json:"generation"`
	Checkpoint   *int64     `json:"checkpoint"` // the last that was decided in this generation
	Decided      *time.Time `json:"decided"`
	Partitions   int        `json:"partitions"` // how many it holds
	Buffered     int        `json:"buffered_bytes"`
	Retries      int64      `json:"retries"`
	Fenced       int64      `json:"fenced"`        // generations that another one ended, since started
	FailingSince *time.Time `json:"failing_since"` // null: it works
	LastError    *Error     `json:"last_error"`    // stays when the lane has recovered
	Uncommitted  *Error     `json:"uncommitted"`   // why a decided checkpoint cannot be committed
	Sinks        []Sink     `json:"sinks"`         // in the order in which they are prepared and committed
}

// Sink is [bridge.SinkStatus].
type Sink struct {
	Sink         string          `json:"sink"`
	Prepared     *SinkCheckpoint `json:"prepared"`
	Decided      *SinkCheckpoint `json:"decided"`
	Committed    *SinkCheckpoint `json:"committed"`
	Pending      int             `json:"pending"`       // decided checkpoints that wait for its commit
	PendingSince *time.Time      `json:"pending_since"` // null: none waits
	Error        *Error          `json:"error"`         // why its last commit failed, until one succeeds
	Failing      *Error          `json:"failing"`       // while the lane fails: its last failure, where it was this sink's; null: it was not
	Given        int64           `json:"given"`         // changes, since started
	Passed       int64           `json:"passed_over"`   // those of them that it did not write by themselves
}

// SinkCheckpoint is [bridge.SinkCheckpoint].
type SinkCheckpoint struct {
	Generation int64      `json:"generation"`
	Checkpoint int64      `json:"checkpoint"`
	At         *time.Time `json:"at"`
}

// PartitionName names a partition.
type PartitionName struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// Partition is [bridge.PartitionStatus]. Offsets name what is to be read next.
type Partition struct {
	PartitionName
	Lane             int        `json:"lane"`
	Read             *int64     `json:"read"`  // written, saved or not
	Saved            *int64     `json:"saved"` // the last decided checkpoint
	LastStableOffset *int64     `json:"last_stable_offset"`
	HighWatermark    *int64     `json:"high_watermark"`
	Lag              *int64     `json:"lag"`     // high_watermark - saved
	Waiting          int64      `json:"waiting"` // offsets at the end that lie behind an open transaction
	Paused           bool       `json:"paused"`
	StandsSince      *time.Time `json:"stands_since"` // since when saved does not move although there is more to read
	Trouble          string     `json:"trouble"`      // an error of its fetches that passes; "" for none
}

// OpenTransaction is [bridge.OpenTransaction].
type OpenTransaction struct {
	PartitionName
	LastStableOffset int64   `json:"last_stable_offset"`
	HighWatermark    int64   `json:"high_watermark"`
	ForSeconds       float64 `json:"for_seconds"`
	TransactionalID  string  `json:"transactional_id"` // "" where the brokers do not tell
	ProducerID       *int64  `json:"producer_id"`
	Cure             string  `json:"cure"` // what ends it
}

// Pace is [bridge.Pace].
type Pace struct {
	OverSeconds float64 `json:"over_seconds"`
	Saved       float64 `json:"saved_per_second"`
	Arrived     float64 `json:"arrived_per_second"`
}

// Checkpoint is the last one that was decided, of whichever lane.
type Checkpoint struct {
	At             time.Time `json:"at"`
	Generation     int64     `json:"generation"`
	Checkpoint     int64     `json:"checkpoint"`
	PrepareSeconds float64   `json:"prepare_seconds"`
	SaveSeconds    float64   `json:"save_seconds"`
	Counters       Counters  `json:"counters"`
}

// Counters is [sink.Counters]: read = applied + superseded + dead_lettered + skipped.
type Counters struct {
	Records      int64 `json:"records"` // messages, those without a change included
	Read         int64 `json:"read"`    // changes
	Applied      int64 `json:"applied"`
	Superseded   int64 `json:"superseded"`
	DeadLettered int64 `json:"dead_lettered"`
	Skipped      int64 `json:"skipped"`
	Balanced     bool  `json:"balanced"` // whether the equation holds
}

// sinkCheckpoint is nil for none.
func sinkCheckpoint(c bridge.SinkCheckpoint) *SinkCheckpoint {
	if c == (bridge.SinkCheckpoint{}) {
		return nil
	}
	return &SinkCheckpoint{int64(c.Generation), int64(c.Checkpoint), moment(c.At)}
}

// reportOf describes bridges at a moment.
func reportOf(now time.Time, bridges []*bridge.Bridge) Report {
	r := Report{At: now, Healthy: true, Bridges: []Bridge{}}
	for _, b := range bridges {
		one := describe(now, b.Status(), b.Guarantee())
		r.Healthy = r.Healthy && one.Healthy
		r.Bridges = append(r.Bridges, one)
	}
	return r
}

func describe(now time.Time, s bridge.Status, g sink.Guarantee) Bridge {
	b := Bridge{
		Name: s.Bridge, Group: s.Group, State: state(s), Reason: trouble(now, s), Error: failure(s.Err, s.Ended),
		Guarantee: Guarantee{Level: g.Level.String(), Sentence: g.String(), How: g.How, Visible: g.Visible, Zombie: g.Zombie, Weakest: g.Weakest, Cure: g.Cure},
		Started:   moment(s.Started), Ended: moment(s.Ended), IntervalSeconds: s.Interval.Seconds(),
		Generation: known(s.Generation), BrokersAnswered: moment(s.Asked),
		Lanes: []Lane{}, Partitions: []Partition{}, Open: []OpenTransaction{}, UntilEnd: []PartitionName{},
		Buffered: s.Buffered, Checkpoints: s.Checkpoints, Counters: counters(s.Counters), Retries: s.Retries,
	}
	b.Healthy = b.Reason == ""
	if len(s.Partitions) > 0 {
		b.Lag = known(s.Lag())
	}
	for _, l := range s.Lanes {
		lane := Lane{Lane: l.Lane, Generation: positive(int64(l.Generation)), Checkpoint: positive(int64(l.Checkpoint)), Decided: moment(l.Decided),
			Buffered: l.Buffered, Retries: l.Retries, Fenced: l.Fenced, FailingSince: moment(l.FailingSince),
			LastError: failure(l.LastError, l.LastErrorAt), Uncommitted: failure(l.Uncommitted, time.Time{})}
		for _, p := range s.Partitions {
			if p.Lane == l.Lane {
				lane.Partitions++
			}
		}
		lane.Sinks = []Sink{}
		for _, k := range l.Sinks {
			one := Sink{Sink: k.Sink, Prepared: sinkCheckpoint(k.Prepared), Decided: sinkCheckpoint(k.Decided), Committed: sinkCheckpoint(k.Committed),
				Pending: k.Pending, PendingSince: moment(k.Since), Error: failure(k.Err, time.Time{}), Given: k.Given, Passed: k.Passed}
			if !l.FailingSince.IsZero() && sinkOf(l.LastError) == k.Sink {
				one.Failing = lane.LastError
			}
			lane.Sinks = append(lane.Sinks, one)
		}
		b.Lanes = append(b.Lanes, lane)
	}
	for _, p := range s.Partitions {
		b.Waiting += p.Waiting()
		b.Partitions = append(b.Partitions, Partition{PartitionName: PartitionName{p.Topic, p.Partition.Partition}, Lane: p.Lane,
			Read: known(p.Read), Saved: known(p.Saved), LastStableOffset: known(p.LastStableOffset), HighWatermark: known(p.HighWatermark),
			Lag: known(p.Lag()), Waiting: p.Waiting(), Paused: p.Paused, StandsSince: moment(p.StandsSince), Trouble: line(p.Trouble)})
	}
	for _, t := range s.Open {
		b.Open = append(b.Open, OpenTransaction{PartitionName: PartitionName{t.Partition.Topic, t.Partition.Partition},
			LastStableOffset: t.LastStableOffset, HighWatermark: t.HighWatermark, ForSeconds: t.For.Seconds(),
			TransactionalID: t.TransactionalID, ProducerID: known(t.ProducerID), Cure: t.Cure()})
	}
	for _, p := range s.Left {
		b.UntilEnd = append(b.UntilEnd, PartitionName{p.Topic, p.Partition})
	}
	if s.Pace.Over > 0 && s.Running {
		b.Pace = &Pace{OverSeconds: s.Pace.Over.Seconds(), Saved: s.Pace.Saved, Arrived: s.Pace.Arrived}
	}
	if left, ok := s.TimeLeft(); ok && s.Running {
		seconds := left.Seconds()
		b.TimeLeft = &seconds
	}
	if !s.LastCheckpoint.IsZero() {
		b.Last = &Checkpoint{At: s.LastCheckpoint, Generation: int64(s.Last.Generation), Checkpoint: int64(s.Last.Checkpoint),
			PrepareSeconds: s.Last.Prepare.Seconds(), SaveSeconds: s.Last.Save.Seconds(), Counters: counters(s.Last.Counters)}
	}
	return b
}

func state(s bridge.Status) string {
	switch {
	case s.Running:
		return StateRunning
	case s.Err != nil:
		return StateHalted
	case s.Started.IsZero():
		return StateNew
	}
	return StateStopped
}

func counters(c sink.Counters) Counters {
	return Counters{c.Records, c.Read, c.Applied, c.Superseded, c.DeadLettered, c.Skipped, c.Balanced()}
}

// sinkOf is the declared name of the sink that an error is of, "" for none.
func sinkOf(err error) string {
	var e *sink.Error
	if errors.As(err, &e) {
		return e.Sink
	}
	return ""
}

// failure returns nil for nil.
func failure(err error, at time.Time) *Error {
	if err == nil {
		return nil
	}
	return &Error{Class: sink.ClassOf(err).Error(), Text: line(err.Error()), At: moment(at)}
}

// line makes one line of a text that may hold several, such as that of errors.Join.
func line(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// moment returns nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Round(0)
	return &t
}

// known returns nil for the -1 by which Status says that it does not know.
func known[T int32 | int64](n T) *T {
	if n < 0 {
		return nil
	}
	return &n
}

func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

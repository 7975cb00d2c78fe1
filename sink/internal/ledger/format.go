package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Version is that of the format. A change that an older release would misread raises it; every older version stays readable, and
// testdata has a file of each.
const Version = 1

// Content is what is stored: any number of bridges.
type Content struct {
	Format  int                `json:"format"`
	Bridges map[string]*bridge `json:"bridges"`
}

type bridge struct {
	Fingerprint string                                  `json:"fingerprint"`
	Next        sink.GenerationID                       `json:"next"` // numbers rise and are never used twice
	Incarnation uint16                                  `json:"incarnation"`
	Generations map[sink.GenerationID]*generation       `json:"generations"`       // that are not settled
	Settled     map[sink.GenerationID]sink.CheckpointID `json:"settled,omitempty"` // what End tells of the others
	Partitions  []*partition                            `json:"partitions"`        // sorted
}

type generation struct {
	Owner      string      `json:"owner"`
	Partitions []place     `json:"partitions"`
	Acquired   time.Time   `json:"acquired"`
	Ended      bool        `json:"ended"`
	Last       *checkpoint `json:"last,omitempty"` // that was saved; its committables wait until a later one leaves them out
}

type partition struct {
	place
	Owner sink.GenerationID `json:"owner"` // 0: nobody
	Group int32             `json:"group"` // newest consumer group generation that acquired it; -1: none did
	Saved *saved            `json:"saved,omitempty"`
}

type saved struct {
	position
	Generation sink.GenerationID `json:"generation"`
	Checkpoint sink.CheckpointID `json:"checkpoint"`
	At         time.Time         `json:"at"`
	Counters   counters          `json:"counters"`
}

type place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type position struct {
	place
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leader_epoch"`
	TopicID     string `json:"topic_id,omitempty"`
}

type checkpoint struct {
	ID           sink.CheckpointID   `json:"id"`
	From         []position          `json:"from"`
	To           []position          `json:"to"`
	Counters     counters            `json:"counters"`
	Committables []committable       `json:"committables,omitempty"`
	Settled      []sink.GenerationID `json:"settled,omitempty"`
}

type committable struct {
	Sink       string            `json:"sink"`
	Generation sink.GenerationID `json:"generation"`
	Checkpoint sink.CheckpointID `json:"checkpoint"`
	Version    int               `json:"version"`
	Data       []byte            `json:"data"`
	From       []position        `json:"from,omitempty"`
	To         []position        `json:"to,omitempty"`
}

type counters struct {
	Records      int64 `json:"records"`
	Read         int64 `json:"read"`
	Applied      int64 `json:"applied"`
	Superseded   int64 `json:"superseded"`
	DeadLettered int64 `json:"dead_lettered"`
	Skipped      int64 `json:"skipped"`
}

// New returns the content of a store that nobody has used.
func New() *Content { return &Content{Format: Version, Bridges: map[string]*bridge{}} }

// Parse reads stored bytes. What is damaged is ErrLost, and what is of another release ErrConfig, never a fresh start. Fields that it does not know are refused: a release that added them without raising the version would lose
// them with the next replacement.
func Parse(b []byte) (*Content, error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("what is stored is no checkpoint state, or is damaged (%w): put it back as it was", err)}
	}
	if head.Format != Version {
		return nil, &sink.Error{Class: sink.ErrConfig, Err: fmt.Errorf("what is stored is in version %d of the format, and this release reads version %d: use the release that wrote it, or a newer one", head.Format, Version)}
	}
	c := &Content{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("what is stored is damaged (%w): put it back as it was", err)}
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("what is stored has something behind its end: put it back as it was")}
	}
	for name, b := range c.Bridges {
		if err := b.sound(); err != nil {
			return nil, &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("what is stored of bridge %q contradicts itself (%w): put it back as it was", name, err)}
		}
	}
	if c.Bridges == nil {
		c.Bridges = map[string]*bridge{}
	}
	return c, nil
}

// sound checks what the code relies on.
func (b *bridge) sound() error {
	if b == nil {
		return fmt.Errorf("nothing is said")
	}
	if b.Next < 1 {
		return fmt.Errorf("the next generation is %d", b.Next)
	}
	for id, g := range b.Generations {
		if g == nil || id < 1 || id >= b.Next {
			return fmt.Errorf("generation %d", id)
		}
		if g.Last != nil {
			if _, err := g.Last.out(); err != nil {
				return err
			}
		}
	}
	for i, p := range b.Partitions {
		if p == nil || i > 0 && b.Partitions[i-1].out().Compare(p.out()) >= 0 {
			return fmt.Errorf("partition number %d", i)
		}
		if p.Owner != 0 && b.Generations[p.Owner] == nil {
			return fmt.Errorf("the owner of %s", p.out())
		}
		if p.Saved != nil {
			if _, err := p.Saved.position.out(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Bytes returns what Parse reads.
func (c *Content) Bytes() ([]byte, error) {
	b, err := json.MarshalIndent(c, "", " ")
	return append(b, '\n'), err
}

func placeOf(p changelog.Partition) place { return place{p.Topic, p.Partition} }
func (p place) out() changelog.Partition {
	return changelog.Partition{Topic: p.Topic, Partition: p.Partition}
}
func placesOf(ps []changelog.Partition) []place { return each(ps, placeOf) }

func positionOf(p changelog.Position) position {
	out := position{place: placeOf(p.Partition), Offset: p.Offset, LeaderEpoch: p.LeaderEpoch}
	if p.TopicID != (changelog.TopicID{}) {
		out.TopicID = p.TopicID.String()
	}
	return out
}

func (p position) out() (changelog.Position, error) {
	out := changelog.Position{Partition: p.place.out(), Offset: p.Offset, LeaderEpoch: p.LeaderEpoch}
	if p.TopicID == "" {
		return out, nil
	}
	var err error
	out.TopicID, err = changelog.ParseTopicID(p.TopicID)
	return out, err
}

func positionsOut(ps []position) ([]changelog.Position, error) {
	var out []changelog.Position
	for _, p := range ps {
		q, err := p.out()
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

func each[A, B any](as []A, f func(A) B) []B {
	var bs []B
	for _, a := range as {
		bs = append(bs, f(a))
	}
	return bs
}

func checkpointOf(cp sink.Checkpoint) *checkpoint {
	out := &checkpoint{ID: cp.ID, From: each(cp.From, positionOf), To: each(cp.To, positionOf), Counters: counters(cp.Counters), Settled: cp.Settled}
	for _, c := range cp.Committables {
		if !c.Empty() {
			out.Committables = append(out.Committables, committable{c.Sink, c.Generation, c.Checkpoint, c.Version, c.Data, each(c.From, positionOf), each(c.To, positionOf)})
		}
	}
	return out
}

// out returns the committables.
func (cp *checkpoint) out() ([]sink.Committable, error) {
	var out []sink.Committable
	for _, c := range cp.Committables {
		from, err := positionsOut(c.From)
		if err != nil {
			return nil, err
		}
		to, err := positionsOut(c.To)
		if err != nil {
			return nil, err
		}
		out = append(out, sink.Committable{Sink: c.Sink, Generation: c.Generation, Checkpoint: c.Checkpoint, Version: c.Version, Data: c.Data, From: from, To: to})
	}
	return out, nil
}

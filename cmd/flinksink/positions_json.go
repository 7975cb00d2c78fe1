package main

import (
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// What positions show --json prints. Names are part of what the program promises; fields may be added.
type (
	jsonBridge struct {
		Bridge      string          `json:"bridge"`
		Fingerprint string          `json:"fingerprint"`
		Format      int             `json:"format"`
		Incarnation uint16          `json:"incarnation"`
		Partitions  []jsonPartition `json:"partitions"`
		Pending     []jsonPending   `json:"pending"`
		Moves       []jsonMove      `json:"moves"` // the last ones, newest first
	}
	jsonPartition struct {
		Topic      string        `json:"topic"`
		Partition  int32         `json:"partition"`
		Offset     *int64        `json:"offset"` // null: nothing is saved
		Epoch      int32         `json:"leaderEpoch"`
		TopicID    string        `json:"topicId,omitempty"`
		Generation int64         `json:"generation"` // of the checkpoint that saved it; 0: it was moved by hand, or never saved
		Checkpoint int64         `json:"checkpoint"`
		Saved      *time.Time    `json:"saved"`
		Owner      *jsonOwner    `json:"owner"` // null: nobody
		Counters   *jsonCounters `json:"counters"`
	}
	jsonOwner struct {
		Generation int64     `json:"generation"`
		Process    string    `json:"process"`
		Acquired   time.Time `json:"acquired"`
	}
	jsonCounters struct {
		Records      int64 `json:"records"`
		Read         int64 `json:"read"`
		Applied      int64 `json:"applied"`
		Superseded   int64 `json:"superseded"`
		Skipped      int64 `json:"skipped"`
		DeadLettered int64 `json:"deadLettered"`
	}
	jsonPending struct {
		Sink       string         `json:"sink"`
		Generation int64          `json:"generation"`
		Checkpoint int64          `json:"checkpoint"`
		From       []jsonPosition `json:"from"`
		To         []jsonPosition `json:"to"`
	}
	jsonPosition struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Offset    int64  `json:"offset"`
	}
	jsonMove struct {
		At        time.Time `json:"at"`
		Who       string    `json:"who"`
		Role      string    `json:"role"`
		What      string    `json:"what"`
		Topic     string    `json:"topic"`
		Partition int32     `json:"partition"`
		Before    *int64    `json:"before"`
		After     *int64    `json:"after"`
		Reason    string    `json:"reason"`
	}
)

// jsonBridges converts what is stored. Lists are never null.
func jsonBridges(all []stored) []jsonBridge {
	out := []jsonBridge{}
	for _, s := range all {
		b := jsonBridge{Bridge: s.Bridge, Fingerprint: s.Fingerprint, Format: s.Format, Incarnation: s.Incarnation,
			Partitions: []jsonPartition{}, Pending: []jsonPending{}, Moves: []jsonMove{}}
		owner := func(p changelog.Partition) *jsonOwner {
			if g := s.holder(p); g != nil {
				return &jsonOwner{int64(g.ID), g.Owner, g.Acquired.UTC()}
			}
			return nil
		}
		for _, p := range s.Positions {
			saved, n := p.Saved.UTC(), p.Counters
			b.Partitions = append(b.Partitions, jsonPartition{Topic: p.Topic, Partition: p.Position.Partition.Partition, Offset: &p.Offset, Epoch: p.LeaderEpoch,
				TopicID: p.TopicID.String(), Generation: int64(p.Generation), Checkpoint: int64(p.Checkpoint), Saved: &saved, Owner: owner(p.Position.Partition),
				Counters: &jsonCounters{n.Records, n.Read, n.Applied, n.Superseded, n.Skipped, n.DeadLettered}})
		}
		for _, p := range s.unsaved() {
			b.Partitions = append(b.Partitions, jsonPartition{Topic: p.Topic, Partition: p.Partition, Epoch: -1, Owner: owner(p)})
		}
		for _, p := range s.Pending {
			b.Pending = append(b.Pending, jsonPending{p.Sink, int64(p.Generation), int64(p.Checkpoint), jsonPositions(p.From), jsonPositions(p.To)})
		}
		for _, m := range s.moves {
			b.Moves = append(b.Moves, jsonMove{m.At.UTC(), m.Who, m.Role, m.What, m.Partition.Topic, m.Partition.Partition, jsonOffset(m.Before), jsonOffset(m.After), m.Reason})
		}
		out = append(out, b)
	}
	return out
}

func jsonPositions(ps []changelog.Position) []jsonPosition {
	out := []jsonPosition{}
	for _, p := range ps {
		out = append(out, jsonPosition{p.Topic, p.Partition.Partition, p.Offset})
	}
	return out
}

func jsonOffset(p *changelog.Position) *int64 {
	if p == nil {
		return nil
	}
	return &p.Offset
}

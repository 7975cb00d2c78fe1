package kafka

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// This file is what the store's topic holds: one record a key, the last one counts, a null value takes it away.
//
//	["bridge", name]                      who owns what; written by Acquire
//	["generation", name, number]          the last checkpoint of a generation; written by its Save, taken away once it is settled
//	["position", name, topic, partition]  where a partition was saved last; written by Save
//	["settled", name, number]             what End tells of a generation that is settled

// storedFormat is that of the records. A change that an older release would misread raises it; testdata has records of each version.
const storedFormat = 1

// remembered is how many settled generations End still answers for.
const remembered = 1000

type bridgeRecord struct {
	Format      int                                  `json:"format"`
	Bridge      string                               `json:"bridge"`
	Prefix      string                               `json:"prefix"` // of its transactional ids
	Fingerprint string                               `json:"fingerprint"`
	Incarnation uint16                               `json:"incarnation"`
	Next        sink.GenerationID                    `json:"next"` // numbers rise and are never used twice
	Generations map[sink.GenerationID]*generationEnd `json:"generations"`
	Partitions  []ownedPartition                     `json:"partitions"` // sorted
}

type generationEnd struct {
	Owner      string          `json:"owner"`
	Partitions []partitionJSON `json:"partitions"`
	Acquired   time.Time       `json:"acquired"`
	Ended      bool            `json:"ended"`
}

type partitionJSON struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type ownedPartition struct {
	partitionJSON
	Owner sink.GenerationID `json:"owner"` // 0: nobody
	Group int32             `json:"group"` // newest consumer group generation that acquired it; -1: none did
}

type savedRecord struct {
	Format       int                 `json:"format"`
	ID           sink.CheckpointID   `json:"id"`
	From         []positionJSON      `json:"from"`
	To           []positionJSON      `json:"to"`
	Counters     countersJSON        `json:"counters"`
	Committables []committableJSON   `json:"committables,omitempty"`
	Settled      []sink.GenerationID `json:"settled,omitempty"`
}

type positionRecord struct {
	Format int `json:"format"`
	positionJSON
	Generation sink.GenerationID `json:"generation"`
	Checkpoint sink.CheckpointID `json:"checkpoint"`
	At         time.Time         `json:"at"`
	Counters   countersJSON      `json:"counters"`
}

type settledRecord struct {
	Format int               `json:"format"`
	Last   sink.CheckpointID `json:"last"`
}

type positionJSON struct {
	partitionJSON
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leader_epoch"`
	TopicID     string `json:"topic_id,omitempty"`
}

type committableJSON struct {
	Sink       string            `json:"sink"`
	Generation sink.GenerationID `json:"generation"`
	Checkpoint sink.CheckpointID `json:"checkpoint"`
	Version    int               `json:"version"`
	Data       []byte            `json:"data"`
	From       []positionJSON    `json:"from,omitempty"`
	To         []positionJSON    `json:"to,omitempty"`
}

type countersJSON struct {
	Records      int64 `json:"records"`
	Read         int64 `json:"read"`
	Applied      int64 `json:"applied"`
	Superseded   int64 `json:"superseded"`
	DeadLettered int64 `json:"dead_lettered"`
	Skipped      int64 `json:"skipped"`
}

func partitionsIn(ps []changelog.Partition) []partitionJSON {
	out := make([]partitionJSON, len(ps))
	for i, p := range ps {
		out[i] = partitionJSON{p.Topic, p.Partition}
	}
	return out
}

func (p partitionJSON) out() changelog.Partition {
	return changelog.Partition{Topic: p.Topic, Partition: p.Partition}
}

func positionsIn(ps []changelog.Position) []positionJSON {
	var out []positionJSON
	for _, p := range ps {
		j := positionJSON{partitionJSON{p.Topic, p.Partition.Partition}, p.Offset, p.LeaderEpoch, ""}
		if p.TopicID != (changelog.TopicID{}) {
			j.TopicID = base64.StdEncoding.EncodeToString(p.TopicID[:])
		}
		out = append(out, j)
	}
	return out
}

func (p positionJSON) out() (changelog.Position, error) {
	out := changelog.Position{Partition: p.partitionJSON.out(), Offset: p.Offset, LeaderEpoch: p.LeaderEpoch}
	if p.TopicID == "" {
		return out, nil
	}
	id, err := base64.StdEncoding.DecodeString(p.TopicID)
	if err != nil || len(id) != len(out.TopicID) {
		return out, fmt.Errorf("the stored id of topic %q is damaged", p.Topic)
	}
	out.TopicID = changelog.TopicID(id)
	return out, nil
}

func positionsOut(ps []positionJSON) ([]changelog.Position, error) {
	var out []changelog.Position
	for _, p := range ps {
		pos, err := p.out()
		if err != nil {
			return nil, err
		}
		out = append(out, pos)
	}
	return out, nil
}

func savedOf(cp sink.Checkpoint) *savedRecord {
	s := &savedRecord{Format: storedFormat, ID: cp.ID, From: positionsIn(cp.From), To: positionsIn(cp.To), Counters: countersJSON(cp.Counters), Settled: slices.Clone(cp.Settled)}
	for _, c := range cp.Committables {
		s.Committables = append(s.Committables, committableJSON{c.Sink, c.Generation, c.Checkpoint, c.Version, slices.Clone(c.Data), positionsIn(c.From), positionsIn(c.To)})
	}
	return s
}

// same reports whether it is the very same checkpoint.
func (s *savedRecord) same(t *savedRecord) bool { return s != nil && reflect.DeepEqual(s, t) }

func (s *savedRecord) committables() ([]sink.Committable, error) {
	if s == nil {
		return nil, nil
	}
	var out []sink.Committable
	for _, c := range s.Committables {
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

// known is what the topic says of one bridge.
type known struct {
	bridge    *bridgeRecord // nil: never acquired
	saved     map[sink.GenerationID]*savedRecord
	positions map[changelog.Partition]*positionRecord
	settled   map[sink.GenerationID]sink.CheckpointID
}

func newKnown() *known {
	return &known{saved: make(map[sink.GenerationID]*savedRecord), positions: make(map[changelog.Partition]*positionRecord), settled: make(map[sink.GenerationID]sink.CheckpointID)}
}

func (k *known) clone() *known {
	return &known{bridge: k.bridge, saved: maps.Clone(k.saved), positions: maps.Clone(k.positions), settled: maps.Clone(k.settled)}
}

// stateKey is the key of a record, as JSON.
type stateKey struct {
	kind, bridge string
	generation   sink.GenerationID
	partition    changelog.Partition
}

func (k stateKey) encode() []byte {
	var parts []any
	switch k.kind {
	case "generation", "settled":
		parts = []any{k.kind, k.bridge, k.generation}
	case "position":
		parts = []any{k.kind, k.bridge, k.partition.Topic, k.partition.Partition}
	default:
		parts = []any{k.kind, k.bridge}
	}
	b, _ := json.Marshal(parts) // texts and numbers
	return b
}

func parseKey(b []byte) (k stateKey, err error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil {
		return k, err
	}
	into := []any{&k.kind, &k.bridge}
	if len(parts) == 3 {
		into = append(into, &k.generation)
	} else if len(parts) == 4 {
		into = append(into, &k.partition.Topic, &k.partition.Partition)
	}
	if len(parts) != len(into) {
		return k, fmt.Errorf("a key of %d parts", len(parts))
	}
	for i, p := range parts {
		if err := json.Unmarshal(p, into[i]); err != nil {
			return k, err
		}
	}
	return k, nil
}

// apply takes one committed record.
func (k *known) apply(key stateKey, value []byte) error {
	read := func(into any) error {
		var head struct {
			Format int `json:"format"`
		}
		if err := json.Unmarshal(value, &head); err != nil {
			return err
		}
		if head.Format != storedFormat {
			return refuse(sink.ErrConfig, "a record of bridge %q is in version %d of the format, and this release reads version %d: use the release that wrote it, or a newer one", key.bridge, head.Format, storedFormat)
		}
		return json.Unmarshal(value, into)
	}
	gone := value == nil
	switch key.kind {
	case "bridge":
		if k.bridge = nil; gone {
			return nil
		}
		b := &bridgeRecord{}
		k.bridge = b
		return read(b)
	case "generation":
		if delete(k.saved, key.generation); gone {
			return nil
		}
		s := &savedRecord{}
		k.saved[key.generation] = s
		return read(s)
	case "position":
		if delete(k.positions, key.partition); gone {
			return nil
		}
		p := &positionRecord{}
		k.positions[key.partition] = p
		return read(p)
	case "settled":
		if delete(k.settled, key.generation); gone {
			return nil
		}
		var s settledRecord
		err := read(&s)
		k.settled[key.generation] = s.Last
		return err
	}
	return refuse(sink.ErrConfig, "the topic has a record of kind %q, which this release does not know: use the release that wrote it, or a newer one", key.kind)
}

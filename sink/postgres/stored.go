package postgres

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// This file reads what the tables hold. Nothing is taken from them on trust: somebody may have repaired them by hand, restored a part of
// them, or altered a column. What cannot be so is said, and is an ErrConfig: trying again would find the same.

// odd says that the tables hold what no version of this program writes.
func odd(format string, a ...any) error {
	return configf("the sink's own tables hold "+format+", which flinksink never writes: something else changed them: restore them, or set the position anew", a...)
}

// storedAt is a position that was stored.
func storedAt(p changelog.Partition, offset int64, epoch int32, id string) (changelog.Position, error) {
	at := changelog.Position{Partition: p, Offset: offset, LeaderEpoch: epoch}
	if p.Topic == "" || p.Partition < 0 || offset < 0 || epoch < -1 {
		return at, odd("the position %s with leader epoch %d", at, epoch)
	}
	var err error
	if at.TopicID, err = changelog.ParseTopicID(id); err != nil {
		return at, odd("the topic id %.60q at %s", id, at)
	}
	return at, nil
}

func incarnationOf(n int32) (uint16, error) {
	if n < 0 || n > math.MaxUint16 {
		return 0, odd("the incarnation %d", n)
	}
	return uint16(n), nil
}

// nullCommittable is a row of the committable table, or of the empty side of a LEFT JOIN.
type nullCommittable struct {
	checkpoint *int64
	sink       *string
	version    *int32
	data       []byte
	from, to   *string
}

func (n *nullCommittable) fields() []any {
	return []any{&n.checkpoint, &n.sink, &n.version, &n.data, &n.from, &n.to}
}

func (n *nullCommittable) committable(gen sink.GenerationID) (*sink.Committable, error) {
	if n.checkpoint == nil {
		return nil, nil
	}
	if n.sink == nil || n.version == nil || n.from == nil || n.to == nil || *n.sink == "" || *n.checkpoint <= 0 || gen <= 0 || *n.version < 0 {
		return nil, odd("a decided checkpoint %d.%d without a number, sink, version or positions", gen, *n.checkpoint)
	}
	c := &sink.Committable{Sink: *n.sink, Generation: gen, Checkpoint: sink.CheckpointID(*n.checkpoint), Version: int(*n.version), Data: n.data}
	var err error
	if c.From, err = decodePositions(*n.from); err != nil {
		return nil, err
	}
	c.To, err = decodePositions(*n.to)
	return c, err
}

func scanGeneration(row pgx.CollectableRow) (sink.GenerationState, error) {
	var g sink.GenerationState
	var topics []string
	var numbers []int32
	if err := row.Scan(&g.ID, &g.Owner, &topics, &numbers); err != nil {
		return g, err
	}
	var err error
	g.Partitions, err = join(topics, numbers)
	return g, err
}

func overlap(a, b []changelog.Partition) bool {
	return slices.ContainsFunc(a, func(p changelog.Partition) bool { return slices.Contains(b, p) })
}

func split(ps []changelog.Partition) (topics []string, numbers []int32) {
	topics, numbers = make([]string, len(ps)), make([]int32, len(ps))
	for i, p := range ps {
		topics[i], numbers[i] = p.Topic, p.Partition
	}
	return topics, numbers
}

func join(topics []string, numbers []int32) ([]changelog.Partition, error) {
	if len(topics) != len(numbers) {
		return nil, odd("a generation with %d topics and %d partitions", len(topics), len(numbers))
	}
	ps := make([]changelog.Partition, len(topics))
	for i := range ps {
		ps[i] = changelog.Partition{Topic: topics[i], Partition: numbers[i]}
		if topics[i] == "" || numbers[i] < 0 {
			return nil, odd("a generation with the partition %s", ps[i])
		}
	}
	return ps, nil
}

// storedPosition is a position as the committable table keeps it.
type storedPosition struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	TopicID     string `json:"topicId,omitempty"`
}

func encodePositions(ps []changelog.Position) (string, error) {
	out := make([]storedPosition, len(ps))
	for i, p := range ps {
		out[i] = storedPosition{p.Topic, p.Partition.Partition, p.Offset, p.LeaderEpoch, p.TopicID.String()}
	}
	b, err := json.Marshal(out)
	return string(b), err
}

func decodePositions(text string) ([]changelog.Position, error) {
	var in []storedPosition
	if json.Unmarshal([]byte(text), &in) != nil {
		return nil, odd("positions of a committable that are no such JSON: %.60q", text)
	}
	var out []changelog.Position
	for _, p := range in {
		at, err := storedAt(changelog.Partition{Topic: p.Topic, Partition: p.Partition}, p.Offset, p.LeaderEpoch, p.TopicID)
		if err != nil {
			return nil, err
		}
		out = append(out, at)
	}
	return out, nil
}

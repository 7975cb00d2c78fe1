package changelog

import (
	"encoding/base64"
	"fmt"
)

// Partition names one partition of a topic.
type Partition struct {
	Topic     string
	Partition int32
}

// String returns the form "topic/3".
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// Compare orders by topic, then by number.
func (p Partition) Compare(q Partition) int {
	switch {
	case p.Topic < q.Topic:
		return -1
	case p.Topic > q.Topic:
		return 1
	case p.Partition < q.Partition:
		return -1
	case p.Partition > q.Partition:
		return 1
	}
	return 0
}

// TopicID is the identity that a broker gives a topic when it is created (KIP-516); zero when unknown. A topic that is
// deleted and made again has another one.
type TopicID [16]byte

// String returns the form that Kafka's own tools print (base64, URL alphabet, no padding), or "" when unknown.
func (t TopicID) String() string {
	if t == (TopicID{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(t[:])
}

// ParseTopicID reads what String prints.
func ParseTopicID(s string) (t TopicID, err error) {
	if s == "" {
		return t, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(t) {
		return t, fmt.Errorf("changelog: %q is no topic id: expected 22 characters of URL base64", s)
	}
	return TopicID(b), nil
}

// Position says where to read next in a partition.
type Position struct {
	Partition
	Offset      int64   // the offset of the next message to read
	LeaderEpoch int32   // leader epoch of the last message read, -1 when unknown (KIP-320)
	TopicID     TopicID // zero when unknown
}

// String returns the form "topic/3@17".
func (p Position) String() string { return fmt.Sprintf("%s@%d", p.Partition, p.Offset) }

package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// statelog reads the store's topic. It reads everything, decided or not, and applies a transaction at its COMMIT marker: a read_committed
// reader would wait behind the open transaction of whoever died, of any bridge. Log compaction leaves a marker as long as it leaves a record of its
// transaction.
type statelog struct {
	c       *cluster
	topic   string
	id      [16]byte
	next    int64
	bridges map[string]*known
	open    map[int64][]stateRecord // by producer id
}

type stateRecord struct {
	key   stateKey
	value []byte
}

func (l *statelog) reset(id [16]byte) {
	l.id, l.next = id, 0
	l.bridges, l.open = make(map[string]*known), make(map[int64][]stateRecord)
}

// read goes on to the end of the log as it is now, and returns what it says of a bridge.
func (l *statelog) read(ctx context.Context, bridge string) (*known, error) {
	p := newPause(patience)
	for fresh := false; ; {
		done, err := l.step(ctx, fresh)
		switch {
		case err == nil && done:
			if k := l.bridges[bridge]; k != nil {
				return k.clone(), nil
			}
			return newKnown(), nil
		case err == nil:
			fresh = false
		case retriable(err) && p.wait(ctx):
			fresh = true
		default:
			return nil, fmt.Errorf("topic %q: %w", l.topic, err)
		}
	}
}

func (l *statelog) step(ctx context.Context, fresh bool) (done bool, err error) {
	t, err := l.c.topic(ctx, l.topic, fresh)
	if err != nil {
		return false, err
	}
	if len(t.leaders) != 1 {
		return false, refuse(sink.ErrConfig, "topic %q has %d partitions, and the store keeps its order in one: make it with one", l.topic, len(t.leaders))
	}
	if l.bridges == nil {
		l.reset(t.id)
	}
	if t.id != l.id {
		return false, l.remade()
	}
	part, err := l.c.fetch(ctx, t, 0, l.next, 8<<20)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return false, l.restart(ctx)
	}
	if err != nil {
		return false, err
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: l.next, Topic: l.topic}, part, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		return false, fp.Err
	}
	for _, r := range fp.Records {
		if err := l.take(r); err != nil {
			return false, fmt.Errorf("offset %d: %w", r.Offset, err)
		}
	}
	l.next = max(l.next, next)
	return l.next >= part.HighWatermark, nil
}

// restart begins again at the begin of the log, where some brokers put it behind what they compacted away. Nothing else moves it: the topic is compacted
// and not cut, and brokers refuse to delete records of such a one.
func (l *statelog) restart(ctx context.Context) error {
	t, err := l.c.topic(ctx, l.topic, true)
	if err != nil {
		return err
	}
	if t.id != l.id {
		return l.remade()
	}
	begin, err := l.c.begin(ctx, t, 0)
	if err != nil {
		return err
	}
	if begin <= l.next {
		return refuse(sink.ErrLost, "it has no offset %d any more, and what the store kept is gone", l.next)
	}
	l.reset(t.id)
	l.next = begin
	return nil
}

func (l *statelog) remade() error {
	return refuse(sink.ErrLost, "it was deleted and made anew, and what the store kept is gone")
}

// take takes a record as part of its transaction, or ends one.
func (l *statelog) take(r *kgo.Record) error {
	if r.Attrs.IsControl() {
		mine := l.open[r.ProducerID]
		delete(l.open, r.ProducerID)
		if len(r.Key) < 4 || binary.BigEndian.Uint16(r.Key[2:]) != controlCommit {
			return nil
		}
		for _, s := range mine {
			k := l.bridges[s.key.bridge]
			if k == nil {
				k = newKnown()
				l.bridges[s.key.bridge] = k
			}
			if err := k.apply(s.key, s.value); err != nil {
				return err
			}
		}
		return nil
	}
	if !r.Attrs.IsTransactional() {
		return refuse(sink.ErrConfig, "the topic has a record that no store wrote: give the store a topic of its own (Options.Topic)")
	}
	key, err := parseKey(r.Key)
	if err != nil {
		return refuse(sink.ErrConfig, "the topic has a record that no store wrote: give the store a topic of its own (Options.Topic)")
	}
	l.open[r.ProducerID] = append(l.open[r.ProducerID], stateRecord{key, r.Value})
	return nil
}

// make makes the topic if it is missing.
func (l *statelog) make(ctx context.Context) error {
	_, err := l.c.topic(ctx, l.topic, true)
	if err == nil {
		return l.compacted(ctx)
	}
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return err
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 15_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = l.topic, 1, -1
	for _, c := range [][2]string{{"cleanup.policy", "compact"}, {"segment.bytes", "16777216"}, {"segment.ms", "3600000"}} {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = c[0], kmsg.StringPtr(c[1])
		t.Configs = append(t.Configs, config)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, l.c.cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return refuse(sink.ErrConfig, "topic %q is missing and cannot be made (%w): make it with one partition and cleanup.policy=compact", l.topic, err)
		}
	}
	// It is there, whatever a broker says that has not heard of it yet.
	if _, err := l.c.existsWithin(ctx, l.topic, true, patience); err != nil {
		return err
	}
	return l.c.hears(ctx, patience, func() error { return l.compacted(ctx) })
}

// compacted refuses a topic that would forget.
func (l *statelog) compacted(ctx context.Context) error {
	config, err := l.c.configs(ctx, kmsg.ConfigResourceTypeTopic, l.topic, "cleanup.policy")
	if err != nil {
		return err
	}
	if policy, ok := config["cleanup.policy"]; ok && policy != "compact" {
		return refuse(sink.ErrConfig, "topic %q has cleanup.policy=%s, and would forget checkpoints: set it to compact", l.topic, policy)
	}
	return nil
}

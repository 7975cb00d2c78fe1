package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file moves the committed offsets of Options.Group with the checkpoints. They show lag to everybody's tools, and the group's coordinator can fence by
// them; where reading begins, the topic alone says: any tool can move a group's offsets, brokers forget those of a group that was empty for
// offsets.retention.minutes, and the bridge's own hint to lag monitors writes over their metadata.

// groupMark is the metadata of an offset that the store committed.
type groupMark struct {
	Flinksink  int               `json:"flinksink_store"` // format
	Bridge     string            `json:"bridge"`
	Generation sink.GenerationID `json:"generation"`
	Checkpoint sink.CheckpointID `json:"checkpoint"`
}

// maxMark bounds the metadata: brokers take 4096 bytes by default (offset.metadata.max.bytes).
const maxMark = 1024

// moveGroup adds the positions to a transaction, as offsets of the group.
func (s *Store) moveGroup(ctx context.Context, t *tenure, under *session, next *savedRecord) error {
	if s.o.Group == "" {
		return nil
	}
	if under.version < 2 && !under.grouped {
		if err := s.addGroup(ctx, under); err != nil {
			return err
		}
		under.grouped = true
	}
	mark, err := json.Marshal(groupMark{storedFormat, t.gen.Bridge, t.gen.ID, next.ID})
	if err != nil {
		return err
	}
	if len(mark) > maxMark {
		mark, _ = json.Marshal(groupMark{storedFormat, nameOf("", t.gen.Bridge, "", 0), t.gen.ID, next.ID})
	}
	most := int16(5)
	if under.version < 2 {
		most = 4
	}
	under.begun = true
	return s.c.ask(ctx, coordinated{coordinatorOfGroup, s.o.Group}, true, most, func() kmsg.Request {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = under.id, s.o.Group, under.pid, under.epoch
		if s.o.Member != nil {
			req.MemberID, req.Generation = s.o.Member()
		}
		for _, to := range next.To {
			i := slices.IndexFunc(req.Topics, func(t kmsg.TxnOffsetCommitRequestTopic) bool { return t.Topic == to.Topic })
			if i < 0 {
				rt := kmsg.NewTxnOffsetCommitRequestTopic()
				rt.Topic = to.Topic
				req.Topics, i = append(req.Topics, rt), len(req.Topics)
			}
			rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = to.Partition, to.Offset, to.LeaderEpoch, kmsg.StringPtr(string(mark))
			req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
		}
		return req
	}, func(r kmsg.Response) error {
		for _, t := range r.(*kmsg.TxnOffsetCommitResponse).Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return s.groupRefused(t.Topic, err)
				}
			}
		}
		return nil
	})
}

func (s *Store) groupRefused(topic string, err error) error {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return refuse(sink.ErrConfig, "the offsets of topic %q in group %q: %w: a group holds offsets of its own cluster; if the topic is on another one, leave Options.Group empty", topic, s.o.Group, err)
	case errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID),
		errors.Is(err, kerr.FencedMemberEpoch), errors.Is(err, kerr.StaleMemberEpoch), errors.Is(err, kerr.GroupIDNotFound):
		return refuse(sink.ErrFenced, "group %q has another generation: %w", s.o.Group, err)
	}
	return fmt.Errorf("group %q: %w", s.o.Group, err)
}

// addGroup adds the group to a transaction, which the broker does by itself from transaction.version 2 on.
func (s *Store) addGroup(ctx context.Context, under *session) error {
	return s.c.ask(ctx, under.coordinated(), true, 3, func() kmsg.Request {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = under.id, under.pid, under.epoch, s.o.Group
		return req
	}, func(r kmsg.Response) error {
		return kerr.ErrorForCode(r.(*kmsg.AddOffsetsToTxnResponse).ErrorCode)
	})
}

// forgotten reports that the group remembers checkpoints of a bridge that the topic knows nothing of: then the topic was lost, and a fresh start
// would write everything again.
func (s *Store) forgotten(ctx context.Context, r sink.AcquireRequest) error {
	if s.o.Group == "" {
		return nil
	}
	return s.c.ask(ctx, coordinated{coordinatorOfGroup, s.o.Group}, true, 7, func() kmsg.Request {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group, req.RequireStable = s.o.Group, true
		for _, p := range r.Partitions {
			i := slices.IndexFunc(req.Topics, func(t kmsg.OffsetFetchRequestTopic) bool { return t.Topic == p.Topic })
			if i < 0 {
				rt := kmsg.NewOffsetFetchRequestTopic()
				rt.Topic = p.Topic
				req.Topics, i = append(req.Topics, rt), len(req.Topics)
			}
			req.Topics[i].Partitions = append(req.Topics[i].Partitions, p.Partition)
		}
		return req
	}, func(resp kmsg.Response) error {
		out := resp.(*kmsg.OffsetFetchResponse)
		if err := kerr.ErrorForCode(out.ErrorCode); errors.Is(err, kerr.GroupIDNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		for _, t := range out.Topics {
			for _, p := range t.Partitions {
				err := kerr.ErrorForCode(p.ErrorCode)
				if errors.Is(err, kerr.UnstableOffsetCommit) { // somebody commits right now: it ends soon, or is aborted
					return kerr.ConcurrentTransactions
				}
				var mark groupMark
				if err != nil || p.Offset < 0 || p.Metadata == nil || json.Unmarshal([]byte(*p.Metadata), &mark) != nil || mark.Flinksink == 0 {
					continue
				}
				if mark.Bridge == r.Bridge || mark.Bridge == nameOf("", r.Bridge, "", 0) {
					return refuse(sink.ErrLost, "group %q has offset %d of %s[%d] from checkpoint %d.%d of this bridge, and topic %q knows nothing of the bridge: its records were lost. "+
						"Restore the topic, or begin anew under another bridge name", s.o.Group, p.Offset, t.Topic, p.Partition, mark.Generation, mark.Checkpoint, s.o.Topic)
				}
			}
		}
		return nil
	})
}

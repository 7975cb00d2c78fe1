package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// send sends batches, those of one partition one after the other.
func (w *writer) send(ctx context.Context, batches []*batch) error {
	queues := make(map[place][]*batch)
	for _, b := range batches {
		queues[b.place] = append(queues[b.place], b)
	}
	p := newPause(patience)
	fresh := false
	for len(queues) > 0 {
		places := make([]place, 0, len(queues))
		for at := range queues {
			places = append(places, at)
		}
		if err := w.s.add(ctx, places); err != nil {
			if errors.Is(err, kerr.UnknownTopicOrPartition) && p.wait(ctx) { // the coordinator has not heard of the topic yet, and added nothing
				continue
			}
			return w.refused(err, nil)
		}
		byLeader, err := w.lead(ctx, queues, fresh)
		if err != nil {
			if isContext(err) || errors.Is(sink.ClassOf(err), sink.ErrLost) || !p.wait(ctx) {
				return w.refused(err, nil)
			}
			fresh = true
			continue
		}
		later, err := w.round(ctx, byLeader, queues)
		if err != nil {
			return err
		}
		if fresh = later != nil; fresh && !p.wait(ctx) {
			return w.refused(later, nil)
		}
		if !fresh {
			p = newPause(patience)
		}
	}
	return nil
}

// lead returns the first batch of each partition by its leader.
func (w *writer) lead(ctx context.Context, queues map[place][]*batch, fresh bool) (map[int32][]*batch, error) {
	byLeader := make(map[int32][]*batch)
	asked := make(map[string]bool)
	for at, q := range queues {
		t, err := w.c.topic(ctx, at.topic, fresh && !asked[at.topic])
		if err != nil {
			return nil, err
		}
		asked[at.topic] = true
		if id, ok := w.ids[at.topic]; ok && id != t.id { // what was acknowledged is gone, of this transaction too
			return nil, refuse(sink.ErrLost, "topic %q was deleted and made anew while it was written to, and all that was in it is gone: write it from the begin, under another bridge name or with positions reset", at.topic)
		}
		w.ids[at.topic] = t.id
		if int(at.partition) >= len(t.leaders) || t.leaders[at.partition] < 0 {
			return nil, fmt.Errorf("partition %d of topic %q: %w", at.partition, at.topic, kerr.LeaderNotAvailable)
		}
		leader := t.leaders[at.partition]
		byLeader[leader] = append(byLeader[leader], q[0])
	}
	return byLeader, nil
}

// round sends one batch of each partition. later is why some have to be sent again.
func (w *writer) round(ctx context.Context, byLeader map[int32][]*batch, queues map[place][]*batch) (later, err error) {
	type answer struct {
		batches []*batch
		resp    *kmsg.ProduceResponse
		err     error
	}
	answers := make(chan answer, len(byLeader))
	for node, batches := range byLeader {
		for _, b := range batches {
			if b.sequence < 0 {
				b.sequence = w.s.next[b.place]
				w.s.next[b.place] = int32((int64(b.sequence) + int64(b.n)) % (1 << 31))
			}
		}
		go func() {
			resp, err := w.produce(ctx, node, batches)
			answers <- answer{batches, resp, err}
		}()
	}
	for range byLeader {
		a := <-answers
		if a.err != nil {
			if isContext(a.err) && ctx.Err() != nil {
				err = errors.Join(err, w.refused(a.err, nil))
			}
			later = a.err // the same batches with the same sequence numbers: what arrived is not appended again
			continue
		}
		codes := answered(a.resp)
		for _, b := range a.batches {
			got, ok := codes[b.place]
			if !ok {
				got.err = errors.New("the broker did not answer for a partition")
			}
			switch again, failed := w.settle(b, got, queues); {
			case failed != nil:
				err = errors.Join(err, failed)
			case again != nil:
				later = again
			}
		}
	}
	return later, err
}

type partAnswer struct {
	err    error
	offset int64
	blamed []int32 // records of the batch that are refused
}

func answered(resp *kmsg.ProduceResponse) map[place]partAnswer {
	out := make(map[place]partAnswer)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			a := partAnswer{err: kerr.ErrorForCode(p.ErrorCode), offset: p.BaseOffset}
			for _, e := range p.ErrorRecords {
				a.blamed = append(a.blamed, e.RelativeOffset)
			}
			out[place{t.Topic, p.Partition}] = a
		}
	}
	return out
}

// settle takes a batch off its queue, or says why it has to be sent again, or why it never can be.
func (w *writer) settle(b *batch, got partAnswer, queues map[place][]*batch) (again, failed error) {
	q := queues[b.place]
	done := func(rest []*batch) {
		if len(rest) == 0 {
			delete(queues, b.place)
		} else {
			queues[b.place] = rest
		}
	}
	switch {
	case got.err == nil && got.offset >= 0:
		done(q[1:])
		w.arrived(b, got.offset)
		return nil, nil
	case got.err == nil:
		return nil, w.refused(errors.New("the broker appended records and did not say where"), nil)
	case tooLarge(got.err) && b.n > 1:
		parts := b.split()
		parts[0].sequence = -1
		w.s.next[b.place] = b.sequence // nothing of the batch was appended
		done(append(parts, q[1:]...))
		return nil, nil
	case retriable(got.err):
		return fmt.Errorf("partition %d of topic %q: %w", b.partition, b.topic, got.err), nil
	}
	return nil, w.refused(fmt.Errorf("partition %d of topic %q: %w", b.partition, b.topic, got.err), b.blame(got))
}

// blame returns the changes that the broker refused, if it says which they are.
func (b *batch) blame(got partAnswer) []origin {
	if b.n == 1 {
		return []origin{b.origin(0)}
	}
	var out []origin
	for _, i := range got.blamed {
		if i >= 0 && int(i) < len(b.from) {
			out = append(out, b.origin(int(i)))
		}
	}
	return out
}

func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// retriable reports a refusal that passes.
func retriable(err error) bool {
	if moved(err) {
		return true
	}
	for _, e := range []error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.RequestTimedOut,
		kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.KafkaStorageError, kerr.NetworkException, kerr.ReplicaNotAvailable,
		kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.BrokerNotAvailable, kerr.CorruptMessage} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// produce sends one request.
func (w *writer) produce(ctx context.Context, node int32, batches []*batch) (*kmsg.ProduceResponse, error) {
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = kmsg.StringPtr(w.s.id), -1, int32((10 * time.Second).Milliseconds())
	names := make(map[[16]byte]string)
	for _, b := range batches {
		t, err := w.c.topic(ctx, b.topic, false)
		if err != nil {
			return nil, err
		}
		names[t.id] = b.topic
		i := slices.IndexFunc(req.Topics, func(t kmsg.ProduceRequestTopic) bool { return t.Topic == b.topic })
		if i < 0 {
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic, rt.TopicID = b.topic, t.id
			req.Topics, i = append(req.Topics, rt), len(req.Topics)
		}
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = b.partition, b.encode(w.s.producer, w.compressor)
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
	}
	most := int16(anyVersion)
	if w.s.version < 2 {
		most = 11 // from 12 on the broker adds partitions to the transaction by itself, which takes transaction.version 2
	}
	r, err := w.c.once(ctx, node, req, most)
	if err != nil {
		return nil, err
	}
	resp := r.(*kmsg.ProduceResponse)
	for i := range resp.Topics {
		if resp.Topics[i].Topic == "" { // from version 13 on topics go by their ids
			resp.Topics[i].Topic = names[resp.Topics[i].TopicID]
		}
	}
	return resp, nil
}

// refused classifies the end of a load. Nothing of the checkpoint is decided: whatever arrived is in a transaction that is not committed.
func (w *writer) refused(err error, blamed []origin) error {
	e := &sink.Error{Class: classOf(err, sink.ErrTransient), Err: err}
	if errors.Is(e.Class, sink.ErrRejected) {
		for _, b := range blamed {
			e.Rejected = append(e.Rejected, sink.Rejection{Partition: b.Partition, Offset: b.offset, Index: b.index, Reason: err})
		}
		if len(blamed) > 0 {
			e.Position = &changelog.Position{Partition: blamed[0].Partition, Offset: blamed[0].offset}
		}
	}
	return e
}

package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file finds out what became of a transaction.
//
// A broker that is asked to commit an epoch answers yes if the transaction is open, or if it was the last one that was committed, and since an epoch has
// one transaction, yes is proof. Every other answer is the same for a transaction that was committed and followed by others, was aborted, or
// timed out (ProducerFenced), and for an id that the broker has forgotten. What is true then stands in the log: each end of a transaction is
// a control record in every partition that it wrote, and the first one of its producer behind its last record is its own, since a
// producer's transactions follow each other. It stays as long as the records before it.

// outcome is what became of a transaction.
type outcome int

const (
	undecided outcome = iota // nothing is found yet: it is open, or its end is being written
	committed
	aborted
	unknowable // the part of the log that told is gone
)

// commitPrepared commits a transaction, or finds out that it was committed. next is what its producer is afterwards, where the broker said so.
func (c *cluster) commitPrepared(ctx context.Context, r receipt, of sink.Committable) (next producer, err error) {
	p := newPause(patience)
	for {
		next, err := c.endTransaction(ctx, r.producer, true, true)
		if err == nil {
			c.over(ctx, r.id)
			return next, nil
		}
		if ctx.Err() != nil {
			return r.producer, err
		}
		if isFenced(err) {
			o, why, err := c.outcomeOf(ctx, r)
			switch {
			case err != nil:
				return r.producer, err
			case o == committed:
				return r.producer, nil
			case o == aborted:
				return r.producer, lost(of, "its transaction %s was aborted, by hand or because it was open for longer than its timeout of %v: to read these offsets again, set the positions back to them ('flinksink positions set --accept-lost' lets the receipt go), "+
					"and raise Options.TransactionTimeout above the time that the bridge may be away", r.id, r.timeout)
			case o == unknowable:
				return r.producer, lost(of, "nothing tells any more whether its transaction %s was committed: %s. Compare the topic with these offsets", r.id, why)
			}
		} else if !isUnclear(err) && !moved(err) && !isDial(err) {
			return r.producer, err
		}
		if !p.wait(ctx) {
			return r.producer, fmt.Errorf("the end of transaction %s is not to be seen yet: %w", r.id, err)
		}
	}
}

// abortPrepared aborts a transaction. One that is gone is fine; one that was committed is not.
func (c *cluster) abortPrepared(ctx context.Context, r receipt) (next producer, err error) {
	next, err = c.endTransaction(ctx, r.producer, false, true)
	if err == nil || !isFenced(err) {
		return next, err
	}
	switch o, _, err := c.outcomeOf(ctx, r); {
	case err != nil:
		return r.producer, err
	case o == committed:
		return r.producer, fmt.Errorf("transaction %s was committed and cannot be aborted", r.id)
	}
	return r.producer, nil
}

// outcomeOf reads what became of a transaction. why says what is missing where it cannot be known.
func (c *cluster) outcomeOf(ctx context.Context, r receipt) (o outcome, why string, err error) {
	for _, w := range r.wrote {
		o, missing, err := c.readEnd(ctx, r, w)
		if err != nil {
			return undecided, "", err
		}
		if o != unknowable {
			return o, "", nil
		}
		why = missing
	}
	// The coordinator remembers the last transaction of an id for transactional.id.expiration.ms, whatever becomes of the topic.
	d, err := c.describe(ctx, r.id)
	if err != nil {
		return undecided, "", err
	}
	last := r.producer
	if r.version >= 2 {
		last.epoch++
	}
	switch {
	case d.producer == last && d.state == "CompleteCommit":
		return committed, "", nil
	case d.producer == last && d.state == "CompleteAbort":
		return aborted, "", nil
	}
	return unknowable, why, nil
}

// readEnd looks for the end of a transaction in one partition that it wrote.
func (c *cluster) readEnd(ctx context.Context, r receipt, w wrote) (o outcome, missing string, err error) {
	at := fmt.Sprintf("partition %d of topic %q", w.partition, w.topic)
	offset := w.last + 1
	for fresh := false; ; {
		t, err := c.topic(ctx, w.topic, fresh)
		switch {
		case errors.Is(err, kerr.UnknownTopicOrPartition) && fresh:
			return unknowable, fmt.Sprintf("topic %q does not exist", w.topic), nil
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			fresh = true
			continue
		case err != nil:
			return undecided, "", err
		case t.id != w.topicID && !fresh:
			fresh = true
			continue
		case t.id != w.topicID:
			return unknowable, fmt.Sprintf("topic %q was deleted and made anew", w.topic), nil
		}
		part, err := c.fetch(ctx, t, w.partition, offset, 1<<20)
		switch {
		case errors.Is(err, kerr.OffsetOutOfRange):
			return unknowable, fmt.Sprintf("%s does not have offset %d, behind its records", at, offset), nil
		case err != nil && retriable(err) && !fresh:
			fresh = true
			continue
		case err != nil:
			return undecided, "", fmt.Errorf("%s: %w", at, err)
		case part.LogStartOffset > w.last+1:
			return unknowable, fmt.Sprintf("%s begins at offset %d, behind its records", at, part.LogStartOffset), nil
		}
		next, o, later := endIn(part.RecordBatches, offset, r.producer)
		switch {
		case later:
			return unknowable, fmt.Sprintf("%s has a later transaction of the same producer, and no longer the end of this one (log compaction)", at), nil
		case o != undecided || next == offset:
			return o, "", nil
		}
		offset = next
	}
}

// endIn looks for the end of a producer's transaction in batches, behind an offset. next is where to go on. later: there is a later transaction
// of the producer, and not the end of this one before it.
func endIn(batches []byte, offset int64, of producer) (next int64, o outcome, later bool) {
	next = offset
	for len(batches) >= batchHeader {
		b, size := readBatch(batches)
		if size == 0 {
			break // the broker cuts off the last one
		}
		batches = batches[size:]
		next = max(next, b.end)
		if b.end <= offset || b.pid != of.pid {
			continue
		}
		// The end of a transaction is written under its own epoch, or under the one that ends it. Before it a producer writes nothing in
		// another epoch; log compaction may have taken it away.
		switch {
		case b.epoch < of.epoch:
			continue
		case b.epoch > of.epoch+1 || b.epoch != of.epoch && !b.control:
			return next, undecided, true
		case b.kind == controlCommit:
			return next, committed, false
		case b.kind == controlAbort:
			return next, aborted, false
		}
	}
	return next, undecided, false
}

const (
	controlAbort  = 0
	controlCommit = 1
)

// batchHead is what a batch says of itself.
type batchHead struct {
	end     int64 // offset behind its last record
	pid     int64
	epoch   int16
	control bool
	kind    int16 // of a control batch
}

// readBatch reads the head of the first batch in b, and how long the batch is; 0: b holds no whole batch of version 2.
func readBatch(b []byte) (h batchHead, size int) {
	size = 12 + int(int32(binary.BigEndian.Uint32(b[8:])))
	if size < batchHeader || size > len(b) || b[16] != 2 {
		return h, 0
	}
	h.end = int64(binary.BigEndian.Uint64(b)) + int64(int32(binary.BigEndian.Uint32(b[23:]))) + 1
	h.control = binary.BigEndian.Uint16(b[21:])&(1<<5) != 0
	h.pid = int64(binary.BigEndian.Uint64(b[43:]))
	h.epoch = int16(binary.BigEndian.Uint16(b[51:]))
	h.kind = -1
	if h.control {
		h.kind = controlKind(b[batchHeader:size])
	}
	return h, size
}

// controlKind reads the type out of the key of a control record: a version, then the type, two bytes each.
func controlKind(b []byte) int16 {
	skip := func() int64 {
		v, n := binary.Varint(b)
		if n <= 0 {
			b = nil
			return 0
		}
		b = b[n:]
		return v
	}
	skip() // length
	if len(b) == 0 {
		return -1
	}
	b = b[1:] // attributes
	skip()    // timestamp
	skip()    // offset
	if key := skip(); key < 4 || len(b) < 4 {
		return -1
	}
	return int16(binary.BigEndian.Uint16(b[2:]))
}

// fetch reads a partition from an offset on, everything that is there, decided or not.
func (c *cluster) fetch(ctx context.Context, t *topicInfo, partition int32, offset int64, most int32) (*kmsg.FetchResponseTopicPartition, error) {
	if int(partition) >= len(t.leaders) {
		return nil, kerr.UnknownTopicOrPartition
	}
	if t.leaders[partition] < 0 {
		return nil, kerr.LeaderNotAvailable
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 0, most
	req.SessionEpoch = -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = t.name, t.id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = partition, offset, most, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	r, err := c.cl.Broker(int(t.leaders[partition])).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := r.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("the broker did not answer for the partition")
	}
	p := &resp.Topics[0].Partitions[0]
	return p, kerr.ErrorForCode(p.ErrorCode)
}

// begin returns the first offset that a partition has.
func (c *cluster) begin(ctx context.Context, t *topicInfo, partition int32) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = t.name
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = partition, -2, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	r, err := c.cl.Broker(int(t.leaders[partition])).RetriableRequest(ctx, req)
	if err != nil {
		return 0, err
	}
	for _, t := range r.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			return p.Offset, kerr.ErrorForCode(p.ErrorCode)
		}
	}
	return 0, errors.New("the broker did not answer for the partition")
}

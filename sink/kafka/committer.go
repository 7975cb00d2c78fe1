package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	_ sink.Committer     = (*committer)(nil)
	_ sink.Spiller       = (*committer)(nil)
	_ sink.OriginalTaker = (*committer)(nil)
	_ sink.StoreOfferer  = (*committer)(nil)
)

// committer is one lane's side of a Sink. It is used by one goroutine at a time.
type committer struct {
	s    *Sink
	lane sink.Lane

	encoders    map[*changelog.Table]*encoder
	partitioner kgo.TopicPartitioner
	asked       kgo.Record // what the partitioner is asked about, one at a time
	limits      limits
	checked     bool

	generation sink.GenerationID // that opened, or tried to
	session    *session          // of the generation; nil: not opened
	refused    error             // why it was not: an id is never tried twice
	w          *writer
	failed     error // of a Write of this checkpoint: nothing is prepared until Discard
	count      int   // records of this checkpoint
	letters    int   // bytes of a dead letter; 0: not asked yet
	prepared   *receipt
	closed     bool
}

// Lane implements [sink.Sink].
func (s *Sink) Lane(_ context.Context, l sink.Lane) (sink.Committer, error) {
	c := &committer{s: s, lane: l, encoders: make(map[*changelog.Table]*encoder), partitioner: s.o.Partitioner.ForTopic(s.topic), asked: kgo.Record{Topic: s.topic}}
	if len(l.Tables) != 1 {
		return nil, c.fail("lane", sink.ErrConfig, fmt.Errorf("the sink writes one table into topic %q, and the lane has %d: declare a sink for each", s.topic, len(l.Tables)))
	}
	if err := s.lasts(l.Interval); err != nil {
		return nil, c.fail("lane", sink.ErrConfig, err)
	}
	for _, t := range l.Tables {
		e, err := newEncoder(s.encoder, t, s.upsert, time.Now)
		if err != nil {
			return nil, c.fail("lane", sink.ErrConfig, err)
		}
		e.handsOn, _ = s.HandsOn(t)
		c.encoders[t] = e
	}
	keeps := s.o.DeadLetterTopic != ""
	switch {
	case s.own && keeps:
		return letteredStore{newOwnStore(c)}, nil
	case s.own:
		return newOwnStore(c), nil
	case keeps:
		return lettered{c}, nil
	}
	return c, nil
}

func (c *committer) fail(op string, class, err error) error {
	return failure(op, c.lane.Sink, c.lane.Bridge, class, err)
}

var errClosed = errors.New("the lane was closed")

// name is the transactional id of a generation of this lane's bridge and sink.
func (c *committer) name(g sink.GenerationID) string {
	return nameOf(c.s.o.Prefix, c.lane.Bridge, c.lane.Sink, g)
}

// Open implements [sink.Committer]: what is decided is committed, then the ids of the ended generations are fenced, which aborts what they left; a fence
// before that would abort what was decided. Then the generation takes an id of its own, which nobody may have had before it.
func (c *committer) Open(ctx context.Context, claim sink.Claim) error {
	if err := c.check(ctx); err != nil {
		return c.fail("open", sink.ErrTransient, err)
	}
	for _, e := range claim.Ended {
		for _, d := range e.Decided {
			if err := c.Commit(ctx, d); err != nil {
				return c.fail("open", sink.ErrUncertain, err)
			}
		}
	}
	if err := c.fenceAll(ctx, claim.Ended, c.name); err != nil {
		return c.fail("open", sink.ErrTransient, err)
	}
	return c.hold(ctx, claim.Generation.ID, c.name(claim.Generation.ID))
}

// hold takes the id of a generation, which is tried once.
func (c *committer) hold(ctx context.Context, g sink.GenerationID, name string) error {
	if c.generation == g {
		if c.session == nil {
			return c.fail("open", sink.ErrTransient, c.refused)
		}
		return c.fail("open", sink.ErrTransient, c.session.over)
	}
	c.leave()
	c.generation = g
	s, err := c.s.c.open(ctx, name, c.s.o.TransactionTimeout)
	switch {
	case err == nil:
		c.take(s)
		return nil
	case isUnclear(err), isContext(err):
		c.refused = errors.Join(errUsedUp, err)
	case errors.Is(err, errFenced):
		c.refused = err
	default:
		c.generation = 0 // it was not taken: Open may try again
		return c.fail("open", sink.ErrTransient, err)
	}
	return c.fail("open", sink.ErrTransient, c.refused)
}

// check asks the server once.
func (c *committer) check(ctx context.Context) error {
	if c.closed {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.checked {
		return nil
	}
	if err := c.s.c.checkTimeout(ctx, c.s.o.TransactionTimeout); err != nil {
		return err
	}
	l, err := c.s.checkTarget(ctx)
	if err != nil {
		return err
	}
	c.limits, c.checked = l, true
	return nil
}

// fenceAll fences ended generations side by side, so that one whose coordinator is slow does not hold up the others.
func (c *committer) fenceAll(ctx context.Context, ended []sink.EndedGeneration, name func(sink.GenerationID) string) error {
	const atOnce = 8
	for some := range slices.Chunk(ended, atOnce) {
		errs := make(chan error, len(some))
		for _, e := range some {
			go func() { errs <- c.s.c.fence(ctx, name(e.ID), c.s.o.TransactionTimeout) }()
		}
		var all []error
		for range some {
			all = append(all, <-errs)
		}
		if err := errors.Join(all...); err != nil {
			return err
		}
	}
	return nil
}

// take makes s the session that records are written in.
func (c *committer) take(s *session) {
	budget := c.lane.ByteBudget
	if budget <= 0 {
		budget = sink.DefaultByteBudget
	}
	load := min(budget/2, 8<<20)
	c.session = s
	c.w = newWriter(c.s.c, s, c.s.compressor, c.limits.batch, load)
	if p, ok := c.partitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		c.w.onNewBatch = p.OnNewBatch
	}
}

// leave forgets the generation without ending what it left open.
func (c *committer) leave() {
	if c.w != nil {
		c.w.close()
	}
	c.session, c.w, c.generation, c.prepared = nil, nil, 0, nil
	c.clear()
}

func (c *committer) clear() {
	c.failed, c.count = nil, 0
	for _, e := range c.encoders {
		e.drop()
	}
}

// ready reports why nothing can be written now.
func (c *committer) ready(ctx context.Context) error {
	switch {
	case c.closed:
		return errClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case c.session == nil:
		return errors.New("the lane is not open")
	case c.session.over != nil:
		return c.session.over
	case c.prepared != nil:
		return fmt.Errorf("a prepared transaction is open under %s: it is committed or aborted before anything is written", c.prepared.id)
	}
	return nil
}

// Write implements [sink.Committer]: changes become records at once, and more than a part of the lane's budget is sent on.
func (c *committer) Write(ctx context.Context, b *changelog.Batch) error {
	err := c.ready(ctx)
	if err == nil && c.failed != nil {
		return c.fail("write", sink.ErrTransient, fmt.Errorf("an earlier Write of this checkpoint failed: %w", c.failed))
	}
	if err == nil {
		err = c.write(ctx, b)
	}
	if err != nil {
		err = c.fail("write", sink.ErrTransient, err)
		c.failed = err
	}
	return err
}

func (c *committer) write(ctx context.Context, b *changelog.Batch) error {
	e := c.encoders[b.Table]
	if e == nil {
		return refuse(sink.ErrConfig, "the lane was not made for table %q", b.Table.Name)
	}
	return e.encode(b, func(r *changelog.Record, from origin) error { return c.emit(ctx, r, from) })
}

func (c *committer) emit(ctx context.Context, r *changelog.Record, from origin) error {
	most := c.limits.batch
	if c.s.o.MaxRecordBytes > 0 {
		most = min(most, c.s.o.MaxRecordBytes)
	}
	if n := batchHeader + recordSize(r); n > most {
		reason := fmt.Errorf("the record takes %d bytes and topic %q takes %d: raise its max.message.bytes", n, c.s.topic, most)
		return &sink.Error{Class: sink.ErrRejected, Position: &changelog.Position{Partition: from.Partition, Offset: from.offset}, Err: reason,
			Rejected: []sink.Rejection{{Partition: from.Partition, Offset: from.offset, Index: from.index, Reason: reason}}}
	}
	n := c.limits.partitions
	c.asked.Key, c.asked.Value = r.Key, r.Value
	at := c.partitioner.Partition(&c.asked, n)
	if at < 0 || at >= n {
		return refuse(sink.ErrConfig, "Options.Partitioner chose partition %d of %d", at, n)
	}
	c.count++
	return c.w.add(ctx, place{c.s.topic, int32(at)}, r, from)
}

// OfferStore implements [sink.StoreOfferer]: a store on the cluster that is written to, with the sink's Options.
func (c *committer) OfferStore() sink.Store { return c.s.store }

// Spill implements [sink.Spiller]: records have memory of their own.
func (c *committer) Spill() {}

// prove adds the record of Options.ProofTopic to a transaction that has others.
func (c *committer) prove(ctx context.Context, cut sink.Cut) error {
	if c.s.o.ProofTopic == "" || c.count == 0 {
		return nil
	}
	r := &changelog.Record{Key: fmt.Appendf(nil, "%s.%d", c.session.id, cut.Checkpoint), Value: []byte{}, Timestamp: time.Now().UnixMilli()}
	return c.w.add(ctx, place{c.s.o.ProofTopic, 0}, r, origin{})
}

// flush sends what is left, after what last adds to it (nil: nothing), and returns where all records of the checkpoint are.
func (c *committer) flush(ctx context.Context, cut sink.Cut, last func(context.Context, sink.Cut) error) (map[place]int64, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	if c.failed != nil {
		return nil, fmt.Errorf("a Write of this checkpoint failed: %w", c.failed)
	}
	if cut.Generation.ID != c.generation {
		return nil, fmt.Errorf("generation %d is open, and not %d", c.generation, cut.Generation.ID)
	}
	for _, e := range c.encoders {
		if err := e.release(nil, func(r *changelog.Record, from origin) error { return c.emit(ctx, r, from) }); err != nil {
			return nil, err
		}
	}
	if last != nil {
		if err := last(ctx, cut); err != nil {
			return nil, err
		}
	}
	return c.w.flush(ctx)
}

// Prepare implements [sink.Committer]. When it returns, all records are acknowledged by all replicas in sync, and the transaction is open.
func (c *committer) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	last, err := c.flush(ctx, cut, c.prove)
	if err != nil {
		return sink.Committable{}, c.spoiled(err)
	}
	if len(last) == 0 {
		c.clear()
		return sink.Committable{}, nil
	}
	r := receipt{producer: c.session.producer, version: c.session.version, timeout: c.s.o.TransactionTimeout, at: time.Now().UTC()}
	r.wrote = sorted(last, func(topic string) [16]byte {
		t, err := c.s.c.topic(ctx, topic, false) // it was sent to: no request
		if err != nil {
			return [16]byte{}
		}
		return t.id
	})
	data, err := r.encode()
	if err != nil {
		return sink.Committable{}, c.spoiled(err)
	}
	if len(data) > maxReceipt {
		return sink.Committable{}, c.spoiled(refuse(sink.ErrConfig, "the receipt of a checkpoint over %d partitions takes %d bytes, and %d fit: use a topic of fewer partitions, or InTransaction",
			len(r.wrote), len(data), maxReceipt))
	}
	c.clear()
	c.w.empty()
	c.prepared = &r
	return sink.Committable{Sink: c.lane.Sink, Generation: cut.Generation.ID, Checkpoint: cut.Checkpoint, Version: receiptVersion, Data: data,
		From: slices.Clone(cut.From), To: slices.Clone(cut.To)}, nil
}

const maxReceipt = 64 << 10

// spoiled is a failed Prepare: nothing of the checkpoint can be prepared until it is discarded.
func (c *committer) spoiled(err error) error {
	err = c.fail("prepare", sink.ErrTransient, err)
	if c.failed == nil {
		c.failed = err
	}
	return err
}

// Discard implements [sink.Committer]. What was sent is in a transaction that is aborted; if that fails, nothing more is written under this
// generation, and the successor's Open ends it.
func (c *committer) Discard(ctx context.Context) error {
	if c.session == nil || c.closed {
		c.clear()
		return nil
	}
	c.w.drop()
	c.clear()
	if c.prepared != nil || c.session.over != nil || !c.session.begun {
		return nil
	}
	err := c.session.finish(ctx, false, false)
	if isFenced(err) {
		return nil // it is over, and whoever ended it aborted what was open
	}
	return c.fail("discard", sink.ErrTransient, err)
}

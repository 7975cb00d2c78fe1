package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/flinksink/flinksink/changelog"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	batchChanges = 20_000  // where merging into a table is near its best rate
	batchBytes   = 8 << 20 // and no more than this, however wide the rows: enough for so many of four columns
)

// queue holds what was fetched for a lane and not yet decoded. It takes everything it is given; whoever gives pauses the lane's
// partitions when add says that it is full. What the decoder has taken still counts until it is released.
type queue struct {
	limit int           // bytes
	more  chan struct{} // capacity 1: there is a chunk

	mu     sync.Mutex
	chunks []chunk
	bytes  int
}

// add reports whether the queue is full now.
func (q *queue) add(c chunk) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.chunks = append(q.chunks, c)
	q.bytes += c.bytes
	signal(q.more)
	return q.bytes >= q.limit
}

func (q *queue) next() (chunk, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.chunks) == 0 {
		return chunk{}, false
	}
	c := q.chunks[0]
	q.chunks[0] = chunk{}
	q.chunks = q.chunks[1:]
	return c, true
}

func (q *queue) release(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= n
}

func (q *queue) low() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes <= q.limit/2
}

func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// signal wakes a reader of c, a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// load is what the decoder hands to the writer: a batch, and how far each partition was read for it.
type load struct {
	in    int // the input whose table the batch is of
	batch *changelog.Batch
	spans []span
	bad   *bad // what came after the batch is not to be written
	bytes int  // of the queue's budget

	aside      []aside // what the data policy keeps out of the batch, of each partition in order
	asideBytes int
	changed    int // messages that hold a change
	messages   int
	search     *search // that all messages belong to, nil: none
}

// span is what a load holds of one partition, all of one epoch.
type span struct {
	part    *partition
	epoch   int64
	to      int64 // -1: nothing of it was read for this load
	leader  int32
	topicID changelog.TopicID
	records int64

	// For holding retractions back; see type tail.
	tail   []record // the last messages, none of which ends by putting a row there
	first  int      // the first of them that takes one away, -1: none
	parted bool     // tail does not follow what was read before this load
}

func (s span) stale() bool { return s.part.epoch.Load() != s.epoch }

func (s span) position() changelog.Position {
	return changelog.Position{Partition: s.part.Partition, Offset: s.to, LeaderEpoch: s.leader, TopicID: s.topicID}
}

// bad is a record at which the lane halts.
type bad struct {
	part    *partition
	epoch   int64
	err     *changelog.DataError
	pos     changelog.Position
	refusal *refusal // nil: it cannot be decoded
	over    bool     // it would be set aside, if the budget allowed it
}

func (b *bad) stale() bool { return b.part.epoch.Load() != b.epoch }

// span returns the load's span of the chunk's partition, nil if the load holds another epoch or assignment of it.
func (ld *load) span(c *chunk) *span {
	for i := range slices.Backward(ld.spans) {
		if s := &ld.spans[i]; s.part.Partition == c.part.Partition {
			if s.part != c.part || s.epoch != c.epoch {
				return nil
			}
			return s
		}
	}
	ld.spans = append(ld.spans, span{part: c.part, epoch: c.epoch, to: -1, leader: -1, topicID: c.topicID, first: -1})
	return &ld.spans[len(ld.spans)-1]
}

// drop removes what belongs to an ended epoch: the changes of exactly those partitions.
func (ld *load) drop() {
	gone := make(map[changelog.Partition]bool)
	ld.spans = slices.DeleteFunc(ld.spans, func(s span) bool {
		if !s.stale() {
			return s.to < 0
		}
		gone[s.part.Partition] = true
		return true
	})
	if ld.bad != nil && ld.bad.stale() {
		ld.bad = nil
	}
	if len(gone) == 0 {
		return
	}
	cs, n := ld.batch.Changes, 0
	for i := range cs {
		if !gone[cs[i].Partition] {
			cs[n] = cs[i]
			n++
		}
	}
	ld.batch.Truncate(n)
	ld.aside = slices.DeleteFunc(ld.aside, func(a aside) bool { return gone[a.pos.Partition] })
	ld.weigh()
}

// decoder is the lane's goroutine that turns records into changes while the writer is busy with the batch before.
//
// A batch holds changes of one table, so it fills a load for each input that records come of. A partition belongs to one input, so loads of
// two inputs have no order between them; the oldest is handed over first all the same, or one of a quiet topic would wait for ever beside a busy one.
type decoder struct {
	l    *lane
	ld   *load   // that is being filled
	open []*load // oldest first, at most one an input
	rec  changelog.Record
	bad  map[*partition]int64 // epoch in which a record ended the decoding: nothing after it is decoded
}

func (d *decoder) run(ctx context.Context) {
	for {
		c, ok := d.l.queue.next()
		if !ok {
			var loads chan *load // nil, so never ready, while there is nothing to hand over
			var oldest *load
			if len(d.open) > 0 {
				loads, oldest = d.l.loads, d.open[0]
			}
			select {
			case loads <- oldest:
				d.open = slices.Delete(d.open, 0, 1)
			case <-d.l.queue.more:
			case <-ctx.Done():
				return
			}
			continue
		}
		if !d.chunk(ctx, c) {
			return
		}
		// A writer that waits takes what there is; a busy one finds a fuller batch when it comes.
		if len(d.open) > 0 {
			select {
			case d.l.loads <- d.open[0]:
				d.open = slices.Delete(d.open, 0, 1)
			default:
			}
		}
	}
}

// span turns to the load of the chunk's input, and returns its span of the chunk's partition; nil if the load holds another epoch of it.
func (d *decoder) span(c *chunk) *span {
	i := slices.IndexFunc(d.open, func(ld *load) bool { return ld.in == c.part.in })
	if i < 0 {
		d.open = append(d.open, d.l.newLoad(c.part.in))
		i = len(d.open) - 1
	}
	d.ld = d.open[i]
	return d.ld.span(c)
}

// chunk decodes one chunk. It reports false when ctx ended.
func (d *decoder) chunk(ctx context.Context, c chunk) bool {
	left := c.bytes
	defer func() {
		if left > 0 { // dropped: nobody else gives it back
			d.l.queue.release(left)
			d.l.r.f.drained(d.l)
		}
	}()
	if c.stale() {
		return true
	}
	if e, ok := d.bad[c.part]; ok {
		if e == c.epoch {
			return true
		}
		delete(d.bad, c.part)
	}
	s := d.span(&c)
	if s == nil { // one epoch of a partition a load, so that drop need not look further than the partition
		if !d.hand(ctx) {
			return false
		}
		s = d.span(&c)
	}
	for i, r := range c.records {
		if i%1024 == 1023 && c.stale() {
			return true // the span is stale too
		}
		if d.turns(c.part.Partition, r.Offset) || d.full() {
			if !d.hand(ctx) {
				return false
			}
			s = d.span(&c)
			d.turns(c.part.Partition, r.Offset)
		}
		n := recordSize(r)
		left -= n
		d.ld.bytes += n
		before := d.ld.batch.Len()
		err := d.message(c.part, r, s.records)
		for try := 1; outage(err); try++ {
			if try == 1 { // what came before does not wait with it
				d.ld.bytes -= n
				if !d.hand(ctx) {
					return false
				}
				s = d.span(&c)
				d.turns(c.part.Partition, r.Offset)
				d.ld.bytes += n
			}
			if !d.await(ctx, &c, err, try) {
				return ctx.Err() == nil
			}
			before = d.ld.batch.Len()
			err = d.message(c.part, r, s.records)
		}
		if err != nil {
			s.to, s.leader = max(s.to, r.Offset), r.LeaderEpoch // what lies before it holds no record; for the epoch see tail.start
			d.fail(c, r, err)
			return d.hand(ctx)
		}
		d.ld.messages++
		if d.ld.batch.Len() > before {
			d.ld.changed++
		}
		if d.l.holds[c.part.in] {
			s.follow(r, d.ld.batch, before)
		}
		s.to, s.leader = r.Offset+1, r.LeaderEpoch
		s.records++
	}
	s.to, s.leader, s.topicID = c.to, c.leader, c.topicID
	return true
}

// hand gives the load that is being filled to the writer, and before it those that are older.
func (d *decoder) hand(ctx context.Context) bool {
	for {
		oldest := d.open[0]
		select {
		case d.l.loads <- oldest:
			d.open = slices.Delete(d.open, 0, 1)
		case <-ctx.Done():
			return false
		}
		if oldest == d.ld {
			return true
		}
	}
}

func (d *decoder) record(r record) error {
	rec := &d.rec // field by field: a record as a whole is copied with a note to the collector
	if rec.Topic != r.Topic {
		rec.Topic = r.Topic
	}
	rec.Partition.Partition, rec.Offset, rec.LeaderEpoch = r.Partition, r.Offset, r.LeaderEpoch
	rec.Timestamp, rec.TimestampType = r.Timestamp.UnixMilli(), timestampType(r.Attrs)
	if rec.TimestampType == changelog.NoTimestamp {
		rec.Timestamp = -1
	}
	rec.Key, rec.Value, rec.Headers = r.Key, r.Value, rec.Headers[:0]
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, changelog.Header{Key: h.Key, Value: h.Value})
	}
	before := d.ld.batch.Len()
	if err := d.l.r.ins[d.ld.in].Decoder.Decode(d.ld.batch, &d.rec); err != nil {
		return err
	}
	return d.valid(before)
}

// valid looks at what a decoder appended, which may be the user's own: a sink indexes rows by the schema's columns, and a position that is not
// the record's would be saved.
func (d *decoder) valid(before int) error {
	width := len(d.ld.batch.Table.Schema.Columns)
	for i := before; i < d.ld.batch.Len(); i++ {
		c := &d.ld.batch.Changes[i]
		reason, class := "", changelog.Malformed
		switch {
		case len(c.Row) != width:
			class = changelog.SchemaMismatch
			reason = fmt.Sprintf("the decoder gave a row of %d values for a table of %d columns", len(c.Row), width)
		case c.Kind > changelog.Delete:
			class = changelog.UnknownOp
			reason = fmt.Sprintf("the decoder gave a change of the unknown kind %d", c.Kind)
		case c.Partition != d.rec.Partition || c.Offset != d.rec.Offset:
			reason = fmt.Sprintf("the decoder gave a change of %s offset %d for this record", c.Partition, c.Offset)
		}
		if reason != "" {
			d.ld.batch.Truncate(before)
			return &changelog.DataError{Class: class, Reason: reason}
		}
	}
	return nil
}

// fail ends the decoding of a partition until it is sought again.
func (d *decoder) fail(c chunk, r record, err error) {
	d.bad[c.part] = c.epoch
	d.ld.bad = &bad{part: c.part, epoch: c.epoch,
		pos: changelog.Position{Partition: c.part.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch, TopicID: c.topicID}}
	if errors.As(err, &d.ld.bad.refusal) {
		d.ld.bad.err = d.ld.bad.refusal.dataError()
	} else {
		d.ld.bad.err = dataError(c.part, r, err)
	}
	f := d.l.r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if !c.stale() {
		f.setHold(holdBad, true, c.part)
	}
}

func timestampType(a kgo.RecordAttrs) changelog.TimestampType {
	switch a.TimestampType() {
	case 0:
		return changelog.CreateTime
	case 1:
		return changelog.LogAppendTime
	}
	return changelog.NoTimestamp
}

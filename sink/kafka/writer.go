package kafka

import (
	"context"
	"sync"

	"github.com/flinksink/flinksink/changelog"
	"github.com/twmb/franz-go/pkg/kgo"
)

// writer sends the records of one transaction after the other. While one load is on its way the next is filled, and it leaves as soon as that one has landed, if it is
// worth a request: so loads are small where brokers are near, and large where they are far. Per partition one batch is under way at a
// time, so that records stay in order whatever has to be sent again, and a batch that is sent again keeps its sequence number: the broker
// appends it once. A broker would take five, but what it does with the others when one is refused is a rule of its own for each refusal.
//
// It is used by one goroutine, beside the one that it starts itself.
type writer struct {
	c          *cluster
	s          *session
	compressor kgo.Compressor
	most       int    // bytes of a batch
	load       int    // bytes that are sent at once, at most
	onNewBatch func() // the partitioner's: records without a key go to another partition then; nil: none

	alive context.Context // ends with the lane: what is sent in the background has no other context
	kill  context.CancelFunc

	open   map[place]*batch // that are filled
	full   []*batch
	bytes  int
	flight chan error // of the load that is under way; nil: none
	stop   context.CancelFunc

	ids map[string][16]byte // of the topics that were written to

	mu   sync.Mutex
	last map[place]int64 // offset of the last record of this transaction, by partition
	free []*batch        // that arrived, and whose memory is used again
	kept int             // bytes of records in free
}

const (
	// leastLoad is the bytes from which on a load is worth a request of its own.
	leastLoad = 1 << 20
	// worthFree is the bytes of records below which the memory of a batch is not kept. All that is kept is two loads at most, as many as are filled and under
	// way at once: with less, a writer whose loads are large would grow half of its batches anew.
	worthFree = 32 << 10
)

func newWriter(c *cluster, s *session, compressor kgo.Compressor, most, load int) *writer {
	w := &writer{c: c, s: s, compressor: compressor, most: most, load: load, ids: make(map[string][16]byte)}
	w.alive, w.kill = context.WithCancel(context.Background())
	w.empty()
	return w
}

func (w *writer) empty() {
	w.open, w.full, w.bytes, w.last = make(map[place]*batch), nil, 0, make(map[place]int64)
}

// add takes a record. What is more than a load is sent on; add waits for the load before it, or for ctx.
func (w *writer) add(ctx context.Context, to place, r *changelog.Record, from origin) error {
	b := w.open[to]
	if size := recordSize(r); b != nil && b.size()+size > w.most {
		w.full = append(w.full, b)
		b = nil
		w.turn()
	}
	if b == nil {
		b = w.fresh(to)
		w.open[to] = b
	}
	before := len(b.records)
	b.append(r, from)
	w.bytes += len(b.records) - before + notedSize
	if w.bytes < min(w.load, leastLoad) || w.bytes < w.load && len(w.flight) == 0 && w.flight != nil {
		return nil
	}
	if err := w.landed(ctx); err != nil {
		return err
	}
	return w.takeOff(ctx)
}

// fresh returns an empty batch.
func (w *writer) fresh(to place) *batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.free) - 1
	if n < 0 {
		return &batch{place: to, sequence: -1}
	}
	b := w.free[n]
	w.free, w.kept = w.free[:n], w.kept-cap(b.records)
	*b = batch{place: to, sequence: -1, records: b.records[:0], from: b.from[:0], sources: b.sources[:0]}
	return b
}

// arrived takes note of the offset that a batch got, and nobody uses the batch from then on.
func (w *writer) arrived(b *batch, offset int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[b.place] = max(w.last[b.place], offset+int64(b.n)-1)
	if n := cap(b.records); n >= worthFree && w.kept+n <= 2*w.load && !b.parted {
		w.free, w.kept = append(w.free, b), w.kept+n
	}
}

// turn tells the partitioner that a batch is full.
func (w *writer) turn() {
	if w.onNewBatch != nil {
		w.onNewBatch()
	}
}

// landed waits for the load that is under way.
func (w *writer) landed(ctx context.Context) error {
	if w.flight == nil {
		return nil
	}
	select {
	case err := <-w.flight:
		w.flight = nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeOff sends what there is, in the background.
func (w *writer) takeOff(ctx context.Context) error {
	if w.bytes == 0 {
		return nil
	}
	if err := w.s.begin(ctx); err != nil {
		return err
	}
	w.s.begun = true
	batches := w.full
	for _, b := range w.open {
		batches = append(batches, b)
	}
	w.open, w.full, w.bytes = make(map[place]*batch), nil, 0
	w.turn()
	ctx, stop := context.WithCancel(w.alive)
	flight := make(chan error, 1)
	w.flight, w.stop = flight, stop
	go func() {
		defer stop()
		flight <- w.send(ctx, batches)
	}()
	return nil
}

// flush returns when all that was added is at the brokers, and tells where.
func (w *writer) flush(ctx context.Context) (map[place]int64, error) {
	for w.flight != nil || w.bytes > 0 {
		if err := w.landed(ctx); err != nil {
			return nil, err
		}
		if err := w.takeOff(ctx); err != nil {
			return nil, err
		}
	}
	return w.last, nil
}

// drop forgets everything that was added. What is under way is given up: it may still arrive, in an epoch that is over by then.
func (w *writer) drop() {
	if w.flight != nil {
		w.stop()
		<-w.flight
		w.flight = nil
	}
	w.empty()
}

func (w *writer) close() {
	w.drop()
	w.kill()
}

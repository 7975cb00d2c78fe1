package elastic

import (
	"context"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// pipe sends one bulk request after another. Each document belongs to one pipe of its lane, so changes of a document reach the server in order, and
// one that the server could not take holds up those behind it.
type pipe struct {
	c    *committer
	most int // bytes of a request

	fill *bulk // takes changes
	spun *bulk // is under way, or kept for reuse
	busy chan error
	err  error // of a request that is over

	answers    answers // of the request under way
	superseded int64
	topics     map[string]string // topic ids that documents in our way named, by topic
}

// bulk is the body of a request.
type bulk struct {
	plan  *plan
	buf   []byte
	items []item
}

// item is one action of a bulk.
type item struct {
	changelog.Partition
	offset   int64
	index    int32
	start    int // in buf
	document int // where the document begins; end: none
	end      int
	idStart  int // of the id as JSON, within its quotes
	idEnd    int
	into     string // the index, where names come from rows
	delete   bool   // of the document itself
	extra    bool   // the change has another item, which is counted
}

// reset empties it. A buffer that one large document made larger than most is not kept.
func (b *bulk) reset(most int) {
	if cap(b.buf) > 2*most {
		b.buf = nil
	}
	b.plan, b.buf, b.items = nil, b.buf[:0], b.items[:0]
}

// add appends a change, or says why it has no document; then nothing was appended.
func (p *pipe) add(pl *plan, ch *changelog.Change, id []byte, into string, extra bool) *refusal {
	b := p.fill
	if b == nil {
		b = new(bulk)
		p.fill = b
	}
	b.plan = pl
	it := item{Partition: ch.Partition, offset: ch.Offset, index: ch.Index, start: len(b.buf), into: into, extra: extra}
	o := &p.c.s.o
	it.delete = !ch.Kind.Adds() && o.Deletes == Hard
	switch {
	case it.delete:
		b.buf = append(b.buf, `{"delete":{"_id":`...)
	case o.DataStream:
		b.buf = append(b.buf, `{"create":{"_id":`...)
	default:
		b.buf = append(b.buf, `{"index":{"_id":`...)
	}
	it.idStart = len(b.buf) + 1
	b.buf = appendString(b.buf, id)
	it.idEnd = len(b.buf) - 1
	if into != "" {
		b.buf = append(b.buf, `,"_index":`...)
		b.buf = appendString(b.buf, []byte(into))
	}
	if pl.routing >= 0 {
		b.buf = append(b.buf, `,"routing":`...)
		b.buf = appendRouting(b.buf, pl, ch.Row)
	}
	if !o.DataStream {
		b.buf = append(b.buf, `,"version":`...)
		b.buf = strconv.AppendInt(b.buf, version(p.c.incarnation, ch.Offset), 10)
		b.buf = append(b.buf, `,"version_type":"external_gte"`...)
	}
	b.buf = append(b.buf, "}}\n"...)
	it.document = len(b.buf)
	if !it.delete {
		b.buf = append(b.buf, '{')
		var r *refusal
		if ch.Kind.Adds() {
			b.buf, r = pl.appendDocument(b.buf, ch.Row)
		} else {
			b.buf = appendDeleted(b.buf, p.c.now())
		}
		if r != nil {
			b.buf = b.buf[:it.start]
			return r
		}
		if b.buf[len(b.buf)-1] != '{' {
			b.buf = append(b.buf, ',')
		}
		b.buf = p.c.appendMeta(b.buf, ch)
		b.buf = append(b.buf, "}\n"...)
	}
	it.end = len(b.buf)
	b.items = append(b.items, it)
	return nil
}

// appendRouting appends the text of the routing column as JSON.
func appendRouting(dst []byte, p *plan, row changelog.Row) []byte {
	v := row[p.routing]
	if v.Kind() == changelog.KindString {
		return appendString(dst, v.Bytes())
	}
	dst = append(dst, '"')
	return append(changelog.AppendText(dst, &p.table.Schema.Columns[p.routing].Type, v), '"')
}

// due reports that what waits should be sent: it is as much as a request may hold, or enough for one while the server has nothing of this pipe.
func (p *pipe) due() bool {
	n := len(p.fill.buf)
	return n >= p.most || len(p.fill.items) >= p.c.s.o.BulkActions || n >= p.most/worth && p.idle()
}

// worth is the part of a full request that is worth sending by itself.
const worth = 8

// idle reports that no request is under way.
func (p *pipe) idle() bool { return p.busy == nil || len(p.busy) > 0 }

// send puts what waits under way, after the request before it is over, or returns that one's error.
func (p *pipe) send(ctx context.Context) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	p.start()
	return nil
}

// start puts what waits under way; nothing is.
func (p *pipe) start() {
	if p.fill == nil || len(p.fill.items) == 0 {
		return
	}
	b := p.fill
	p.fill, p.spun = p.spun, b
	if p.fill != nil {
		p.fill.reset(p.most)
	}
	p.busy = make(chan error, 1)
	go func(busy chan<- error, requests context.Context) {
		busy <- p.deliver(requests, b)
		select {
		case p.c.over <- struct{}{}:
		default: // somebody will look at all pipes as it is
		}
	}(p.busy, p.c.requests)
}

// wait waits for the request under way. Its error stays: a checkpoint with a hole is not prepared.
//
// Pipes whose request is over meanwhile get under way what waits for them, full or not: nobody else would do that until this one is over, and the server
// would have less to do than Options.InFlight says.
func (p *pipe) wait(ctx context.Context) error {
	for p.busy != nil {
		select {
		case p.err = <-p.busy:
			p.busy = nil
		case <-p.c.over:
			for _, q := range p.c.pipes {
				if q != p {
					q.goOn()
				}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return p.err
}

// goOn begins the next request if the last is over and the next is worth it.
func (p *pipe) goOn() {
	if p.busy == nil || !p.idle() || p.fill == nil {
		return
	}
	if len(p.fill.buf) < p.most/worth && len(p.fill.items) < p.c.s.o.BulkActions/worth && !p.c.flushing {
		return
	}
	p.err, p.busy = <-p.busy, nil
	if p.err == nil {
		p.start()
	}
}

// reset waits until nothing is under way, which the caller has told to stop, and empties the pipe. Buffers stay for the next checkpoint.
func (p *pipe) reset() {
	if p.busy != nil {
		<-p.busy
		p.busy = nil
	}
	for _, b := range []*bulk{p.fill, p.spun} {
		if b != nil {
			b.reset(p.most)
		}
	}
	p.err, p.superseded = nil, 0
	clear(p.topics)
}

// rejection names the item's change.
func (it *item) rejection(why error) sink.Rejection {
	return sink.Rejection{Partition: it.Partition, Offset: it.offset, Index: it.index, Reason: why}
}

package elastic

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// committer is one lane's writer. Calls come from one goroutine at a time; requests are under way in goroutines of its pipes, which are all
// over when Prepare or Discard has returned.
type committer struct {
	s     *Sink
	lane  sink.Lane
	plans []*plan
	pipes []*pipe
	over  chan struct{} // of capacity 1: a request is over

	flushing bool // no more is coming for the requests that are not full

	opened      bool
	gen         sink.Generation
	incarnation uint16
	began       bool              // positions were saved before Open
	topicIDs    map[string]string // by topic, as far as saved positions and cuts told
	metaName    []byte
	lease       *lease // of Deletes: Hard; nil: none
	owed        *owed  // as lease
	behind      bool   // Options.Owing was told of something before, and not yet that all is well
	breaker     *breaker
	firstPause  time.Duration

	net     changelog.Net
	scratch []byte
	id      []byte
	name    []byte // of an index
	movers  movers
	seed    maphash.Seed
	written bool // something of the current checkpoint was sent, or waits in a pipe
	void    int64
	broken  error // why the current checkpoint can only be discarded
	letters []letter

	superseded int64 // of the checkpoint that was prepared last

	// requests is what requests of the current checkpoint run under; stop ends them.
	requests context.Context
	stop     context.CancelFunc
}

// Open looks at the index, and notes the incarnation: from then on every document that is written has a version above all of an earlier one.
//
// The writers of ended generations need no fence: what they send has versions of what they read, so whatever is older than what a successor
// wrote is refused, and what is newer the successor will read and write too. Deletes: Hard is the exception, see lease.
func (c *committer) Open(ctx context.Context, claim sink.Claim) error {
	c.drop(ctx)
	c.opened = false
	if claim.Incarnation > maxIncarnation {
		return c.fail("open", sink.ErrConfig, fmt.Errorf("incarnation %d is above %d, the largest that a version can hold", claim.Incarnation, maxIncarnation))
	}
	for _, e := range claim.Ended {
		for _, d := range e.Decided {
			if d.Sink == c.lane.Sink && !d.Empty() {
				return c.fail("open", sink.ErrConfig, fmt.Errorf("checkpoint %d.%d of this sink waits to be committed, but this sink leaves no receipts: it is another sink's name", e.ID, d.Checkpoint))
			}
		}
	}
	c.began = len(claim.Positions) > 0
	if c.owed != nil {
		c.owed.close()
		c.behind = c.owed.behind
	}
	c.lease, c.owed = nil, nil
	if c.s.o.Pipeline != "" {
		if err := c.s.lookPipeline(ctx); err != nil {
			return c.classed("open", err)
		}
	}
	for _, p := range c.plans {
		if err := c.openIndex(ctx, p); err != nil {
			return c.classed("open", err)
		}
	}
	c.gen, c.incarnation = claim.Generation, claim.Incarnation
	c.topicIDs = make(map[string]string)
	c.learn(claim.Positions)
	c.metaName = append(appendString(nil, []byte(c.s.o.Meta)), ':')
	if c.s.o.Deletes == Hard {
		if err := c.openLease(ctx, claim.Generation); err != nil {
			return c.classed("open", err)
		}
		if err := c.openOwed(ctx); err != nil {
			return c.classed("open", err)
		}
	}
	c.opened = true
	return nil
}

// learn notes topic ids.
func (c *committer) learn(ps []changelog.Position) {
	for _, p := range ps {
		if id := p.TopicID.String(); id != "" {
			c.topicIDs[p.Topic] = id
		}
	}
}

func (c *committer) topicID(topic string) string { return c.topicIDs[topic] }

// Write sends the net effect of the batch, in requests that are under way when it returns. Nothing of b is needed then.
func (c *committer) Write(ctx context.Context, b *changelog.Batch) error {
	if err := c.ready("write"); err != nil {
		return err
	}
	if err := c.write(ctx, b); err != nil {
		return c.spoil(ctx, "write", err)
	}
	return nil
}

func (c *committer) ready(op string) error {
	switch {
	case c.broken != nil:
		return c.broken
	case !c.opened:
		return c.fail(op, sink.ErrConfig, errors.New("called before Open: a mistake of the caller"))
	}
	return nil
}

func (c *committer) write(ctx context.Context, b *changelog.Batch) error {
	p := c.plan(b.Table)
	if p == nil {
		return configf("table %q is not one of the lane's", b.Table.Name)
	}
	if b.Len() == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	c.begin(ctx)
	var refused refusals
	if p.keyless {
		for i := range b.Changes {
			if err := c.put(ctx, p, &b.Changes[i], &refused); err != nil {
				return err
			}
		}
		return refused.err()
	}
	for i := range b.Changes {
		if len(b.Changes[i].Row) != len(p.table.Schema.Columns) {
			refused.add(&b.Changes[i], "", errWide)
		}
	}
	if err := refused.err(); err != nil {
		return err
	}
	// A message may hold several changes of one key, which have one version: the net effect leaves one of them, and since a batch never
	// ends within a message, each version of a document stands for one content.
	if p.naming != nil && p.naming.moves {
		defer c.movers.reset()
		c.moving(p, b.Changes, &refused)
		if err := refused.err(); err != nil {
			return err
		}
	}
	c.net.Compute(p.table.Schema, b.Changes)
	defer c.net.Reset()
	for _, changes := range [][]changelog.Change{c.net.Deletes, c.net.Upserts} {
		for i := range changes {
			if err := c.put(ctx, p, &changes[i], &refused); err != nil {
				return err
			}
		}
	}
	c.void += int64(c.net.Superseded)
	return refused.err()
}

// put adds one change to the pipe that its document belongs to.
func (c *committer) put(ctx context.Context, p *plan, ch *changelog.Change, refused *refusals) error {
	if ch.Offset < 0 || ch.Offset > maxOffset {
		return configf("offset %d of %s does not fit into a version, which has room for %d", ch.Offset, ch.Partition, int64(maxOffset))
	}
	if why := p.takes(ch); why != nil {
		refused.add(ch, "", why)
		return nil
	}
	c.id = c.s.appendID(c.id[:0], c.scratch, p.table, ch)
	if p.naming == nil {
		return c.fill(ctx, p, ch, "", false, refused)
	}
	var err error
	if c.name, err = p.naming.appendName(c.name[:0], ch.Row); err != nil {
		refused.add(ch, "", err)
		return nil
	}
	if p.naming.moves {
		// Wherever else a change of this batch says that the row was, it is no more.
		gone := *ch
		gone.Kind = changelog.Delete
		for _, from := range c.movers.names[string(c.id)] {
			if from != string(c.name) {
				if err := c.into(ctx, p, &gone, from, true, refused); err != nil {
					return err
				}
			}
		}
	}
	name := ""
	if x := p.known[string(c.name)]; x != nil {
		name = x.name
	} else {
		name = string(c.name)
	}
	return c.into(ctx, p, ch, name, false, refused)
}

// into adds one change to the pipe of its document in the index of that name, which is looked at and made when it is new. extra is true of what a change
// does beside its own document.
func (c *committer) into(ctx context.Context, p *plan, ch *changelog.Change, name string, extra bool, refused *refusals) error {
	if p.known[name] == nil {
		if err := c.openTarget(ctx, p, name); err != nil {
			return err
		}
		if c.lease != nil {
			if err := c.lease.cover(ctx, name); err != nil {
				return err
			}
		}
	}
	p.touched[name] = true
	return c.fill(ctx, p, ch, name, extra, refused)
}

func (c *committer) fill(ctx context.Context, p *plan, ch *changelog.Change, into string, extra bool, refused *refusals) error {
	pipe := c.pipes[maphash.Bytes(c.seed, c.id)%uint64(len(c.pipes))]
	if pipe.fill != nil && len(pipe.fill.items) > 0 && pipe.fill.plan != p { // a request is for one plan
		if err := pipe.send(ctx); err != nil {
			return err
		}
	}
	if r := pipe.add(p, ch, c.id, into, extra); r != nil {
		name := ""
		if r.column >= 0 {
			name = p.table.Schema.Columns[r.column].Name
		}
		refused.add(ch, name, r.why)
		return nil
	}
	if !pipe.due() {
		return nil
	}
	return pipe.send(ctx)
}

// takes says why a kind cannot be written.
func (p *plan) takes(ch *changelog.Change) error {
	if p.keyless && !ch.Kind.Adds() {
		return fmt.Errorf("%s of a table without a key: its document cannot be found", ch.Kind)
	}
	if !ch.Kind.Adds() && !p.deletes {
		return fmt.Errorf("%s of a table of mode %s", ch.Kind, p.table.Mode)
	}
	return nil
}

// Prepare sends what is left and waits until every document has its answer. The receipt is empty: all of it is visible by now.
func (c *committer) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	if err := c.ready("prepare"); err != nil {
		return sink.Committable{}, err
	}
	if err := c.prepare(ctx, cut); err != nil {
		return sink.Committable{}, c.spoil(ctx, "prepare", err)
	}
	return sink.Committable{}, nil
}

func (c *committer) prepare(ctx context.Context, cut sink.Cut) error {
	superseded := c.void
	c.learn(cut.To)
	if c.written {
		if err := c.flush(ctx); err != nil {
			return err
		}
		for _, p := range c.pipes {
			superseded += p.superseded
			if err := c.foreignTopic(p.topics); err != nil {
				return err
			}
		}
		if err := c.settled(ctx); err != nil {
			return err
		}
	}
	if err := c.writeLetters(ctx, cut); err != nil {
		return err
	}
	if err := c.owed.check(ctx); err != nil {
		return err
	}
	c.superseded = superseded
	c.forget()
	return nil
}

// flush sends everything and waits for every answer. All refusals are told at once.
func (c *committer) flush(ctx context.Context) error {
	c.flushing = true
	defer func() { c.flushing = false }()
	var errs []error
	for _, p := range c.pipes {
		if err := p.send(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	for _, p := range c.pipes {
		if err := p.wait(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return worst(errs)
}

// settled makes sure that each index is still the one that took the documents, and shows them if asked to.
func (c *committer) settled(ctx context.Context) error {
	for _, p := range c.plans {
		names := []string{p.index}
		if p.naming != nil {
			names = slices.Sorted(maps.Keys(p.touched))
		}
		for _, name := range names {
			if err := c.sameIndex(ctx, p, name); err != nil {
				return err
			}
			if c.s.o.Refresh {
				if err := c.s.refresh(ctx, name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Superseded tells how many changes of the checkpoint that was prepared last were not written, because a later one of the same key came in the
// same batch or was in the index already.
func (c *committer) Superseded() int64 { return c.superseded }

// Spill has nothing to do: Write keeps nothing of a batch.
func (c *committer) Spill() {}

// Discard ends the requests that are under way. What they wrote stays, early, and is written again.
func (c *committer) Discard(ctx context.Context) error {
	c.drop(ctx)
	return nil
}

// Commit has nothing to do: Prepare returned when every document was there.
func (c *committer) Commit(context.Context, sink.Committable) error { return nil }

// Abort has nothing to do: what was written early converges.
func (c *committer) Abort(ctx context.Context, _ sink.Committable) error { return nil }

// Close ends what is under way.
func (c *committer) Close(ctx context.Context) error {
	c.drop(ctx)
	c.owed.close()
	c.opened = false
	return nil
}

// begin makes the context of a checkpoint's requests: they outlive the call that began them.
func (c *committer) begin(ctx context.Context) {
	c.written = true
	if c.stop == nil {
		c.requests, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	}
	if c.seed == (maphash.Seed{}) {
		c.seed = maphash.MakeSeed()
	}
}

// drop ends the current checkpoint.
func (c *committer) drop(context.Context) {
	c.forget()
	c.broken = nil
}

// forget waits for what is under way, which is nothing after a success.
func (c *committer) forget() {
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
	for _, p := range c.pipes {
		p.reset()
	}
	for _, p := range c.plans {
		clear(p.touched)
	}
	clear(c.letters)
	c.letters, c.written, c.void = c.letters[:0], false, 0
}

// spoil ends the current checkpoint after err.
func (c *committer) spoil(ctx context.Context, op string, err error) error {
	// Other pipes may hold refusals too, and each that is told now saves a repetition.
	if sink.ClassOf(err) == sink.ErrRejected && ctx.Err() == nil {
		err = worst([]error{err, c.flush(ctx)})
	}
	c.drop(ctx)
	c.broken = c.classed(op, err)
	return c.broken
}

func (c *committer) plan(t *changelog.Table) *plan {
	for _, p := range c.plans {
		if p.table == t || p.table.Name == t.Name {
			return p
		}
	}
	return nil
}

// now is when a tombstone is written.
func (c *committer) now() time.Time { return time.Now() }

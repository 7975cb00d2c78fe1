package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/internal/protocol"
)

// Coordinator runs the checkpoint protocol for one lane: it performs what the protocol machine asks for and feeds the answers
// back. Its methods are called from one goroutine at a time; it starts none.
//
// When a checkpoint must be done again (a transient or unclear failure, a fence while the partitions are still assigned) the
// coordinator acquires anew and calls Source.Seek, and then Write or Checkpoint returns nil: the caller goes on reading from
// where the source now is. When ctx ends, a method returns its cause; the lane can still be used and acquires anew first. Any other
// error is final: the lane is over, Close it.
type Coordinator struct {
	o          Options
	m          *protocol.Machine
	outer      *outerStore // of an External; nil: the store decides
	committers []Committer
	lots       []lot // what each of them was given
	before     int   // how many of them come before those that are placed last
	store      Store
	guarantee  Guarantee
	log        *slog.Logger

	claim    Claim                            // of the current generation
	receipts map[protocol.Receipt]Committable // prepared or decided by it, and not yet committed
	batches  []*changelog.Batch               // given to the committers and not yet prepared or discarded
	counters Counters                         // since the last checkpoint
	bytes    int                              // of batches
	written  int                              // bytes of all batches since the last checkpoint
	stale    int32                            // the stored group generation that the last Acquire was refused for
	cut      Cut                              // the running checkpoint
	began    time.Time                        // of the running checkpoint
	report   Report                           // of the last decided checkpoint
	unclear  bool                             // the outcome of the last Save is not known yet
	err      error                            // the last failure
	over     error                            // why the lane is over
}

// NewCoordinator checks o, all of it at once, and asks every sink for its committer.
func NewCoordinator(ctx context.Context, o Options) (*Coordinator, error) {
	if err := o.complete(); err != nil {
		return nil, &Error{Op: "start", Bridge: o.Bridge, Class: ErrConfig, Err: err}
	}
	var before int
	o.Sinks, before = placed(o.Sinks)
	c := &Coordinator{o: o, lots: make([]lot, len(o.Sinks)), before: before, log: o.Logger.With("bridge", o.Bridge, "lane", o.Lane), store: o.Store, receipts: make(map[protocol.Receipt]Committable)}
	c.outer, _ = o.Store.(*outerStore)
	c.m = protocol.New(protocol.Settings{Sinks: len(o.Sinks), Attempts: o.Attempts, AlarmAfter: o.AlarmAfter, StopAfter: o.StopAfter, Outer: c.outer != nil, Group: o.Group != nil})
	elsewhere := o.Store != nil
	for _, d := range o.Sinks {
		tables := o.Tables
		if d.Tables != nil {
			tables = d.Tables
		}
		cm, err := d.Sink.Lane(ctx, Lane{Bridge: o.Bridge, Number: o.Lane, Sink: d.Name, Tables: tables, Interval: o.Interval, ByteBudget: o.ByteBudget, OtherStore: elsewhere})
		if err != nil {
			c.closeAll(ctx)
			return nil, c.wrap("start", d.Name, err)
		}
		c.committers = append(c.committers, cm)
		if _, own := cm.(Store); own {
			elsewhere = true
		}
	}
	if err := c.chooseStore(); err != nil {
		c.closeAll(ctx)
		return nil, err
	}
	c.guarantee = Combine(o.Sinks...)
	return c, nil
}

func (o *Options) complete() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if o.Bridge == "" {
		bad("Bridge is empty: every bridge needs a durable name")
	}
	if len(o.Sinks) == 0 {
		bad("Sinks is empty: a bridge needs at least one sink")
	}
	names := map[string]bool{}
	for i, d := range o.Sinks {
		switch {
		case d.Name == "":
			bad("Sinks[%d].Name is empty: committables are stored under it", i)
		case names[d.Name]:
			bad("two sinks are called %q: give each a name of its own", d.Name)
		}
		if d.Sink == nil {
			bad("Sinks[%d].Sink is nil", i)
		}
		if d.Tables != nil && len(d.Tables) == 0 {
			bad("Sinks[%d].Tables is empty: leave it nil for all tables, or leave the sink out", i)
		}
		for _, t := range d.Tables {
			if !slices.Contains(o.Tables, t) {
				bad("Sinks[%d].Tables names table %s, which is not one of Tables", i, t.Name)
			}
		}
		names[d.Name] = true
	}
	if o.Source == nil {
		bad("Source is nil: the coordinator must be able to send the consumer back")
	}
	if len(o.Tables) == 0 {
		bad("Tables is empty: name the tables whose batches will be written")
	}
	if o.Interval < 0 || o.ByteBudget < 0 || o.Grace < 0 || o.Attempts < 0 || o.AlarmAfter < 0 || o.StopAfter < 0 {
		bad("Interval, ByteBudget, Grace, Attempts, AlarmAfter and StopAfter must not be negative")
	}
	if o.ByteBudget == 0 {
		o.ByteBudget = DefaultByteBudget
	}
	if o.Grace == 0 {
		o.Grace = 30 * time.Second
	}
	if o.Attempts == 0 {
		o.Attempts = 10
	}
	if o.AlarmAfter == 0 {
		o.AlarmAfter = 5
	}
	if o.Backoff == nil {
		o.Backoff = backoff
	}
	if o.Owner == "" {
		host, _ := os.Hostname()
		o.Owner = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

// chooseStore finds who decides. A committer that is a store commits its rows in its own Save: it must be the one that decides, or its
// rows would wait for a Save that never comes.
func (c *Coordinator) chooseStore() error {
	own := -1
	for i, cm := range c.committers {
		if _, ok := cm.(Store); !ok {
			continue
		}
		if c.outer != nil {
			return c.outer.ownStore(c.o.Sinks[i].Name)
		}
		if own >= 0 || c.store != nil {
			other := "the store in Options.Store decides"
			if own >= 0 {
				other = fmt.Sprintf("sink %q decides", c.o.Sinks[own].Name)
			}
			return &Error{Op: "start", Sink: c.o.Sinks[i].Name, Bridge: c.o.Bridge, Class: ErrConfig, Err: fmt.Errorf(
				"the sink makes rows and positions durable in one transaction of its own, but %s: use one such sink and no other store", other)}
		}
		own = i
	}
	if own >= 0 {
		c.store = c.committers[own].(Store)
	}
	for _, cm := range c.committers {
		if offer, ok := cm.(StoreOfferer); ok && c.store == nil {
			c.store = offer.OfferStore()
		}
	}
	if c.store == nil {
		return &Error{Op: "start", Bridge: c.o.Bridge, Class: ErrConfig,
			Err: errors.New("no store: none of the sinks can be its own store or offers one, so set Options.Store")}
	}
	return nil
}

// Guarantee states what the combination of sinks gives, what readers of each see when, and names the weakest link; see [Combine].
func (c *Coordinator) Guarantee() Guarantee { return c.guarantee }

// Assign adds partitions to the lane: what is written so far is checkpointed, a new generation over the old and the new partitions
// is acquired, every sink opened. It returns where the added partitions are to be read from; the caller moves its consumer
// there (Seek is not called for them) and checks that these positions still exist.
func (c *Coordinator) Assign(ctx context.Context, add []changelog.Partition) ([]changelog.Position, error) {
	if err := c.drive(ctx, protocol.Assign{Add: add}); err != nil {
		return nil, err
	}
	out := make([]changelog.Position, 0, len(add))
	for _, p := range add {
		pos, ok := c.m.Position(p)
		if !ok {
			return nil, c.wrap("assign", "", fmt.Errorf("no position for %s", p))
		}
		out = append(out, pos)
	}
	return out, nil
}

// Write takes a batch into the current checkpoint. b may be nil when messages were read that hold no change. Batches of
// partitions that the lane does not hold are an error. p.To must not pass a message of which b holds only a part. After it returned
// nil, b belongs to the coordinator until Options.Release is told.
func (c *Coordinator) Write(ctx context.Context, b *changelog.Batch, p Progress) error {
	if c.over != nil {
		return c.over
	}
	read := make([]changelog.Partition, len(p.To))
	for i, to := range p.To {
		read[i] = to.Partition
	}
	if !c.m.Owned() {
		c.release(b)
		if len(c.m.Partitions()) == 0 {
			return &Error{Op: "write", Bridge: c.o.Bridge, Class: ErrConfig, Err: errors.New("the lane holds no partitions: Assign first")}
		}
		// An interrupted request gave the generation up. The batch is dropped, and the source sent back to before it.
		return c.drive(ctx, protocol.Recover{Read: read})
	}
	for _, to := range p.To {
		if at, ok := c.m.Position(to.Partition); !ok || to.Offset < at.Offset {
			c.release(b)
			return &Error{Op: "write", Bridge: c.o.Bridge, Position: &to, Class: ErrConfig,
				Err: errors.New("Progress.To names a partition that the lane does not hold, or goes back: a mistake of the caller")}
		}
	}
	if len(p.Letters) > 0 {
		i := c.keeper()
		if i < 0 {
			c.release(b)
			return &Error{Op: "write", Bridge: c.o.Bridge, Class: ErrConfig, Err: errors.New("Progress.Letters: no sink of this lane keeps dead letters")}
		}
		if err := c.committers[i].(DeadLetterKeeper).WriteDeadLetters(ctx, p.Letters); err != nil {
			c.release(b)
			return c.drive(ctx, protocol.WriteFailed{Sink: i, Class: c.fail("write dead letters", i, err).Class, Read: read})
		}
	}
	var untaken int64
	if b != nil {
		c.batches = append(c.batches, b)
		c.bytes += b.Bytes()
		c.written += b.Bytes()
		none, i, err := c.give(ctx, b)
		if err != nil {
			return c.drive(ctx, protocol.WriteFailed{Sink: i, Class: c.refused(c.fail("write", i, err)).Class, Read: read})
		}
		untaken = none
		if h := c.o.Hooks.Written; h != nil {
			h(b.Table.Name, b.Len(), b.Bytes())
		}
	}
	c.m.Step(protocol.Advance{To: p.To})
	n := Counters{Records: p.Records, Superseded: p.Superseded, Skipped: p.Skipped + untaken}
	if b != nil {
		n.Applied = int64(b.Len()) - untaken
	}
	for i := range p.Letters {
		n.DeadLettered += int64(p.Letters[i].Changes)
	}
	n.Read = n.Applied + n.Superseded + n.DeadLettered + n.Skipped
	c.counters = c.counters.Add(n)
	if c.bytes >= c.o.ByteBudget/4 {
		c.spill()
	}
	return nil
}

// KeepsDeadLetters reports whether [Progress].Letters may be used: one of the sinks is a [DeadLetterKeeper].
func (c *Coordinator) KeepsDeadLetters() bool { return c.keeper() >= 0 }

// TakesOriginals reports whether a sink of the lane makes use of the originals of batches of t: whoever decodes them then sets
// [changelog.Batch].KeepOriginals, unless it alters what was decoded.
func (c *Coordinator) TakesOriginals(t *changelog.Table) bool {
	for i, cm := range c.committers {
		if o, ok := cm.(OriginalTaker); ok && c.o.Sinks[i].takes(t) && o.TakesOriginals(t) {
			return true
		}
	}
	return false
}

// keeper returns the index of the committer that keeps dead letters, -1 if there is none.
func (c *Coordinator) keeper() int {
	return slices.IndexFunc(c.committers, func(cm Committer) bool {
		_, ok := cm.(DeadLetterKeeper)
		return ok
	})
}

// Checkpoint runs steps 1 to 4. With nothing read and nothing to settle it does nothing.
func (c *Coordinator) Checkpoint(ctx context.Context) (Report, error) {
	err := c.drive(ctx, protocol.Barrier{})
	return c.report, err
}

// Revoke gives partitions back in order: it finishes a checkpoint, or aborts when ctx ends before that, and ends the generation; a
// new one begins with the partitions that are left.
func (c *Coordinator) Revoke(ctx context.Context, gone []changelog.Partition) error {
	return c.drive(ctx, protocol.Revoke{Gone: gone})
}

// Lose drops partitions that somebody else may own already: nothing more is saved for them. What was written is discarded and read again by
// their new owner; the partitions that are left begin a new generation from their saved positions (Seek is called for them).
func (c *Coordinator) Lose(ctx context.Context, gone []changelog.Partition) error {
	return c.drive(ctx, protocol.Lose{Gone: gone})
}

// Pending returns what the current checkpoint holds so far: changes and bytes of batches.
func (c *Coordinator) Pending() (changes, bytes int) { return int(c.counters.Applied), c.written }

// Held returns the bytes of the batches that are still needed: all that are pending, unless every sink is a [Spiller] and none is placed last.
func (c *Coordinator) Held() int { return c.bytes }

// spill lets go of the batches if every sink can. One that is placed last was not given them yet.
func (c *Coordinator) spill() {
	if c.before < len(c.committers) {
		return
	}
	for _, cm := range c.committers {
		if _, ok := cm.(Spiller); !ok {
			return
		}
	}
	for _, cm := range c.committers {
		cm.(Spiller).Spill()
	}
	c.releaseAll()
}

// Partitions returns the partitions that the lane holds, sorted.
func (c *Coordinator) Partitions() []changelog.Partition { return slices.Clone(c.m.Partitions()) }

// Store returns the store that decides, for operators' reads.
func (c *Coordinator) Store() Store { return c.store }

// Close drops what is not checkpointed and closes committers and store. Checkpoint first to keep it. Twice is harmless.
func (c *Coordinator) Close(ctx context.Context) error {
	if c.over == nil {
		c.over = &Error{Op: "use", Bridge: c.o.Bridge, Class: ErrConfig, Err: errors.New("the coordinator is closed")}
	}
	err := c.closeAll(ctx)
	c.releaseAll()
	return err
}

func (c *Coordinator) closeAll(ctx context.Context) error {
	var errs []error
	for _, cm := range c.committers {
		errs = append(errs, cm.Close(ctx))
	}
	if c.o.Store != nil {
		errs = append(errs, c.o.Store.Close(ctx))
	}
	return errors.Join(errs...)
}

func (c *Coordinator) release(b *changelog.Batch) {
	if b != nil && c.o.Release != nil {
		c.o.Release(b)
	}
}

func (c *Coordinator) releaseAll() {
	for _, b := range c.batches {
		c.release(b)
	}
	clear(c.batches)
	c.batches, c.bytes = c.batches[:0], 0
	for i := range c.lots {
		c.lots[i].release()
	}
}

package s3

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// committer is one lane's writer. Calls come from one goroutine at a time.
type committer struct {
	s       *Sink
	lane    sink.Lane
	names   names
	targets []*target
	letters *target // nil: there was no letter yet

	gen    sink.Generation // that Open was called for
	opened bool
	seq    int               // of the last file of the generation; never used twice in it
	last   sink.CheckpointID // that was prepared in the generation

	open   []*file // that take rows
	done   []*file // that were ended, whose parts may be on their way
	tick   uint64  // orders files by their last row
	broken error   // why the current checkpoint can only be discarded
	folder []byte
	saw    []saw // event times of the current checkpoint

	kept       []kept // of Upsert: batches whose rows are in no file yet
	keptBytes  int
	net        changelog.Net
	void       int64
	superseded int64

	work         context.Context // of requests that outlive the call that began them; nil: none was begun
	stop         context.CancelFunc
	slots        chan struct{} // one for each request that may be under way
	lines        compressors
	fenced, told map[sink.GenerationID]bool // fences that this committer has seen or written
}

// cleanUpTime bounds what is done after a context has ended, or where nobody gave one: aborting uploads. What is left, the next Open finds.
const cleanUpTime = 10 * time.Second

// Write encodes the batch into its files, and sends parts that are full. Rows of Upsert wait for the end of their file.
//
// Any failure is the end of the checkpoint.
func (c *committer) Write(ctx context.Context, b *changelog.Batch) error {
	if c.broken != nil {
		return c.broken
	}
	if err := c.write(ctx, b); err != nil {
		return c.spoil(ctx, "write", err)
	}
	return nil
}

func (c *committer) write(ctx context.Context, b *changelog.Batch) error {
	if !c.opened {
		return errorf(sink.ErrConfig, "Write before Open: a mistake of the caller")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	i := slices.IndexFunc(c.targets, func(tg *target) bool { return tg.table == b.Table || tg.table.Name == b.Table.Name })
	if i < 0 {
		return errorf(sink.ErrConfig, "table %q is not one of the lane's", b.Table.Name)
	}
	tg := c.targets[i]
	if err := c.judge(tg, b.Changes); err != nil {
		return err
	}
	if tg.eventTime >= 0 {
		c.observe(tg, b.Changes)
	}
	if c.s.o.Kind == Upsert {
		return c.keep(ctx, tg, b)
	}
	for i := range b.Changes {
		if err := c.row(ctx, tg, &b.Changes[i]); err != nil {
			return err
		}
	}
	if err := c.hold(ctx); err != nil {
		return err
	}
	return c.failure()
}

// maxNamed is how many refused changes one error names.
const maxNamed = 1000

// judge refuses a batch before anything of it is written, and names all its changes that can never be.
func (c *committer) judge(tg *target, changes []changelog.Change) error {
	var bad []sink.Rejection
	for i := range changes {
		if d := tg.judge(&changes[i], c.s.o.Kind); d != nil {
			bad = append(bad, rejection(&changes[i], d))
			if len(bad) == maxNamed {
				break
			}
		}
	}
	return rejected(bad)
}

func rejection(c *changelog.Change, d *changelog.DataError) sink.Rejection {
	return sink.Rejection{Partition: c.Partition, Offset: c.Offset, Index: c.Index, Column: d.Field, Reason: errors.New(d.Reason)}
}

// rejected is the ErrRejected of these changes, at most one a message; nil for none.
func rejected(bad []sink.Rejection) error {
	if len(bad) == 0 {
		return nil
	}
	bad = slices.CompactFunc(bad, func(a, b sink.Rejection) bool { return a.Partition == b.Partition && a.Offset == b.Offset })
	first := bad[0]
	reason := first.Reason
	if first.Column != "" {
		reason = fmt.Errorf("column %q: %w", first.Column, reason)
	}
	if n := len(bad) - 1; n > 0 {
		reason = fmt.Errorf("%w (and changes of %d more messages)", reason, n)
	}
	return &sink.Error{Class: sink.ErrRejected, Err: reason, Rejected: bad, Position: &changelog.Position{Partition: first.Partition, Offset: first.Offset, LeaderEpoch: -1}}
}

// row writes one change into the file of its folder.
func (c *committer) row(ctx context.Context, tg *target, ch *changelog.Change) error {
	var err error
	if c.folder, err = appendFolder(append(c.folder[:0], tg.folder...), tg.parts, ch); err == nil {
		var f *file
		if f, err = c.fileFor(ctx, tg); err != nil {
			return err
		}
		if err = f.row(tg.change(ch)); err == nil {
			return c.after(ctx, f)
		}
	}
	if d, ok := rowError(err); ok {
		return rejected([]sink.Rejection{rejection(ch, d)})
	}
	return err
}

// kept is a batch of Upsert. The contract of Write keeps its memory alive until Prepare or Discard returns.
type kept struct {
	target *target
	batch  *changelog.Batch
}

// keep holds the batch until the net effect of the file is known. What is held counts against the lane's budget.
func (c *committer) keep(ctx context.Context, tg *target, b *changelog.Batch) error {
	c.kept = append(c.kept, kept{tg, b})
	c.keptBytes += b.Bytes()
	if c.keptBytes < c.lane.ByteBudget {
		return nil
	}
	return c.settle(ctx)
}

// settle writes the net effect of what is kept, and ends the files, so that no key comes twice in one.
func (c *committer) settle(ctx context.Context) error {
	for _, tg := range c.targets {
		var runs [][]changelog.Change
		for _, k := range c.kept {
			if k.target == tg {
				runs = append(runs, k.batch.Changes)
			}
		}
		if len(runs) == 0 {
			continue
		}
		c.net.Compute(tg.table.Schema, runs...)
		c.void += int64(c.net.Superseded)
		for i := range c.net.Deletes {
			c.net.Deletes[i].Kind = changelog.Delete
		}
		for _, set := range [][]changelog.Change{c.net.Deletes, c.net.Upserts} {
			for i := range set {
				if err := c.row(ctx, tg, &set[i]); err != nil {
					return err
				}
			}
		}
	}
	clear(c.kept)
	c.kept, c.keptBytes = c.kept[:0], 0
	c.net.Reset()
	return c.endAll(ctx)
}

// Superseded implements [sink.Superseder].
func (c *committer) Superseded() int64 { return c.superseded }

// Prepare ends all files, waits until the server has all of them, and looks whether the generation has been ended.
//
// That look comes last. If a successor's fence is not there yet, then all that is named in the receipt was there before the fence, and the
// successor's sweep, which follows its fence, finds it; if it is there, nobody will ever ask for this receipt.
func (c *committer) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	if c.broken != nil {
		return sink.Committable{}, c.broken
	}
	out, err := c.prepare(ctx, cut)
	if err != nil {
		return sink.Committable{}, c.spoil(ctx, "prepare", err)
	}
	c.superseded, c.void = c.void, 0
	c.forget()
	return out, nil
}

func (c *committer) prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	if err := c.settle(ctx); err != nil {
		return sink.Committable{}, err
	}
	c.last = max(c.last+1, cut.Checkpoint)
	if len(c.done) == 0 {
		return sink.Committable{}, ctx.Err()
	}
	if !c.opened || cut.Generation.ID != c.gen.ID {
		return sink.Committable{}, errorf(sink.ErrConfig, "Prepare of generation %d, and Open was called for %d: a mistake of the caller", cut.Generation.ID, c.gen.ID)
	}
	if err := c.drain(ctx); err != nil {
		return sink.Committable{}, err
	}
	if err := c.failure(); err != nil {
		return sink.Committable{}, err
	}
	for _, f := range c.done {
		if err := f.staged(ctx); err != nil {
			return sink.Committable{}, err
		}
	}
	out := sink.Committable{Sink: c.lane.Sink, Generation: c.gen.ID, Checkpoint: cut.Checkpoint, Version: c.receiptVersion(), From: cut.From, To: cut.To}
	var err error
	if out.Data, err = c.receipt(ctx, cut); err != nil {
		return sink.Committable{}, err
	}
	if err := c.alive(ctx); err != nil {
		c.removeReceipt(ctx, out)
		return sink.Committable{}, err
	}
	return out, nil
}

// Discard drops what was written. Requests under way are cut off and waited for; what one of them leaves on the server all the same is found by the next
// Open.
func (c *committer) Discard(ctx context.Context) error {
	c.drop(ctx)
	return nil
}

// Close drops what was written and not prepared.
func (c *committer) Close(ctx context.Context) error {
	c.drop(ctx)
	c.opened = false
	c.lines.close()
	return nil
}

// drop ends the current checkpoint without effect.
func (c *committer) drop(ctx context.Context) {
	if c.stop != nil {
		c.stop()
		// Requests that were cut off return at once; a receipt is of none of them.
		c.drain(context.WithoutCancel(ctx))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	for _, f := range slices.Concat(c.open, c.done) {
		f.drop(ctx)
	}
	c.void, c.broken = 0, nil
	c.forget()
}

// forget begins the next checkpoint.
func (c *committer) forget() {
	if c.stop != nil {
		c.stop()
	}
	clear(c.kept)
	c.work, c.stop, c.open, c.done, c.kept, c.keptBytes = nil, nil, nil, nil, c.kept[:0], 0
	c.saw = c.saw[:0]
}

// spoil ends the current checkpoint after err. An upload that is gone was mostly swept by a successor, and a lane that is told to try again would take
// the partitions back from it: so the fence is asked.
func (c *committer) spoil(ctx context.Context, op string, err error) error {
	c.drop(ctx)
	if c.opened && ctx.Err() == nil && undone(err) == sink.ErrTransient {
		ctx, cancel := context.WithTimeout(ctx, cleanUpTime)
		defer cancel()
		if fenced := c.alive(ctx); classify(fenced) == sink.ErrFenced {
			err = fenced
		}
	}
	c.broken = wrap(ctx, op, c.lane.Sink, c.lane.Bridge, undone(err), err)
	return c.broken
}

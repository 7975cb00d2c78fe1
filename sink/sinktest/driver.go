package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Driver plays a lane: it calls one committer and one store in the order that package sink numbers, reads a [Topic], and keeps what
// a lane keeps. It decides nothing by itself; each method is one call, and its error is the call's own. What it keeps may
// be read and, between calls, set.
type Driver struct {
	Committer sink.Committer
	Store     sink.Store
	Topic     *Topic

	Request sink.AcquireRequest // that Acquire sends, but for its partitions
	Name    string              // under which Trace hears of calls
	Trace   func(call string)   // hears of every call and its answer; nil: nobody

	Claim   sink.Claim           // of the last Acquire
	From    []changelog.Position // where the current checkpoint begins
	To      []changelog.Position // how far it was written
	ID      sink.CheckpointID    // of the last Prepare
	Receipt sink.Committable     // of the last Prepare
	Waiting []sink.Committable   // decided, by this generation, and not committed
	Settle  []sink.GenerationID  // what the next Save says to be settled

	counters sink.Counters
	batches  []*changelog.Batch // written, neither prepared nor discarded
}

// NewDriver returns a driver of bridge [Bridge] over one committer and its store.
func NewDriver(c sink.Committer, s sink.Store, t *Topic) *Driver {
	return &Driver{Committer: c, Store: s, Topic: t,
		Request: sink.AcquireRequest{Bridge: Bridge, Fingerprint: "sinktest", Owner: "sinktest", GroupGeneration: -1}}
}

// Acquire takes partitions, sorted, for a new generation, and goes to the saved positions, or to offset 0. It leaves
// everything of an older generation as it is.
func (d *Driver) Acquire(ctx context.Context, partitions ...int32) error {
	r := d.Request
	r.Partitions = nil
	for _, p := range partitions {
		r.Partitions = append(r.Partitions, d.Topic.Partition(p))
	}
	claim, err := d.Store.Acquire(ctx, r)
	d.tell(err, "Acquire %v = generation %d from %v, ended %s", partitions, claim.Generation.ID, offsets(claim.Positions), endedText(claim.Ended))
	if err != nil {
		return err
	}
	d.Claim, d.ID, d.Receipt, d.Waiting, d.Settle = claim, 0, sink.Committable{}, nil, nil
	d.counters, d.batches = sink.Counters{}, nil
	d.From = nil
	for _, p := range partitions {
		from := d.Topic.Position(p, 0)
		for _, s := range claim.Positions {
			if s.Partition == from.Partition {
				from = s
			}
		}
		d.From = append(d.From, from)
	}
	d.To = slices.Clone(d.From)
	for _, e := range claim.Ended {
		d.Settle = append(d.Settle, e.ID)
	}
	return nil
}

// Open opens the committer with the last claim.
func (d *Driver) Open(ctx context.Context) error {
	err := d.Committer.Open(ctx, d.Claim)
	d.tell(err, "Open generation %d", d.Claim.Generation.ID)
	return err
}

// Write writes up to most messages of each partition as one batch; below 0: all there are. Where there is none, nothing is called.
func (d *Driver) Write(ctx context.Context, most int) error {
	b, to := d.Topic.Read(d.To, most)
	if b.Len() == 0 {
		return nil
	}
	d.batches = append(d.batches, b)
	n := int64(b.Len())
	changes := changesText(b.Changes) // before Write: the committer may do with the batch what it likes
	err := d.Committer.Write(ctx, b)
	d.tell(err, "Write %s up to %v", changes, offsets(to))
	if err == nil {
		d.To = to
		d.counters = d.counters.Add(sink.Counters{Records: n, Read: n, Applied: n})
	}
	return err
}

// Prepare prepares what was written as the next checkpoint. The memory of the batches is overwritten when it returns, as the
// contract allows.
func (d *Driver) Prepare(ctx context.Context) error {
	d.ID++
	r, err := d.Committer.Prepare(ctx, sink.Cut{Generation: d.Claim.Generation, Checkpoint: d.ID,
		From: slices.Clone(d.From), To: slices.Clone(d.To), Counters: d.counters})
	d.spoil()
	d.tell(err, "Prepare checkpoint %d = receipt of %d bytes", d.ID, len(r.Data))
	d.Receipt = r
	return err
}

// Checkpoint returns what Save sends.
func (d *Driver) Checkpoint() sink.Checkpoint {
	cp := sink.Checkpoint{ID: d.ID, From: slices.Clone(d.From), To: slices.Clone(d.To), Counters: d.counters,
		Committables: slices.Clone(d.Waiting), Settled: slices.Clone(d.Settle)}
	if !d.Receipt.Empty() {
		cp.Committables = append(cp.Committables, d.Receipt)
	}
	return cp
}

// Save sends the prepared checkpoint.
func (d *Driver) Save(ctx context.Context) error {
	cp := d.Checkpoint()
	err := d.Send(ctx, cp)
	if err == nil {
		d.From, d.Waiting, d.Settle = cp.To, cp.Committables, nil
		d.counters = sink.Counters{}
	}
	return err
}

// Send sends any checkpoint under the current generation, and keeps nothing of it.
func (d *Driver) Send(ctx context.Context, cp sink.Checkpoint) error {
	err := d.Store.Save(ctx, d.Claim.Generation, cp)
	d.tell(err, "Save checkpoint %d of generation %d, %v to %v, settled %v", cp.ID, d.Claim.Generation.ID, offsets(cp.From), offsets(cp.To), cp.Settled)
	return err
}

// Commit commits everything decided, in order, all of it even if one fails. A lane writes its next checkpoint once this was nil.
func (d *Driver) Commit(ctx context.Context) error {
	var errs []error
	var left []sink.Committable
	for _, c := range d.Waiting {
		if err := d.CommitOne(ctx, c); err != nil {
			errs, left = append(errs, err), append(left, c)
		}
	}
	d.Waiting = left
	return errors.Join(errs...)
}

// CommitOne commits any receipt, and keeps nothing of it.
func (d *Driver) CommitOne(ctx context.Context, c sink.Committable) error {
	err := d.Committer.Commit(ctx, c)
	d.tell(err, "Commit checkpoint %d of generation %d", c.Checkpoint, c.Generation)
	return err
}

// Abort aborts what was prepared last.
func (d *Driver) Abort(ctx context.Context) error {
	err := d.Committer.Abort(ctx, d.Receipt)
	d.tell(err, "Abort checkpoint %d of generation %d", d.Receipt.Checkpoint, d.Receipt.Generation)
	return err
}

// Discard drops what was written, and goes back to where the checkpoint began.
func (d *Driver) Discard(ctx context.Context) error {
	err := d.Committer.Discard(ctx)
	d.spoil()
	d.tell(err, "Discard")
	d.To, d.counters = slices.Clone(d.From), sink.Counters{}
	return err
}

// End ends the generation.
func (d *Driver) End(ctx context.Context) (sink.CheckpointID, error) {
	id, err := d.Store.End(ctx, d.Claim.Generation)
	d.tell(err, "End generation %d = %d", d.Claim.Generation.ID, id)
	return id, err
}

// Close closes committer and store.
func (d *Driver) Close(ctx context.Context) error {
	err := errors.Join(d.Committer.Close(ctx), d.Store.Close(ctx))
	d.spoil()
	d.tell(err, "Close")
	return err
}

func (d *Driver) spoil() {
	for _, b := range d.batches {
		Spoil(b)
	}
	d.batches = nil
}

func (d *Driver) tell(err error, format string, a ...any) {
	if d.Trace == nil {
		return
	}
	call := fmt.Sprintf(format, a...)
	if err != nil {
		call, _, _ = strings.Cut(call, " = ")
		call += ": " + err.Error()
	}
	if d.Name != "" {
		call = d.Name + ": " + call
	}
	d.Trace(call)
}

// offsets prints positions of one topic in short: "0@3 1@2".
func offsets(pos []changelog.Position) string {
	var s []string
	for _, p := range pos {
		s = append(s, fmt.Sprintf("%d@%d", p.Partition.Partition, p.Offset))
	}
	return "[" + strings.Join(s, " ") + "]"
}

// changesText prints changes in short: `+U(1 "b") -D(2)`, the first ones of many.
func changesText(changes []changelog.Change) string {
	const most, longest = 12, 20
	var s []string
	for i, c := range changes {
		if i == most {
			s = append(s, fmt.Sprintf("and %d more", len(changes)-most))
			break
		}
		text := fmt.Sprintf("%s(%d", c.Kind, c.Row[0].Int())
		if v := c.Row[1].Str(); !c.KeyOnly {
			if len(v) > longest {
				v = v[:longest] + "…"
			}
			text += fmt.Sprintf(" %q", v)
		}
		s = append(s, text+")")
	}
	return strings.Join(s, " ")
}

func endedText(ended []sink.EndedGeneration) string {
	var s []string
	for _, e := range ended {
		s = append(s, fmt.Sprintf("%d(%d decided)", e.ID, len(e.Decided)))
	}
	return "[" + strings.Join(s, " ") + "]"
}

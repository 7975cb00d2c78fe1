package sinktest

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Implementations with one mistake each, for laws of late calls and of refusals.

// opensAnyway lets a generation in that was fenced, as a sink does that registers whoever opens last.
type opensAnyway struct {
	sink.Committer
	p *process
}

func (c opensAnyway) Open(ctx context.Context, claim sink.Claim) error {
	c.p.locked(func(_ *bridgeState, st *sinkState) { delete(st.fenced, claim.Generation.ID) })
	return c.Committer.Open(ctx, claim)
}

// sweepsOnly rolls back what it finds and fences nobody who comes later.
type sweepsOnly struct {
	sink.Committer
	p *process
}

func (c sweepsOnly) Open(ctx context.Context, claim sink.Claim) error {
	err := c.Committer.Open(ctx, claim)
	c.p.locked(func(_ *bridgeState, st *sinkState) {
		for _, e := range claim.Ended {
			if !st.everOpened(c.p, e.ID) {
				delete(st.fenced, e.ID)
			}
		}
		c.p.notes[workName{generation: claim.Generation.ID}] = "opened"
	})
	return err
}

func (st *sinkState) everOpened(p *process, g sink.GenerationID) bool {
	return p.notes[workName{generation: g}] != nil
}

// remembersLast takes the last receipt that it committed for the proof of all before it, and so does what came before again.
type remembersLast struct {
	sink.Committer
	p *process
}

func (c remembersLast) Commit(ctx context.Context, r sink.Committable) error {
	c.p.locked(func(_ *bridgeState, st *sinkState) {
		if work, ok := st.staged[name(r)]; ok {
			c.p.notes[name(r)] = work
		} else if last, ok := c.p.notes[workName{}].(workName); ok && last != name(r) {
			if work, ok := c.p.notes[name(r)].([]change); ok {
				c.p.srv.apply(work)
			}
		}
		c.p.notes[workName{}] = name(r)
	})
	return c.Committer.Commit(ctx, r)
}

// fenceIsTransient calls it an outage when it was fenced.
type fenceIsTransient struct{ sink.Committer }

func (c fenceIsTransient) told(err error) error {
	if e := (*sink.Error)(nil); errors.As(err, &e) && errors.Is(e.Class, sink.ErrFenced) {
		other := *e
		other.Class = sink.ErrTransient
		return &other
	}
	return err
}

func (c fenceIsTransient) Write(ctx context.Context, b *changelog.Batch) error {
	return c.told(c.Committer.Write(ctx, b))
}

func (c fenceIsTransient) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	r, err := c.Committer.Prepare(ctx, cut)
	return r, c.told(err)
}

// fencedOpenIsTransient is that mistake in Open alone.
type fencedOpenIsTransient struct{ fenceIsTransient }

func (c fencedOpenIsTransient) Write(ctx context.Context, b *changelog.Batch) error {
	return c.Committer.Write(ctx, b)
}

func (c fencedOpenIsTransient) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	return c.Committer.Prepare(ctx, cut)
}

func (c fencedOpenIsTransient) Open(ctx context.Context, claim sink.Claim) error {
	return c.told(c.Committer.Open(ctx, claim))
}

// unsentIsNull writes NULL where nothing was sent.
func unsentIsNull(v changelog.Value) changelog.Value {
	if v.IsUnchanged() {
		return changelog.Value{}
	}
	return v
}

// replacement does to texts what encoding/json does.
func replacement(v changelog.Value) changelog.Value {
	if v.Kind() == changelog.KindString {
		return changelog.StringBytesValue(bytes.ToValidUTF8(v.Bytes(), []byte("\ufffd")))
	}
	return v
}

// unsentAtCommit knows the table as it was committed, and not what the checkpoint holds already.
type unsentAtCommit struct{ *committer }

func (c unsentAtCommit) Write(ctx context.Context, b *changelog.Batch) error {
	was := c.pending
	c.pending = nil
	err := c.committer.Write(ctx, b)
	c.pending = append(slices.Clone(was), c.pending...)
	return err
}

// unsentInserts makes a row of what was sent where there is none.
type unsentInserts struct{ *committer }

func (c unsentInserts) Write(ctx context.Context, b *changelog.Batch) error {
	err := c.committer.Write(ctx, b)
	if !errors.Is(err, sink.ErrRejected) {
		return err
	}
	c.broken = false
	return altered{c.committer, unsentIsNull}.Write(ctx, b)
}

// unsentFromTable takes what was not sent from the table alone, also of a row that the checkpoint has deleted.
type unsentFromTable struct{ *committer }

func (c unsentFromTable) Write(ctx context.Context, b *changelog.Batch) error {
	was := c.pending
	c.pending = slices.DeleteFunc(slices.Clone(was), func(p change) bool { return p.kind == changelog.Delete })
	n := len(c.pending)
	err := c.committer.Write(ctx, b)
	c.pending = append(slices.Clone(was), c.pending[n:]...)
	return err
}

// preparesHoles forgets that a Write failed.
type preparesHoles struct{ *committer }

func (c preparesHoles) Write(ctx context.Context, b *changelog.Batch) error {
	err := c.committer.Write(ctx, b)
	c.broken = false
	return err
}

// countsParameters takes as many rows as one statement of 65,535 parameters holds.
type countsParameters struct{ sink.Committer }

func (c countsParameters) Write(ctx context.Context, b *changelog.Batch) error {
	most := 65_535 / len(b.Table.Schema.Columns)
	seen := make(map[string]bool)
	some := *b
	some.Changes = slices.DeleteFunc(slices.Clone(b.Changes), func(ch changelog.Change) bool {
		k := rowKey(b.Table.Schema, ch.Row)
		if !seen[k] && len(seen) == most {
			return true
		}
		seen[k] = true
		return false
	})
	return c.Committer.Write(ctx, &some)
}

// stagesUnasked leaves what is written in the place before it learns that it is too late for it, and sweeps by its claim alone, which no longer lists who is settled.
type stagesUnasked struct {
	*committer
	p *process
}

func (c stagesUnasked) Write(ctx context.Context, b *changelog.Batch) error {
	err := c.committer.Write(ctx, b)
	if errors.Is(sink.ClassOf(err), sink.ErrFenced) {
		c.p.locked(func(_ *bridgeState, st *sinkState) {
			st.staged[workName{generation: c.gen, checkpoint: 1000}] = copied(b)
		})
	}
	return err
}

// takesAllFiles takes what lies in its folder at Commit for its own.
type takesAllFiles struct {
	*committer
	p *process
}

func (c takesAllFiles) Write(ctx context.Context, b *changelog.Batch) error {
	err := c.committer.Write(ctx, b)
	if errors.Is(sink.ClassOf(err), sink.ErrFenced) {
		c.p.notes[workName{}] = copied(b)
	}
	return err
}

func (c takesAllFiles) Commit(ctx context.Context, r sink.Committable) error {
	err := c.committer.Commit(ctx, r)
	if files, ok := c.p.notes[workName{}].([]change); ok && err == nil {
		c.p.locked(func(*bridgeState, *sinkState) { c.p.srv.apply(files) })
		delete(c.p.notes, workName{})
	}
	return err
}

func copied(b *changelog.Batch) (out []change) {
	for i := range b.Changes {
		out = append(out, change{table: b.Table, kind: b.Changes[i].Kind, row: cloneRow(b.Changes[i].Row)})
	}
	return out
}

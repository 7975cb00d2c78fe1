//go:build unix

// Package customsink is a sink of one's own, as small as one can be that is exactly once: a table is a folder, a row is a JSON file in it. It
// leaves receipts and works with any store; its test hands it to sinktest.
//
//	root/rows/orders/1.json                 what readers see
//	root/work/BRIDGE/SINK/3-7.staged        checkpoint 7 of generation 3, prepared
//	root/work/BRIDGE/SINK/3-7.done          it was committed: the proof that a second Commit needs
//	root/work/BRIDGE/SINK/3.fenced          generation 3 may prepare nothing any more
//
// Each call holds root/lock, so that what it checks is still so when it writes.
package customsink

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Sink writes into a folder.
type Sink struct {
	root string
	disk disk
}

var _ sink.Sink = (*Sink)(nil)

// New returns a sink in an existing folder of a local file system.
func New(root string) *Sink { return &Sink{root: root} }

// Guarantee says what sinktest holds the sink to: rows come one by one while a checkpoint is committed, but each once.
func (s *Sink) Guarantee() sink.Guarantee {
	return sink.Guarantee{Level: sink.ExactlyOnce, How: "staged file, applied at commit", Visible: "at commit, row by row", Zombie: "fenced by a file for each generation"}
}

// Lane makes the committer's folder.
func (s *Sink) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c := &committer{disk: s.disk, root: s.root, work: filepath.Join(s.root, "work", url.PathEscape(l.Bridge), url.PathEscape(l.Sink)), lane: l}
	for _, t := range l.Tables {
		for _, column := range t.Schema.Columns {
			if !writable(&column.Type) {
				return nil, c.fail("lane", sink.ErrConfig, fmt.Errorf("table %s, column %s: a JSON file holds no %s here", t.Name, column.Name, &column.Type))
			}
		}
	}
	if err := os.MkdirAll(c.work, 0o755); err != nil {
		return nil, c.fail("lane", sink.ErrConfig, err)
	}
	return c, nil
}

// committer keeps what was written in memory until Prepare.
type committer struct {
	disk
	root, work string
	lane       sink.Lane
	generation sink.GenerationID // that was opened; 0: none
	written    []change
	broken     bool // a Write failed: the checkpoint has a hole
}

// Open commits what is decided first: to fence or to sweep first could take away what is needed for it.
func (c *committer) Open(ctx context.Context, claim sink.Claim) error {
	return c.locked(ctx, "open", func() error {
		if c.fenced(claim.Generation.ID) {
			return c.fail("open", sink.ErrFenced, errors.New("a successor has opened"))
		}
		for _, e := range claim.Ended {
			for _, d := range e.Decided {
				if err := c.apply(d); err != nil {
					return err
				}
			}
		}
		for _, e := range claim.Ended {
			if err := c.durable(c.name("%d.fenced", e.ID), nil); err != nil {
				return err
			}
			left, err := filepath.Glob(c.name("%d-*.staged", e.ID))
			if err != nil {
				return err
			}
			for _, path := range left {
				if err := os.Remove(path); err != nil {
					return err
				}
			}
		}
		c.generation, c.written, c.broken = claim.Generation.ID, nil, false
		return nil
	})
}

// Write copies the rows: the batch is the caller's again after Prepare.
func (c *committer) Write(ctx context.Context, b *changelog.Batch) error {
	if c.generation == 0 {
		return c.fail("write", sink.ErrConfig, errors.New("Write before Open"))
	}
	if err := ctx.Err(); err != nil {
		c.broken = true
		return c.fail("write", sink.ErrTransient, err)
	}
	for i := range b.Changes {
		ch, err := changeOf(b.Table, &b.Changes[i])
		if err != nil {
			c.broken = true
			return &sink.Error{Op: "write", Sink: c.lane.Sink, Bridge: c.lane.Bridge, Class: sink.ErrRejected, Err: err, Rejected: []sink.Rejection{{
				Partition: b.Changes[i].Partition, Offset: b.Changes[i].Offset, Index: b.Changes[i].Index, Reason: err}}}
		}
		c.written = append(c.written, ch)
	}
	return nil
}

// Prepare puts all of it into one file, whose name says everything that a receipt has to say.
func (c *committer) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	r := sink.Committable{Sink: c.lane.Sink, Generation: cut.Generation.ID, Checkpoint: cut.Checkpoint, Version: 1, From: cut.From, To: cut.To}
	err := c.locked(ctx, "prepare", func() error {
		switch {
		case c.broken:
			return c.fail("prepare", sink.ErrTransient, errors.New("a Write of this checkpoint failed"))
		case c.generation != cut.Generation.ID:
			return c.fail("prepare", sink.ErrConfig, errors.New("another generation is opened"))
		case c.fenced(c.generation):
			return c.fail("prepare", sink.ErrFenced, errors.New("a successor has opened"))
		case len(c.written) == 0:
			return nil
		}
		content, err := encode(c.written)
		if err != nil {
			return err
		}
		if err := c.durable(c.staged(r), content); err != nil {
			return err
		}
		c.written, r.Data = nil, []byte(filepath.Base(c.staged(r)))
		return nil
	})
	if err != nil {
		return sink.Committable{}, err
	}
	return r, nil
}

// Discard forgets what was written.
func (c *committer) Discard(context.Context) error {
	c.written, c.broken = nil, false
	return nil
}

// Commit shows the rows.
func (c *committer) Commit(ctx context.Context, r sink.Committable) error {
	return c.locked(ctx, "commit", func() error { return c.apply(r) })
}

// apply needs no memory of a process. Done twice, after a process died between the rows and the mark, it writes the same files again; the mark
// keeps a Commit that comes late from undoing newer rows.
func (c *committer) apply(r sink.Committable) error {
	if r.Empty() {
		return nil
	}
	if exists(c.done(r)) {
		return nil
	}
	content, err := os.ReadFile(c.staged(r))
	if errors.Is(err, os.ErrNotExist) {
		return c.fail("commit", sink.ErrLost, fmt.Errorf("%s is neither there nor known to be committed (%v to %v)", c.staged(r), r.From, r.To))
	}
	if err != nil {
		return err
	}
	changes, err := decode(content)
	if err != nil {
		return c.fail("commit", sink.ErrLost, err)
	}
	// Only the last change of a row counts, and all rows are on the disk before the mark is.
	last := make(map[string]change)
	for i, ch := range changes {
		last[ch.path(c.root, fmt.Sprintf("%s-%s-%d-%d-%d", url.PathEscape(c.lane.Bridge), url.PathEscape(c.lane.Sink), r.Generation, r.Checkpoint, i))] = ch
	}
	folders := make(map[string]bool)
	for path, ch := range last {
		if err := ch.apply(c.disk, path); err != nil {
			return err
		}
		folders[filepath.Dir(path)] = true
	}
	for folder := range folders {
		if err := c.syncFolder(folder); err != nil {
			return err
		}
	}
	if err := c.durable(c.done(r), nil); err != nil {
		return err
	}
	return os.Remove(c.staged(r))
}

// Abort takes the file away.
func (c *committer) Abort(ctx context.Context, r sink.Committable) error {
	if r.Empty() {
		return nil
	}
	return c.locked(ctx, "abort", func() error {
		if err := os.Remove(c.staged(r)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
}

// Close has nothing to free.
func (c *committer) Close(context.Context) error {
	c.generation, c.written = 0, nil
	return nil
}

func (c *committer) name(format string, a ...any) string {
	return filepath.Join(c.work, fmt.Sprintf(format, a...))
}

func (c *committer) staged(r sink.Committable) string {
	return c.name("%d-%d.staged", r.Generation, r.Checkpoint)
}

func (c *committer) done(r sink.Committable) string {
	return c.name("%d-%d.done", r.Generation, r.Checkpoint)
}

func (c *committer) fenced(g sink.GenerationID) bool { return exists(c.name("%d.fenced", g)) }

func (c *committer) fail(op string, class, err error) error {
	return &sink.Error{Op: op, Sink: c.lane.Sink, Bridge: c.lane.Bridge, Class: class, Err: err}
}

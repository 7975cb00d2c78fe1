//go:build unix

// Package customsink is a sink of one's own that is exactly once: a table is a folder, a row a JSON file in it. It leaves receipts, works with
// any store, and its test hands it to sinktest.
//
// It was written from the documentation of packages changelog, sink and sinktest alone, without a look at their code, to see whether that is
// enough. Where it was not, the documentation says more today; and mistakes that were planted in it and that no law saw (an Open that comes late, a
// Commit that comes again, columns that were not sent) are laws by now.
//
//	root/lock                         held by every call that looks at files and then acts
//	root/fence/BRIDGE/3               generation 3 may write nothing any more
//	root/work/BRIDGE/SINK/3/tmp-1     what generation 3 is writing
//	root/work/BRIDGE/SINK/3/7         its checkpoint 7, prepared
//	root/done/BRIDGE/SINK/3-7         it was committed: the proof that a Commit which comes again needs
//	root/rows/TABLE/ROW.json          what readers see
//
// A folder of work has a folder for each table, and in it the row's new file, ROW.json, or ROW.del where the row goes away. Commit moves them.
// Proofs and fences are kept for ever: an empty file each.
package customsink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

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

// Guarantee says what sinktest holds the sink to.
func (s *Sink) Guarantee() sink.Guarantee {
	return sink.Guarantee{Level: sink.ExactlyOnce, How: "rows staged as files, moved at commit", Visible: "at commit, file by file", Zombie: "fenced by a file for each generation"}
}

// Lane makes the tables' folders.
func (s *Sink) Lane(_ context.Context, l sink.Lane) (sink.Committer, error) {
	c := &committer{disk: s.disk, root: s.root, lane: l}
	for _, t := range l.Tables {
		if len(t.Schema.Key) == 0 && t.Mode != changelog.Append {
			return nil, c.fail("lane", sink.ErrConfig, fmt.Errorf("table %s has no PRIMARY KEY, so a row that is to be updated or deleted cannot be found: declare one", t.Name))
		}
		if err := c.folder(c.path("rows", t.Name)); err != nil {
			return nil, c.fail("lane", sink.ErrConfig, err)
		}
	}
	return c, nil
}

// committer writes straight through: what it keeps in memory is where it is.
type committer struct {
	disk
	root        string
	lane        sink.Lane
	generation  sink.GenerationID // that was opened; 0: none
	incarnation uint16
	tmp         string // folder of the current checkpoint; "": nothing is written
	tmps        int
	broken      error // of a Write that failed: the checkpoint has a hole
	net         changelog.Net
}

// Spill has nothing to do: Write keeps nothing of a batch.
func (c *committer) Spill() {}

var _ sink.Spiller = (*committer)(nil)

// Open refuses a generation that was ended. All that it does is done under the lock, so the order matters to a crash alone: what is decided
// comes first, since it is the one thing that must not be lost.
func (c *committer) Open(ctx context.Context, claim sink.Claim) error {
	_ = c.drop()
	c.generation = 0
	return c.locked(ctx, "open", func() error {
		if c.fenced(claim.Generation.ID) {
			return c.fail("open", sink.ErrFenced, fmt.Errorf("generation %d is over", claim.Generation.ID))
		}
		for _, e := range claim.Ended {
			for _, d := range e.Decided {
				if err := c.commit("open", d); err != nil {
					return err
				}
			}
		}
		for _, e := range claim.Ended {
			if err := c.mark(c.fence(e.ID)); err != nil {
				return err
			}
			if err := os.RemoveAll(c.work(c.lane.Bridge, c.lane.Sink, e.ID)); err != nil {
				return err
			}
		}
		if err := c.folder(c.work(c.lane.Bridge, c.lane.Sink, claim.Generation.ID)); err != nil {
			return err
		}
		c.generation, c.incarnation = claim.Generation.ID, claim.Incarnation
		return nil
	})
}

// Write stages the net effect of the batch over what the checkpoint has staged already.
func (c *committer) Write(ctx context.Context, b *changelog.Batch) error {
	if c.broken == nil {
		c.broken = c.locked(ctx, "write", func() error { return c.write(b) })
	}
	return c.broken
}

func (c *committer) write(b *changelog.Batch) error {
	switch {
	case c.generation == 0:
		return c.fail("write", sink.ErrConfig, errors.New("Write before Open"))
	case c.fenced(c.generation):
		return c.fail("write", sink.ErrFenced, fmt.Errorf("generation %d is over", c.generation))
	case !c.declared(b.Table.Name):
		return c.fail("write", sink.ErrConfig, fmt.Errorf("table %s is not one of the lane's", b.Table.Name))
	}
	if c.tmp == "" {
		c.tmps++
		c.tmp = filepath.Join(c.work(c.lane.Bridge, c.lane.Sink, c.generation), fmt.Sprintf("tmp-%d", c.tmps))
	}
	staged, rows := filepath.Join(c.tmp, escape(b.Table.Name)), c.path("rows", b.Table.Name)
	if err := os.MkdirAll(staged, 0o755); err != nil {
		return err
	}
	for i := range b.Changes {
		if err := writable(b.Table.Schema, &b.Changes[i]); err != nil {
			return c.reject(&b.Changes[i], err)
		}
	}
	c.net.Compute(b.Table.Schema, b.Changes)
	defer c.net.Reset()
	for i := range c.net.Deletes {
		name := c.name(b.Table.Schema, &c.net.Deletes[i])
		if err := c.stage(staged, name+".del", name+".json", nil); err != nil {
			return err
		}
	}
	for i := range c.net.Upserts {
		ch := &c.net.Upserts[i]
		name := c.name(b.Table.Schema, ch)
		row, err := encode(b.Table.Schema, ch.Row, func() ([]byte, error) { return latest(staged, rows, name) })
		if errors.Is(err, errUnsent) {
			return c.reject(ch, err)
		}
		if err == nil {
			err = c.stage(staged, name+".json", name+".del", row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *committer) declared(table string) bool {
	for _, t := range c.lane.Tables {
		if t.Name == table {
			return true
		}
	}
	return false
}

// Prepare gives what was written the name that the receipt stands for. The bridge is in no other field of it.
func (c *committer) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	r := sink.Committable{Sink: c.lane.Sink, Generation: cut.Generation.ID, Checkpoint: cut.Checkpoint, Version: 1, From: cut.From, To: cut.To}
	err := c.broken
	if err == nil {
		err = c.locked(ctx, "prepare", func() error {
			switch {
			case c.generation != cut.Generation.ID:
				return c.fail("prepare", sink.ErrConfig, fmt.Errorf("generation %d is not the one that was opened", cut.Generation.ID))
			case c.fenced(c.generation):
				return c.fail("prepare", sink.ErrFenced, fmt.Errorf("generation %d is over", c.generation))
			case c.tmp == "":
				return nil
			}
			r.Data = []byte(c.lane.Bridge)
			tables, err := os.ReadDir(c.tmp)
			if err != nil {
				return err
			}
			for _, t := range tables {
				if err := c.sync(filepath.Join(c.tmp, t.Name())); err != nil {
					return err
				}
			}
			if err := c.sync(c.tmp); err != nil {
				return err
			}
			if err := os.Rename(c.tmp, c.staged(r)); err != nil {
				return err
			}
			c.tmp = ""
			return c.sync(filepath.Dir(c.staged(r)))
		})
	}
	if err != nil {
		return sink.Committable{}, err
	}
	return r, nil
}

// Discard forgets what was written and not prepared.
func (c *committer) Discard(context.Context) error {
	if err := c.drop(); err != nil {
		return c.fail("discard", sink.ErrTransient, err)
	}
	return nil
}

// Commit shows the rows.
func (c *committer) Commit(ctx context.Context, r sink.Committable) error {
	return c.locked(ctx, "commit", func() error { return c.commit("commit", r) })
}

// commit needs no memory of a process. It goes on where one that was interrupted stopped: a file that was moved is not there to be moved again.
// The proof is written once all of them are surely in place.
func (c *committer) commit(op string, r sink.Committable) error {
	if r.Empty() {
		return nil
	}
	if r.Version != 1 {
		return c.fail(op, sink.ErrConfig, fmt.Errorf("the receipt has version %d, and this release reads 1: a newer one wrote it", r.Version))
	}
	staged := c.staged(r)
	if exists(c.proof(r)) {
		return os.RemoveAll(staged)
	}
	tables, err := os.ReadDir(staged)
	if errors.Is(err, fs.ErrNotExist) {
		return c.fail(op, sink.ErrLost, fmt.Errorf("%s is neither there nor known to be committed (%v to %v)", staged, r.From, r.To))
	}
	if err != nil {
		return err
	}
	for _, t := range tables {
		from, to := filepath.Join(staged, t.Name()), filepath.Join(c.root, "rows", t.Name())
		files, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		for _, f := range files {
			if name, gone := strings.CutSuffix(f.Name(), ".del"); gone {
				err = remove(filepath.Join(to, name+".json"))
			} else {
				err = os.Rename(filepath.Join(from, f.Name()), filepath.Join(to, f.Name()))
			}
			if err != nil {
				return err
			}
		}
		if err := c.sync(to); err != nil {
			return err
		}
	}
	if err := c.mark(c.proof(r)); err != nil {
		return err
	}
	return os.RemoveAll(staged)
}

// Abort takes the files away.
func (c *committer) Abort(ctx context.Context, r sink.Committable) error {
	if r.Empty() {
		return nil
	}
	return c.locked(ctx, "abort", func() error { return os.RemoveAll(c.staged(r)) })
}

// Close drops what is not prepared.
func (c *committer) Close(context.Context) error {
	c.generation = 0
	if err := c.drop(); err != nil {
		return c.fail("close", sink.ErrTransient, err)
	}
	return nil
}

func (c *committer) drop() error {
	tmp := c.tmp
	c.tmp, c.broken = "", nil
	if tmp == "" {
		return nil
	}
	return os.RemoveAll(tmp)
}

// locked runs f while no other committer does anything. A Commit that failed may be half done; anything else that failed is rolled back by the
// next Open.
func (c *committer) locked(ctx context.Context, op string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return c.fail(op, sink.ErrTransient, err)
	}
	l, err := os.OpenFile(filepath.Join(c.root, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return c.fail(op, sink.ErrTransient, err)
	}
	defer l.Close()
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(l.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return c.fail(op, sink.ErrTransient, err)
	}
	err = f()
	if classed := new(sink.Error); err == nil || errors.As(err, &classed) {
		return err
	}
	if op == "commit" {
		return c.fail(op, sink.ErrUncertain, err)
	}
	return c.fail(op, sink.ErrTransient, err)
}

func (c *committer) fail(op string, class, err error) error {
	return &sink.Error{Op: op, Sink: c.lane.Sink, Bridge: c.lane.Bridge, Class: class, Err: err}
}

// reject names the change that can never be written.
func (c *committer) reject(ch *changelog.Change, err error) error {
	return &sink.Error{Op: "write", Sink: c.lane.Sink, Bridge: c.lane.Bridge, Class: sink.ErrRejected, Err: err,
		Rejected: []sink.Rejection{{Partition: ch.Partition, Offset: ch.Offset, Index: ch.Index, Reason: err}}}
}

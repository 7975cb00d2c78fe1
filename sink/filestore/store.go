package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/internal/ledger"
)

// Store is a [sink.Store] in a file. It is safe for use by several goroutines, and by several processes of one host; each call reads the
// file anew.
type Store struct {
	path string
	step func(name string) // tests are told of each step of a replacement; nil: nobody
}

var _ sink.Store = (*Store)(nil)

// New returns the store in the file at path. Its folder must exist; the file comes to be with the first Acquire. Nothing is held open
// between calls.
func New(path string) (*Store, error) {
	s := &Store{path: path}
	if path == "" {
		return nil, s.fail("start", "", sink.ErrConfig, errors.New("the path is empty"))
	}
	if err := canLock(); err != nil {
		return nil, s.fail("start", "", sink.ErrConfig, err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, s.fail("start", "", sink.ErrConfig, fmt.Errorf("the folder of the file: %w", err))
	} else if !info.IsDir() {
		return nil, s.fail("start", "", sink.ErrConfig, fmt.Errorf("%s is no folder", filepath.Dir(path)))
	}
	return s, nil
}

// Acquire implements [sink.Store].
func (s *Store) Acquire(ctx context.Context, r sink.AcquireRequest) (claim sink.Claim, err error) {
	err = s.change(ctx, "acquire", r.Bridge, func(c *ledger.Content) (bool, error) {
		claim, err = c.Acquire(r, time.Now().UTC())
		return true, err
	})
	if err != nil {
		return sink.Claim{}, err
	}
	return claim, nil
}

// Save implements [sink.Store].
//
// The rename is the decision: before it every process reads the old file, after it every process reads the new one, and the lock keeps two of
// them from replacing the same old one. It is answered once the folder is synced, so that a decision that was answered outlives
// the power.
func (s *Store) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	return s.change(ctx, "save", gen.Bridge, func(c *ledger.Content) (bool, error) { return true, c.Save(gen, cp, time.Now().UTC()) })
}

// End implements [sink.Store].
//
// It tells what the file says, after a replacement of its own that was synced: if an earlier Save's rename was done and its sync was not, it is
// durable by then. A Save that is still on its way finds the generation ended, under the lock.
func (s *Store) End(ctx context.Context, gen sink.Generation) (last sink.CheckpointID, err error) {
	err = s.change(ctx, "end", gen.Bridge, func(c *ledger.Content) (changed bool, err error) {
		last, _, err = c.End(gen)
		return true, err
	})
	if err != nil {
		return 0, err
	}
	return last, nil
}

// Read implements [sink.Store].
func (s *Store) Read(ctx context.Context, bridge string) (state sink.State, err error) {
	err = s.change(ctx, "read", bridge, func(c *ledger.Content) (bool, error) {
		state, err = c.Read(bridge)
		return false, err
	})
	if err != nil {
		return sink.State{}, err
	}
	return state, nil
}

// Rewind makes a bridge read its topics from their beginning again, at its next Acquire, and a sink that orders by position, as package elastic
// does, put what comes then before all that it has: after a topic was made anew or got more partitions, or to write an index anew. A bridge that
// runs is fenced. As with every rewind, a sink that appends has rows twice unless what it has is taken away first.
//
// A bridge that the file does not know is an ErrConfig.
func (s *Store) Rewind(ctx context.Context, bridge string) error {
	return s.change(ctx, "rewind", bridge, func(c *ledger.Content) (bool, error) { return true, c.Rewind(bridge) })
}

// Close implements [sink.Store]: there is nothing to free.
func (s *Store) Close(context.Context) error { return nil }

// change runs f on the content of the file under the lock, and replaces the file if f says so.
func (s *Store) change(ctx context.Context, op, bridge string, f func(c *ledger.Content) (changed bool, err error)) error {
	l, err := s.lock(ctx)
	if err != nil {
		return s.fail(op, bridge, sink.ErrTransient, err)
	}
	defer l.unlock()
	c, err := s.load(l)
	if err != nil {
		return s.fail(op, bridge, sink.ErrTransient, err)
	}
	changed, err := f(c)
	if err != nil {
		return s.fail(op, bridge, sink.ErrTransient, err)
	}
	if !changed {
		return nil
	}
	if err := s.replace(c); err != nil {
		return s.fail(op, bridge, sink.ErrTransient, err)
	}
	if err := l.mark(); err != nil {
		return s.fail(op, bridge, sink.ErrUncertain, err)
	}
	return nil
}

// load reads the file. One that is not there is an empty one, unless the lock file says that there was one: then somebody took it away, and a
// fresh start would double everything.
func (s *Store) load(l *lock) (*ledger.Content, error) {
	b, err := os.ReadFile(s.path)
	if errors.Is(err, os.ErrNotExist) {
		if l.marked() {
			return nil, &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("%s is gone: put it back, or delete %s as well to begin anew", s.path, l.path())}
		}
		return ledger.New(), nil
	}
	if err != nil {
		return nil, err
	}
	c, err := ledger.Parse(b)
	var e *sink.Error
	if errors.As(err, &e) && e.Class == sink.ErrLost {
		err = &sink.Error{Class: e.Class, Err: fmt.Errorf("%w, or delete the file with its .lock to begin anew", e.Err)}
	}
	return c, err
}

// fail gives err operation, bridge and a class, unless it has one.
func (s *Store) fail(op, bridge string, class, err error) error {
	var e *sink.Error
	if errors.As(err, &e) {
		class, err = e.Class, e.Err
	}
	return &sink.Error{Op: op, Bridge: bridge, Class: class, Err: fmt.Errorf("file store: %w", err)}
}

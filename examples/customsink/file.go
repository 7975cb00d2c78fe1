//go:build unix

package customsink

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/flinksink/flinksink/sink"
)

// locked runs f alone among all processes that use the folder. The kernel gives the lock back when a process ends. An error of f that has no
// class is a file system's, in the middle of something: nobody knows how far it came.
func (c *committer) locked(ctx context.Context, op string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return c.fail(op, sink.ErrTransient, err)
	}
	l, err := os.OpenFile(filepath.Join(c.root, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return c.fail(op, sink.ErrTransient, err)
	}
	defer l.Close()
	if err := syscall.Flock(int(l.Fd()), syscall.LOCK_EX); err != nil {
		return c.fail(op, sink.ErrTransient, err)
	}
	err = f()
	var classed *sink.Error
	if err != nil && !errors.As(err, &classed) {
		return c.fail(op, sink.ErrUncertain, err)
	}
	return err
}

// disk writes files. unsynced leaves out what only a power failure would miss, so that a test takes a second instead of a minute.
type disk struct{ unsynced bool }

// durable writes a file that is there whole or not at all, also after the power failed.
func (d disk) durable(path string, content []byte) error {
	if err := d.replace(path, content); err != nil {
		return err
	}
	return d.syncFolder(filepath.Dir(path))
}

// replace is durable once the folder is synced.
func (d disk) replace(path string, content []byte) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && !d.unsynced {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	return err
}

func (d disk) syncFolder(path string) error {
	if d.unsynced {
		return nil
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing was ever written to it, and deletes of nothing need no sync
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

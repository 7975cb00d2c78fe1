package filestore

import (
	"context"
	"errors"
	"os"
	"time"
)

// lock is PATH.lock while it is locked. It is a file of its own, since PATH is another file after each replacement. It is never deleted, and says
// whether there ever was a PATH.
type lock struct{ f *os.File }

const lockMark = "The file beside this one holds the checkpoints of bridges.\n"

// lock waits for the lock. It asks again and again instead of waiting in the kernel, where no context reaches it; the lock is held for
// milliseconds at a time.
func (s *Store) lock(ctx context.Context) (*lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		err := tryLock(f)
		if err == nil {
			return &lock{f}, nil
		}
		if !errors.Is(err, errLocked) {
			return nil, errors.Join(err, f.Close())
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}

// errLocked: somebody else holds the lock.
var errLocked = errors.New("locked")

// unlock gives the lock back; so does the end of the process.
func (l *lock) unlock() { l.f.Close() }

func (l *lock) path() string { return l.f.Name() }

// marked reports whether there was a file.
func (l *lock) marked() bool {
	info, err := l.f.Stat()
	return err == nil && info.Size() > 0
}

// mark notes that there is a file now.
func (l *lock) mark() error {
	if l.marked() {
		return nil
	}
	if _, err := l.f.WriteAt([]byte(lockMark), 0); err != nil {
		return err
	}
	return l.f.Sync()
}

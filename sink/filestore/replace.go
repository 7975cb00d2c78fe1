package filestore

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/internal/ledger"
)

// replace puts c in the place of the file. The caller holds the lock.
//
// The order is the safety argument: the new content is on the disk before its name is, so that no name ever leads to half a file; the folder
// is synced before anybody is told. PATH.new is nobody's but the lock holder's: what a process left there when it died is overwritten.
//
// An error before the rename leaves the old file. The rename itself, and what comes after it, may have happened all the same: ErrUncertain.
func (s *Store) replace(c *ledger.Content) error {
	b, err := c.Bytes()
	if err != nil {
		return err
	}
	s.at("begin")
	next := s.path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	s.at("created")
	half := len(b) / 2
	if _, err = f.Write(b[:half]); err == nil {
		s.at("half written")
		_, err = f.Write(b[half:])
	}
	if err == nil {
		s.at("written")
		err = f.Sync()
	}
	// A file that could not be synced is never used: the kernel may have dropped its pages and would call the next sync a success.
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	s.at("synced")
	if err := os.Rename(next, s.path); err != nil {
		return unclear(err)
	}
	s.at("renamed")
	if err := syncFolder(filepath.Dir(s.path)); err != nil {
		return unclear(err)
	}
	s.at("folder synced")
	return nil
}

func unclear(err error) error {
	return &sink.Error{Class: sink.ErrUncertain, Err: fmt.Errorf("the file may have been replaced: %w", err)}
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}

func (s *Store) at(step string) {
	if s.step != nil {
		s.step(step)
	}
}

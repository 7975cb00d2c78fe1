//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package filestore

import (
	"errors"
	"os"
	"runtime"
)

func canLock() error {
	return errors.New("a file store needs flock and folders that can be synced, and " + runtime.GOOS + " has neither: use another store, such as a sink that is its own")
}

func tryLock(*os.File) error { return canLock() }

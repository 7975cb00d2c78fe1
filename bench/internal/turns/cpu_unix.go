//go:build linux || darwin

package turns

import (
	"syscall"
	"time"
)

// CPUTime is what this process has used of all cores so far. Other programs on the machine disturb it less than they do the clock.
func CPUTime() (used time.Duration, known bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}

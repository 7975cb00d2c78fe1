//go:build unix

package killtest

import (
	"os"
	"os/signal"
	"syscall"
)

const canStop = true

// stopHere stops this process after say, and returns when it was woken. That another thread is stopped first must not let this one go
// on, so it waits for the signal that wakes it.
func stopHere(say func()) error {
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, syscall.SIGCONT)
	defer signal.Stop(woken)
	say()
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	<-woken
	return nil
}

// stop stops a process, which may have done so itself.
func (p *process) stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) wake() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

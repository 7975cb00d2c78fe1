//go:build unix

package elastic_test

import (
	"os"
	"syscall"
)

const canStop = true

func stop(p *os.Process) { _ = p.Signal(syscall.SIGSTOP) }
func wake(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }

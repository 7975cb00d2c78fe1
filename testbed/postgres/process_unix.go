//go:build !windows

package postgres

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is one run of the server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed by the goroutine of launch when the server is over
}

// launch starts the server's main process as a child of ours.
func launch(c *config) (*process, error) {
	// Processes of a server that was killed still write to it for a moment: each appends, else they would leave holes in the new log.
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program(c.bin, "postgres"), append([]string{"-D", c.data}, c.args...)...)
	cmd.Dir = c.data
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is for us, who then stop the server
	c.as.apply(cmd)
	dieWithParent(cmd)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		// The death signal comes when the thread that started the child ends, so the thread must last as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended stands in its log
		}
	}()
	return p, <-started
}

// stop asks for a fast shutdown.
func (p *process) stop() { _ = p.cmd.Process.Signal(syscall.SIGINT) }

func (p *process) kill() { _ = p.cmd.Process.Kill() }

// running reports whether there is a process of that number.
func running(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

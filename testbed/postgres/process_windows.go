package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// process is one run of the server. postgres.exe refuses an administrator, as whom much runs on Windows; pg_ctl gives those rights up
// first. So the server is pg_ctl's child and not ours, and is found by the number in its own file.
type process struct {
	c    *config
	pid  int
	done chan struct{}
}

func launch(c *config) (*process, error) {
	var opts []string
	for _, a := range c.args {
		opts = append(opts, `"`+a+`"`)
	}
	out, err := exec.Command(program(c.bin, "pg_ctl"), "start", "-w", "-D", c.data, "-l", c.log, "-o", strings.Join(opts, " ")).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("pg_ctl start: %w\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(c.data, "postmaster.pid"))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return nil, fmt.Errorf("postmaster.pid: %w", err)
	}
	p := &process{c: c, pid: pid, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if pr, err := os.FindProcess(pid); err == nil {
			_, _ = pr.Wait()
		}
	}()
	return p, nil
}

func (p *process) stop() {
	_ = exec.Command(program(p.c.bin, "pg_ctl"), "stop", "-m", "fast", "-D", p.c.data).Run()
}

func (p *process) kill() {
	if pr, err := os.FindProcess(p.pid); err == nil {
		_ = pr.Kill()
	}
}

// running reports whether there is a process of that number.
func running(pid int) bool {
	p, err := os.FindProcess(pid) // opens it, so it fails when there is none
	if err != nil {
		return false
	}
	_ = p.Release()
	return true
}

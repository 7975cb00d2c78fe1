package killtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a bridge in a process of its own.
type process struct {
	cmd   *exec.Cmd
	out   *output
	done  chan struct{} // closed when it is over
	ready chan struct{} // closed when the bridge runs: it told its guarantee
}

// output keeps what a process says, and notices when the bridge has begun.
type output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	begun func()
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(p)
	if o.begun != nil && bytes.Contains(o.b.Bytes(), []byte("guarantee:")) {
		o.begun()
		o.begun = nil
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start starts cmd. Whatever happens, it does not outlive the test.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, done: make(chan struct{}), ready: make(chan struct{})}
	p.out = &output{begun: func() { close(p.ready) }}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // ProcessState tells
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the process with SIGKILL and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be over already
	<-p.done
}

// terminate asks the process to end, and makes sure that it ends well: with a last checkpoint, or saying that there was no time for one.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("%v: %s", err, p.tail())
	}
	if !p.comes(p.done) {
		p.kill()
		t.Fatalf("the bridge does not end when it is told to: %s", p.tail())
	}
	well := p.cmd.ProcessState.Success() || p.late()
	if !well || p.killed() || p.raced() {
		t.Fatalf("the bridge that was told to end failed: %s", p.tail())
	}
}

// late reports that a bridge said that there was no time, or no server, for its last checkpoint.
func (p *process) late() bool {
	return strings.Contains(p.out.String(), "the bridge stopped without a last checkpoint")
}

// comes waits until c is closed, or the process is over, and reports false when patience is.
func (p *process) comes(c <-chan struct{}) bool {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for range looks {
		select {
		case <-c:
			return true
		case <-p.done:
			return true
		case <-tick.C:
		}
	}
	return false
}

func (p *process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// killed reports whether a process that is over was killed, and did not end by itself.
func (p *process) killed() bool {
	return p.cmd.ProcessState.ExitCode() == -1 || runtime.GOOS == "windows" && !p.cmd.ProcessState.Success()
}

// raced returns what a child's race detector said.
func (p *process) raced() bool { return strings.Contains(p.out.String(), "DATA RACE") }

// tail is the end of what a process said.
func (p *process) tail() string {
	s := p.out.String()
	if n := len(s) - 4000; n > 0 {
		s = "..." + s[n:]
	}
	return fmt.Sprintf("%s: %s\n%s", filepath.Base(p.cmd.Path), p.cmd.ProcessState, s)
}

// build builds a command of this module without the race detector, as users have it.
func build(ctx context.Context, dir, pkg string) (string, error) {
	bin := filepath.Join(dir, filepath.Base(pkg)+".exe") // the name suits every system
	out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/flinksink/flinksink/"+pkg).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return bin, nil
}

// dying starts a bridge that dies at the nth occurrence of a step.
func (s *subject) dying(t *testing.T, instance string, step, n int) *process {
	t.Helper()
	return s.child(t, childConfig{To: s.to, Instance: instance, Step: step, N: n})
}

// child starts this test binary as a bridge.
func (s *subject) child(t *testing.T, c childConfig) *process {
	t.Helper()
	c.DDL, c.Into, c.StoreSchema, c.Bridge, c.Mode = s.ddl, s.into, s.own, s.topic, s.mode
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	return start(t, cmd)
}

// program starts flinksink run.
func (s *subject) program(t *testing.T, w *world, instance string, interval time.Duration, more ...string) *process {
	t.Helper()
	args := []string{"run", "--bridge", s.topic, "--ddl", s.file, "--to", s.to, "--into", s.into, "--store-schema", s.own,
		"--interval", interval.String(), "--instance", instance, "--on-data", "dead-letter", "--data-budget", "1000000"}
	if s.mode != "" {
		args = append(args, "--mode", s.mode)
	}
	return start(t, exec.Command(w.flinksink, append(args, more...)...))
}

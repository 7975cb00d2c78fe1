//go:build unix

package kafka_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// This file kills processes, and stops them. The child is this very test program.

const childVariable = "FLINKSINK_KAFKA_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childVariable); spec != "" {
		if err := child(spec); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// steps are where a process is killed, in the order of a checkpoint.
func steps() []string { return []string{"Acquire", "Open", "Write", "Prepare", "Save", "Commit"} }

// child is a process that takes the first half of the source through a checkpoint, and tells each step. It waits for a line before it goes on behind the
// one that it is to stop at.
func child(spec string) error {
	part := strings.Split(spec, "|") // mode, step, seeds, topic of the target, prefix, topic of the store
	table := sinktest.Appended()
	into, err := ddl.Find(into(table, part[3]), "")
	if err != nil {
		return err
	}
	e := &env{seeds: strings.Split(part[2], ","), targets: map[string]*target{table.Name: {table: into}}, t: &testing.T{}}
	w := &world{env: e, mode: mode(part[0]), topic: sinktest.NewTopic(table), o: &kafka.Options{Prefix: part[4], Topic: part[5], Group: part[5]}}
	fill(w.topic)
	d, cl, err := w.lane()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, in := context.Background(), bufio.NewReader(os.Stdin)
	do := map[string]func() error{
		"Acquire": func() error { return d.Acquire(ctx, 0, 1) },
		"Open":    func() error { return d.Open(ctx) },
		"Write":   func() error { return d.Write(ctx, 3) },
		"Prepare": func() error { return d.Prepare(ctx) },
		"Save":    func() error { return d.Save(ctx) },
		"Commit":  func() error { return d.Commit(ctx) },
	}
	for _, s := range steps() {
		err := do[s]()
		fmt.Println(s, err == nil)
		if err != nil {
			fmt.Println("error:", err)
		}
		if s == part[1] {
			fmt.Println("stopped")
			if _, err := in.ReadString('\n'); err != nil {
				return err
			}
		}
	}
	return nil
}

// process is a child.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (w *world) start(t *testing.T, step string) *process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(program)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{string(w.mode), step, strings.Join(w.seeds, ","),
		w.target(w.topic.Table).table.Options["topic"], w.o.Prefix, w.o.Topic}, "|"))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end() })
	return p
}

func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// until reads what the process says, up to a line.
func (p *process) until(t *testing.T, line string) (said []string) {
	t.Helper()
	for {
		s, err := p.out.ReadString('\n')
		if s = strings.TrimSpace(s); s == line {
			return said
		}
		if s != "" {
			said = append(said, s)
		}
		if err != nil {
			if line == "" {
				return said
			}
			t.Fatalf("the process ended before it said %q: %v", line, said)
		}
	}
}

// A process is killed at each step; the next one finds what was decided, settles it by the receipt alone, and goes on.
func killed(t *testing.T, e *env) {
	for _, m := range modes() {
		for i, step := range steps() {
			t.Run(string(m)+"/"+step, func(t *testing.T) {
				w := newWorld(t, e, m, sinktest.Appended())
				p := w.start(t, step)
				if said := p.until(t, "stopped"); len(said) != i+1 || !strings.HasSuffix(said[i], "true") {
					t.Fatalf("the process failed before it was killed: %v", said)
				}
				if err := p.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = p.cmd.Wait()
				d, cl, err := w.lane()
				if err != nil {
					t.Fatal(err)
				}
				defer cl.Close()
				if err := d.Acquire(t.Context(), 0, 1); err != nil {
					t.Fatal(err)
				}
				want := int64(0)
				if i >= 4 { // saved
					want = 3
				}
				if d.From[0].Offset != want || d.From[1].Offset != want {
					t.Errorf("killed after %s: the successor begins at %v, expected offset %d", step, d.From, want)
				}
				if err := d.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.sees(t, "after the successor's Open", d.From...)
				if err := carry(t.Context(), d, 2); err != nil {
					t.Fatal(err)
				}
				w.sees(t, "at the end", w.topic.End(0), w.topic.End(1))
				if err := d.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestCrash_Killed(t *testing.T)      { killed(t, newFake(t)) }
func TestCrash_Killed_Real(t *testing.T) { killed(t, newReal(t)) }

// A process is stopped at each step (SIGSTOP), as by a debugger or a machine that hangs; its successor takes over, and the process wakes up and does
// the rest. P80: whatever it tries, it changes nothing.
func zombies(t *testing.T, e *env) {
	for _, m := range modes() {
		for i, step := range steps()[:5] {
			t.Run(string(m)+"/"+step, func(t *testing.T) {
				w := newWorld(t, e, m, sinktest.Appended())
				p := w.start(t, step)
				p.until(t, "stopped")
				if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				d, cl, err := w.lane()
				if err != nil {
					t.Fatal(err)
				}
				defer cl.Close()
				if err := d.Acquire(t.Context(), 0, 1); err != nil {
					t.Fatal(err)
				}
				if err := d.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.sees(t, "after the successor's Open", d.From...)
				if err := d.Write(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				if err := d.Prepare(t.Context()); err != nil {
					t.Fatal(err)
				}
				before := d.From
				if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(p.in, "\n"); err != nil {
					t.Fatal(err)
				}
				said := p.until(t, "")
				if i < 4 && strings.Contains(strings.Join(said, "\n"), "Save true") {
					t.Errorf("the zombie saved: %v", said)
				}
				w.sees(t, "after the zombie did what it could, "+strings.Join(said, ", "), before...)
				if err := d.Save(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := d.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.sees(t, "after the successor's checkpoint", d.From...)
				if err := carry(t.Context(), d, 2); err != nil {
					t.Fatal(err)
				}
				w.sees(t, "at the end", w.topic.End(0), w.topic.End(1))
			})
		}
	}
}

func TestZombie(t *testing.T)      { zombies(t, newFake(t)) }
func TestZombie_Real(t *testing.T) { zombies(t, newReal(t)) }

// A broker is killed and started again while a transaction is prepared and decided; a process that has nothing but the receipt ends it.
//
// FLINKSINK_KAFKA_RESTART names a command that restarts the broker of FLINKSINK_KAFKA and returns once it answers.
func TestCrash_BrokerRestarted(t *testing.T) {
	restart := os.Getenv("FLINKSINK_KAFKA_RESTART")
	if restart == "" || os.Getenv("FLINKSINK_LONG") == "" {
		t.Skip("FLINKSINK_LONG and FLINKSINK_KAFKA_RESTART are not both set: the test needs a broker of its own that it may restart")
	}
	e := newReal(t)
	for _, m := range modes() {
		t.Run(string(m), func(t *testing.T) {
			w := newWorld(t, e, m, sinktest.Appended())
			d, cl, err := w.lane()
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			steps := []func() error{
				func() error { return d.Acquire(t.Context(), 0, 1) }, func() error { return d.Open(t.Context()) },
				func() error { return d.Write(t.Context(), 3) }, func() error { return d.Prepare(t.Context()) },
			}
			if m == twoPhase {
				steps = append(steps, func() error { return d.Save(t.Context()) })
			}
			for i, s := range steps {
				if err := s(); err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
			}
			if out, err := exec.Command("sh", "-c", restart).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			next, other, err := w.lane()
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if err := next.Acquire(ctx, 0, 1); err != nil {
				t.Fatal(err)
			}
			if err := next.Open(ctx); err != nil {
				t.Fatal(err)
			}
			w.sees(t, "after the restart and the successor's Open", next.From...)
			if want := map[mode]int64{twoPhase: 3}[m]; next.From[0].Offset != want {
				t.Errorf("the successor begins at %v, expected offset %d", next.From, want)
			}
			if err := carry(ctx, next, 2); err != nil {
				t.Fatal(err)
			}
			w.sees(t, "at the end", w.topic.End(0), w.topic.End(1))
		})
	}
}

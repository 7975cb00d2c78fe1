package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	roleEnv   = "FLINKSINK_QUICKSTART_ROLE"
	brokerEnv = "FLINKSINK_QUICKSTART_BROKER"
	dsnEnv    = "FLINKSINK_QUICKSTART_DSN" // not an argument: it may hold a password, and arguments are for everybody to see
)

// life is one run of a child process: this program again, in another role.
type life struct {
	cmd  *exec.Cmd
	in   io.Closer // the child ends when this does, so that it cannot outlive us
	out  bytes.Buffer
	done chan struct{} // closed when the process is over
	err  error         // how it ended; read after done
}

func (w *world) start(role string) (*life, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l := &life{cmd: exec.Command(self), done: make(chan struct{})}
	l.cmd.Env = append(os.Environ(), roleEnv+"="+role, brokerEnv+"="+w.broker, dsnEnv+"="+w.dsn)
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.out
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(l.done)
		l.err = l.cmd.Wait()
	}()
	return l, nil
}

// kill is kill -9: the process gets no chance to finish anything.
func (l *life) kill() {
	_ = l.cmd.Process.Kill()
	<-l.done
	_ = l.in.Close()
}

// failure is why a process that was not killed ended, with what it said.
func (l *life) failure() error {
	if l.err == nil {
		return nil
	}
	return l.saying(l.err)
}

// saying is err with what the process said.
func (l *life) saying(err error) error {
	if said := bytes.TrimSpace(l.out.Bytes()); len(said) > 0 {
		return fmt.Errorf("%w\n%s", err, said)
	}
	return err
}

// plan says when processes are killed. Both programs get the same one.
type plan struct {
	kills int
	seed  uint64
	total int // by how much the table grows in all, in bytes
}

// What a table that does not grow is taken for. A program that has nothing left to do may look just like one that hangs.
const (
	lull     = 200 * time.Millisecond // ask whether it is finished
	patience = 60 * time.Second       // it hangs
)

var errNoProgress = errors.New("nothing was written for 60 seconds, and it is not finished")

// crash runs a role, kills it plan.kills times as its table grows, and lets the last life run until it is finished. It returns how
// often it was killed in the middle of its work.
//
// A kill comes when the table is by so much larger than at the start of that life, and by how much is drawn anew each time; so kills
// are spread over the whole of the topic and fall anywhere in the work. On a busy machine they come late, the program is further by then,
// and it may be finished before all kills are used up.
func (w *world) crash(ctx context.Context, role string, size func(context.Context) (int, error), finished func(context.Context) (bool, error), p plan, tick func()) (int, error) {
	dice := rand.New(rand.NewPCG(p.seed, 1))
	share := p.total * 6 / 10 / p.kills
	for kills := 0; ; kills++ {
		before, err := size(ctx)
		if err != nil {
			return kills, err
		}
		l, err := w.start(role)
		if err != nil {
			return kills, err
		}
		target := before + share/4 + dice.IntN(share*3/2)
		due := func(size int) bool { return kills < p.kills && size >= target }
		how, err := l.watch(ctx, size, due, finished)
		switch {
		case err != nil:
			l.kill()
			return kills, l.saying(err)
		case how == ended:
			return kills, l.failure()
		}
		l.kill()
		if how == idle {
			return kills, nil
		}
		tick()
	}
}

// outcome is why a process is watched no longer.
type outcome int

const (
	ended  outcome = iota // by itself
	idle                  // finished, and waiting for more
	inWork                // to be killed
)

// watch waits until the process ends, is finished, or is due to be killed, which is asked with the table's size.
func (l *life) watch(ctx context.Context, size func(context.Context) (int, error), due func(size int) bool, finished func(context.Context) (bool, error)) (outcome, error) {
	last, since, asked := -1, time.Now(), time.Now()
	for {
		n, err := size(ctx)
		if err != nil {
			return 0, err
		}
		if due(n) {
			return inWork, nil
		}
		if n != last {
			last, since, asked = n, time.Now(), time.Now()
		}
		if time.Since(asked) > lull {
			if yes, err := finished(ctx); err != nil {
				return 0, err
			} else if yes {
				return idle, nil
			}
			asked = time.Now()
		}
		if time.Since(since) > patience {
			return 0, errNoProgress
		}
		select {
		case <-l.done:
			return ended, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(500 * time.Microsecond):
		}
	}
}

// usualFinished reports whether the usual lines have committed the offset behind the last record of every partition.
func (w *world) usualFinished(ctx context.Context) (bool, error) {
	for _, t := range topics() {
		ends := map[int32]int64{}
		for _, r := range w.records[t.name] {
			ends[r.Partition.Partition] = max(ends[r.Partition.Partition], r.Offset+1)
		}
		at, err := w.adm.FetchOffsets(ctx, usualGroup(t))
		if errors.Is(err, kerr.GroupIDNotFound) { // it has only just begun
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for p, end := range ends {
			if o, ok := at.Lookup(t.name, p); !ok || o.At < end {
				return false, nil
			}
		}
	}
	return true, nil
}

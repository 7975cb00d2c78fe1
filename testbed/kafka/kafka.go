// Package kafka runs an in-process broker (franz-go's kfake) as a process of its own, so that a test can kill a consumer, or the
// broker, without the other.
//
// # Overview
//
// A process becomes the broker by calling [Serve]; testbed/cmd/kfake is nothing but that. [Start] starts such a process and gives its
// address. Everything is in memory: a broker that ended has forgotten all.
//
// # Not covered
//
// A real broker. The scripts testbed/kafka-up and testbed/kafka-down start Apache Kafka; tests find it in FLINKSINK_KAFKA.
package kafka

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Env is the environment variable that names a real broker for the tests that want one.
const Env = "FLINKSINK_KAFKA"

// Options of [Serve]. The zero value is a broker with no topics on a free port.
type Options struct {
	// Port is the port to listen on, on 127.0.0.1. Defaults to a free one.
	Port int
	// Topics are made before the address is told, each with its number of partitions.
	Topics map[string]int32
}

const greeting = "kafka at "

// Serve runs a broker until ctx ends or in comes to its end, whichever is first. The first line it writes to out names its address. A
// parent passes a pipe as in: it ends with the parent, however the parent ends, and the broker with it. nil: only ctx ends it.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100 * time.Millisecond)}
	if o.Port != 0 {
		opts = append(opts, kfake.Ports(o.Port))
	}
	for t, n := range o.Topics {
		opts = append(opts, kfake.SeedTopics(n, t))
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		return fmt.Errorf("testbed/kafka: %w", err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(out, "%s%s\n", greeting, strings.Join(c.ListenAddrs(), ",")); err != nil {
		return fmt.Errorf("testbed/kafka: %w", err)
	}
	over := make(chan struct{})
	if in != nil {
		go func() {
			defer close(over)
			_, _ = io.Copy(io.Discard, in)
		}()
	}
	select {
	case <-ctx.Done():
	case <-over:
	}
	return nil
}

// Broker is a broker in a process of its own.
type Broker struct {
	addr string
	cmd  *exec.Cmd
	in   io.Closer
	done chan struct{} // closed by the goroutine of Start when the process is over
}

// Start runs cmd, a command whose process calls [Serve] on its own standard input and output (a re-execution of the caller, or what
// [Command] builds), and waits for its address. The broker ends with this process.
func Start(ctx context.Context, cmd *exec.Cmd) (*Broker, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("testbed/kafka: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("testbed/kafka: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("testbed/kafka: %w", err)
	}
	b := &Broker{cmd: cmd, in: in, done: make(chan struct{})}
	addr := make(chan string, 1)
	go func() {
		defer close(b.done)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if a, ok := strings.CutPrefix(sc.Text(), greeting); ok {
				addr <- a
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}()
	select {
	case b.addr = <-addr:
		return b, nil
	case <-b.done:
		return nil, errors.New("testbed/kafka: the broker's process ended without naming an address: " + cmd.String())
	case <-ctx.Done():
		b.Kill()
		return nil, fmt.Errorf("testbed/kafka: %w", ctx.Err())
	}
}

// Command builds testbed/cmd/kfake with the go command into dir and gives the command that runs it. It must be called from within the
// module's folders, as tests are.
func Command(ctx context.Context, dir string, o Options) (*exec.Cmd, error) {
	bin := filepath.Join(dir, "kfake.exe") // the name suits every system
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/flinksink/flinksink/testbed/cmd/kfake")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("testbed/kafka: building the broker: %w\n%s", err, out)
	}
	args := []string{"-port", strconv.Itoa(o.Port)}
	for t, n := range o.Topics {
		args = append(args, fmt.Sprintf("%s:%d", t, n))
	}
	cmd := exec.Command(bin, args...)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// Addr is the bootstrap address.
func (b *Broker) Addr() string { return b.addr }

// Stop ends the broker and waits for its end. The second time it does nothing.
func (b *Broker) Stop() {
	_ = b.in.Close()
	select {
	case <-b.done:
	case <-time.After(10 * time.Second):
		b.Kill()
	}
}

// Kill ends the broker's process at once. All it held is gone.
func (b *Broker) Kill() {
	_ = b.cmd.Process.Kill()
	_ = b.in.Close()
	<-b.done
}

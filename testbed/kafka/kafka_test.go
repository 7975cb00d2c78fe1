package kafka

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const roleEnv = "FLINKSINK_TEST_KAFKA_ROLE"

// The test binary is also the broker's process, and a parent that is killed.
func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "broker":
		if err := Serve(context.Background(), Options{Topics: map[string]int32{"t": 3}}, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "parent":
		b, err := Start(context.Background(), self("broker"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(b.Addr())
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case "mute":
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func self(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// partitions asks the broker for topic t.
func partitions(ctx context.Context, addr string) (int, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RequestRetries(0))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ts, err := kadm.NewClient(cl).ListTopics(ctx, "t")
	return len(ts["t"].Partitions), err
}

func TestStart(t *testing.T) {
	ctx := t.Context()
	b, err := Start(ctx, self("broker"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := partitions(ctx, b.Addr()); n != 3 || err != nil {
		t.Errorf("%d partitions, %v", n, err)
	}
	b.Stop()
	b.Stop()
	if _, err := partitions(ctx, b.Addr()); err == nil {
		t.Error("a stopped broker answers")
	}
}

func TestStart_NoBroker(t *testing.T) {
	if _, err := Start(t.Context(), self("mute")); err == nil || !strings.Contains(err.Error(), "without naming an address") {
		t.Errorf("got %v", err)
	}
}

// A broker does not outlive a parent that was killed.
func TestServe_EndsWithItsParent(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	parent := self("parent")
	in, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimSpace(line)
	if _, err := partitions(ctx, addr); err != nil {
		t.Fatal(err)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	for {
		if _, err := partitions(ctx, addr); err != nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the broker outlives its parent")
		}
	}
}

func TestCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program; run without -short")
	}
	cmd, err := Command(t.Context(), t.TempDir(), Options{Topics: map[string]int32{"t": 2}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Stop()
	if n, err := partitions(t.Context(), b.Addr()); n != 2 || err != nil {
		t.Errorf("%d partitions, %v", n, err)
	}
}

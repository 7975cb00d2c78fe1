package killtest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// This file kills the real flinksink run with SIGKILL while it writes to Kafka, to S3 and to Elasticsearch. The servers are stand-ins in the test's
// process, which kill the bridge at a chosen request: before it is carried out, or after it and before the answer.

// deadly is what a stand-in asks about each request of the bridge.
type deadly struct {
	mu    sync.Mutex
	at    string // the request to kill at
	after bool   // it is carried out
	left  int    // requests of this name that pass before
	kill  func() // nil: not armed
}

func (d *deadly) arm(at string, after bool, nth int, kill func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at, d.after, d.left, d.kill = at, after, nth-1, kill
}

// met kills the bridge if the request is the one, and reports whether the request is to be dropped.
func (d *deadly) met(request string) (drop bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kill == nil || request != d.at {
		return false
	}
	if d.left > 0 {
		d.left--
		return false
	}
	d.kill()
	d.kill = nil
	return !d.after
}

// standIn is a target on a server in this process.
type standIn struct {
	args     []string // of flinksink run
	env      []string
	requests []string // that a bridge dies at
	rows     func(ctx context.Context) ([][2]string, error)
	early    bool // rows may be seen before they are decided, and again
}

// Bridges into Kafka, S3 and Elasticsearch are killed at requests of each kind, and the target holds what was produced, each change once.
func TestKill_Targets(t *testing.T) {
	n := seed(t)
	bin, err := build(t.Context(), t.TempDir(), "cmd/flinksink")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, kind string
		make       func(t *testing.T, s *subject, d *deadly, broker *kfake.Cluster) standIn
	}{
		{"kafka", "keyed", func(t *testing.T, s *subject, d *deadly, b *kfake.Cluster) standIn {
			return newTopic(t, s, d, b, "in-transaction")
		}},
		{"kafka-two-phase", "keyed", func(t *testing.T, s *subject, d *deadly, b *kfake.Cluster) standIn {
			return newTopic(t, s, d, b, "two-phase")
		}},
		{"s3", "append", newLake},
		{"elastic", "keyed", newIndex},
	} {
		t.Run(c.name, func(t *testing.T) {
			broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(broker.Close)
			name := "killtest_" + strings.ReplaceAll(c.name, "-", "_")
			s := &subject{kind: c.kind, keyed: c.kind == "keyed", clean: true, brokers: broker.ListenAddrs()[0], topic: name, truth: newTruth(), r: rand.New(rand.NewPCG(n, 7))}
			head := appendDDL
			if s.keyed {
				head = keyedDDL
			}
			s.declare(t, head, 1500*time.Millisecond, time.Minute)
			s.makeTopic(t)
			d := &deadly{}
			x := c.make(t, s, d, broker)
			s.startWriters(t, n)
			s.dieAndLive(t, bin, x, d)
			if t.Failed() {
				t.Logf("FLINKSINK_SEED=%d repeats what was produced", n)
			}
		})
	}
}

// dieAndLive kills bridges at each request, lets the last one finish, and compares.
func (s *subject) dieAndLive(t *testing.T, bin string, x standIn, d *deadly) {
	rounds := 1
	if os.Getenv("FLINKSINK_LONG") != "" {
		rounds = 10
	}
	ctx := t.Context()
	args := append([]string{"run", "--bridge", s.topic, "--ddl", s.file, "--interval", "50ms", "--instance", s.topic + "-0"}, x.args...)
	bridge := func(more ...string) *process {
		cmd := exec.Command(bin, append(args, more...)...)
		cmd.Env = append(os.Environ(), x.env...)
		return start(t, cmd)
	}
	kills := 0
	for range rounds {
		for _, request := range x.requests {
			for _, after := range []bool{false, true} {
				s.feed(200)
				nth := 1 + s.r.IntN(3)
				if request == "InitProducerID" { // a first bridge sends two
					nth = min(nth, 2)
				}
				born := make(chan *process, 1)
				d.arm(request, after, nth, func() { _ = (<-born).cmd.Process.Kill() }) // before there is a bridge that could send it
				p := bridge()
				born <- p
				if !s.dies(ctx, p) {
					t.Fatalf("the bridge did not come to %s: %s", request, p.tail())
				}
				if !p.killed() {
					t.Fatalf("the bridge ended by itself before %s: %s", request, p.tail())
				}
				kills++
				if x.early {
					continue
				}
				found, err := x.rows(ctx)
				if err != nil {
					t.Fatalf("after a death at %s: %v", request, err)
				}
				if err := s.once(found); err != nil {
					t.Fatalf("after a death at %s (after it: %t): %v", request, after, err)
				}
			}
		}
	}
	if err := s.finish(ctx, 0); err != nil {
		t.Fatal(err)
	}
	p := bridge("--until-end")
	if !p.comes(p.done) {
		t.Fatalf("the last bridge does not reach the end: %s", p.tail())
	}
	if !p.cmd.ProcessState.Success() {
		t.Fatalf("the last bridge failed: %s", p.tail())
	}
	all := map[int32]int64{}
	for p := range int32(partitions) {
		all[p] = math.MaxInt64
	}
	if _, err := s.truth.advance(all); err != nil {
		t.Fatal(err)
	}
	found, err := x.rows(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := s.truth.compare(found); !d.none() || d.found == 0 {
		t.Errorf("after %d kills and %d changes: %s", kills, s.truth.changes(), d)
	}
	t.Logf("%d kills, %d changes, %d rows", kills, s.truth.changes(), len(found))
}

// dies feeds the topic until the bridge is dead. A bridge that waits for something to read comes to no request.
func (s *subject) dies(ctx context.Context, p *process) bool {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := range looks {
		select {
		case <-p.done:
			return true
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
		if n%2 == 0 {
			s.feed(60)
		}
	}
	return false
}

// once makes sure that no row is there twice, and none that was never produced.
func (s *subject) once(found [][2]string) error {
	s.truth.mu.Lock()
	defer s.truth.mu.Unlock()
	rows := make(map[string]bool)
	for _, rs := range s.truth.pending {
		for _, r := range rs {
			rows[r.key+" "+r.row] = true
		}
	}
	seen := make(map[string]bool)
	for _, f := range found {
		switch {
		case seen[f[0]]:
			return fmt.Errorf("row %s is there twice", f[0])
		case !rows[f[0]+" "+f[1]]:
			return fmt.Errorf("row %s %s was never produced", f[0], f[1])
		}
		seen[f[0]] = true
	}
	return nil
}

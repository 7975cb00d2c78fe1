package elastic_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// This file kills real processes. A child is a lane in a process of its own; the test is its store: the child tells each step on its
// standard output, and saves by asking. The stand-in runs in a process of its own too.

const roleVariable = "FLINKSINK_ELASTIC_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case "server":
		s := elastictest.NewServer()
		fmt.Println(s.URL)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends, in whatever way
	default:
		if err := childLane(role); err != nil {
			fmt.Println("failed", err)
		}
	}
}

// killTopic is the same in each process: updates, deletes and re-inserts of few keys.
func killTopic(seed uint64, n int) ([]changelog.Change, map[string]string) {
	rng := rand.New(rand.NewPCG(seed, 1))
	topic, want := make([]changelog.Change, n), make(map[string]string)
	for i := range topic {
		id := rng.IntN(n / 20)
		if key := strconv.Itoa(id); rng.IntN(4) == 0 {
			topic[i] = at(int64(i), del, id, changelog.Value{})
			topic[i].KeyOnly = true
			delete(want, key)
		} else {
			topic[i] = at(int64(i), upd, id, "v"+strconv.Itoa(i))
			want[key] = fmt.Sprintf(`{"id":%d,"v":"v%d"}`, id, i)
		}
	}
	return topic, want
}

// order is what a child is told, as JSON in its role.
type order struct {
	URL, Prefix string
	Seed        uint64
	N, From     int
	Gen         int64
	Deletes     elastic.Deletes
}

type noTB struct{ testing.TB }

func (noTB) Helper()           {}
func (noTB) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// childLane is a lane that reads from o.From to the end. Each line that it prints is a step; "save" waits for the answer.
func childLane(role string) error {
	var o order
	if err := json.Unmarshal([]byte(role), &o); err != nil {
		return err
	}
	req, err := http.NewRequest("GET", o.URL, nil)
	if err != nil {
		return err
	}
	client, err := elastictransport.New(elastictransport.Config{URLs: []*urlURL{req.URL}, DisableRetry: true})
	if err != nil {
		return err
	}
	es, err := elastic.New(client, o.Prefix+"-kill", &elastic.Options{Deletes: o.Deletes, CreateIndex: true, ControlIndex: o.Prefix + "-control", BulkActions: 50, Patience: 20 * time.Second})
	if err != nil {
		return err
	}
	tab := orders(noTB{})
	ctx := context.Background()
	c, err := es.Lane(ctx, sink.Lane{Bridge: "b", Sink: "es", Tables: tablesOf(tab)})
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	l := &lane{table: tab, c: c, topic: topicA}
	claim := l.claim(sink.GenerationID(o.Gen), 0, o.From > 0)
	fmt.Println("opening")
	if err := c.Open(ctx, claim); err != nil {
		return err
	}
	fmt.Println("opened")
	topic, _ := killTopic(o.Seed, o.N)
	for at, n := o.From, sink.CheckpointID(1); at < len(topic); n++ {
		for range 3 {
			end := min(at+100, len(topic))
			if err := l.write(topic[at:end]...); err != nil {
				return err
			}
			at = end
			fmt.Println("written")
		}
		if _, err := c.Prepare(ctx, sink.Cut{Generation: claim.Generation, Checkpoint: n}); err != nil {
			return err
		}
		fmt.Println("save", at)
		answer, err := in.ReadString('\n')
		if err != nil || answer != "ok\n" {
			return fmt.Errorf("fenced")
		}
		if err := c.Commit(ctx, sink.Committable{}); err != nil {
			return err
		}
		fmt.Println("committed")
	}
	return nil
}

// process is a running child.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed at its end
}

func spawn(t *testing.T, role string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), os.Args[0]), lines: make(chan string)}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p
}

// TestKill kills lanes at each step and in between, and stops some, which wake up while successors write; in the end the index is what the topic
// says.
func TestKill(t *testing.T) {
	if !canStop {
		t.Skip("processes are stopped and woken up by signals, which this system does not have")
	}
	t.Run("standin", func(t *testing.T) {
		p := spawn(t, "server")
		t.Cleanup(func() { p.in.Close(); _ = p.cmd.Wait() })
		killAll(t, &server{t: t, url: <-p.lines, prefix: "t"}, 6000, elastic.Tombstone)
	})
	t.Run("real", func(t *testing.T) {
		n := 6000
		if os.Getenv("FLINKSINK_LONG") != "" {
			n = 60_000
		}
		killAll(t, realServer(t), n, elastic.Tombstone)
		if n > 6000 {
			killAll(t, realServer(t), n, elastic.Hard)
		}
	})
}

func killAll(t *testing.T, s *server, n int, deletes elastic.Deletes) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	_, want := killTopic(seed, n)
	type zombie struct {
		*process
		due   int  // saves until it wakes up
		asked bool // it waits for an answer
		done  chan struct{}
	}
	var stopped []*zombie
	drain := func(p *process) { // a zombie writes what it had, and is refused when it wants to save
		for line := range p.lines {
			if strings.HasPrefix(line, "save") {
				fmt.Fprintln(p.in, "no")
			}
		}
		_ = p.cmd.Wait()
	}
	goOn := func(z *zombie) {
		wake(z.cmd.Process)
		if z.asked {
			fmt.Fprintln(z.in, "no")
		}
		go func() { drain(z.process); close(z.done) }()
	}
	saved, deaths := 0, make(map[string]int)
	for gen := int64(1); saved < n; gen++ {
		role, err := json.Marshal(order{URL: s.url, Prefix: s.prefix, Seed: seed, N: n, From: saved, Gen: gen, Deletes: deletes})
		if err != nil {
			t.Fatal(err)
		}
		p := spawn(t, string(role))
		last, drained := "", false
		gone := func() bool { // whether this step is its last
			step, _, _ := strings.Cut(last, " ")
			switch f := rng.IntN(12); {
			case f == 0: // exactly at this step
				deaths["killed at "+step]++
			case f == 1: // some time after it
				deaths["killed after "+step]++
				time.Sleep(time.Duration(rng.IntN(5_000_000)))
			case f == 2 && len(stopped) < 4:
				deaths["stopped after "+step]++
				time.Sleep(time.Duration(rng.IntN(3_000_000)))
				stop(p.cmd.Process)
				stopped = append(stopped, &zombie{p, 1 + rng.IntN(4), step == "save", make(chan struct{})})
				return true
			default:
				return false
			}
			_ = p.cmd.Process.Kill()
			go func() {
				for range p.lines {
				}
			}()
			_ = p.cmd.Wait()
			return true
		}
		for last = range p.lines {
			if strings.HasPrefix(last, "failed") {
				t.Fatal(last)
			}
			step, at, _ := strings.Cut(last, " ")
			if gone() {
				break
			}
			if step != "save" {
				continue
			}
			if saved, err = strconv.Atoi(at); err != nil {
				t.Fatal(err)
			}
			for _, z := range stopped {
				if z.due--; z.due == 0 {
					goOn(z)
				}
			}
			if rng.IntN(15) == 0 { // decided, and the answer is lost
				deaths["killed at decided"]++
				_ = p.cmd.Process.Kill()
				go drain(p)
				drained = true
				break
			}
			fmt.Fprintln(p.in, "ok")
		}
		if saved >= n && !drained {
			go drain(p)
		}
	}
	for _, z := range stopped {
		if z.due > 0 {
			goOn(z)
		}
		<-z.done
	}
	t.Logf("deaths: %v", deaths)
	query := everything
	if deletes == elastic.Tombstone {
		query = alive
	}
	l := &lane{t: t, s: s, index: s.prefix + "-kill"}
	got := l.docs(query)
	if len(got) != len(want) {
		t.Errorf("%d documents, expected %d", len(got), len(want))
	}
	for id, doc := range want {
		if got[id] != doc {
			t.Fatalf("document %s is %s, expected %s", id, got[id], doc)
		}
	}
}

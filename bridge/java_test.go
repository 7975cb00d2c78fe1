package bridge

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The tests of this file want a real Java broker.

const (
	kafkaVariable = "FLINKSINK_KAFKA"
	childVariable = "FLINKSINK_BRIDGE_TEST_CHILD"
)

// TestMain is a bridge that can be killed, where the test binary was started as one.
func TestMain(m *testing.M) {
	if spec := os.Getenv(childVariable); spec != "" {
		child(strings.Split(spec, " "))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child runs a bridge over topic with an instance id until it is killed, and prints what the group gives and takes.
func child(args []string) {
	brokers, topic, instance := args[0], args[1], args[2]
	g := newTarget()
	o := options(g)
	o.InstanceID = instance
	var b *Bridge
	o.Hooks.Assigned = func(p []changelog.Partition) {
		fmt.Printf("assigned %s in generation %d\n", strings.Join(names(p), " "), b.Status().Generation)
	}
	o.Hooks.Revoked = func(p []changelog.Partition, lost bool) {
		fmt.Printf("revoked %s lost %v\n", strings.Join(names(p), " "), lost)
	}
	o.Hooks.Written = func(string, int, int) { fmt.Printf("wrote in generation %d\n", b.Status().Generation) }
	b, err := New(topic, Input{Topics: []string{topic}, Decoder: texts{sinktest.Appended()}, Client: []kgo.Opt{kgo.SeedBrokers(brokers)}}, g, o)
	if err == nil {
		err = b.Run(context.Background())
	}
	fmt.Println("ended:", err)
}

// process is a child under way.
type process struct {
	cmd   *exec.Cmd
	lines chan string
}

func spawn(t *testing.T, args ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(exe), lines: make(chan string, 10_000)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+strings.Join(args, " "))
	p.cmd.Stderr = os.Stderr
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
	t.Cleanup(p.kill)
	return p
}

// kill ends the child as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// line waits for a line that begins so, and returns it.
func (p *process) line(t *testing.T, prefix string) string {
	t.Helper()
	over, stop := expiresAfter(2 * patience)
	defer stop()
	for {
		select {
		case l, ok := <-p.lines:
			if !ok || strings.HasPrefix(l, "ended") {
				t.Fatalf("waiting for %q: the child ended: %q", prefix, l)
			}
			if strings.HasPrefix(l, prefix) {
				return l
			}
		case <-over:
			t.Fatalf("waiting for %q", prefix)
		}
	}
}

// java is a topic of its own on the real broker.
func java(t *testing.T, partitions int32) (*cluster, string) {
	t.Helper()
	addr := os.Getenv(kafkaVariable)
	if addr == "" {
		t.Skipf("set %s to the address of a real Kafka broker, or run ./test, which starts one", kafkaVariable)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	k := &cluster{t: t, topic: fmt.Sprintf("bridge-%s-%d", strings.ToLower(t.Name()), time.Now().UnixNano()), cl: cl, adm: kadm.NewClient(cl), addr: addr}
	if _, err := k.adm.CreateTopic(t.Context(), partitions, 1, nil, k.topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = k.adm.DeleteTopics(context.Background(), k.topic) })
	until(t, "the topic to be there", func() bool { // one that was just made is not known everywhere at once, and producers give up
		ends, err := k.adm.ListEndOffsets(t.Context(), k.topic)
		return err == nil && ends.Error() == nil && len(ends[k.topic]) == int(partitions)
	})
	return k, addr
}

func (k *cluster) javaBridge(g *target, o *Options) *Bridge {
	k.t.Helper()
	b, err := New(k.topic, Input{Topics: []string{k.topic}, Decoder: texts{sinktest.Appended()}, Client: []kgo.Opt{kgo.SeedBrokers(k.addr)}}, g, o)
	if err != nil {
		k.t.Fatal(err)
	}
	return b
}

// Aborted transactions are not read and move the position; an open one is waited for and told by name.
func TestJava_Transactions(t *testing.T) {
	k, _ := java(t, 2)
	g := newTarget()
	k.put(0, "a0")                                          // 0
	k.txn(k.topic+"-1", kgo.TryAbort, 0, "gone1", "gone2")  // 1, 2, marker 3
	k.txn(k.topic+"-2", kgo.TryCommit, 0, "kept1", "kept2") // 4, 5, marker 6
	k.txn(k.topic+"-3", kgo.TryAbort, 0, "gone3")           // 7, marker 8
	k.txn(k.topic+"-4", kgo.TryAbort, 1, "gone4")           // 0, marker 1
	open := k.begin(k.topic+"-5", 0, "open1")               // 9
	k.put(0, "behind")                                      // 10
	o := options(g)
	o.UntilEnd = true
	r := start(t, k.javaBridge(g, o))
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	g.wantValues(t, []string{"a0", "kept1", "kept2"})
	if p := g.positions(t, k.topic); p[0] != 9 || p[1] != 2 {
		t.Fatalf("positions %v", p)
	}
	if w := r.b.Status().Waiting(); len(w) != 1 || w[0].Partition.Partition != 0 || w[0].Waiting() != 2 {
		t.Fatalf("waiting %+v", w)
	}

	told := make(chan OpenTransaction, 1)
	o = options(g)
	o.OpenFor = time.Millisecond
	o.Hooks.OpenTransaction = func(x OpenTransaction) { told <- x }
	r = start(t, k.javaBridge(g, o))
	over, stop := expires()
	defer stop()
	select {
	case x := <-told:
		if x.TransactionalID != k.topic+"-5" || x.LastStableOffset != 9 || x.HighWatermark != 11 || !strings.Contains(x.Cure(), k.topic+"-5") {
			t.Fatalf("told %+v", x)
		}
	case <-over:
		t.Fatal("nothing was told")
	}
	if err := open.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	g.wantValues(t, []string{"a0", "kept1", "kept2", "open1", "behind"}, r)
	r.end()
}

// A member that is killed with SIGKILL and comes back with its instance id gets its partitions at once, in the very generation that it was
// killed in: no rebalance comes before. The other member loses and wins nothing.
func TestJava_StaticRestart(t *testing.T) {
	k, addr := java(t, 4)
	for p := range int32(4) {
		k.put(p, "a")
	}
	one := spawn(t, addr, k.topic, "one")
	one.line(t, "wrote")
	two := spawn(t, addr, k.topic, "two")
	first := two.line(t, "assigned")
	one.line(t, "revoked")
	generation := first[strings.Index(first, "in generation"):]
	// The first member, too, is in the generation that gave the second its partitions: it writes in it.
	for settled := false; !settled; {
		for p := range int32(4) {
			k.put(p, "b")
		}
		settled = strings.HasSuffix(one.line(t, "wrote"), generation)
	}

	one.kill()
	again := spawn(t, addr, k.topic, "one")
	back := again.line(t, "assigned")
	if !strings.HasSuffix(back, generation) {
		t.Fatalf("the member came back %q; it was killed %q", back, generation)
	}
	seen := make(map[string]bool)
	for _, line := range []string{first, back} {
		for _, w := range strings.Fields(line) {
			if strings.HasPrefix(w, k.topic) && seen[w] {
				t.Fatalf("%s is given twice: %q and %q", w, first, back)
			} else if strings.HasPrefix(w, k.topic) {
				seen[w] = true
			}
		}
	}
	if len(seen) != 4 {
		t.Fatalf("%q and %q are not all partitions", first, back)
	}
	again.line(t, "wrote")
	// The client, where it leads the group, may ask for one more round to make sure of the plan; nobody loses or wins by it.
	for p := range int32(4) {
		k.put(p, "c")
	}
	for l := two.line(t, "wrote"); ; l = two.line(t, "") {
		if strings.HasPrefix(l, "revoked") || strings.HasPrefix(l, "assigned") {
			t.Fatalf("the other member: %q", l)
		}
		if len(two.lines) == 0 {
			break
		}
	}
}

// Rows stay exactly once while members come and go on a real broker.
func TestJava_Rebalance(t *testing.T) {
	k, _ := java(t, 4)
	g := newTarget()
	var want []string
	feed := func(tag string) {
		for p := range int32(4) {
			vs := numbered(tag+string(rune('a'+p)), 0, 500)
			k.put(p, vs...)
			want = append(want, vs...)
		}
	}
	feed("1")
	o := options(g)
	o.Lanes = 2
	r1 := start(t, k.javaBridge(g, o))
	feed("2")
	r2 := start(t, k.javaBridge(g, options(g)))
	until(t, "two partitions each", func() bool {
		return len(r1.b.Status().Partitions) == 2 && len(r2.b.Status().Partitions) == 2
	}, r1, r2)
	feed("3")
	g.wantValues(t, want, r1, r2)
	r1.end()
	feed("4")
	g.wantValues(t, want, r2)
	r2.end()
}

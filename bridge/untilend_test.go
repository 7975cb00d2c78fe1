package bridge

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/twmb/franz-go/pkg/kgo"
)

// UntilEnd stops at the last stable offsets of the start: empty partitions, aborted tails and an open transaction included, and what
// came later is not read.
func TestUntilEnd(t *testing.T) {
	k, g := newCluster(t, 4), newTarget()
	k.put(0, numbered("a", 0, 10)...)
	k.txn("t1", kgo.TryAbort, 1, "gone")
	k.put(2, "before")
	open := k.begin("t2", 2, "open1", "open2")
	k.put(2, "behind")
	o := options(g)
	o.UntilEnd = true
	late := make(chan struct{})
	var once sync.Once
	g.on(func(op string) error {
		if op == "write" {
			once.Do(func() { k.put(0, "late"); close(late) })
		}
		return nil
	})
	r := start(t, k.bridge(g, o))
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	wait(t, "the late record", late)
	g.wantValues(t, append(numbered("a", 0, 10), "before"))
	if got := g.positions(t, "test"); got[0] != 10 || got[1] != 2 || got[2] != 1 || got[3] != 0 || len(got) != 4 {
		t.Fatalf("positions %v", got)
	}
	st := r.b.Status()
	w := st.Waiting()
	if len(st.Left) != 0 || len(w) != 1 || w[0].Partition.Partition != 2 || w[0].Waiting() != 3 {
		t.Fatalf("waiting %+v, left %v", w, st.Left)
	}
	if err := open.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	g.on(nil)
	k.read(g)
	g.wantValues(t, append(numbered("a", 0, 10), "before", "late", "open1", "open2", "behind"))
	k.read(g) // nothing new
}

// Two bridges that end at the end share the partitions; neither waits for the other for ever.
func TestUntilEnd_Two(t *testing.T) {
	k, g := newCluster(t, 4), newTarget()
	var want []string
	for p := range int32(4) {
		vs := numbered(string(rune('a'+p)), 0, 100)
		k.put(p, vs...)
		want = append(want, vs...)
	}
	var shared atomic.Bool
	g.on(func(op string) error {
		if op == "save" && !shared.Load() { // else the first could be at the end before the second comes
			return away(op)
		}
		return nil
	})
	o := options(g)
	o.UntilEnd = true
	o.backoff = func(int) time.Duration { return time.Millisecond }
	r1, r2 := start(t, k.bridge(g, o)), start(t, k.bridge(g, o))
	until(t, "two partitions each", func() bool {
		return len(r1.b.Status().Partitions) == 2 && len(r2.b.Status().Partitions) == 2
	}, r1, r2)
	shared.Store(true)
	for _, r := range []*running{r1, r2} {
		if err := r.wait(); err != nil {
			t.Fatal(err)
		}
	}
	g.wantValues(t, want)
}

// Group offsets are a hint only: a group that is at the end while nothing is stored does not end UntilEnd.
func TestUntilEnd_GroupOffsetsAreNoEvidence(t *testing.T) {
	k := newCluster(t, 1)
	k.put(0, numbered("a", 0, 10)...)
	k.read(newTarget()) // commits the group's offsets
	g := newTarget()    // a store that knows nothing
	k.read(g)
	g.wantValues(t, numbered("a", 0, 10))
}

// A last stable offset that does not move is told, with the transactional id; nothing is skipped, and the status does not say caught
// up (P101).
func TestWatch_OpenTransaction(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	open := k.begin("stuck", 0, "b")
	k.put(0, "c")
	told := make(chan OpenTransaction, 1)
	o := options(g)
	o.OpenFor = time.Millisecond
	o.Hooks.OpenTransaction = func(x OpenTransaction) { told <- x }
	var log logged
	o.Logger = log.logger()
	r := start(t, k.bridge(g, o))
	over, stop := expires()
	defer stop()
	select {
	case x := <-told:
		want := OpenTransaction{Partition: changelog.Partition{Topic: "texts"}, LastStableOffset: 1, HighWatermark: 3, For: x.For, TransactionalID: "stuck", ProducerID: x.ProducerID}
		if x != want || x.ProducerID < 0 {
			t.Fatalf("told %+v", x)
		}
		until(t, "the log's word", func() bool { return log.count("keeps records from being read") == 1 }, r)
		for _, w := range []string{`transactional id \"stuck\"`, "kafka-transactions.sh", "abort --topic texts --partition 0 --start-offset 1"} {
			if log.count(w) != 1 {
				t.Errorf("the log does not say %q:\n%s", w, log.buf.String())
			}
		}
	case <-over:
		t.Fatal("nothing was told")
	}
	g.wantValues(t, []string{"a"}, r)
	if st := r.b.Status(); st.Lag() != 2 || st.Partitions[0].Waiting() != 2 || st.Partitions[0].Saved != 1 {
		t.Fatalf("status %+v", st)
	}
	if err := open.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	g.wantValues(t, []string{"a", "b", "c"}, r)
	r.end()
	if len(told) != 0 {
		t.Fatal("told twice")
	}
}

// The client passes over offsets without records in silence; the watcher moves the position over them.
func TestWatch_PassesEmptyOffsets(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	k.put(0, "compacted", "compacted", "compacted")
	k.empty(1, 4)
	o := options(g, kgo.DisableFetchSessions(), kgo.FetchMaxPartitionBytes(1))
	o.UntilEnd = true
	r := start(t, k.bridge(g, o))
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	if got := g.positions(t, "test"); got[0] != 4 {
		t.Fatalf("positions %v", got)
	}
	g.wantValues(t, []string{"a"})
}

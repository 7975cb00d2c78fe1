package bridge

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A group that waits for a member which died lets nobody in before its session is over: that is said, and not before it is so.
func TestStart_GroupWaitsForTheDead(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	var w wire
	o := options(g, kgo.Dialer(w.dial))
	o.InstanceID = "dead"
	r1 := start(t, k.bridge(g, o))
	g.wantValues(t, []string{"a"}, r1)
	id, _ := r1.b.cur.cl.GroupMetadata()
	w.kill()
	var log logged
	o2 := options(g)
	o2.InstanceID = "alive"
	o2.Logger = log.logger()
	o2.joiningAfter = 100 * time.Millisecond
	r2 := start(t, k.bridge(g, o2))
	until(t, "the word", func() bool { return log.count("has given no partitions yet") == 1 }, r2)
	if log.count("assigned") > 0 {
		t.Fatal(log.text())
	}
	k.leave("test", id) // its session is over
	k.put(0, "b")
	g.wantValues(t, []string{"a", "b"}, r2)
	r2.end()
	if log.count("has given no partitions yet") != 1 || log.count("Options.InstanceID") != 1 {
		t.Fatal(log.buf.String())
	}
	r1.stop()
	<-r1.done
}

// The log of a start says what is guaranteed; a lane's hooks know the lane.
func TestStart_LogAndLaneHooks(t *testing.T) {
	k, g := newCluster(t, 3), newTarget()
	var log logged
	var mu sync.Mutex
	lanes := make(map[changelog.Partition]int)
	calls := 0
	o := options(g)
	o.Lanes = 3
	o.Logger = log.logger()
	acquired := 0
	o.Hooks.Acquired = func(sink.Claim) { mu.Lock(); defer mu.Unlock(); acquired++ }
	o.Hooks.Lane = func(n int) sink.Hooks {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return sink.Hooks{Acquired: func(c sink.Claim) {
			mu.Lock()
			defer mu.Unlock()
			for _, p := range c.Generation.Partitions {
				lanes[p] = n
			}
		}}
	}
	r := start(t, k.bridge(g, o))
	until(t, "three generations", func() bool { mu.Lock(); defer mu.Unlock(); return len(lanes) == 3 }, r)
	mu.Lock()
	for _, p := range r.b.Status().Partitions {
		if lanes[p.Partition] != p.Lane {
			t.Errorf("%s is of lane %d, its hooks are those of lane %d", p.Partition, p.Lane, lanes[p.Partition])
		}
	}
	if calls != 3 || acquired != 3 {
		t.Errorf("hooks were made %d times, those of all lanes called %d times", calls, acquired)
	}
	mu.Unlock()
	r.end()
	if log.count(`msg="flinksink: started"`) != 1 || !strings.Contains(log.buf.String(), "guarantee=") {
		t.Error(log.buf.String())
	}
}

// A bridge that halts at a record stands right before it, also where offsets without a record lie between it and the one before: the offset
// that it names is the one that 'positions skip' takes.
func TestHalt_StandsBeforeTheRecord(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.txn("t1", kgo.TryCommit, 0, "a")    // 0, marker 1
	k.txn("t2", kgo.TryAbort, 0, "gone")  // 2, marker 3
	k.txn("t3", kgo.TryCommit, 0, "bad1") // 4
	o := options(g)
	o.UntilEnd = true
	err := start(t, k.bridge(g, o)).wait()
	if err == nil || !strings.Contains(err.Error(), "texts:0:4") {
		t.Fatalf("got %v", err)
	}
	if at := g.positions(t, "test")[0]; at != 4 {
		t.Fatalf("the stored position is %d", at)
	}
}

// A client that does not fetch what it should is told again. What it does in truth, to lose the wake-up of its fetch loop between two sessions, no
// test can make it do; to have paused a partition looks the same to the bridge. The other partition keeps polls from ever being idle.
func TestStart_ClientThatForgets(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	k.put(0, "a")
	k.put(1, "b")
	r := start(t, k.bridge(g, options(g)))
	g.wantValues(t, []string{"a", "b"}, r)
	r.b.cur.cl.PauseFetchPartitions(map[string][]int32{k.topic: {0}})
	k.put(0, "c")
	feed, fed := context.WithCancel(t.Context())
	defer fed()
	feeder := k.client()
	var feeding sync.WaitGroup
	feeding.Go(func() {
		for feed.Err() == nil {
			_ = feeder.ProduceSync(feed, k.record(1, "d")).FirstErr()
		}
	})
	until(t, "the record of the partition that the client does not fetch", func() bool { return slices.Contains(g.values(), "c") }, r)
	fed()
	feeding.Wait()
	r.end()
}

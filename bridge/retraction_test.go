package bridge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A row whose update is two messages is there at every checkpoint between them; without the option it is not.
func TestHold_UpdateInTwoMessages(t *testing.T) {
	t.Run("held", func(t *testing.T) {
		w := watch(t, newCluster(t, 2), newTarget(), nil)
		w.held()
		w.putSeen(0, "+I 1 b")
		w.sees("1 b", "2 x")
		for i := range 20 {
			w.putSeen(0, fmt.Sprintf("-D 1 %d", i))
			w.k.put(1, fmt.Sprintf("-U 2 %d, +U 2 %d", i, i))
			w.k.put(0, fmt.Sprintf("+I 1 %d", i))
		}
		w.sees("1 19", "2 19")
		w.neverLack(1, 2)
		w.end()
		if at := w.g.positions(t, "test"); at[0] != 43 || at[1] != 21 {
			t.Fatalf("positions %v", at)
		}
	})
	t.Run("never", func(t *testing.T) {
		w := watch(t, newCluster(t, 2), newTarget(), func(o *Options) { o.HoldRetractions = HoldNever })
		w.putSeen(0, "+I 1 a")
		w.sees("1 a")
		w.putSeen(0, "-D 1 a")
		w.sees()
	})
}

// What a join retracts for one update are several deletes in a row, with records of other kinds between: control records of a
// transaction, tombstones.
func TestHold_RunOfDeletes(t *testing.T) {
	w := watch(t, newCluster(t, 2), newTarget(), nil)
	w.putSeen(0, "+I 1 a", "+I 2 a")
	w.sees("1 a", "2 a")
	w.k.txn("t1", kgo.TryCommit, 0, "-D 1 a")
	w.putSeen(0, "none")
	w.k.txn("t2", kgo.TryAbort, 0, "+I 9 aborted")
	w.putSeen(0, "-U 2 a", "none")
	w.putSeen(1, "+I 3 x")
	w.sees("1 a", "2 a", "3 x")
	w.putSeen(0, "+I 1 b, +I 2 b")
	w.sees("1 b", "2 b", "3 x")
	w.neverLack(1, 2)
}

// A checkpoint never falls between two changes of one message, however small its share: also where every message is a load of its own.
func TestCheckpoint_WholeMessages(t *testing.T) {
	k := newCluster(t, 1)
	k.put(0, "+I 1 a, +I 2 a")
	for i := range 50 {
		k.put(0, fmt.Sprintf("-U 1 %d, +U 1 %d, -U 2 %d, +U 2 %d", i, i, i, i))
	}
	var sizes []int
	w := watch(t, k, newTarget(), func(o *Options) {
		o.ByteBudget, o.Bytes, o.UntilEnd = 8, 1, true
		o.Hooks.Written = func(_ string, n, _ int) { sizes = append(sizes, n) }
	})
	if err := w.wait(); err != nil {
		t.Fatal(err)
	}
	w.sees("1 49", "2 49")
	w.neverLack(1, 2)
	if len(sizes) != 51 || len(w.states) < 51 || slices.ContainsFunc(sizes[1:], func(n int) bool { return n != 4 }) {
		t.Fatalf("%d checkpoints of loads of %v changes", len(w.states), sizes)
	}
	for _, s := range w.states {
		if len(s) == 2 && s[0][2:] != s[1][2:] {
			t.Fatalf("half a message is visible: %q", s)
		}
	}
}

// One delete and no other message ever: it is applied, one interval later (P14).
func TestHold_NothingFollows(t *testing.T) {
	w := watch(t, newCluster(t, 2), newTarget(), func(o *Options) { o.Interval = 10 * time.Millisecond })
	w.putSeen(0, "+I 1 a")
	w.sees("1 a")
	w.putSeen(0, "-D 1 a")
	w.sees()
	until(t, "its position", func() bool { return w.g.positions(t, "test")[0] == 2 }, w.running)
}

func TestHold_UntilEndAppliesIt(t *testing.T) {
	k := newCluster(t, 2)
	k.put(0, "+I 1 a", "+I 2 a")
	k.txn("t1", kgo.TryCommit, 0, "-D 1 a")
	k.put(0, "none")
	k.put(1, "+I 3 a", "-D 3 a")
	w := watch(t, k, newTarget(), func(o *Options) { o.UntilEnd = true })
	if err := w.wait(); err != nil {
		t.Fatal(err)
	}
	w.sees("2 a")
	if at := w.g.positions(t, "test"); at[0] != 5 || at[1] != 2 {
		t.Fatalf("positions %v", at)
	}
}

// Nobody says when the next run begins: until then the row is as it was before its update.
func TestHold_GracefulStopLeavesIt(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	w := watch(t, k, g, nil)
	w.held()
	before := w.g.positions(t, "test")
	w.end()
	if at := w.g.positions(t, "test"); at[0] != before[0] {
		t.Fatalf("positions %v after the stop, %v before", at, before)
	}
	again := watch(t, k, g, func(o *Options) { o.UntilEnd = true })
	if err := again.wait(); err != nil {
		t.Fatal(err)
	}
	again.sees("2 x")
	if at := again.g.positions(t, "test"); at[0] != 2 || at[1] != 1 {
		t.Fatalf("positions %v", at)
	}
}

// Everything before a record that cannot be decoded is applied, what was held too.
func TestHold_BadRecordFollows(t *testing.T) {
	w := watch(t, newCluster(t, 2), newTarget(), nil)
	w.held()
	w.k.put(0, "bad")
	var de *changelog.DataError
	if err := w.wait(); !errors.As(err, &de) || de.Offset != 2 {
		t.Fatalf("ended with %v", err)
	}
	w.sees("2 x")
	if at := w.g.positions(t, "test"); at[0] != 2 {
		t.Fatalf("positions %v", at)
	}
}

// A partition is given back at the position before what is held of it, and its next owner reads that, holds it, and applies it.
func TestHold_Revoke(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	w1 := watch(t, k, g, nil)
	w1.held()
	w1.putSeen(1, "-D 2 x")
	w1.putSeen(0, "none") // the lane is past the delete of partition 1 when this is taken
	var mu sync.Mutex
	began := make(map[int32]int64)
	w2 := watch(t, k, g, func(o *Options) {
		o.Hooks.Acquired = func(c sink.Claim) {
			mu.Lock()
			defer mu.Unlock()
			for _, p := range c.Positions {
				began[p.Partition.Partition] = p.Offset
			}
		}
	})
	until(t, "a partition each", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(w1.b.Status().Partitions) == 1 && len(began) == 1
	}, w1.running, w2.running)
	for p, at := range began {
		if at != 1 {
			t.Fatalf("partition %d was given back at %d, behind what was held", p, at)
		}
	}
	k.put(0, "+I 1 b")
	k.put(1, "+I 2 y")
	until(t, "both updates", func() bool { return slices.Equal(g.rows(), []string{"1 b", "2 y"}) }, w1.running, w2.running)
	w1.end()
	w2.end()
	w1.neverLack(1, 2)
	for _, s := range w2.states {
		if len(s) != 2 {
			t.Fatalf("a row vanished: %q", w2.states)
		}
	}
	if got := g.rows(); !slices.Equal(got, []string{"1 b", "2 y"}) {
		t.Fatalf("rows %q", got)
	}
}

// A lane that is sent back reads what it held again: nothing is lost or doubled, and no row vanishes meanwhile.
func TestHold_Failures(t *testing.T) {
	k, g := newCluster(t, 3), newTarget()
	rng, failed := rand.New(rand.NewPCG(1, 2)), atomic.Int64{}
	g.on(func(op string) error {
		if op == "acquire" || rng.IntN(5) != 0 {
			return nil
		}
		return &sink.Error{Op: op, Class: []error{sink.ErrTransient, sink.ErrUncertain}[failed.Add(1)%2], Err: errors.New("test")}
	})
	w := watch(t, k, g, func(o *Options) { o.backoff = func(int) time.Duration { return 0 } })
	for p := range int32(3) {
		k.put(p, fmt.Sprintf("+I %d start", p+1))
	}
	w.sees("1 start", "2 start", "3 start")
	updates := 0
	for ; updates < 30 || failed.Load() < 5; updates++ { // how many calls there are depends on how much is fetched at once
		for p := range int32(3) {
			k.put(p, fmt.Sprintf("-D %d %d", p+1, updates))
		}
		for p := range int32(3) {
			k.put(p, fmt.Sprintf("+I %d %d", p+1, updates))
		}
		if updates >= 30 {
			w.sees(fmt.Sprint("1 ", updates), fmt.Sprint("2 ", updates), fmt.Sprint("3 ", updates))
		}
	}
	w.sees(fmt.Sprint("1 ", updates-1), fmt.Sprint("2 ", updates-1), fmt.Sprint("3 ", updates-1))
	w.neverLack(1, 2, 3)
	w.end()
	if at, want := g.positions(t, "test"), int64(1+2*updates); at[0] != want || at[1] != want || at[2] != want {
		t.Fatalf("positions %v, expected %d", at, want)
	}
}

// So many deletes that they cannot be an update are not held together; nor are more bytes than there is room for.
func TestHold_Bounded(t *testing.T) {
	const n = 3000
	for name, change := range map[string]func(o *Options){
		"messages": nil,
		"bytes":    func(o *Options) { o.ByteBudget, o.Bytes = 64<<10*tailShare, 64<<10 },
	} {
		t.Run(name, func(t *testing.T) {
			k := newCluster(t, 2)
			w := watch(t, k, newTarget(), change)
			var in, out []string
			for i := range n {
				in = append(in, fmt.Sprintf("+I %d a", i+10))
				out = append(out, fmt.Sprintf("-D %d a", i+10))
			}
			w.putSeen(0, in...)
			until(t, "all rows", func() bool { return len(w.g.rows()) == n }, w.running)
			w.putSeen(0, out...)
			w.putSeen(1, "+I 1 x")
			until(t, "the other partition", func() bool { return slices.Contains(w.g.rows(), "1 x") }, w.running)
			if left := len(w.g.rows()) - 1; left < 1 || left > tailRecords {
				t.Fatalf("%d deletes are held", left)
			}
			w.putSeen(0, "+I 2 x")
			w.sees("1 x", "2 x")
		})
	}
}

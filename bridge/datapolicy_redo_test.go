package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A partition that is given to another member while the search goes on takes nothing of it along: its next owner searches for itself.
func TestDataPolicy_RebalanceWhileHalving(t *testing.T) {
	for _, w := range []way{{at: "write"}, {at: "save"}, {at: "save", names: true}} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			k, g := newCluster(t, 2), newRefuser(w)
			var messages [2][]string
			for p := range messages {
				for i := range 300 {
					m := fmt.Sprintf("+I %d v", 2*i+p)
					if i%67 == 66 {
						m = fmt.Sprintf("+I %d x", 2*i+p)
					}
					messages[p] = append(messages[p], m)
				}
				k.put(int32(p), messages[p]...)
			}
			bridgeOf := func() *Bridge {
				return g.policyBridge(t, k, func(o *Options) { o.OnData, o.UntilEnd, o.Interval = DeadLetter, false, 20*time.Millisecond })
			}
			refused := make(chan struct{})
			once := sync.OnceFunc(func() { close(refused) })
			g.asked = func(int) { once() }
			first := start(t, bridgeOf())
			wait(t, "a refusal", refused)
			second := start(t, bridgeOf())
			until(t, "the end", func() bool { at := g.positions(t, "test"); return at[0] == 300 && at[1] == 300 }, first, second)
			first.end()
			second.end()
			for p := range messages {
				want := expect(t, !w.names, messages[p])
				if got := g.lettersOf(int32(p)); !slices.Equal(got, want.letters) {
					t.Errorf("letters of partition %d\n got %q\nwant %q", p, got, want.letters)
				}
			}
			if n := len(g.rows()); n != 600-8 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// The search for a message that the sink does not name takes about as many tries as its position has binary digits, and each holds at
// most half of the one before.
func TestDataPolicy_Halves(t *testing.T) {
	k, g := newCluster(t, 1), newRefuser(way{at: "save"})
	k.put(0, slices.Concat(numberedRows(0, 700), []string{"+I 9999 x"}, numberedRows(700, 1000))...)
	var mu sync.Mutex
	var sizes []int
	g.asked = func(n int) {
		mu.Lock()
		defer mu.Unlock()
		sizes = append(sizes, n)
	}
	b := g.policyBridge(t, k, func(o *Options) { o.OnData, o.Interval = DeadLetter, time.Hour })
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	for i := 2; i < len(sizes); i++ {
		if sizes[i] > sizes[i-1]/2 {
			t.Errorf("refused checkpoints held %v messages", sizes)
		}
	}
	if sizes[len(sizes)-1] != 1 || len(sizes) > 12 {
		t.Errorf("refused checkpoints held %v messages", sizes)
	}
	if n := len(g.rows()); n != 1000 || len(g.srv.DeadLetters()) != 1 {
		t.Errorf("%d rows, %d letters", n, len(g.srv.DeadLetters()))
	}
}

// While the search goes on in what was refused, the lane reads the backlog of another partition in checkpoints of the usual size; and searches of two
// partitions do not begin each other anew.
func TestDataPolicy_SearchesOnlyWhatWasRefused(t *testing.T) {
	for _, bad := range [][]int{{120}, {120, 2000}, {0, 119, 120, 199}} { // the first 200 rows are partition 1, between two backlogs
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			t.Parallel()
			k, g := newCluster(t, 3), newRefuser(way{at: "save"})
			rows := numberedRows(0, 30_200)
			for _, n := range bad {
				rows[n] = fmt.Sprintf("+I %d x", 10_000+n)
			}
			k.put(0, rows[200:15_000]...)
			k.put(2, rows[15_000:]...)
			k.put(1, rows[:200]...)
			saved := 0
			b := g.policyBridge(t, k, func(o *Options) {
				o.OnData, o.Interval, o.Changes = DeadLetter, time.Hour, 500
				o.Hooks.Saved = func(sink.Report) { saved++ }
			})
			if err := start(t, b).wait(); err != nil {
				t.Fatal(err)
			}
			if n := len(g.rows()); n != 30_200-len(bad) || len(g.srv.DeadLetters()) != len(bad) {
				t.Errorf("%d rows, %d letters", n, len(g.srv.DeadLetters()))
			}
			t.Logf("%d checkpoints", saved)
			if saved > 100*(1+len(bad)) { // 60 hold 500 changes each; of one message each it would be thousands
				t.Errorf("%d checkpoints", saved)
			}
		})
	}
}

// A sink that names again what was left out, or names nothing where nothing is left, ends the lane instead of going round for ever.
func TestDataPolicy_NoEndlessLoop(t *testing.T) {
	for name, rejected := range map[string][]sink.Rejection{
		"an earlier message":         {{Partition: changelog.Partition{Topic: "texts"}, Offset: 0, Index: 0}},
		"a change that is not there": {{Partition: changelog.Partition{Topic: "texts"}, Offset: 1, Index: 7}},
		"a message to come":          {{Partition: changelog.Partition{Topic: "texts"}, Offset: 77, Index: -1}},
		"another partition":          {{Partition: changelog.Partition{Topic: "texts", Partition: 9}, Offset: 1, Index: -1}},
		"nothing":                    nil,
	} {
		for _, policy := range []DataPolicy{Halt, DeadLetter, Skip} {
			t.Run(name+"/"+policy.String(), func(t *testing.T) {
				t.Parallel()
				k, g := newCluster(t, 1), newRefuser(way{})
				k.put(0, "+I 1 a")
				b := g.policyBridge(t, k, func(o *Options) {
					o.OnData, o.UntilEnd = policy, false
					o.Store = refusingStore{sinktest.NewStore(g.srv), g}
				})
				r := start(t, b)
				until(t, "a row", func() bool { return len(g.rows()) == 1 }, r)
				g.on(func(op string) error {
					if op == "prepare" {
						return &sink.Error{Op: op, Class: sink.ErrRejected, Rejected: rejected, Err: errors.New("no, whatever it is")}
					}
					return nil
				})
				k.put(0, "+I 2 b", "+I 3 c")
				if err := r.wait(); !errors.Is(err, sink.ErrRejected) {
					t.Fatalf("got %v", err)
				}
				if got := g.rows(); !slices.Equal(got, []string{"1 a"}) {
					t.Errorf("rows %q", got)
				}
			})
		}
	}
}

// An outage is never taken for bad data, and neither is a refusal of the dead letters themselves.
func TestDataPolicy_OnlyRefusals(t *testing.T) {
	k, g := newCluster(t, 1), newRefuser(way{})
	k.put(0, "+I 1 a", "bad", "+I 2 b")
	var n atomic.Int32
	g.on(func(op string) error {
		if n.Add(1) < 30 && op != "acquire" {
			return &sink.Error{Op: op, Class: []error{sink.ErrTransient, sink.ErrUncertain}[n.Load()%2], Err: errors.New("away")}
		}
		return nil
	})
	b := g.policyBridge(t, k, func(o *Options) { o.OnData, o.DataBudget = DeadLetter, 1 })
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	if got := g.rows(); !slices.Equal(got, []string{"1 a", "2 b"}) || len(g.srv.DeadLetters()) != 1 {
		t.Errorf("rows %q, letters %v", got, g.srv.DeadLetters())
	}
	if b.Status().Retries == 0 {
		t.Error("nothing was tried again")
	}
}

func TestDataPolicy_RefusedLettersAreFinal(t *testing.T) {
	k, g := newCluster(t, 1), newRefuser(way{})
	k.put(0, "+I 1 a", "bad", "+I 2 b")
	g.noLetters = true
	b := g.policyBridge(t, k, func(o *Options) { o.OnData = DeadLetter })
	if err := start(t, b).wait(); !errors.Is(err, sink.ErrRejected) || !strings.Contains(err.Error(), "write dead letters") {
		t.Fatalf("got %v", err)
	}
	if got := g.rows(); len(got) != 0 || g.tries != 1 {
		t.Errorf("rows %q, %d tries", got, g.tries)
	}
}

// Several partitions, restarts, other members that come and go, failures that pass, checkpoints and loads of any size: in the end the table, the
// letters and the positions are what they are without any of it.
func TestDataPolicy_Random(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			w := ways[rng.IntN(len(ways))]
			const partitions = 3
			k, g := newCluster(t, partitions), newRefuser(w)
			t.Logf("seed %d: %s", seed, w)
			var messages [partitions][]string
			for i := range 150 {
				p := rng.IntN(partitions)
				id := partitions*rng.IntN(20) + p
				m := fmt.Sprintf("+I %d v%d", id, i)
				switch rng.IntN(14) {
				case 0:
					m = "bad"
				case 1:
					m = fmt.Sprintf("+I %d x%d", id, i)
				case 2:
					m = fmt.Sprintf("-U %d y, +U %d x%d", id, id, i)
				case 3:
					m = fmt.Sprintf("+I %d w%d, -D %d x, +U %d z%d", id, i, id+60, id, i)
				case 4, 5, 6:
					m = fmt.Sprintf("-D %d y", id)
				case 7:
					m = "none"
				}
				messages[p] = append(messages[p], m)
			}
			var mu sync.Mutex
			dice := rand.New(rand.NewPCG(seed, 2))
			calm := false
			g.on(func(op string) error {
				mu.Lock()
				defer mu.Unlock()
				if calm || op == "acquire" || dice.IntN(12) > 0 {
					return nil
				}
				return &sink.Error{Op: op, Class: sink.ErrTransient, Err: errors.New("made up")}
			})
			opts := func() *Bridge {
				return g.policyBridge(t, k, func(o *Options) {
					o.UntilEnd, o.OnData = false, DeadLetter
					o.HoldRetractions = []HoldPolicy{HoldNever, HoldAlways}[rng.IntN(2)]
					o.Changes = 1 + rng.IntN(60)
					o.Lanes = 1 + rng.IntN(2)
					o.Interval = time.Duration(1+rng.IntN(20)) * time.Millisecond
					o.Client = append(o.Client, kgo.RebalanceTimeout(10*time.Second))
				})
			}
			var left [partitions][]string
			copy(left[:], messages[:])
			r := start(t, opts())
			for some := true; some; {
				some = false
				for p := range left {
					n := min(len(left[p]), 1+rng.IntN(25))
					if n > 0 {
						k.put(int32(p), left[p][:n]...)
						left[p] = left[p][n:]
						some = true
					}
				}
				switch rng.IntN(4) {
				case 0: // a restart
					r.leave()
					r = start(t, opts())
				case 1: // another member comes, and the first one goes
					other := start(t, opts())
					r.leave()
					r = other
				case 2: // somebody fences the lane
					if len(r.b.Status().Partitions) > 0 {
						_, _ = g.steal(r)
					}
				}
			}
			mu.Lock()
			calm = true
			mu.Unlock()
			until(t, "the end of all partitions", func() bool {
				at := g.positions(t, "test")
				for p := range messages {
					if at[int32(p)] < int64(len(messages[p])) {
						return false
					}
				}
				return true
			}, r)
			r.end()
			rows := []string{}
			for p := range messages {
				want := expect(t, !w.names, messages[p])
				rows = append(rows, want.table()...)
				if got := g.lettersOf(int32(p)); !slices.Equal(got, want.letters) {
					t.Errorf("letters of partition %d\n got %q\nwant %q", p, got, want.letters)
				}
			}
			slices.Sort(rows)
			if got := g.rows(); !slices.Equal(got, rows) {
				t.Errorf("rows\n got %q\nwant %q", got, rows)
			}
			g.balanced(t, r.b)
		})
	}
}

// A process that dies between the refusal and the checkpoint that sets the message aside leaves nothing behind: its successor is refused for
// itself, and the message is set aside once.
func TestDataPolicy_CrashBetween(t *testing.T) {
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			k, g := newCluster(t, 1), newRefuser(w)
			messages := []string{"+I 1 a", "bad", "+I 2 x", "+I 3 c"}
			k.put(0, messages...)
			var dead atomic.Bool
			refused := make(chan struct{})
			die := sync.OnceFunc(func() { dead.Store(true); close(refused) })
			g.asked = func(int) { die() }
			hang := make(chan struct{})
			g.on(func(op string) error {
				if dead.Load() && op == "save" { // the first process gets no further
					<-hang
					return &sink.Error{Op: op, Class: sink.ErrTransient, Err: errors.New("dead")}
				}
				return nil
			})
			var cut wire
			first := start(t, g.policyBridge(t, k, func(o *Options) {
				o.OnData, o.UntilEnd = DeadLetter, false
				o.Client = append(o.Client, kgo.Dialer(cut.dial))
				o.Grace = time.Millisecond
			}))
			wait(t, "a refusal", refused)
			cut.kill()
			g.on(nil)
			member := ""
			until(t, "the member", func() bool {
				d, err := k.adm.DescribeGroups(context.Background(), "test")
				if err == nil && len(d["test"].Members) == 1 {
					member = d["test"].Members[0].MemberID
				}
				return member != ""
			})
			k.leave("test", member)
			b := g.policyBridge(t, k, func(o *Options) { o.OnData = DeadLetter })
			if err := start(t, b).wait(); err != nil {
				t.Fatal(err)
			}
			close(hang)
			first.stop()
			_ = first.wait()
			want := expect(t, !w.names, messages)
			if got := g.rows(); !slices.Equal(got, want.table()) {
				t.Errorf("rows %q, want %q", got, want.table())
			}
			if got := g.lettersOf(0); !slices.Equal(got, want.letters) {
				t.Errorf("letters %q, want %q", got, want.letters)
			}
		})
	}
}

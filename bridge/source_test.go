package bridge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Records of aborted transactions are not read, but the position moves over them and over the markers, also when nothing else comes.
func TestFetch_AbortedMovesThePosition(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a0")                                   // 0
	k.txn("t1", kgo.TryAbort, 0, "gone1", "gone2")   // 1, 2, marker 3
	k.txn("t1b", kgo.TryCommit, 0, "kept1", "kept2") // 4, 5, marker 6
	k.txn("t2", kgo.TryAbort, 0, "gone3")            // 7, marker 8
	r := start(t, k.bridge(g, options(g)))
	until(t, "the position behind the last marker", func() bool { return g.positions(t, "test")[0] == 9 }, r)
	g.wantValues(t, []string{"a0", "kept1", "kept2"}, r)
	rows := r.b.Status().Counters.Records
	k.txn("t3", kgo.TryAbort, 0, "gone4") // 9, marker 10
	until(t, "the position behind a lone aborted transaction", func() bool { return g.positions(t, "test")[0] == 11 }, r)
	if n := r.b.Status().Counters.Records; n != rows {
		t.Fatalf("%d records, %d before the aborted ones", n, rows)
	}
	r.end()
}

// A checkpoint that is done again reads from exactly the saved positions: nothing is lost, nothing doubled, whatever was under way
// between fetch, decode and write (P88, P89).
func TestSeek_AtRandom(t *testing.T) {
	for _, lanes := range []int{1, 3} {
		k, g := newCluster(t, 3), newTarget()
		var want []string
		for p := range int32(3) {
			vs := numbered(string(rune('a'+p)), 0, 1000)
			want = append(want, vs...)
			for len(vs) > 0 {
				n := min(50, len(vs))
				k.put(p, vs[:n]...)
				vs = vs[n:]
			}
		}
		rnd := rand.New(rand.NewPCG(7, uint64(lanes)))
		var mu sync.Mutex
		failed := 0
		g.on(func(op string) error {
			mu.Lock()
			defer mu.Unlock()
			if rnd.IntN(4) != 0 || failed >= 30 {
				return nil
			}
			failed++
			class := sink.ErrTransient
			if rnd.IntN(4) == 0 && op != "write" {
				class = sink.ErrUncertain
			}
			return &sink.Error{Op: op, Class: class, Err: errors.New("made up")}
		})
		o := options(g)
		o.Lanes = lanes
		o.Changes = 100
		o.ByteBudget = 256 << 10
		o.backoff = func(int) time.Duration { return time.Millisecond }
		r := start(t, k.bridge(g, o))
		g.wantValues(t, want, r)
		met := func() int { mu.Lock(); defer mu.Unlock(); return failed }
		for n := 0; met() < 20; n++ { // how many calls there are depends on how much is fetched at once
			vs := numbered(fmt.Sprint("more", n, "-"), 0, 50)
			k.put(int32(n%3), vs...)
			want = append(want, vs...)
			g.wantValues(t, want, r)
		}
		r.end()
	}
}

func lostError(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, sink.ErrLost) {
		t.Fatalf("got %v, want ErrLost", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("%q does not say %q", err, w)
		}
	}
}

// read runs a bridge up to the end of what there is.
func (k *cluster) read(g *target) {
	k.t.Helper()
	o := options(g)
	o.UntilEnd = true
	if err := start(k.t, k.bridge(g, o)).wait(); err != nil {
		k.t.Fatal(err)
	}
}

// Retention overtook a position: said with both offsets and the gap, and nothing is skipped (P93).
func TestSeek_OutOfRange(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 10)...)
	k.read(g)
	k.put(0, numbered("b", 0, 20)...)
	if err := k.c.DeleteRecords(k.topic, 0, 25); err != nil {
		t.Fatal(err)
	}
	err := start(t, k.bridge(g, options(g))).wait()
	lostError(t, err, "texts/0@10", "asked for offset 10", "offsets 25 to 29", "offsets 10 to 24 were deleted", "15 of them")
	g.wantValues(t, numbered("a", 0, 10))
}

// Retention may also overtake a bridge that runs.
func TestFetch_OutOfRange(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 10)...)
	block := make(chan struct{})
	g.on(func(op string) error {
		if op == "write" {
			<-block
		}
		return nil
	})
	o := options(g, kgo.FetchMaxBytes(1), kgo.FetchMaxPartitionBytes(1))
	o.ByteBudget = 8 // everything is paused after the first fetch
	o.Bytes = 4
	r := start(t, k.bridge(g, o))
	release := sync.OnceFunc(func() { close(block) })
	t.Cleanup(release)
	until(t, "a full budget", func() bool { s := r.b.Status(); return len(s.Partitions) == 1 && s.Buffered > 0 }, r)
	k.put(0, numbered("b", 0, 10)...)
	if err := k.c.DeleteRecords(k.topic, 0, 20); err != nil {
		t.Fatal(err)
	}
	k.put(0, "c")
	release()
	lostError(t, r.wait(), "offsets 10 to 19 were deleted")
}

// The offsets of a topic that was made again mean other records, however many there are (P90).
func TestSeek_TopicMadeAnew(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 10)...)
	k.read(g)
	old, now := k.recreate()
	k.put(0, numbered("b", 0, 10)...)
	err := start(t, k.bridge(g, options(g))).wait()
	lostError(t, err, old.String(), now.String(), "made again")
	g.wantValues(t, numbered("a", 0, 10))
}

// The new topic is as long as the old one was, or shorter: comparing offsets alone would call it read to its end (P90).
func TestUntilEnd_TopicMadeAnew(t *testing.T) {
	for _, n := range []int{0, 3, 10} {
		k, g := newCluster(t, 1), newTarget()
		k.put(0, numbered("a", 0, 10)...)
		k.read(g)
		old, now := k.recreate()
		k.put(0, numbered("b", 0, n)...)
		o := options(g)
		o.UntilEnd = true
		err := start(t, k.bridge(g, o)).wait()
		lostError(t, err, old.String(), now.String(), "made again")
		g.wantValues(t, numbered("a", 0, 10))
	}
}

func TestWatch_TopicDeleted(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 10)...)
	o := options(g)
	o.deletedAfter = time.Millisecond
	r := start(t, k.bridge(g, o))
	g.wantValues(t, numbered("a", 0, 10), r)
	if err := k.c.DeleteTopic(k.topic); err != nil {
		t.Fatal(err)
	}
	lostError(t, r.wait(), "does not exist any more")
}

func TestWatch_TopicMadeAnew(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 10)...)
	r := start(t, k.bridge(g, options(g)))
	g.wantValues(t, numbered("a", 0, 10), r)
	old, now := k.recreate()
	lostError(t, r.wait(), old.String(), now.String(), "made again")
	g.wantValues(t, numbered("a", 0, 10))
}

// recreate deletes the topic and makes it again.
func (k *cluster) recreate() (old, now changelog.TopicID) {
	k.t.Helper()
	old = changelog.TopicID(k.c.TopicInfo(k.topic).TopicID)
	if err := k.c.DeleteTopic(k.topic); err != nil {
		k.t.Fatal(err)
	}
	if err := k.c.CreateTopic(k.topic, 1, nil); err != nil {
		k.t.Fatal(err)
	}
	now = changelog.TopicID(k.c.TopicInfo(k.topic).TopicID)
	// The producing client does not follow a topic into its next life.
	k.cl = k.client()
	k.adm = kadm.NewClient(k.cl)
	return old, now
}

func TestBegin_Modes(t *testing.T) {
	tests := []struct {
		name  string
		start Start
		want  []string // of a 0..9, b 0..9 written before; c afterwards
	}{
		{"earliest", Start{}, append(numbered("a", 0, 10), "b00000", "c")},
		{"latest", Start{Mode: StartLatest}, []string{"c"}},
		{"offsets", Start{Mode: StartOffsets, Offsets: map[int32]int64{0: 8}}, []string{"a00008", "a00009", "b00000", "c"}},
		{"group", Start{Mode: StartGroup}, []string{"a00009", "c"}},
		{"timestamp", Start{Mode: StartTimestamp, Timestamp: 2000}, []string{"a00007", "a00008", "a00009", "c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k, g := newCluster(t, 2), newTarget()
			for i, v := range numbered("a", 0, 10) {
				r := k.record(0, v)
				r.Timestamp = time.UnixMilli(1000)
				if i >= 7 {
					r.Timestamp = time.UnixMilli(2000)
				}
				if err := k.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			rb := k.record(1, "b00000")
			rb.Timestamp = time.UnixMilli(1000)
			if err := k.cl.ProduceSync(t.Context(), rb).FirstErr(); err != nil {
				t.Fatal(err)
			}
			offsets := make(kadm.Offsets)
			offsets.AddOffset(k.topic, 0, 9, -1)
			offsets.AddOffset(k.topic, 1, 1, -1)
			if err := k.adm.CommitAllOffsets(t.Context(), "test", offsets); err != nil {
				t.Fatal(err)
			}
			in := k.input()
			in.Start = tt.start
			b, err := New("test", in, g, options(g))
			if err != nil {
				t.Fatal(err)
			}
			r := start(t, b)
			// The begin itself is saved, so that it holds after a crash.
			until(t, "a saved begin", func() bool { return len(g.positions(t, "test")) == 2 }, r)
			k.put(0, "c")
			g.wantValues(t, tt.want, r)
			r.end()
		})
	}
}

func TestBegin_GroupWithoutOffset(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	in := k.input()
	in.Start.Mode = StartGroup
	b, err := New("test", in, g, options(g))
	if err != nil {
		t.Fatal(err)
	}
	if err := start(t, b).wait(); !errors.Is(err, sink.ErrConfig) || !strings.Contains(err.Error(), "no committed offset for texts/0") {
		t.Fatalf("got %v", err)
	}
}

// A start that does not exist is found before it is stored.
func TestBegin_OutOfRange(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 10)...)
	in := k.input()
	in.Start = Start{Mode: StartOffsets, Offsets: map[int32]int64{0: 11}}
	b, err := New("test", in, g, options(g))
	if err != nil {
		t.Fatal(err)
	}
	configError(t, start(t, b).wait(), "offset 11", "offsets 0 to 9")
	k.read(g)
	g.wantValues(t, numbered("a", 0, 10))
}

// A partition that is added while the bridge runs is read from its start, even where the bridge began at the end.
func TestBegin_NewPartition(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "old")
	in := k.input()
	in.Start.Mode = StartLatest
	b, err := New("test", in, g, options(g, kgo.MetadataMinAge(10*time.Millisecond), kgo.MetadataMaxAge(50*time.Millisecond)))
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, b)
	until(t, "a saved begin", func() bool { return len(g.positions(t, "test")) == 1 }, r)
	if _, err := k.adm.CreatePartitions(t.Context(), 1, k.topic); err != nil {
		t.Fatal(err)
	}
	k.cl = k.client()
	k.put(1, "new")
	g.wantValues(t, []string{"new"}, r)
	r.end()
}

// Memory is bounded: a sink that takes nothing stops the fetching, while the member keeps its place in the group (P92, P98).
func TestBudget_PausesFetching(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	big := strings.Repeat("x", 1000)
	var want []string
	for i := range 200 {
		vs := numbered(big, i*10, i*10+10)
		k.put(int32(i%2), vs...)
		want = append(want, vs...)
	}
	block := make(chan struct{})
	g.on(func(op string) error {
		if op == "write" {
			<-block
		}
		return nil
	})
	o := options(g, kgo.FetchMaxBytes(20<<10), kgo.FetchMaxPartitionBytes(10<<10))
	o.ByteBudget = 400 << 10
	lost := make(chan struct{})
	var once sync.Once
	o.Hooks.Revoked = func([]changelog.Partition, bool) { once.Do(func() { close(lost) }) }
	r := start(t, k.bridge(g, o))
	release := sync.OnceFunc(func() { close(block) })
	t.Cleanup(release)
	until(t, "a pause", func() bool {
		s := r.b.Status()
		return len(s.Partitions) == 2 && s.Partitions[0].Paused && s.Partitions[1].Paused && s.Buffered >= 100<<10
	}, r)
	beats := make(chan struct{}, 100)
	k.c.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.c.KeepControl()
		signal(beats)
		return nil, nil, false
	})
	for range 5 {
		wait(t, "a heartbeat while the sink is slow", beats)
	}
	if n := r.b.Status().Buffered; n > 400<<10 {
		t.Fatalf("%d bytes are buffered, the budget is %d", n, 400<<10)
	}
	release()
	g.wantValues(t, want, r)
	select {
	case <-lost:
		t.Fatal("the member lost its partitions while the sink was slow")
	default:
	}
	r.end()
}

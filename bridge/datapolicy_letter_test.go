package bridge

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A letter holds the message as it was in the topic, in memory of its own.
func TestDataPolicy_Letter(t *testing.T) {
	k, g := newCluster(t, 1), newRefuser(ways[0])
	at := time.UnixMilli(1_700_000_000_123)
	put := func(r *kgo.Record) {
		r.Topic, r.Timestamp = k.topic, at
		if err := k.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put(&kgo.Record{Key: []byte("k"), Value: []byte("bad"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}, {Key: "null"}}})
	put(&kgo.Record{Value: []byte("+I 1 a, +I 2 x")})
	b := g.policyBridge(t, k, func(o *Options) { o.OnData = DeadLetter })
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	l := g.srv.DeadLetters()
	if len(l) != 2 {
		t.Fatalf("letters %v", l)
	}
	if l[0].Topic != k.topic || l[0].Offset != 0 || l[0].Index != -1 || l[0].Class != "data" || l[0].Error != "is bad" || !l[0].Timestamp.Equal(at) ||
		string(l[0].Key) != "k" || string(l[0].Value) != "bad" || len(l[0].Headers) != 2 || l[0].Headers[0].Key != "h" || string(l[0].Headers[0].Value) != "v" || l[0].Headers[1].Value != nil {
		t.Errorf("undecodable: %+v", l[0])
	}
	if l[1].Offset != 1 || l[1].Index != 1 || l[1].Class != "rejected" || l[1].Column != "v" || l[1].Error != "too long by far" || l[1].Key != nil ||
		string(l[1].Value) != "+I 1 a, +I 2 x" || l[1].Changes != 1 {
		t.Errorf("refused: %+v", l[1])
	}
}

// A sink without dead letters refuses the policy at the start.
func TestDataPolicy_NeedsAKeeper(t *testing.T) {
	k, g := newCluster(t, 1), newTarget() // whose committers hide what the memory sink can
	o := options(g)
	o.OnData = DeadLetter
	configError(t, start(t, k.bridge(g, o)).wait(), "Options.OnData", "DeadLetterKeeper")
}

// One that could keep them, but for a right or a table that is missing, is found before the first row.
func TestDataPolicy_KeeperIsAskedAtTheStart(t *testing.T) {
	k, g := newCluster(t, 1), newRefuser(way{})
	k.put(0, "+I 1 a")
	g.noTable = true
	configError(t, start(t, g.policyBridge(t, k, func(o *Options) { o.OnData = DeadLetter })).wait(), "no right to make the table")
	if got := g.rows(); len(got) != 0 {
		t.Errorf("rows %q", got)
	}
	if err := start(t, g.policyBridge(t, k, func(o *Options) { o.OnData = Skip })).wait(); err != nil {
		t.Errorf("a policy that needs no letters: %v", err)
	}
}

// What follows for later changes of a key whose change was refused, as DataPolicy says it.
func TestDataPolicy_WhatFollows(t *testing.T) {
	for name, tt := range map[string]struct {
		messages []string
		rows     []string
	}{
		"a refused insert leaves nothing":                    {[]string{"+I 1 x"}, []string{}},
		"a refused update leaves the row":                    {[]string{"+I 1 a", "+U 1 x"}, []string{"1 a"}},
		"a refused delete leaves the row":                    {[]string{"+I 1 a", "-D 1 x"}, []string{"1 a"}},
		"the next update replaces the older row":             {[]string{"+I 1 a", "+U 1 x", "+U 1 c"}, []string{"1 c"}},
		"an update in one message is all or nothing":         {[]string{"+I 1 a", "-U 1 a, +U 1 x"}, []string{"1 a"}},
		"the next one in one message takes the older row":    {[]string{"+I 1 a", "-U 1 a, +U 1 x", "-U 1 x, +U 1 c"}, []string{"1 a"}},
		"the delete of an update in two messages is applied": {[]string{"+I 1 a", "-D 1 a", "+I 1 x"}, []string{}},
		"and the row is there again with the next":           {[]string{"+I 1 a", "-D 1 a", "+I 1 x", "-D 1 y", "+I 1 c"}, []string{"1 c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, g := newCluster(t, 1), newRefuser(ways[0])
			k.put(0, tt.messages...)
			if err := start(t, g.policyBridge(t, k, func(o *Options) { o.OnData = Skip })).wait(); err != nil {
				t.Fatal(err)
			}
			if got := g.rows(); !slices.Equal(got, tt.rows) {
				t.Errorf("rows %q, want %q", got, tt.rows)
			}
		})
	}
}

// What is bad inside a run of deletes that is held back is set aside when the run is written, and not before.
func TestDataPolicy_InAHeldRetraction(t *testing.T) {
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			g := newRefuser(w)
			k := newCluster(t, 2)
			b := g.policyBridge(t, k, func(o *Options) {
				o.OnData, o.HoldRetractions, o.UntilEnd, o.Interval, o.Changes = DeadLetter, HoldAlways, false, time.Hour, 1
			})
			x := &watched{running: start(t, b), k: k, g: g.target}
			x.putSeen(0, "+I 1 a")
			x.sees("1 a")
			x.putSeen(0, "-D 1 a") // held
			x.putSeen(0, "bad")
			x.putSeen(0, "-D 5 x")
			x.putSeen(1, "bad", "+I 2 y") // proves that the lane is past what is held
			x.sees("1 a", "2 y")
			if l := g.lettersOf(0); len(l) != 0 {
				t.Fatalf("letters %q: what is held is not written", l)
			}
			if l := g.lettersOf(1); !slices.Equal(l, []string{"0/-1 data 1"}) {
				t.Fatalf("letters of partition 1: %q", l)
			}
			x.putSeen(0, "bad", "+I 1 b")
			x.sees("1 b", "2 y")
			want := expect(t, !w.names, []string{"+I 1 a", "-D 1 a", "bad", "-D 5 x", "bad", "+I 1 b"})
			until(t, "the letters", func() bool { return len(g.lettersOf(0)) >= len(want.letters) }, x.running)
			if got := g.lettersOf(0); !slices.Equal(got, want.letters) {
				t.Errorf("letters\n got %q\nwant %q", got, want.letters)
			}
			x.end()
			if p := g.positions(t, "test"); p[0] != 6 {
				t.Errorf("positions %v", p)
			}
			if c := g.balanced(t, b); c.Read != want.read+2 || c.DeadLettered != want.dropped+1 || c.Records != 6+2 {
				t.Errorf("counters %+v", c)
			}
		})
	}
}

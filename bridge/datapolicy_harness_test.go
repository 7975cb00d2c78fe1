package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kgo"
)

// refuser is a target that refuses every change whose row's text begins with "x", the way it is told to.
type refuser struct {
	*target
	way way

	mu    sync.Mutex
	tries int                // refusals so far
	asked func(messages int) // told how many messages each refused checkpoint held

	noLetters bool                            // letters are refused, not rows
	noTable   bool                            // letters cannot be kept at all
	byGen     map[sink.GenerationID]*refusing // whose checkpoint a Save is
}

// way is how a sink refuses.
type way struct {
	at    string // "write", "prepare" or "save"
	names bool   // it says which change it was
	one   bool   // it names only the first
}

func (w way) String() string {
	switch {
	case w.one:
		return w.at + ", one at a time"
	case w.names:
		return w.at + ", named"
	}
	return w.at + ", not named"
}

var ways = []way{{"write", true, false}, {"write", true, true}, {"prepare", true, false}, {"save", true, true}, {"write", false, false}, {"prepare", false, false}, {"save", false, false}}

func newRefuser(w way) *refuser {
	return &refuser{target: newTarget(), way: w, byGen: make(map[sink.GenerationID]*refusing)}
}

func (g *refuser) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := g.target.Lane(ctx, l)
	if err != nil {
		return nil, err
	}
	return &refusing{Committer: c, keeper: c.(*gated).Committer.(sink.DeadLetterKeeper), g: g, held: make(map[message]bool)}, nil
}

// refusing is the committer of one lane.
type refusing struct {
	sink.Committer
	keeper sink.DeadLetterKeeper
	g      *refuser
	bad    []sink.Rejection // in the current checkpoint
	held   map[message]bool
}

// refuse answers a call, now that bad changes are in the checkpoint.
func (c *refusing) refuse(op string) error {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	if op != c.g.way.at || len(c.bad) == 0 {
		return nil
	}
	c.g.tries++
	if c.g.asked != nil {
		c.g.asked(len(c.held))
	}
	err := &sink.Error{Op: op, Class: sink.ErrRejected, Err: errors.New("a made up constraint")}
	if c.g.way.names {
		seen := make(map[message]bool)
		for _, b := range c.bad {
			if m := (message{b.Partition, b.Offset}); !seen[m] { // at most one a message
				seen[m] = true
				err.Rejected = append(err.Rejected, b)
			}
		}
		if c.g.way.one {
			err.Rejected = err.Rejected[:1]
		}
	}
	return err
}

func (c *refusing) clear() {
	c.bad = nil
	clear(c.held)
}

func (c *refusing) Open(ctx context.Context, claim sink.Claim) error {
	c.clear()
	c.g.mu.Lock()
	c.g.byGen[claim.Generation.ID] = c
	c.g.mu.Unlock()
	return c.Committer.Open(ctx, claim)
}

func (c *refusing) Write(ctx context.Context, b *changelog.Batch) error {
	for i := range b.Changes {
		ch := &b.Changes[i]
		c.held[message{ch.Partition, ch.Offset}] = true
		if strings.HasPrefix(ch.Row[1].Str(), "x") {
			c.bad = append(c.bad, sink.Rejection{Partition: ch.Partition, Offset: ch.Offset, Index: ch.Index, Column: "v", Reason: errors.New("too long by far")})
		}
	}
	if err := c.refuse("write"); err != nil {
		return err
	}
	return c.Committer.Write(ctx, b)
}

func (c *refusing) WriteDeadLetters(ctx context.Context, ls []sink.DeadLetter) error {
	if c.g.noTable {
		return &sink.Error{Op: "write dead letters", Class: sink.ErrConfig, Err: errors.New("no right to make the table")}
	}
	if c.g.noLetters && len(ls) > 0 {
		c.g.tries++
		return &sink.Error{Op: "write dead letters", Class: sink.ErrRejected, Err: errors.New("made up")}
	}
	return c.keeper.WriteDeadLetters(ctx, ls)
}

func (c *refusing) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	if err := c.refuse("prepare"); err != nil {
		return sink.Committable{}, err
	}
	return c.Committer.Prepare(ctx, cut)
}

func (c *refusing) Commit(ctx context.Context, r sink.Committable) error {
	c.clear()
	return c.Committer.Commit(ctx, r)
}

func (c *refusing) Discard(ctx context.Context) error {
	c.clear()
	return c.Committer.Discard(ctx)
}

type refusingStore struct {
	sink.Store
	g *refuser
}

func (s refusingStore) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	s.g.mu.Lock()
	c := s.g.byGen[gen.ID]
	s.g.mu.Unlock()
	if err := c.refuse("save"); err != nil {
		return err
	}
	err := s.Store.Save(ctx, gen, cp)
	if err == nil {
		c.clear()
	}
	return err
}

// expected is what must come of messages put in this order into one partition.
type expected struct {
	rows     map[int64]string
	read     int64
	dropped  int64
	letters  []string // "offset/index class changes"
	badAt    int64    // the first bad message, -1: none
	atFirst  []string // rows before it
	messages int64
}

func (e *expected) table() []string {
	out := []string{}
	for id, v := range e.rows {
		out = append(out, fmt.Sprintf("%d %s", id, v))
	}
	slices.Sort(out)
	return out
}

// expect applies messages the dumb way. Whole says that a refused message is dropped whole: the sink does not say more.
func expect(t *testing.T, whole bool, messages []string) *expected {
	t.Helper()
	e := &expected{rows: make(map[int64]string), badAt: -1, messages: int64(len(messages))}
	note := func(offset, index int, class string, n int) {
		if e.badAt < 0 {
			e.badAt, e.atFirst = int64(offset), e.table()
		}
		e.dropped += int64(n)
		e.letters = append(e.letters, fmt.Sprintf("%d/%d %s %d", offset, index, class, n))
	}
	for o, m := range messages {
		switch m {
		case "none":
			continue
		case "bad":
			e.read++
			note(o, -1, "data", 1)
			continue
		}
		type one struct {
			kind changelog.Kind
			id   int64
			v    string
		}
		var all []one
		for _, text := range strings.Split(m, ", ") {
			f := strings.Fields(text)
			k, err := changelog.ParseKind(f[0])
			if err != nil {
				t.Fatal(err)
			}
			var id int64
			fmt.Sscan(f[1], &id)
			all = append(all, one{k, id, f[2]})
		}
		e.read += int64(len(all))
		gone := make([]bool, len(all))
		refused := slices.IndexFunc(all, func(c one) bool { return strings.HasPrefix(c.v, "x") })
		if whole && refused >= 0 {
			note(o, -1, "rejected", len(all))
			continue
		}
		for i := range all {
			if gone[i] || !strings.HasPrefix(all[i].v, "x") {
				continue
			}
			n := 1
			gone[i] = true
			if all[i].kind == changelog.UpdateBefore && i+1 < len(all) && all[i+1].kind == changelog.UpdateAfter {
				gone[i+1], n = true, 2
			} else if all[i].kind == changelog.UpdateAfter && i > 0 && all[i-1].kind == changelog.UpdateBefore {
				gone[i-1], n = true, 2
			}
			note(o, i, "rejected", n)
		}
		for i, c := range all {
			switch {
			case gone[i]:
			case c.kind.Adds():
				e.rows[c.id] = c.v
			default:
				delete(e.rows, c.id)
			}
		}
	}
	return e
}

// lettersOf returns the dead letters of a partition as expected.letters has them, by offset.
func (g *refuser) lettersOf(p int32) []string {
	ls := g.srv.DeadLetters()
	slices.SortStableFunc(ls, func(a, b sink.DeadLetter) int { return int(a.Offset - b.Offset) })
	var out []string
	for _, l := range ls {
		if l.Partition.Partition == p {
			out = append(out, fmt.Sprintf("%d/%d %s %d", l.Offset, l.Index, l.Class, l.Changes))
		}
	}
	return out
}

// policyBridge makes a bridge over rows that runs until its end.
func (g *refuser) policyBridge(t *testing.T, k *cluster, change func(o *Options)) *Bridge {
	t.Helper()
	o := options(g.target)
	o.UntilEnd = true
	o.backoff = func(int) time.Duration { return time.Millisecond }
	o.Store = refusingStore{o.Store, g}
	if change != nil {
		change(o)
	}
	b, err := New("test", Input{Topics: []string{k.topic}, Decoder: newRows(), Client: []kgo.Opt{kgo.SeedBrokers(k.addr)}}, g, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// balanced demands that what the store says of every saved checkpoint adds up, and what the bridge says as a whole.
func (g *refuser) balanced(t *testing.T, b *Bridge) sink.Counters {
	t.Helper()
	st, err := sinktest.NewStore(g.srv).Read(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range st.Positions {
		if !p.Counters.Balanced() {
			t.Errorf("%s: %+v does not balance", p.Partition, p.Counters)
		}
	}
	c := b.Status().Counters
	if !c.Balanced() {
		t.Errorf("%+v does not balance", c)
	}
	return c
}

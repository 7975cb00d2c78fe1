package sink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// picky is a memory sink whose committers refuse, or supersede, as they are told.
type picky struct {
	sink.Sink
	refuse     func(op string) error // called before each call
	superseded int64                 // what Superseded answers
	wrap       func(c *pickyCommitter) sink.Committer
	calls      []string
}

func newPicky(s *sinktest.Server) *picky {
	return &picky{Sink: sinktest.NewSink(s, nil), refuse: func(string) error { return nil }, wrap: func(c *pickyCommitter) sink.Committer { return c }}
}

func (k *picky) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := k.Sink.Lane(ctx, l)
	if err != nil {
		return nil, err
	}
	return k.wrap(&pickyCommitter{c, k}), nil
}

type pickyCommitter struct {
	sink.Committer
	k *picky
}

func (c *pickyCommitter) ask(op string) error {
	c.k.calls = append(c.k.calls, op)
	return c.k.refuse(op)
}

func (c *pickyCommitter) Write(ctx context.Context, b *changelog.Batch) error {
	if err := c.ask("write"); err != nil {
		return err
	}
	return c.Committer.Write(ctx, b)
}

func (c *pickyCommitter) WriteDeadLetters(ctx context.Context, l []sink.DeadLetter) error {
	if err := c.ask("letters"); err != nil {
		return err
	}
	return c.Committer.(sink.DeadLetterKeeper).WriteDeadLetters(ctx, l)
}

func (c *pickyCommitter) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	if err := c.ask("prepare"); err != nil {
		return sink.Committable{}, err
	}
	return c.Committer.Prepare(ctx, cut)
}

func (c *pickyCommitter) Discard(ctx context.Context) error {
	_ = c.ask("discard")
	return c.Committer.Discard(ctx)
}

func (c *pickyCommitter) Superseded() int64 {
	_ = c.ask("superseded")
	return c.k.superseded
}

// plain hides everything but the Committer.
type plain struct{ sink.Committer }

// one is a coordinator over sinks that holds a partition.
func one(t *testing.T, srv *sinktest.Server, src sink.Source, change func(o *sink.Options), sinks ...sink.Sink) *sink.Coordinator {
	t.Helper()
	o := sink.Options{Bridge: "b", Source: src, Tables: []*changelog.Table{sinktest.Appended()}, Store: sinktest.NewStore(srv), Backoff: func(int) time.Duration { return 0 }}
	for i, s := range sinks {
		o.Sinks = append(o.Sinks, sink.Declared{Name: fmt.Sprintf("s%d", i), Sink: s})
	}
	if change != nil {
		change(&o)
	}
	c, err := sink.NewCoordinator(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	if _, err := c.Assign(t.Context(), []changelog.Partition{zero}); err != nil {
		t.Fatal(err)
	}
	return c
}

func refusal(op string) error {
	return &sink.Error{Op: op, Class: sink.ErrRejected, Err: errors.New("too long"), Rejected: []sink.Rejection{{Partition: zero, Offset: 3, Index: 1, Column: "v", Reason: errors.New("too long")}}}
}

// Whether Write, Prepare or Save refuses: the caller is asked with what the sink named, the checkpoint is dropped, the source sought, and a
// yes lets the lane go on, while a no, or nobody to ask, ends it.
func TestRejected_RedoesTheCheckpoint(t *testing.T) {
	for _, op := range []string{"write", "prepare", "save"} {
		for _, answer := range []string{"yes", "no", "nobody"} {
			t.Run(op+"/"+answer, func(t *testing.T) {
				srv, src := sinktest.NewServer(), &seekable{}
				k := newPicky(srv)
				once := false // not for the checkpoint that begins the partition
				refuse := func(at string) error {
					if at == op && once {
						once = false
						return refusal(op)
					}
					return nil
				}
				k.refuse = refuse
				var asked []*sink.Error
				c := one(t, srv, src, func(o *sink.Options) {
					o.Store = refusingStore{o.Store, refuse}
					if answer != "nobody" {
						o.Rejected = func(e *sink.Error) bool {
							asked = append(asked, e)
							return answer == "yes"
						}
					}
				}, k)
				src.sought, k.calls, once = nil, nil, true
				table := sinktest.Appended()
				b, p := batchOf(table, 0, 5)
				err := c.Write(t.Context(), b, p)
				if err == nil && op != "write" {
					_, err = c.Checkpoint(t.Context())
				}
				if answer != "nobody" && (len(asked) != 1 || len(asked[0].Rejected) != 1 || asked[0].Rejected[0].Offset != 3 || asked[0].Bridge != "b") {
					t.Fatalf("asked about %v", asked)
				}
				if !slices.Contains(k.calls, "discard") {
					t.Errorf("calls %v: nothing was discarded", k.calls)
				}
				if answer != "yes" {
					if !errors.Is(err, sink.ErrRejected) {
						t.Fatalf("got %v", err)
					}
					if b, p := batchOf(table, 0, 5); !errors.Is(c.Write(t.Context(), b, p), sink.ErrRejected) {
						t.Error("the lane is not over")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(src.sought) != 1 || src.sought[0].Offset != 0 {
					t.Errorf("sought %v, want the saved position", src.sought)
				}
				if n, _ := c.Pending(); n != 0 {
					t.Errorf("%d changes are pending of the dropped checkpoint", n)
				}
				b, p = batchOf(table, 0, 3)
				p.Skipped = 2
				p.To[0].Offset = 5
				if err := c.Write(t.Context(), b, p); err != nil {
					t.Fatal(err)
				}
				r, err := c.Checkpoint(t.Context())
				if err != nil || r.Counters.Read != 5 || r.Counters.Applied != 3 || r.Counters.Skipped != 2 || !r.Counters.Balanced() {
					t.Errorf("%+v, %v", r.Counters, err)
				}
				if n := len(srv.Table(table.Name)); n != 3 {
					t.Errorf("%d rows", n)
				}
			})
		}
	}
}

// What is no ErrRejected is nobody's to judge.
func TestRejected_IsNotAskedAboutOutages(t *testing.T) {
	for _, class := range []error{sink.ErrTransient, sink.ErrUncertain, nil} {
		srv := sinktest.NewServer()
		k := newPicky(srv)
		failures := 3
		k.refuse = func(op string) error {
			if op != "prepare" || failures == 0 {
				return nil
			}
			failures--
			return &sink.Error{Op: op, Class: class, Err: errors.New("away")}
		}
		c := one(t, srv, &seekable{}, func(o *sink.Options) {
			o.Rejected = func(e *sink.Error) bool { t.Errorf("asked about %v", e); return true }
		}, k)
		b, p := batchOf(sinktest.Appended(), 0, 5)
		if err := c.Write(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		if failures == 3 {
			t.Error("nothing failed")
		}
	}
}

// Letters go to the first sink that keeps them, before the rows, and become visible with the checkpoint or not at all.
func TestLetters_AreOfTheCheckpoint(t *testing.T) {
	srv := sinktest.NewServer()
	k, other := newPicky(srv), newPicky(srv)
	other.wrap = func(c *pickyCommitter) sink.Committer { return plain{c} }
	c := one(t, srv, &seekable{}, nil, other, k)
	if err := c.CheckDeadLetters(t.Context()); !c.KeepsDeadLetters() || err != nil {
		t.Fatalf("no keeper found: %v", err)
	}
	write := func(from, to int64) {
		t.Helper()
		b, p := batchOf(sinktest.Appended(), from, to)
		p.To[0].Offset++
		p.Letters = []sink.DeadLetter{{Partition: zero, Offset: to, Index: -1, Class: "data", Error: "is bad", Value: []byte("{"), Changes: 3}}
		if err := c.Write(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
	}
	write(0, 2)
	if n := len(srv.DeadLetters()); n != 0 {
		t.Fatalf("%d letters before the checkpoint", n)
	}
	if at, rows := slices.Index(k.calls, "letters"), slices.Index(k.calls, "write"); at < 0 || at > rows || slices.Contains(other.calls, "letters") {
		t.Errorf("calls %v and %v", other.calls, k.calls)
	}
	failed := false
	k.refuse = func(op string) error {
		if op == "prepare" && !failed {
			failed = true
			return &sink.Error{Op: op, Class: sink.ErrTransient, Err: errors.New("away")}
		}
		return nil
	}
	if _, err := c.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(srv.DeadLetters()); n != 0 || !failed {
		t.Fatalf("%d letters of a checkpoint that was dropped", n)
	}
	write(0, 2)
	r, err := c.Checkpoint(t.Context())
	if err != nil || r.Counters.DeadLettered != 3 || r.Counters.Read != 5 || r.Counters.Applied != 2 || !r.Counters.Balanced() {
		t.Errorf("%+v, %v", r.Counters, err)
	}
	if l := srv.DeadLetters(); len(l) != 1 || l[0].Offset != 2 || string(l[0].Value) != "{" {
		t.Errorf("letters %v", l)
	}
}

// Letters that are refused end the lane without a question, and so do letters that nobody keeps.
func TestLetters_NoWayOut(t *testing.T) {
	for name, change := range map[string]func(k *picky) error{
		"refused": func(k *picky) error {
			k.refuse = func(op string) error {
				if op == "letters" {
					return refusal(op)
				}
				return nil
			}
			return sink.ErrRejected
		},
		"not kept": func(k *picky) error {
			k.wrap = func(c *pickyCommitter) sink.Committer { return plain{c} }
			return sink.ErrConfig
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := sinktest.NewServer()
			k := newPicky(srv)
			want := change(k)
			c := one(t, srv, &seekable{}, func(o *sink.Options) {
				o.Rejected = func(e *sink.Error) bool { t.Errorf("asked about %v", e); return true }
			}, k)
			if err := c.CheckDeadLetters(t.Context()); !errors.Is(err, want) {
				t.Errorf("asked before: got %v, want %v", err, want)
			}
			_, p := batchOf(sinktest.Appended(), 0, 1)
			p.Letters = []sink.DeadLetter{{Partition: zero, Index: -1, Changes: 1}}
			if err := c.Write(t.Context(), nil, p); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
}

// What every sink superseded moves from applied to superseded, in what is stored too: a change that one of them wrote was applied.
func TestSuperseded_IsCounted(t *testing.T) {
	for name, tt := range map[string]struct {
		one, two int64
		hide     bool
		want     int64
	}{
		"both":              {3, 2, false, 2},
		"only one":          {3, 0, false, 0},
		"one does not tell": {3, 3, true, 0},
		"all but the last":  {4, 4, false, 4},
	} {
		t.Run(name, func(t *testing.T) {
			srv := sinktest.NewServer()
			a, b := newPicky(srv), newPicky(srv)
			a.superseded, b.superseded = tt.one, tt.two
			if tt.hide {
				b.wrap = func(c *pickyCommitter) sink.Committer { return plain{c} }
			}
			c := one(t, srv, &seekable{}, nil, a, b)
			batch, p := batchOf(sinktest.Appended(), 0, 5)
			p.Superseded, p.Skipped = 7, 1
			if err := c.Write(t.Context(), batch, p); err != nil {
				t.Fatal(err)
			}
			r, err := c.Checkpoint(t.Context())
			want := sink.Counters{Records: 5, Read: 13, Applied: 5 - tt.want, Superseded: 7 + tt.want, Skipped: 1}
			if err != nil || r.Counters != want || !r.Counters.Balanced() {
				t.Errorf("%+v, %v; want %+v", r.Counters, err, want)
			}
			st, err := sinktest.NewStore(srv).Read(t.Context(), "b")
			if err != nil || len(st.Positions) != 1 || st.Positions[0].Counters != want {
				t.Errorf("stored %+v, %v", st.Positions, err)
			}
		})
	}
}

type refusingStore struct {
	sink.Store
	refuse func(op string) error
}

func (s refusingStore) Save(ctx context.Context, g sink.Generation, cp sink.Checkpoint) error {
	if err := s.refuse("save"); err != nil {
		return err
	}
	return s.Store.Save(ctx, g, cp)
}

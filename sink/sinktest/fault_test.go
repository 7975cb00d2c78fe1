package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// play is a lane in its simplest form: it carries the whole topic over, whatever fails, by the rules of package sink.
func play(ctx context.Context, srv *Server, inTx bool, topic *Topic, f *Faults) error {
	var c sink.Committer
	for try := 0; c == nil; try++ {
		var err error
		c, err = f.Sink(NewSink(srv, &SinkOptions{InTransaction: inTx})).Lane(ctx, lane0(topic))
		if err != nil && try > 3 {
			return err
		}
	}
	store, own := c.(sink.Store)
	if !own {
		store = f.Store(NewStore(srv))
	}
	d := NewDriver(c, store, topic)
	defer d.Close(ctx)
	for range 100 {
		_ = f.Deliver(ctx) // whenever it comes
		if d.Acquire(ctx, 0, 1) != nil || d.Open(ctx) != nil {
			continue
		}
		for d.From[0] != topic.End(0) || d.From[1] != topic.End(1) || len(d.Settle) > 0 {
			if d.Write(ctx, 2) != nil {
				_ = d.Discard(ctx)
				break
			}
			if d.Prepare(ctx) != nil {
				break // it may be prepared: the next Open settles it
			}
			if err := d.Save(ctx); err != nil {
				_, _ = d.End(ctx)
				break
			}
			_ = f.Deliver(ctx)
			for d.Commit(ctx) != nil {
			}
		}
		if d.From[0] == topic.End(0) && d.From[1] == topic.End(1) && len(d.Settle) == 0 {
			return nil
		}
	}
	return fmt.Errorf("the lane gave up at %v; calls: %s", d.From, strings.Join(f.Calls(), ", "))
}

func lane0(topic *Topic) sink.Lane {
	return sink.Lane{Bridge: Bridge, Sink: SinkName, Tables: []*changelog.Table{topic.Table}}
}

func someTopic() *Topic {
	t := NewTopic(Appended())
	t.Put(0, Insert(1, "a"), Insert(1, "a"), Insert(2, "b"), Insert(3, "c"))
	t.Put(1, Insert(11, "a"), Insert(1, "a"))
	return t
}

func compare(srv *Server, topic *Topic) error {
	want, got := topic.Rows(topic.End(0), topic.End(1)), FixtureRows(srv.Table(AppendTable))
	sortRows(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("rows are %v, expected %v", got, want)
	}
	if n := srv.Staged(); n > 0 {
		return fmt.Errorf("%d pieces of prepared work are left over", n)
	}
	return nil
}

func modes(t *testing.T, f func(t *testing.T, inTx bool)) {
	t.Run("TwoPhase", func(t *testing.T) { f(t, false) })
	t.Run("InTransaction", func(t *testing.T) { f(t, true) })
}

// One fault at every call in turn, of every kind.
func TestSweep_EachRowOnce(t *testing.T) {
	modes(t, func(t *testing.T, inTx bool) {
		for _, when := range []When{Before, After, Late} {
			err := Sweep(when, func(f *Faults) error {
				srv, topic := NewServer(), someTopic()
				if err := play(t.Context(), srv, inTx, topic, f); err != nil {
					return err
				}
				_ = f.Deliver(t.Context())
				return compare(srv, topic)
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestRandomFaults_EachRowOnce(t *testing.T) {
	modes(t, func(t *testing.T, inTx bool) {
		met := 0
		for seed := range uint64(200) {
			f := RandomFaults(seed, 8)
			srv, topic := NewServer(), someTopic()
			if err := errors.Join(play(t.Context(), srv, inTx, topic, f), compare(srv, topic)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for _, c := range f.Calls() {
				if strings.Contains(c, "(") {
					met++
				}
			}
		}
		if met < 200 {
			t.Errorf("only %d calls of 200 runs met a fault", met)
		}
	})
}

// Power fails at every call, before and after it took effect: a copy of the server at that moment, and a new lane on it, must
// come to the same rows as the lane that was not disturbed.
func TestClone_PowerLossAtEveryCall(t *testing.T) {
	modes(t, func(t *testing.T, inTx bool) {
		for _, when := range []When{Before, After} {
			losses := 0
			for i := 1; ; i++ {
				srv, topic := NewServer(), someTopic()
				var rest *Server
				f := Faulty(Fault{At: i, When: when, Do: func(context.Context) { rest = srv.Crash() }})
				if err := errors.Join(play(t.Context(), srv, inTx, topic, f), compare(srv, topic)); err != nil {
					t.Fatalf("%s call %d: the lane that lived on: %v", when, i, err)
				}
				if rest == nil {
					break
				}
				losses++
				if err := errors.Join(play(t.Context(), rest, inTx, topic, Faulty()), compare(rest, topic)); err != nil {
					t.Fatalf("%s call %d: after the power loss: %v", when, i, err)
				}
			}
			if losses < 10 {
				t.Errorf("power was lost %d times only", losses)
			}
		}
	})
}

func TestFault_FiresAtItsCallAndSaysSo(t *testing.T) {
	ctx, srv, topic := t.Context(), NewServer(), someTopic()
	f := Faulty(
		Fault{Call: "acquire", At: 2, Class: sink.ErrFenced},
		Fault{Call: "commit", Sink: SinkName, Times: 2, When: After},
		Fault{Call: "save", At: 2, When: Late},
		Fault{Call: "end", At: 9},
	)
	c, err := f.Sink(NewSink(srv, nil)).Lane(ctx, lane0(topic))
	if err != nil {
		t.Fatal(err)
	}
	d := NewDriver(c, f.Store(NewStore(srv)), topic)
	steps := []struct {
		do    func() error
		class error
	}{
		{func() error { return d.Acquire(ctx, 0, 1) }, nil},
		{func() error { return d.Acquire(ctx, 0, 1) }, sink.ErrFenced},
		{func() error { return d.Open(ctx) }, nil},
		{func() error { return d.Write(ctx, 1) }, nil},
		{func() error { return d.Prepare(ctx) }, nil},
		{func() error { return d.Save(ctx) }, nil},
		{func() error { return d.Commit(ctx) }, sink.ErrUncertain},
		{func() error { return d.Commit(ctx) }, sink.ErrUncertain},
		{func() error { return d.Commit(ctx) }, nil},
		{func() error { return d.Write(ctx, 1) }, nil},
		{func() error { return d.Prepare(ctx) }, nil},
		{func() error { return d.Save(ctx) }, sink.ErrUncertain},
	}
	for i, s := range steps {
		err := s.do()
		if sink.ClassOf(err) != s.class {
			t.Fatalf("step %d: got %v, expected class %v", i, err, s.class)
		}
		if err != nil && !errors.Is(err, ErrInjected) {
			t.Errorf("step %d: %v does not say that it is injected", i, err)
		}
	}
	read := func() int64 {
		s, err := d.Store.Read(ctx, Bridge)
		if err != nil {
			t.Fatal(err)
		}
		return s.Positions[0].Offset
	}
	if n := read(); n != 1 {
		t.Errorf("before the late Save arrived offset %d is saved, expected 1", n)
	}
	if err := f.Deliver(ctx); err != nil {
		t.Error(err)
	}
	if n := read(); n != 2 {
		t.Errorf("after the late Save arrived offset %d is saved, expected 2", n)
	}
	if err := f.Fired(); err == nil || !strings.Contains(err.Error(), `fault "end 9 before" fired 0 times`) || strings.Contains(err.Error(), `"save`) {
		t.Errorf("Fired: %v", err)
	}
	if err := d.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestParseFault_ReadsWhatStringPrints(t *testing.T) {
	for _, s := range []string{"save 2 after", "any 17 late", "commit@target 1x3 before lost", "prepare@a.b 1 after uncertain"} {
		f, err := ParseFault(s)
		if err != nil || f.String() != s {
			t.Errorf("%q became %q, %v", s, f, err)
		}
	}
	for _, s := range []string{"", "save", "save after", "save 0 after", "save x after", "save 1x after", "save 1 sometimes", "save 1 after gone",
		"store 1 after", "write 1 late", "save 1 after lost now", "save -1 after"} {
		if f, err := ParseFault(s); err == nil {
			t.Errorf("%q was read as %q", s, f)
		}
	}
	if err := Faulty(Fault{Call: "write", When: Late}).Fired(); err == nil || !strings.Contains(err.Error(), "can be late") {
		t.Errorf("an impossible fault: %v", err)
	}
}

func TestFaults_Stop(t *testing.T) {
	f := Faulty(Fault{Call: "read", Times: 100})
	s := f.Store(NewStore(NewServer()))
	if _, err := s.Read(t.Context(), Bridge); !errors.Is(err, sink.ErrTransient) {
		t.Errorf("got %v", err)
	}
	f.Stop()
	if _, err := s.Read(t.Context(), Bridge); err != nil {
		t.Error(err)
	}
}

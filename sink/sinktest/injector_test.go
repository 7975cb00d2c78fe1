package sinktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// One fault at each call is not the only way to choose.
func TestInjector_Chooses(t *testing.T) {
	calls := strings.Fields("acquire open@target write@target write@target prepare@target save commit@target save save commit@other")
	for text, want := range map[string]string{
		"Calling(save)":                                "5 7 8",
		"OnCall(3)":                                    "2",
		"And(Calling(save), OnCall(2))":                "7",
		"And(OnCall(2), Calling(save))":                "",
		`And(OnSink("target"), Not(Calling(write)))`:   "1 4 6",
		"Or(OnCall(1), And(Calling(save), OnCall(3)))": "0 8",
		"Not(Or(Calling(save), Calling(write)))":       "0 1 4 6 9",
		"Random(1, 3)":                                 "0 1 2 3 4 5 6 7 8 9",
		"Random(0, 3)":                                 "",
	} {
		i, err := ParseInjector(text)
		if err != nil || i.String() != text {
			t.Errorf("%q became %q, %v", text, i, err)
			continue
		}
		var got []string
		for n, c := range calls {
			name, sinkName, _ := strings.Cut(c, "@")
			if i.Hit(Call{name, sinkName}) {
				got = append(got, fmt.Sprint(n))
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q chose calls %q, expected %q", text, s, want)
		}
	}
}

func TestRandom_SameSeedSameChoice(t *testing.T) {
	choose := func(seed uint64) (s string) {
		i := Random(0.5, seed)
		for range 64 {
			s += map[bool]string{true: "x", false: "."}[i.Hit(Call{})]
		}
		return s
	}
	if choose(1) != choose(1) || choose(1) == choose(2) {
		t.Error("the seed does not decide")
	}
}

func TestParseInjector_Refuses(t *testing.T) {
	for _, s := range []string{"", "And", "And(", "And()", "Calling(save", "Calling(store)", "OnCall(0)", "OnCall(x)", "Random(2, 1)", "Random(NaN, 1)", "Random(0.5)",
		"Not(OnCall(1)) x", "OnSink(target)", `OnSink("a`, "Perhaps(1)", "And(OnCall(1),)", strings.Repeat("Not(", 200) + "OnCall(1)" + strings.Repeat(")", 200)} {
		if i, err := ParseInjector(s); err == nil {
			t.Errorf("%q was read as %q", s, i)
		}
	}
}

func FuzzParseFault(f *testing.F) {
	for _, s := range []string{"save 2 after", "any 17 late", "commit@target 1x3 before lost", "write 1 delay 5ms", "write 1 partial", "save if And(OnCall(3), Random(0.5, 7)) after lost",
		`any if OnSink("a b\"") panic`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, err := ParseFault(s)
		if err != nil {
			return
		}
		again, err := ParseFault(x.String())
		if err != nil || again.String() != x.String() {
			t.Errorf("%q was read as %q, which is read as %q, %v", s, x, again, err)
		}
	})
}

func TestFault_Kinds(t *testing.T) {
	ctx := t.Context()
	begin := func(f Fault) (*Driver, *Server, *Faults) {
		srv, topic := NewServer(), someTopic()
		fs := Faulty(f)
		c, err := fs.Sink(NewSink(srv, nil)).Lane(ctx, lane0(topic))
		if err != nil {
			t.Fatal(err)
		}
		d := NewDriver(c, fs.Store(NewStore(srv)), topic)
		if err := errors.Join(d.Acquire(ctx, 0), d.Open(ctx)); err != nil {
			t.Fatal(err)
		}
		return d, srv, fs
	}
	done := func(d *Driver, fs *Faults) {
		t.Helper()
		if err := errors.Join(d.Prepare(ctx), d.Save(ctx), d.Commit(ctx), fs.Fired()); err != nil {
			t.Error(err)
		}
	}
	// Half of a batch, and an error.
	d, srv, fs := begin(Fault{Call: "write", When: Partial})
	if err := d.Write(ctx, -1); !errors.Is(err, sink.ErrTransient) || !errors.Is(err, ErrInjected) {
		t.Errorf("a partial Write gave %v", err)
	}
	done(d, fs)
	if n := len(srv.Table(AppendTable)); n != 2 {
		t.Errorf("half of 4 rows are %d", n)
	}
	// A call that takes its time, or its context's.
	for _, wait := range []time.Duration{time.Millisecond, time.Hour} {
		d, srv, fs = begin(Fault{Call: "write", When: Delay, For: wait})
		long := wait == time.Hour
		short, cancel := context.WithCancel(ctx)
		if long {
			time.AfterFunc(20*time.Millisecond, cancel)
		}
		err := d.Write(short, -1)
		cancel()
		if long != (err != nil) || errors.Is(err, ErrInjected) {
			t.Errorf("a Write delayed by %v gave %v", wait, err)
		}
		if err == nil {
			done(d, fs)
			if n := len(srv.Table(AppendTable)); n != 4 {
				t.Errorf("4 rows are %d", n)
			}
		}
	}
	// A panic, which is not swallowed.
	d, _, fs = begin(Fault{If: And(Calling("write"), OnCall(1)), When: Panic})
	func() {
		defer func() {
			if err, ok := recover().(error); !ok || !errors.Is(err, ErrInjected) {
				t.Errorf("recovered %v", err)
			}
		}()
		_ = d.Write(ctx, -1)
		t.Error("the call did not panic")
	}()
	if err := fs.Fired(); err != nil {
		t.Error(err)
	}
	for want, f := range map[string]Fault{
		"both If and At": {If: OnCall(1), At: 2}, "have parts": {Call: "save", When: Partial}, "a delay needs it": {Call: "save", When: Delay}, "For belongs": {Call: "save", For: 1},
	} {
		if err := Faulty(f).Fired(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, expected %q", f, err, want)
		}
	}
	if err := Faulty(Fault{If: Calling("save")}).Fired(); err == nil || !strings.Contains(err.Error(), "never fired") {
		t.Errorf("got %v", err)
	}
}

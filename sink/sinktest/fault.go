package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// ErrInjected is in every error that a [Fault] gave.
var ErrInjected = errors.New("injected fault")

// When says what a fault does with its call.
type When uint8

const (
	Before  When = iota // the call is not made
	After               // the call is made and its answer is lost
	Late                // the call is not made now; [Faults.Deliver] makes it, as a request that its sender gave up for dead
	Partial             // the call is made with the first half of its changes or letters, and its answer is lost; only write and letters
	Delay               // the call is made after Fault.For, or when its context ends before that, and answered as it is
	Panic               // the call panics and is not made
)

var whens = [...]string{"before", "after", "late", "partial", "delay", "panic"}

// String returns the name in lower case.
func (w When) String() string {
	if int(w) < len(whens) {
		return whens[w]
	}
	return fmt.Sprintf("When(%d)", uint8(w))
}

// Fault makes one call fail, or some in a row, or all that an [Injector] chooses.
type Fault struct {
	Call  string // one of Calls; "": any
	Sink  string // the declared name of the sink that is called; "": any, and stores
	At    int    // which such call, from 1; 0: the first
	Times int    // how many such calls in a row; 0: one
	When  When
	// If chooses calls in place of At and Times, among those that Call and Sink leave. It is asked about each of them. nil: At and Times do.
	If Injector
	// For is how long a Delay takes.
	For time.Duration
	// Class of the error. nil: ErrTransient before the call, ErrUncertain for an answer that is lost.
	Class error
	// Do is called when the fault fires, before the caller has its answer: to cancel a context, to let a rival acquire, to end a process, or
	// to wait for ctx, which is the call's. nil: nothing.
	Do func(ctx context.Context)
}

// Calls returns the names of calls, as faults and their errors name them.
func Calls() []string {
	return []string{"lane", "acquire", "open", "write", "prepare", "save", "commit", "abort", "discard", "end", "read", "close", "letters"}
}

// valid says what is wrong with f; a fault with something wrong never fires.
func (f Fault) valid() error {
	var errs []error
	if f.Call != "" && !slices.Contains(Calls(), f.Call) {
		errs = append(errs, fmt.Errorf("sinktest: fault %q: expected one of %s", f, strings.Join(Calls(), ", ")))
	}
	if f.When > Panic || f.At < 0 || f.Times < 0 || f.For < 0 {
		errs = append(errs, fmt.Errorf("sinktest: fault %q has a negative number or an unknown When", f))
	}
	if f.When == Late && f.Call != "" && !canBeLate(f.Call) {
		errs = append(errs, fmt.Errorf("sinktest: fault %q: what it needs is gone when it would arrive late; only acquire, open, prepare, save, commit, abort and end can be late", f))
	}
	if f.If != nil && (f.At > 0 || f.Times > 0) {
		errs = append(errs, fmt.Errorf("sinktest: fault %q has both If and At or Times: put OnCall into If", f))
	}
	if f.When == Partial && !canBePartial(f.Call) && f.Call != "" {
		errs = append(errs, fmt.Errorf("sinktest: fault %q: only write and letters have parts", f))
	}
	if (f.When == Delay) != (f.For > 0) {
		errs = append(errs, fmt.Errorf("sinktest: fault %q: For belongs to a delay, and a delay needs it", f))
	}
	return errors.Join(errs...)
}

func canBePartial(call string) bool { return call == "write" || call == "letters" }

// canBe says whether a call can meet a fault of this kind.
func (w When) canBe(call string) bool {
	switch w {
	case Late:
		return canBeLate(call)
	case Partial:
		return canBePartial(call)
	}
	return true
}

// canBeLate says which calls can be delivered late: those with an effect, and with arguments that stay valid.
func canBeLate(call string) bool {
	return slices.Contains([]string{"acquire", "open", "prepare", "save", "commit", "abort", "end"}, call)
}

func (f Fault) class() error {
	switch {
	case f.Class != nil:
		return f.Class
	case f.When == Before, f.When == Partial:
		return sink.ErrTransient
	}
	return sink.ErrUncertain
}

// classes are those that [ParseFault] knows by name.
func classes() []error {
	return []error{sink.ErrTransient, sink.ErrUncertain, sink.ErrFenced, sink.ErrRejected, sink.ErrConfig, sink.ErrLost}
}

// String returns a form that [ParseFault] reads, such as "save 2 after", "commit@target 1x3 before lost", "any 17 late", "write 1 delay 5ms" or
// "save if And(OnCall(3), Random(0.5, 7)) after". Do is not in it.
func (f Fault) String() string {
	s := f.Call
	if s == "" {
		s = "any"
	}
	if f.Sink != "" {
		s += "@" + f.Sink
	}
	if f.If != nil {
		s += " if " + f.If.String()
	} else {
		s += " " + strconv.Itoa(max(f.At, 1))
		if f.Times > 1 {
			s += "x" + strconv.Itoa(f.Times)
		}
	}
	s += " " + f.When.String()
	if f.For > 0 {
		s += " " + f.For.String()
	}
	if f.Class != nil {
		s += " " + f.Class.Error()
	}
	return s
}

// ParseFault reads what String prints.
func ParseFault(s string) (Fault, error) {
	var f Fault
	wrong := fmt.Errorf(`sinktest: %q is no fault: expected a form such as "save 2 after" or "commit@target 1x3 before lost"`, s)
	// The text of an injector may hold spaces, up to its last bracket.
	if head, rest, ok := strings.Cut(s, " if "); ok {
		end := strings.LastIndex(rest, ")") + 1
		i, err := ParseInjector(rest[:end])
		if err != nil {
			return f, err
		}
		s = head + " 1" + rest[end:]
		f.If = i
	}
	words := strings.Fields(s)
	if len(words) < 3 || len(words) > 5 {
		return f, wrong
	}
	f.Call, f.Sink, _ = strings.Cut(words[0], "@")
	if f.Call == "any" {
		f.Call = ""
	}
	at, times, many := strings.Cut(words[1], "x")
	var err error
	if f.At, err = strconv.Atoi(at); err != nil || f.At < 1 {
		return f, wrong
	}
	if many {
		if f.Times, err = strconv.Atoi(times); err != nil || f.Times < 1 {
			return f, wrong
		}
	}
	when := slices.Index(whens[:], words[2])
	if when < 0 {
		return f, wrong
	}
	f.When = When(when)
	if f.If != nil {
		if many || f.At != 1 {
			return f, wrong
		}
		f.At = 0
	}
	if words = words[3:]; f.When == Delay && len(words) > 0 {
		if f.For, err = time.ParseDuration(words[0]); err != nil {
			return f, wrong
		}
		words = words[1:]
	}
	if len(words) > 1 {
		return f, wrong
	}
	if len(words) == 1 {
		i := slices.IndexFunc(classes(), func(c error) bool { return c.Error() == words[0] })
		if i < 0 {
			return f, wrong
		}
		f.Class = classes()[i]
	}
	return f, f.valid()
}

// injected is the error of a fault.
func (f Fault) injected(call, sinkName string) error {
	return &sink.Error{Op: call, Sink: sinkName, Class: f.class(), Err: fmt.Errorf("%w: %s", ErrInjected, f)}
}

package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/sink"
)

// ErrInjected is in every error that a [Fault] gave.
var ErrInjected = errors.New("injected fault")

// When says what a fault does with its call.
type When uint8

const (
	Before When = iota // the call is not made
	After              // the call is made and its answer is lost
	Late               // the call is not made now; [Faults.Deliver] makes it, as a request that its sender gave up for dead
)

// String returns "before", "after" or "late".
func (w When) String() string {
	switch w {
	case Before:
		return "before"
	case After:
		return "after"
	case Late:
		return "late"
	}
	return fmt.Sprintf("When(%d)", uint8(w))
}

// Fault makes one call fail, or some in a row.
type Fault struct {
	Call  string // one of Calls; "": any
	Sink  string // the declared name of the sink that is called; "": any, and stores
	At    int    // which such call, from 1; 0: the first
	Times int    // how many such calls in a row; 0: one
	When  When
	// Class of the error. nil: ErrTransient before the call, ErrUncertain for an answer that is lost.
	Class error
	// Do is called when the fault fires, before the caller has its answer: to cancel a context, to let a rival acquire, to end a process, or
	// to wait for ctx, which is the call's. nil: nothing.
	Do func(ctx context.Context)
}

// Calls returns the names of calls, as faults and their errors name them.
func Calls() []string {
	return []string{"lane", "acquire", "open", "write", "prepare", "save", "commit", "abort", "discard", "end", "read", "close"}
}

// valid says what is wrong with f; a fault with something wrong never fires.
func (f Fault) valid() error {
	var errs []error
	if f.Call != "" && !slices.Contains(Calls(), f.Call) {
		errs = append(errs, fmt.Errorf("sinktest: fault %q: expected one of %s", f, strings.Join(Calls(), ", ")))
	}
	if f.When > Late || f.At < 0 || f.Times < 0 {
		errs = append(errs, fmt.Errorf("sinktest: fault %q has a negative number or an unknown When", f))
	}
	if f.When == Late && f.Call != "" && !canBeLate(f.Call) {
		errs = append(errs, fmt.Errorf("sinktest: fault %q: what it needs is gone when it would arrive late; only acquire, open, prepare, save, commit, abort and end can be late", f))
	}
	return errors.Join(errs...)
}

// canBeLate says which calls can be delivered late: those with an effect, and with arguments that stay valid.
func canBeLate(call string) bool {
	return slices.Contains([]string{"acquire", "open", "prepare", "save", "commit", "abort", "end"}, call)
}

func (f Fault) class() error {
	switch {
	case f.Class != nil:
		return f.Class
	case f.When == Before:
		return sink.ErrTransient
	}
	return sink.ErrUncertain
}

// classes are those that [ParseFault] knows by name.
func classes() []error {
	return []error{sink.ErrTransient, sink.ErrUncertain, sink.ErrFenced, sink.ErrRejected, sink.ErrConfig, sink.ErrLost}
}

// String returns a form that [ParseFault] reads, such as "save 2 after", "commit@target 1x3 before lost" or "any 17 late". Do is not
// in it.
func (f Fault) String() string {
	s := f.Call
	if s == "" {
		s = "any"
	}
	if f.Sink != "" {
		s += "@" + f.Sink
	}
	s += " " + strconv.Itoa(max(f.At, 1))
	if f.Times > 1 {
		s += "x" + strconv.Itoa(f.Times)
	}
	s += " " + f.When.String()
	if f.Class != nil {
		s += " " + f.Class.Error()
	}
	return s
}

// ParseFault reads what String prints.
func ParseFault(s string) (Fault, error) {
	var f Fault
	wrong := fmt.Errorf(`sinktest: %q is no fault: expected a form such as "save 2 after" or "commit@target 1x3 before lost"`, s)
	words := strings.Fields(s)
	if len(words) < 3 || len(words) > 4 {
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
	switch words[2] {
	case Before.String():
	case After.String():
		f.When = After
	case Late.String():
		f.When = Late
	default:
		return f, wrong
	}
	if len(words) == 4 {
		i := slices.IndexFunc(classes(), func(c error) bool { return c.Error() == words[3] })
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

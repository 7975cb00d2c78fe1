package sink

import (
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/sink/internal/protocol"
)

// This file turns errors of sinks, stores and sources into the machine's answers.

// fail notes a failure and returns it as an event. sink is -1 for the store, the source and the coordinator itself.
func (c *Coordinator) fail(op string, sink int, err error) protocol.Failed {
	name := ""
	if sink >= 0 {
		name = c.o.Sinks[sink].Name
	}
	c.err = c.wrap(op, name, err)
	return protocol.Failed{Class: classNumber(err)}
}

// refused asks what is to become of a refusal before the decision.
func (c *Coordinator) refused(f protocol.Failed) protocol.Failed {
	var e *Error
	if f.Class == protocol.Rejected && c.o.Rejected != nil && errors.As(c.err, &e) && c.o.Rejected(e) {
		f.Class = protocol.Redo
	}
	return f
}

// wrap gives err operation, sink and bridge, unless it has them.
func (c *Coordinator) wrap(op, sink string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		if e.Bridge != "" {
			return err
		}
		out := *e
		out.Bridge = c.o.Bridge
		if out.Sink == "" {
			out.Sink = sink
		}
		return &out
	}
	return &Error{Op: op, Sink: sink, Bridge: c.o.Bridge, Class: ClassOf(err), Err: err}
}

// leftDecided says why a lane gives up a checkpoint that is decided, and what becomes of it.
func (c *Coordinator) leftDecided(tries int) error {
	out := &Error{Op: "commit", Bridge: c.o.Bridge, Class: ClassOf(c.err), Err: fmt.Errorf("given up after %d tries (StopAfter). The checkpoint is decided: the store holds "+
		"its receipts, and the next start commits it before it writes anything; the last try: %w", tries, c.err)}
	var e *Error
	if errors.As(c.err, &e) {
		out.Sink = e.Sink
	}
	return out
}

func (c *Coordinator) hookFenced(err error) {
	if h := c.o.Hooks.Fenced; h != nil {
		h(err)
	}
}

func classNumber(err error) protocol.Class {
	switch ClassOf(err) {
	case ErrTransient:
		return protocol.Transient
	case ErrFenced:
		return protocol.Fenced
	case ErrRejected:
		return protocol.Rejected
	case ErrConfig:
		return protocol.Config
	case ErrLost:
		return protocol.Lost
	}
	return protocol.Uncertain
}

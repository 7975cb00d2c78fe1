package sink

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// The classes of error: what the world is like after it. errors.Is(err, sink.ErrFenced) asks for one.
var (
	// ErrTransient: surely nothing of this checkpoint is durable. It is done again from the saved positions, with backoff.
	ErrTransient = errors.New("transient")
	// ErrUncertain: nobody knows. The store is asked (End), the lane acquires anew and compares. Every error without a class is this.
	ErrUncertain = errors.New("uncertain")
	// ErrFenced: another generation owns the partitions. Stop, never retry.
	ErrFenced = errors.New("fenced")
	// ErrRejected: nothing changed, and this change can never succeed. The data policy decides.
	ErrRejected = errors.New("rejected")
	// ErrConfig: a setting is wrong; nothing was tried. Found at Open, not at row one million. The text names setting and cure.
	ErrConfig = errors.New("configuration")
	// ErrLost: the positions asked for, or prepared work, no longer exist. Stop and say exactly what is missing.
	ErrLost = errors.New("lost")
)

// Error is the one error type of sinks, stores and the coordinator. Its text holds no secret and no row value.
type Error struct {
	Op       string // what was being done: "open", "write", "prepare", "save", "commit", "acquire", ...
	Sink     string // declared name of the sink, or "" for the store and the coordinator
	Bridge   string
	Position *changelog.Position // of the change that is to blame, where known
	Class    error               // one of the Err values above; nil is ErrUncertain
	Rejected []Rejection         // of an ErrRejected: the changes that are to blame, where known, at most one a message; see Options.Rejected
	Err      error               // cause: a native error such as *pgconn.PgError, or a sentence with the cure
}

// Error returns one line: operation, sink, bridge, position, class, cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("flinksink: ")
	b.WriteString(e.Op)
	if e.Sink != "" {
		fmt.Fprintf(&b, " sink %q", e.Sink)
	}
	if e.Bridge != "" {
		fmt.Fprintf(&b, " of bridge %q", e.Bridge)
	}
	if e.Position != nil {
		fmt.Fprintf(&b, " at %s", e.Position)
	}
	fmt.Fprintf(&b, ": %v", e.class())
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the class and the cause, so that errors.Is finds the one and errors.As the other.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.class()}
	}
	return []error{e.class(), e.Err}
}

func (e *Error) class() error {
	if e.Class == nil {
		return ErrUncertain
	}
	return e.Class
}

// ClassOf returns the class of err: nil for nil, ErrUncertain for an error that has none. The outermost [*Error] decides.
func ClassOf(err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e.class()
	}
	for _, c := range []error{ErrConfig, ErrLost, ErrFenced, ErrRejected, ErrTransient} {
		if errors.Is(err, c) {
			return c
		}
	}
	return ErrUncertain
}

// StaleGroupError is the cause of an ErrFenced of Acquire: the store has seen a newer consumer group generation.
type StaleGroupError struct {
	Asked, Stored int32
}

// Error says both numbers.
func (e *StaleGroupError) Error() string {
	return fmt.Sprintf("the partitions were acquired by consumer group generation %d, this request is of generation %d", e.Stored, e.Asked)
}

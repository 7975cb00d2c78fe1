package changelog

import (
	"fmt"
	"strings"
)

// UnavailableError says that a message cannot be read, or a change not be written, because another system that is needed for it, a schema registry,
// did not answer or refused to. Nothing is wrong with the message: no data policy counts for it, and the same call may succeed later. It
// holds no value of the message and no secret.
type UnavailableError struct {
	Partition        // topic and partition; the topic is "" where a payload was decoded by itself
	Offset    int64  // of the message
	Reason    string // which system, and what was asked of it
	Err       error  // what it said, or nil
}

// Error returns one line with all coordinates.
func (e *UnavailableError) Error() string {
	var b strings.Builder
	b.WriteString("changelog: ")
	if e.Topic != "" {
		fmt.Fprintf(&b, "%s offset %d: ", e.Partition, e.Offset)
	}
	b.WriteString(e.Reason)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

package changelog

import (
	"fmt"
	"strings"
)

// DataError says that a message cannot be turned into changes, or a change into a message. It holds coordinates and a reason and
// never a value of the message, so that it can be logged.
type DataError struct {
	Partition           // topic and partition; the topic is "" where a payload was decoded by itself
	Offset    int64     // of the message
	Part      string    // "key", "value", "headers" or ""
	Field     string    // path of the field, e.g. "items[2].price"; "" when the message as a whole is meant
	Class     DataClass // what kind of fault it is; not in the text, which Reason makes plain
	Reason    string    // what is wrong, in words
	Err       error     // a cause, or nil
}

// Error returns one line with all coordinates.
func (e *DataError) Error() string {
	var b strings.Builder
	b.WriteString("changelog: ")
	if e.Topic != "" {
		fmt.Fprintf(&b, "%s offset %d: ", e.Partition, e.Offset)
	}
	if e.Part != "" {
		b.WriteString(e.Part)
		if e.Field == "" {
			b.WriteString(": ")
		} else {
			b.WriteByte(' ')
		}
	}
	if e.Field != "" {
		fmt.Fprintf(&b, "field %s: ", e.Field)
	}
	b.WriteString(e.Reason)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *DataError) Unwrap() error { return e.Err }

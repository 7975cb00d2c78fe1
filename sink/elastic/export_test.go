package elastic

import (
	"time"

	"github.com/flinksink/flinksink/sink"
)

// AppendString is exported for its fuzzer.
func AppendString(dst, s []byte) []byte { return appendString(dst, s) }

// AgeLease makes a lane believe that it confirmed its generation d earlier than it did.
func AgeLease(c sink.Committer, d time.Duration) {
	l := c.(*committer).lease
	l.known = l.known.Add(-d)
}

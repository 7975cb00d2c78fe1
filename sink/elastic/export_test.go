package elastic

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
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

// LeaseOf returns for how long a lane writes without confirming its generation.
func LeaseOf(c sink.Committer) time.Duration { return c.(*committer).lease.longest() }

// ScanAnswers and ReadAnswersInFull read the answer to a bulk in the two ways, and print it.
func ScanAnswers(b []byte) (string, bool) {
	list, ok := scanAnswers(nil, b)
	return printAnswers(list), ok
}

func ReadAnswersInFull(b []byte, n int) (string, error) {
	// A space before it is no usual answer.
	list, err := readAnswers(bytes.NewReader(append([]byte(" "), b...)), n)
	return printAnswers(list), err
}

func printAnswers(list []answer) (out string) {
	for _, a := range list {
		out += fmt.Sprintf("%d/%t ", a.Status, a.delete)
	}
	return out
}

// Reach is how long deletes are owed.
const Reach = reach

// PassReach makes a lane believe that it was opened, and lost its last answer, that much earlier.
func PassReach(c sink.Committer) {
	o := c.(*committer).owed
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = o.since.Add(-o.reach)
}

// ShortenReach makes what is noted from now on due after d.
func ShortenReach(c sink.Committer, d time.Duration) {
	o := c.(*committer).owed
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reach, o.since = d, o.since.Add(time.Hour)
}

// FailPayment makes a lane believe that it could not pay in the background.
func FailPayment(c sink.Committer) {
	o := c.(*committer).owed
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = true
}

// IsNote reports whether a request writes a note of deletes.
func IsNote(r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return bytes.Contains(body, []byte(`"owed-`))
}

// ShortenPauses makes a lane pause for d where it would for 100 ms.
func ShortenPauses(c sink.Committer, d time.Duration) { c.(*committer).firstPause = d }

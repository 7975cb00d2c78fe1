package elastic

import (
	"bytes"
	"fmt"
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

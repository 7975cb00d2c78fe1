package elastic_test

import (
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink/elastic"
)

// The scanner of the usual answer says what the reader of all answers says, or leaves it to that.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		`{"items":[{"index":{"status":201}},{"delete":{"status":404}},{"create":{"status":409}}]}`,
		`{"items":[{"index":{"status":201}}]}` + "\n", `{"items":[{"index":{"status":201}}]`, `{"items":[]}`, `{"items":[{"index":{"status":99}}]}`,
		`{"items":[{"index":{"status":2010}}]}`, `{"items":[{"index":{"status":201}},]}`, `{"items":[{"index":{"status":201}}]}{}`, `{"items":[{"index":{"status":201`,
		`{"items":[{"index":{"error":{"type":"x","reason":"y"},"status":400}}]}`, `{"items":[{"index":{"status":400,"error":{"type":"x"}}}]}`, `{ "items" : [ ] }`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fast, ok := elastic.ScanAnswers(b)
		if !ok {
			return
		}
		n := strings.Count(fast, " ") // one an answer
		slow, err := elastic.ReadAnswersInFull(b, n)
		if err != nil || slow != fast {
			t.Fatalf("%q: scanned %q, read %q, %v", b, fast, slow, err)
		}
	})
}

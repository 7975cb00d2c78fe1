package elastic_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// An API key that expires, or is revoked, while a lane runs: whichever call meets it first ends the lane as a matter of settings, and none is tried for ever.
func TestCredentials_EndWhileRunning(t *testing.T) {
	const (
		expired = `{"error":{"root_cause":[{"type":"security_exception","reason":"unable to authenticate with provided credentials and anonymous access is not allowed for this request","additional_unsuccessful_credentials":"API key: api key is expired"}],"type":"security_exception","reason":"unable to authenticate with provided credentials"},"status":401}`
		missing = `{"error":{"root_cause":[{"type":"security_exception","reason":"action [indices:data/write/bulk] is unauthorized for API key id [secret] of user [u]"}],"type":"security_exception","reason":"action is unauthorized for API key id [secret]"},"status":403}`
	)
	for _, call := range []struct{ name, method, suffix string }{
		{"the bulk", "POST", "/t-orders/_bulk"},
		{"documents in conflict", "", "/_mget"},
		{"the index after it", "GET", "/t-orders"},
		{"the refresh", "POST", "/t-orders/_refresh"},
		{"the lease", "POST", "/t-control/_bulk"},
		{"dead letters", "POST", "/t-letters/_bulk"},
	} {
		for _, answer := range []struct {
			status int
			body   string
		}{{401, expired}, {403, missing}} {
			t.Run(call.name, func(t *testing.T) {
				s := standIn(t)
				o := elastic.Options{Deletes: elastic.Hard, Refresh: true}
				l := s.lane(orders(t), o, nil).open(1, 0, false)
				l.must(l.checkpoint(at(5, ins, 1, "a")))
				l.must(l.c.(sink.DeadLetterKeeper).WriteDeadLetters(t.Context(), nil))
				s.fake.Inject(func(r *http.Request) *elastictest.Fault {
					if strings.HasSuffix(r.URL.Path, call.suffix) && (call.method == "" || call.method == r.Method) {
						return &elastictest.Fault{Status: answer.status, Body: answer.body}
					}
					return nil
				})
				elastic.AgeLease(l.c, elastic.LeaseOf(l.c))
				l.must(l.c.(sink.DeadLetterKeeper).WriteDeadLetters(t.Context(), []sink.DeadLetter{{}}))
				err := l.checkpoint(at(3, ins, 1, "older")) // a conflict
				is(t, err, sink.ErrConfig, ", security_exception: the client")
				if text := err.Error(); strings.Contains(text, "secret") || strings.Contains(text, "expired") {
					t.Errorf("the error quotes the server: %v", err)
				}
			})
		}
	}
}

// A privilege that is missing for one index only is told item by item.
func TestCredentials_OneItem(t *testing.T) {
	s := standIn(t)
	l := s.lane(orders(t), tombstones, nil).open(1, 0, false)
	s.fake.Inject(func(r *http.Request) *elastictest.Fault {
		if !strings.HasSuffix(r.URL.Path, "/_bulk") {
			return nil
		}
		body, err := io.ReadAll(r.Body) // both documents, or one of them
		if err != nil {
			t.Error(err)
		}
		var items []string
		for line := range strings.Lines(string(body)) {
			switch {
			case !strings.HasPrefix(line, `{"index":`):
			case strings.Contains(line, `"_id":"2"`):
				items = append(items, `{"index":{"status":403,"error":{"type":"security_exception","reason":"action [indices:data/write/bulk[s]] is unauthorized"}}}`)
			default:
				items = append(items, `{"index":{"status":201}}`)
			}
		}
		return &elastictest.Fault{Status: 200, Body: `{"items":[` + strings.Join(items, ",") + `]}`}
	})
	is(t, l.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "b")), sink.ErrConfig, "status 403, security_exception")
}

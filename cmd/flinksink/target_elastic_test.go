package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// An address that leads to something else is told as such, and not as an index that is gone or a privilege that lacks.
func TestElastic_AddressOfSomethingElse(t *testing.T) {
	ddl := write(t, "ddl.sql", keyedDDL)
	for name, answer := range map[string]http.HandlerFunc{
		"an object store": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
		},
		"a site": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>")
		},
		"another API": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{}`)
		},
	} {
		s := httptest.NewServer(answer)
		t.Cleanup(s.Close)
		got := command(t, "run", "--bridge", "b", "--ddl", ddl, "--brokers", "localhost:1", "--to", s.URL+"/keyed", "--index-deletes", "tombstone",
			"--store", "file:"+filepath.Join(t.TempDir(), "s"))
		if got.status != exitConfig || !strings.Contains(got.errs, "is not Elasticsearch") {
			t.Errorf("%s: status %d, %s", name, got.status, got.errs)
		}
	}
}

// While a server takes nothing the program says so, and why, long before a lane's patience is over.
func TestElastic_TakesNothing(t *testing.T) {
	ddl := write(t, "ddl.sql", keyedDDL)
	es := elastictest.NewServer()
	t.Cleanup(es.Close)
	var refused atomic.Int32
	es.Inject(func(r *http.Request) *elastictest.Fault {
		if strings.HasSuffix(r.URL.Path, "/_bulk") && refused.Add(1) <= 5 {
			return &elastictest.Fault{Status: http.StatusTooManyRequests, Body: `{"error":{"type":"circuit_breaking_exception"}}`}
		}
		return nil
	})
	broker := newBroker(t)
	keyed(t, broker, 1)
	got := command(t, "run", "--bridge", "b", "--ddl", ddl, "--brokers", broker, "--to", es.URL+"/keyed", "--index-deletes", "tombstone", "--create-table",
		"--store", "file:"+filepath.Join(t.TempDir(), "s"), "--until-end")
	if got.status != exitDone || !strings.Contains(got.errs, "takes nothing") || !strings.Contains(got.errs, "circuit_breaking_exception") || !strings.Contains(got.errs, "takes documents again") {
		t.Errorf("status %d, %s", got.status, got.errs)
	}
	if !strings.Contains(got.out, "guarantee: convergent") || strings.Contains(got.out+got.errs, "Options.") || strings.Contains(got.errs, ": :") {
		t.Errorf("%s%s", got.out, got.errs)
	}
}

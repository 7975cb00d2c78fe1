package elastic_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

const addressVariable = "FLINKSINK_ELASTIC"

// server is an Elasticsearch, the stand-in or a real one, with names of indexes that no other test uses.
type server struct {
	t      testing.TB
	url    string
	real   bool
	prefix string
	fake   *elastictest.Server // nil: real
}

var servers atomic.Int64

// onEach runs a test against the stand-in, and against the real server where there is one.
func onEach(t *testing.T, test func(t *testing.T, s *server)) {
	t.Run("standin", func(t *testing.T) { test(t, standIn(t)) })
	t.Run("real", func(t *testing.T) { test(t, realServer(t)) })
}

func standIn(t testing.TB) *server {
	f := elastictest.NewServer()
	t.Cleanup(f.Close)
	return &server{t: t, url: f.URL, fake: f, prefix: "t"}
}

func realServer(t testing.TB) *server {
	url := os.Getenv(addressVariable)
	if url == "" {
		t.Skipf("%s is not set: it names an Elasticsearch that tests may fill, e.g. http://127.0.0.1:9200; ./test full starts one", addressVariable)
	}
	s := &server{t: t, url: strings.TrimSuffix(url, "/"), real: true, prefix: fmt.Sprintf("test-%d-%d", os.Getpid(), servers.Add(1))}
	t.Cleanup(func() { // name by name: from version 8 on a pattern is refused
		_, names := s.call("GET", "/_cat/indices/"+s.prefix+"-*?h=index", "")
		for _, name := range strings.Fields(names) {
			if strings.HasPrefix(name, s.prefix) {
				s.call("DELETE", "/"+name, "")
			}
		}
	})
	return s
}

// client is a client of its own, as a process has. through, if not nil, stands between it and the server.
func (s *server) client(through http.RoundTripper) *elastictransport.Client {
	s.t.Helper()
	own := http.DefaultTransport.(*http.Transport).Clone()
	s.t.Cleanup(own.CloseIdleConnections)
	if through == nil {
		through = own
	}
	u, err := http.NewRequest("GET", s.url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := elastictransport.New(elastictransport.Config{URLs: []*urlURL{u.URL}, Transport: through, DisableRetry: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// call sends a request of the test's own and returns status and body.
func (s *server) call(method, path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// must is call with an answer that has to be a success.
func (s *server) must(method, path, body string) string {
	s.t.Helper()
	status, b := s.call(method, path, body)
	if status >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, status, b)
	}
	return b
}

// hit is a document as a search finds it.
type hit struct {
	ID     string          `json:"_id"`
	Source json.RawMessage `json:"_source"`
	Sort   json.RawMessage `json:"sort"`
}

// search returns every document of an index, in no order, those of query only.
func (s *server) search(index, query string) ([]hit, error) {
	if status, b := s.call("POST", "/"+index+"/_refresh", ""); status == 404 {
		return nil, nil
	} else if status >= 300 {
		return nil, fmt.Errorf("refresh: %d %s", status, b)
	}
	var pit struct {
		ID    string `json:"id"`
		Other string `json:"pit_id"` // of OpenSearch
	}
	order := `[{"_shard_doc":"asc"}]`
	status, b := s.call("POST", "/"+index+"/_pit?keep_alive=1m", "")
	if status == 400 || status == 405 {
		order = `[{"_id":"asc"},{"_index":"asc"}]`
		b = s.must("POST", "/"+index+"/_search/point_in_time?keep_alive=1m", "")
	} else if status >= 300 {
		return nil, fmt.Errorf("point in time: %d %s", status, b)
	}
	if err := json.Unmarshal([]byte(b), &pit); err != nil {
		return nil, err
	}
	if pit.ID += pit.Other; pit.Other != "" {
		defer s.call("DELETE", "/_search/point_in_time", fmt.Sprintf(`{"pit_id":[%q]}`, pit.ID))
	} else {
		defer s.call("DELETE", "/_pit", fmt.Sprintf(`{"id":%q}`, pit.ID))
	}
	var all []hit
	after := ""
	for {
		body := fmt.Sprintf(`{"size":5000,"query":%s,"pit":{"id":%q,"keep_alive":"1m"},"sort":%s%s}`, query, pit.ID, order, after)
		status, b := s.call("POST", "/_search", body)
		if status >= 300 {
			return nil, fmt.Errorf("search: %d %s", status, b)
		}
		var answer struct {
			Hits struct {
				Hits []hit `json:"hits"`
			} `json:"hits"`
		}
		d := json.NewDecoder(bytes.NewReader([]byte(b)))
		if err := d.Decode(&answer); err != nil {
			return nil, err
		}
		all = append(all, answer.Hits.Hits...)
		if len(answer.Hits.Hits) < 5000 {
			return all, nil
		}
		after = `,"search_after":` + string(answer.Hits.Hits[len(answer.Hits.Hits)-1].Sort)
	}
}

const everything = `{"match_all":{}}`

// alive leaves tombstones out.
const alive = `{"bool":{"must_not":{"exists":{"field":"flinksink_deleted"}}}}`

// Package elastictest is a stand-in for Elasticsearch, for unit tests and examples that shall run without a server. It answers the calls that package elastic
// makes, and a few that its tests make, with the statuses and error types that Elasticsearch 8.19 was seen to answer: external versions,
// what becomes of them when a document is deleted, strict mappings, errors of single items within a bulk. The tests of package elastic run one list of cases
// against it and against a real server.
//
// It is no search engine: a search knows match_all, ids, a range of times and "field does not exist".
package elastictest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
)

// Server is a stand-in that listens on a local address.
type Server struct {
	URL string

	http *httptest.Server

	mu      sync.Mutex
	indices map[string]*index
	pits    map[string][]*index // by id: copies of the indexes, as they were
	made    int                 // indexes so far, and points in time
	fault   func(r *http.Request) *Fault
}

// Fault is what goes wrong with one request.
type Fault struct {
	Status int    // answered in place of serving the request; 0: it is served
	Body   string // of that answer
	Lose   bool   // it is served, and the connection is cut before the answer
	// Item returns a status that item n of a bulk is answered with in place of being done, 0: it is done. Its error type is that which
	// the server has for the status.
	Item func(n int) int
}

// NewServer starts a stand-in without indexes. The caller closes it.
func NewServer() *Server {
	s := &Server{indices: make(map[string]*index), pits: make(map[string][]*index)}
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL
	return s
}

// Close ends it.
func (s *Server) Close() { s.http.Close() }

// Inject has f say of each request what goes wrong with it; nil: nothing. f is called from many goroutines.
func (s *Server) Inject(f func(r *http.Request) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// ForgetDeleted forgets the versions of deleted documents, as a restart of a shard does, and the end of index.gc_deletes.
func (s *Server) ForgetDeleted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.indices {
		clear(x.deleted)
	}
}

// problem is an error as Elasticsearch answers it.
type problem struct {
	status int
	typ    string
	reason string
	caused *problem
}

func (p *problem) cause() map[string]any {
	m := map[string]any{"type": p.typ, "reason": p.reason}
	if p.caused != nil {
		m["caused_by"] = p.caused.cause()
	}
	return m
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	inject := s.fault
	s.mu.Unlock()
	fault := new(Fault)
	if inject != nil {
		if f := inject(r); f != nil {
			fault = f
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	w.Header().Set("Content-Type", "application/json")
	if fault.Status != 0 {
		w.WriteHeader(fault.Status)
		_, _ = io.WriteString(w, fault.Body)
		return
	}
	s.mu.Lock()
	answer, status, p := s.serve(r, body, fault)
	s.mu.Unlock()
	if fault.Lose {
		panic(http.ErrAbortHandler) // cuts the connection
	}
	if p != nil {
		status = p.status
		answer = map[string]any{"error": p.cause(), "status": p.status}
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false) // sources stay as they came
		_ = e.Encode(answer)
	}
}

var acknowledged = map[string]any{"acknowledged": true}

func noHandler(r *http.Request) *problem {
	return &problem{status: 400, typ: "illegal_argument_exception", reason: "no handler found for uri [" + r.URL.Path + "] and method [" + r.Method + "]"}
}

func (s *Server) serve(r *http.Request, body []byte, fault *Fault) (answer any, status int, p *problem) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	name, call, rest := parts[0], "", ""
	if len(parts) > 1 {
		call = parts[1]
	}
	if len(parts) > 2 {
		rest = strings.Join(parts[2:], "/")
	}
	get := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case name == "":
		return map[string]any{"name": "standin", "version": map[string]any{"number": "8.19.0"}, "tagline": "You Know, for Search"}, 200, nil
	case name == "_bulk":
		return s.bulk(r, "", body, fault)
	case name == "_search":
		return s.search(r, "", body)
	case name == "_mget":
		return s.mget("", r, body)
	case name == "_ingest" && get:
		return map[string]any{}, 404, nil
	case name == "_pit" && r.Method == http.MethodDelete:
		var ask struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(body, &ask)
		delete(s.pits, ask.ID)
		return map[string]any{"succeeded": true}, 200, nil
	case strings.HasPrefix(name, "_"):
		return nil, 0, noHandler(r)
	case call == "" && r.Method == http.MethodPut:
		return s.create(name, body)
	case call == "" && r.Method == http.MethodDelete:
		return s.remove(name)
	case call == "_bulk":
		return s.bulk(r, name, body, fault)
	}
	if strings.Contains(name, "*") {
		switch {
		case call == "" && get:
			return s.describe(name, strings.Contains(r.URL.Query().Get("expand_wildcards"), "closed")), 200, nil
		case call == "_refresh":
			return map[string]any{"_shards": map[string]any{"failed": 0}}, 200, nil
		case call == "_pit":
			return s.openPIT(name), 200, nil
		case call == "_search":
			return s.search(r, name, body)
		}
		return nil, 0, noHandler(r)
	}
	x, p := s.find(name)
	if p != nil {
		return nil, 0, p
	}
	switch {
	case call == "" && get:
		return s.describe(name, true), 200, nil
	case call == "_mapping" && r.Method == http.MethodPut:
		return acknowledged, 200, x.putMapping(body)
	case call == "_settings" && r.Method == http.MethodPut:
		return acknowledged, 200, x.putSettings(body)
	case (call == "_alias" || call == "_aliases") && r.Method == http.MethodPut:
		if len(body) == 0 {
			body = []byte("{}")
		}
		x.aliases[rest] = body
		return acknowledged, 200, nil
	case call == "_refresh", call == "_flush":
		return map[string]any{"_shards": map[string]any{"failed": 0}}, 200, nil
	case call == "_close", call == "_open":
		x.closed = call == "_close"
		clear(x.deleted)
		return acknowledged, 200, nil
	case call == "_pit":
		return s.openPIT(name), 200, nil
	case call == "_search":
		return s.search(r, name, body)
	case call == "_mget":
		return s.mget(name, r, body)
	case call == "_doc" && get:
		return x.get(rest)
	case call == "_doc", call == "_create":
		return x.single(r, call, rest, body)
	}
	return nil, 0, noHandler(r)
}

func (s *Server) openPIT(name string) map[string]any {
	s.made++
	id := fmt.Sprintf("pit%d", s.made)
	s.pits[id] = []*index{}
	for _, n := range s.names(name) {
		x, p := s.find(n)
		if p != nil {
			continue
		}
		as := *x // whose documents are replaced, never changed
		as.docs = maps.Clone(x.docs)
		filter := x.filter(n)
		maps.DeleteFunc(as.docs, func(id string, d *document) bool { return !filter.matches(id, d.source) })
		s.pits[id] = append(s.pits[id], &as)
	}
	return map[string]any{"id": id}
}

// names returns the names that a pattern stands for, but for closed indexes; any other name as it is.
func (s *Server) names(pattern string) []string {
	if !strings.Contains(pattern, "*") {
		return []string{pattern}
	}
	var out []string
	for _, n := range slices.Sorted(maps.Keys(s.indices)) {
		if ok, _ := path.Match(pattern, n); ok && !s.indices[n].closed {
			out = append(out, n)
		}
	}
	return out
}

// find returns the index that a name or alias stands for.
func (s *Server) find(name string) (*index, *problem) {
	if x := s.indices[name]; x != nil {
		return x, nil
	}
	for _, n := range slices.Sorted(maps.Keys(s.indices)) {
		if x := s.indices[n]; x.aliases[name] != nil {
			return x, nil
		}
	}
	return nil, &problem{status: 404, typ: "index_not_found_exception", reason: "no such index [" + name + "]"}
}

func (s *Server) create(name string, body []byte) (any, int, *problem) {
	if name != strings.ToLower(name) {
		return nil, 0, &problem{status: 400, typ: "invalid_index_name_exception", reason: "Invalid index name [" + name + "], must be lowercase"}
	}
	if s.indices[name] != nil {
		return nil, 0, &problem{status: 400, typ: "resource_already_exists_exception", reason: "index [" + name + "] already exists"}
	}
	x := s.newIndex(name)
	if len(body) > 0 {
		var b struct {
			Mappings json.RawMessage `json:"mappings"`
			Settings json.RawMessage `json:"settings"`
		}
		if json.Unmarshal(body, &b) != nil {
			return nil, 0, &problem{status: 400, typ: "parse_exception", reason: "Failed to parse content to map"}
		}
		if p := x.putMapping(b.Mappings); p != nil {
			return nil, 0, p
		}
		if p := x.putSettings(b.Settings); p != nil {
			return nil, 0, p
		}
	}
	s.indices[name] = x
	return map[string]any{"acknowledged": true, "shards_acknowledged": true, "index": name}, 200, nil
}

func (s *Server) newIndex(name string) *index {
	s.made++
	return &index{name: name, uuid: fmt.Sprintf("uuid%d", s.made), gc: "60s", docs: make(map[string]*document), deleted: make(map[string]int64), aliases: make(map[string]json.RawMessage)}
}

func (s *Server) remove(pattern string) (any, int, *problem) {
	found := false
	for n := range s.indices {
		if ok, _ := path.Match(pattern, n); ok {
			delete(s.indices, n)
			found = true
		}
	}
	if !found && !strings.Contains(pattern, "*") {
		return nil, 0, &problem{status: 404, typ: "index_not_found_exception", reason: "no such index [" + pattern + "]"}
	}
	return acknowledged, 200, nil
}

func (s *Server) describe(name string, closed bool) map[string]any {
	all := make(map[string]any)
	for n, x := range s.indices {
		if ok, _ := path.Match(name, n); ok && (closed || !x.closed) || x.aliases[name] != nil {
			settings := map[string]any{"uuid": x.uuid, "gc_deletes": x.gc}
			if x.closed {
				settings["verified_before_close"] = "true"
			}
			all[n] = map[string]any{"aliases": x.aliases, "mappings": &x.mapping,
				"settings": map[string]any{"index": settings}}
		}
	}
	return all
}

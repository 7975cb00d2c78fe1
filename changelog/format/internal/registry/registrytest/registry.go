// Package registrytest has a schema registry for tests, after the documented API of Confluent's: schemas by id and by subject and version, and
// registration. It is a handler for a server, and a transport that needs none.
package registrytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Schema is a schema as the registry answers it.
type Schema struct {
	Text       string      `json:"schema"`
	Type       string      `json:"schemaType,omitempty"` // "" is Avro
	References []Reference `json:"references,omitempty"`
}

// Reference names a schema that another one refers to.
type Reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// Registry is a schema registry. Its zero value is an empty one.
type Registry struct {
	mu       sync.Mutex
	schemas  map[int]Schema
	subjects map[string][]int // ids, by version
	requests []string
	// Fault answers a request in place of the registry, if it reports true.
	Fault func(w http.ResponseWriter, r *http.Request) bool
}

// Put sets the schema of an id.
func (g *Registry) Put(id int, s Schema) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.schemas == nil {
		g.schemas, g.subjects = map[int]Schema{}, map[string][]int{}
	}
	g.schemas[id] = s
}

// Register puts s under the subject, as its newest version.
func (g *Registry) Register(subject string, s Schema) (id int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.schemas == nil {
		g.schemas, g.subjects = map[int]Schema{}, map[string][]int{}
	}
	for known, other := range g.schemas {
		if canonical(other.Text) == canonical(s.Text) {
			id = known
		}
	}
	if id == 0 {
		for id = 1; g.schemas[id].Text != ""; id++ {
		}
		g.schemas[id] = s
	}
	g.subjects[subject] = append(g.subjects[subject], id)
	return id
}

// Subject returns the text of the newest schema of a subject, "" if there is none.
func (g *Registry) Subject(subject string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	ids := g.subjects[subject]
	if len(ids) == 0 {
		return ""
	}
	return g.schemas[ids[len(ids)-1]].Text
}

// Schemas returns the texts of all schemas by id.
func (g *Registry) Schemas() map[int]json.RawMessage {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make(map[int]json.RawMessage, len(g.schemas))
	for id, s := range g.schemas {
		out[id] = json.RawMessage(s.Text)
	}
	return out
}

// Requests returns method and path of the requests so far.
func (g *Registry) Requests() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.requests...)
}

// canonical makes schemas equal that differ in blanks, or in the order of their members.
func canonical(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	out, _ := json.Marshal(v)
	return string(out)
}

// ServeHTTP answers a request.
func (g *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.requests = append(g.requests, r.Method+" "+r.URL.Path)
	fault := g.Fault
	g.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodGet && len(path) == 3 && path[0] == "schemas" && path[1] == "ids":
		id, _ := strconv.Atoi(path[2])
		g.mu.Lock()
		s, ok := g.schemas[id]
		g.mu.Unlock()
		if !ok {
			Answer(w, http.StatusNotFound, 40403, fmt.Sprintf("Schema %d not found", id))
			return
		}
		answer(w, http.StatusOK, s)
	case r.Method == http.MethodGet && len(path) == 4 && path[0] == "subjects" && path[2] == "versions":
		version, _ := strconv.Atoi(path[3])
		g.mu.Lock()
		ids := g.subjects[path[1]]
		var s Schema
		if version > 0 && version <= len(ids) {
			s = g.schemas[ids[version-1]]
		}
		g.mu.Unlock()
		if s.Text == "" {
			Answer(w, http.StatusNotFound, 40402, "Version not found.")
			return
		}
		answer(w, http.StatusOK, struct {
			Subject string `json:"subject"`
			Version int    `json:"version"`
			ID      int    `json:"id"`
			Schema
		}{path[1], version, ids[version-1], s})
	case r.Method == http.MethodPost && len(path) == 3 && path[0] == "subjects" && path[2] == "versions":
		var s Schema
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil || s.Text == "" {
			Answer(w, http.StatusUnprocessableEntity, 42201, "Invalid schema")
			return
		}
		answer(w, http.StatusOK, map[string]int{"id": g.Register(path[1], s)})
	default:
		Answer(w, http.StatusNotFound, 404, "HTTP 404 Not Found")
	}
}

// Answer answers with an error of the registry.
func Answer(w http.ResponseWriter, status, code int, message string) {
	answer(w, status, map[string]any{"error_code": code, "message": message})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// RoundTrip answers a request without a server.
func (g *Registry) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// Client returns a client whose requests all come to g.
func (g *Registry) Client() *http.Client { return &http.Client{Transport: g} }

// Load returns a registry with the schemas of all files called schemas.json in the folders of dir: objects of schemas by their id.
func Load(dir string) (*Registry, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "schemas.json"))
	if err != nil {
		return nil, err
	}
	g := &Registry{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var schemas map[string]json.RawMessage
		if err := json.Unmarshal(text, &schemas); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for key, schema := range schemas {
			id, err := strconv.Atoi(key)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if old := g.schemas[id].Text; old != "" && canonical(old) != canonical(string(schema)) {
				return nil, fmt.Errorf("%s: id %d has two schemas", file, id)
			}
			g.Put(id, Schema{Text: string(schema)})
		}
	}
	if len(g.schemas) == 0 {
		return nil, fmt.Errorf("no schemas under %s", dir)
	}
	return g, nil
}

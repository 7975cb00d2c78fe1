package elastic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// storm is a network that loses answers, answers for the server that it cannot take a request, and delays.
type storm struct {
	mu  sync.Mutex
	rng *rand.Rand
	p   float64
	n   map[string]int
}

func (s *storm) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	what := ""
	if strings.HasSuffix(r.URL.Path, "/_bulk") || strings.HasSuffix(r.URL.Path, "/_mget") {
		switch f := s.rng.Float64() / s.p; {
		case f < 1:
			what = "lost"
		case f < 2:
			what = "busy"
		case f < 3:
			what = "unreachable"
		}
	}
	s.n[what]++
	s.mu.Unlock()
	switch what {
	case "unreachable":
		return nil, errors.New("no route to host")
	case "busy":
		return &http.Response{StatusCode: 429, Header: http.Header{"X-Elastic-Product": {"Elasticsearch"}}, Body: io.NopCloser(strings.NewReader(`{"error":{"type":"es_rejected_execution_exception"}}`)), Request: r}, nil
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && what == "lost" {
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return res, err
}

// TestConverges plays lanes that crash, that live on as zombies beside their successors, and a network that loses answers, over a topic of
// updates, deletes and re-inserts, and compares the index with what the topic says.
func TestConverges(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		changes := 20_000
		if s.real && os.Getenv("FLINKSINK_LONG") != "" {
			changes = 200_000
		}
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		topic := make([]changelog.Change, changes)
		want := make(map[string]string)
		for i := range topic {
			id := rng.IntN(changes / 10)
			key := fmt.Sprint(id)
			if rng.IntN(5) == 0 {
				topic[i] = at(int64(i), del, id, changelog.Value{})
				topic[i].KeyOnly = true
				delete(want, key)
				continue
			}
			v := fmt.Sprintf("v%d", i)
			topic[i] = at(int64(i), upd, id, v)
			want[key] = fmt.Sprintf(`{"id":%d,"v":%q}`, id, v)
		}
		network := &storm{rng: rand.New(rand.NewPCG(seed, 2)), p: 0.04, n: make(map[string]int)}
		o := elastic.Options{Deletes: elastic.Tombstone, BulkActions: 200}
		var zombies []*lane
		var running sync.WaitGroup
		saved, crashes := 0, 0
		for gen := sink.GenerationID(1); saved < changes; gen++ {
			l := s.lane(orders(t), o, network)
			if err := l.c.Open(context.Background(), l.claim(gen, 0, gen > 1)); err != nil {
				continue
			}
			l.gen, l.next = gen, 1
			at := saved
			for at < changes {
				n := min(1+rng.IntN(changes/40), changes-at)
				err := l.write(topic[at : at+n]...)
				at += n
				if err == nil && rng.IntN(3) == 0 {
					if err = l.prepare(); err == nil {
						saved = at
					}
				}
				if err != nil && !errors.Is(sink.ClassOf(err), sink.ErrTransient) {
					t.Fatal(err)
				}
				if err != nil || rng.IntN(12) == 0 {
					break
				}
			}
			if at >= changes && l.prepare() == nil {
				saved = changes
			}
			crashes++
			// It lives on, and writes what it had read, and reads again what it had read before, at any time.
			z, from := l, max(0, saved-rng.IntN(5000))
			zombies = append(zombies, z)
			running.Add(1)
			go func(changes []changelog.Change) {
				defer running.Done()
				_ = z.c.Discard(context.Background())
				for len(changes) > 0 {
					n := min(500, len(changes))
					_ = z.write(changes[:n]...)
					changes = changes[n:]
				}
				_ = z.prepare()
			}(topic[from:min(changes, from+3000)])
		}
		running.Wait()
		for _, z := range zombies {
			z.must(z.c.Close(context.Background()))
		}
		t.Logf("%d generations, faults %v", crashes, network.n)
		hits, err := s.search(zombies[0].index, alive)
		if err != nil {
			t.Fatal(err)
		}
		if len(hits) != len(want) {
			t.Errorf("%d documents, expected %d", len(hits), len(want))
		}
		for _, h := range hits {
			var doc struct {
				ID int
				V  string
			}
			if err := json.Unmarshal(h.Source, &doc); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf(`{"id":%d,"v":%q}`, doc.ID, doc.V); got != want[h.ID] {
				t.Fatalf("document %s is %s, expected %s", h.ID, got, want[h.ID])
			}
		}
	})
}

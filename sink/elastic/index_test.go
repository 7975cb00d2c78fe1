package elastic_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// An index that is deleted, and perhaps made anew by the server itself, lacks what earlier checkpoints wrote.
func TestIndex_DeletedWhileRunning(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		l := s.lane(orders(t), tombstones, nil)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, 1, "a")))
		s.must("DELETE", "/"+l.index, "")
		is(t, l.checkpoint(at(1, ins, 2, "b")), sink.ErrLost, "deleted, made anew")
		// Also for the next process, which finds an index that the server made by itself, or none.
		is(t, l.c.Open(context.Background(), l.claim(2, 0, true)), sink.ErrLost, "made anew, or is another one")
		s.must("DELETE", "/"+l.index, "")
		is(t, l.c.Open(context.Background(), l.claim(3, 0, true)), sink.ErrLost, "is gone")
		// With positions at the beginning all is well.
		l.open(4, 1, false)
		l.must(l.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "b")))
		l.expect(map[string]string{"1": `{"id":1,"v":"a"}`, "2": `{"id":2,"v":"b"}`})
	})
}

// Read-only, closed: the lane tries for as long as its patience lasts, and says why.
func TestIndex_TakesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		o := tombstones
		o.Patience = 300 * time.Millisecond
		l := s.lane(orders(t), o, nil)
		l.open(1, 0, false)
		s.must("PUT", "/"+l.index+"/_settings", `{"index.blocks.write":true}`)
		is(t, l.checkpoint(at(0, ins, 1, "a")), sink.ErrTransient, "cluster_block_exception")
		s.must("PUT", "/"+l.index+"/_settings", `{"index.blocks.write":false}`)
		l.must(l.c.Discard(context.Background()))
		l.must(l.checkpoint(at(0, ins, 1, "a")))
		s.must("POST", "/"+l.index+"/_close", "")
		is(t, l.checkpoint(at(1, ins, 2, "b")), sink.ErrTransient, "/_open opens it")
		s.must("POST", "/"+l.index+"/_open", "")
		l.must(l.c.Discard(context.Background()))
		l.must(l.checkpoint(at(1, ins, 2, "b")))
	})
}

// Whatever answers 404 to everything is no server that lacks an index, whose rows would be lost.
func TestIndex_AddressOfSomethingElse(t *testing.T) {
	w := httptest.NewServer(http.NotFoundHandler())
	defer w.Close()
	u, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	client, err := elastictransport.New(elastictransport.Config{URLs: []*url.URL{u}})
	if err != nil {
		t.Fatal(err)
	}
	es, err := elastic.New(client, "orders", &tombstones)
	if err != nil {
		t.Fatal(err)
	}
	c, err := es.Lane(t.Context(), laneOf(t))
	if err != nil {
		t.Fatal(err)
	}
	l := &lane{t: t, table: orders(t), c: c}
	is(t, c.Open(t.Context(), l.claim(1, 0, true)), sink.ErrConfig, "lead to Elasticsearch")
}

func TestIndex_MissingAndStrict(t *testing.T) {
	s := standIn(t)
	es, err := elastic.New(s.client(nil), "none", &tombstones)
	if err != nil {
		t.Fatal(err)
	}
	c, err := es.Lane(t.Context(), laneOf(t))
	if err != nil {
		t.Fatal(err)
	}
	l := &lane{t: t, table: orders(t), c: c, s: s}
	is(t, c.Open(t.Context(), l.claim(1, 0, false)), sink.ErrConfig, "PUT /none\n{")
	s.must("PUT", "/none", `{"mappings":{"dynamic":"strict","properties":{"id":{"type":"keyword"}}}}`)
	err = c.Open(t.Context(), l.claim(1, 0, false))
	for _, text := range []string{`lacks field "v"`, `lacks field "flinksink" of`, `PUT none/_mapping {"properties":{"flinksink":{"type":"object","enabled":false}}}`, `PUT none/_mapping {"properties":{"flinksink_deleted":{"type":"date"}}}`} {
		is(t, err, sink.ErrConfig, text)
	}
}

// The alias that readers search leaves tombstones out.
func TestAlias(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		o := tombstones
		o.Alias = s.prefix + "-orders-alive"
		l := s.lane(orders(t), o, nil)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "b")))
		l.must(l.checkpoint(at(2, del, 2, "b"), at(3, del, 3, "c")))
		l.expect(map[string]string{"1": `{"id":1,"v":"a"}`, "2": `{"flinksink_deleted":"T"}`, "3": `{"flinksink_deleted":"T"}`})
		hits, err := s.search(o.Alias, everything)
		if err != nil || len(hits) != 1 || hits[0].ID != "1" {
			t.Fatal(hits, err)
		}
		// A new lane writes through the alias's index as before.
		s.lane(orders(t), o, nil).open(2, 0, true)
	})
}

func TestPurge(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		l := s.lane(orders(t), tombstones, nil)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, 1, "a"), at(1, del, 2, "b")))
		old := ""
		for i := range 1200 {
			old += fmt.Sprintf(`{"index":{"_id":"old%d","version":5,"version_type":"external"}}`+"\n"+`{"flinksink_deleted":"2020-01-01T00:00:00.000Z"}`+"\n", i)
		}
		s.must("POST", "/"+l.index+"/_bulk", old)
		es, err := elastic.New(s.client(nil), l.index, &tombstones)
		l.must(err)
		_, err = es.Purge(t.Context(), l.table, time.Minute)
		is(t, err, sink.ErrConfig, "below 1h0m0s")
		n, err := es.Purge(t.Context(), l.table, 24*time.Hour)
		if err != nil || n != 1200 {
			t.Fatalf("%d %v", n, err)
		}
		l.expect(map[string]string{"1": `{"id":1,"v":"a"}`, "2": `{"flinksink_deleted":"T"}`})
	})
}

// A lane whose generation has ended does not write when it wakes up, where deletes are Hard: by then the server may have forgotten the
// version of a deleted document.
func TestHard_Zombie(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		hard := elastic.Options{Deletes: elastic.Hard}
		a := s.lane(orders(t), hard, nil)
		a.open(1, 0, false)
		a.must(a.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "b")))
		if s.real {
			s.must("PUT", "/"+a.index+"/_settings", `{"index.gc_deletes":"1h"}`)
		}
		b := s.lane(orders(t), hard, nil)
		b.open(2, 0, true)
		b.must(b.checkpoint(at(2, upd, 1, "new"), at(3, del, 1, "new")))
		// Within the lease the version of the delete is known.
		elastic.AgeLease(a.c, -time.Hour) // whatever the machine did meanwhile
		a.must(a.checkpoint(at(2, upd, 1, "new")))
		b.expect(map[string]string{"2": `{"id":2,"v":"b"}`})
		// Later it may not be.
		s.forget(a.index)
		elastic.AgeLease(a.c, time.Hour+time.Minute)
		is(t, a.checkpoint(at(2, upd, 1, "new")), sink.ErrFenced, "generation 1 has ended")
		b.expect(map[string]string{"2": `{"id":2,"v":"b"}`})
		// An Open that comes late is told too.
		is(t, a.c.Open(t.Context(), a.claim(1, 0, true)), sink.ErrFenced, "a newer one opened for orders/0")
	})
}

// With Tombstone nothing is forgotten, so a lane that wakes up changes nothing, whatever became of the server.
func TestTombstone_Zombie(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.lane(orders(t), tombstones, nil)
		a.open(1, 0, false)
		a.must(a.checkpoint(at(0, ins, 1, "a")))
		b := s.lane(orders(t), tombstones, nil)
		b.open(2, 0, true)
		b.must(b.checkpoint(at(1, del, 1, "a")))
		s.forget(a.index)
		a.must(a.checkpoint(at(0, ins, 1, "a")))
		b.expect(map[string]string{"1": `{"flinksink_deleted":"T"}`})
		if n := a.c.(sink.Superseder).Superseded(); n != 1 {
			t.Fatalf("superseded: %d", n)
		}
	})
}

// gc_deletes that keep nothing make Hard meaningless.
func TestHard_NeedsGCDeletes(t *testing.T) {
	s := standIn(t)
	l := s.lane(orders(t), elastic.Options{Deletes: elastic.Hard}, nil)
	s.must("PUT", "/"+l.index, `{"settings":{"index":{"gc_deletes":"0s"}}}`)
	is(t, l.c.Open(t.Context(), l.claim(1, 0, false)), sink.ErrConfig, "index.gc_deletes")
}

// One bad item that makes the server refuse all of a request is found by halves, and its neighbours are written.
func TestWholeRequestRefused(t *testing.T) {
	s := standIn(t)
	l := s.lane(orders(t), elastic.Options{Deletes: elastic.Tombstone, InFlight: 1}, nil)
	l.open(1, 0, false)
	var requests atomic.Int64
	s.fake.Inject(func(r *http.Request) *elastictest.Fault {
		if !strings.HasSuffix(r.URL.Path, "orders/_bulk") {
			return nil
		}
		requests.Add(1)
		b := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(b)
		if strings.Contains(string(b), `"bad"`) {
			return &elastictest.Fault{Status: 400, Body: `{"error":{"type":"action_request_validation_exception","reason":"Validation Failed"}}`}
		}
		r.Body = readCloser{strings.NewReader(string(b))}
		return nil
	})
	refusedAt(t, l.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "bad"), at(2, ins, 3, "c"), at(3, ins, 4, "bad"), at(4, ins, 5, "e")), 1, 3)
	if docs := l.docs(everything); len(docs) != 3 {
		t.Fatal(docs)
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// A server that is away for longer than Patience fails the checkpoint as transient, and one that answers never is left alone when the
// caller's context ends.
func TestPatience(t *testing.T) {
	s := standIn(t)
	o := tombstones
	o.Patience = 200 * time.Millisecond
	l := s.lane(orders(t), o, nil)
	l.open(1, 0, false)
	s.fake.Inject(func(*http.Request) *elastictest.Fault { return &elastictest.Fault{Status: 503, Body: "later"} })
	is(t, l.checkpoint(at(0, ins, 1, "a")), sink.ErrTransient, "could not take documents")
	l.must(l.c.Discard(t.Context()))
	o.Patience = time.Hour
	l = s.lane(orders(t), o, nil)
	s.fake.Inject(nil)
	l.open(2, 0, true)
	s.fake.Inject(func(*http.Request) *elastictest.Fault { return &elastictest.Fault{Status: 429, Body: "later"} })
	l.must(l.write(at(0, ins, 1, "a")))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.c.Prepare(ctx, sink.Cut{Checkpoint: 1}); err == nil {
		t.Fatal("Prepare succeeded")
	}
}

func laneOf(t testing.TB) sink.Lane {
	return sink.Lane{Bridge: "b", Sink: "es", Tables: tablesOf(orders(t))}
}

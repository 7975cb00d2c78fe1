package elastic_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// P54: an id may hold any sign, also those that end a path. A write by sequence number and a create meet the same document as the bulk did.
func TestPitfall_P54_AnyID(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		texts := table(t, "texts", mode(t, "[I,UA,D]"), 1, "k STRING NOT NULL", "v STRING")
		l := s.lane(texts, tombstones, nil)
		l.open(1, 0, false)
		keys := []string{"a/b", "a?op_type=create&refresh=true", "100%", "x#y", "ü \"q\" \\", "..", "a b"}
		var first, second []string
		for i, k := range keys {
			l.must(l.checkpoint(at(int64(i), ins, k, "a")))
			first = append(first, k)
		}
		_ = second
		// Edited far above the offsets that come, with what it says of its origin left alone; deleted for the next half.
		for i, k := range first {
			id := strings.Trim(string(elastic.AppendString(nil, []byte(k))), `"`)
			if i%2 == 0 {
				for range 12 {
					s.must("POST", "/"+l.index+"/_bulk", fmt.Sprintf(`{"index":{"_id":"%s"}}`+"\n"+`{"k":"%[1]s","v":"by hand","flinksink":{"at":"orders/0/%d/0"}}`+"\n", id, i))
				}
			} else {
				for range 20 {
					s.must("POST", "/"+l.index+"/_bulk", fmt.Sprintf(`{"index":{"_id":"%s"}}`+"\n"+`{"k":"x"}`+"\n", id))
				}
				s.must("POST", "/"+l.index+"/_bulk", fmt.Sprintf(`{"delete":{"_id":"%s"}}`+"\n", id))
			}
		}
		for i, k := range keys {
			l.must(l.checkpoint(at(int64(7+i%2), upd, k, "b")))
		}
		docs := l.docs(everything)
		if len(docs) != len(keys) {
			t.Fatalf("%d documents, expected %d: %v", len(docs), len(keys), docs)
		}
		for _, k := range keys {
			if !strings.Contains(docs[k], `"v":"b"`) {
				t.Fatalf("document %q is %s", k, docs[k])
			}
		}
	})
}

// P54: the delete of a document that a hand edited is done, not tried for ever.
func TestPitfall_P54_DeleteEdited(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		l := s.lane(orders(t), elastic.Options{Deletes: elastic.Hard}, nil)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "a")))
		for range 9 {
			s.must("PUT", "/"+l.index+"/_doc/1", `{"id":1,"v":"by hand","flinksink":{"at":"orders/0/0/0"}}`)
		}
		l.must(l.checkpoint(at(3, del, 1, "a")))
		l.expect(map[string]string{"2": `{"id":2,"v":"a"}`})
	})
}

// Somebody else replaces _meta, another bridge that begins at the same moment among them: the mark comes back with the next checkpoint.
func TestMark_TakenAway(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		l := s.lane(orders(t), tombstones, nil)
		l.open(1, 0, false)
		s.must("PUT", "/"+l.index+"/_mapping", `{"_meta":{"theirs":true}}`)
		l.must(l.checkpoint(at(0, ins, 1, "a")))
		l.open(2, 0, true)
		if m := s.must("GET", "/"+l.index, ""); !strings.Contains(m, `"theirs":true`) || !strings.Contains(m, `"flinksink:b:es":true`) {
			t.Fatal(m)
		}
	})
}

// A client that may not change mappings goes without the mark, at the next start too. A block is another thing.
func TestMark_NoRight(t *testing.T) {
	s := standIn(t)
	l := s.lane(orders(t), tombstones, nil)
	s.must("PUT", "/"+l.index, `{}`)
	answer := `{"error":{"type":"security_exception","reason":"action [indices:admin/mapping/put] is unauthorized"},"status":403}`
	s.fake.Inject(func(r *http.Request) *elastictest.Fault {
		if strings.HasSuffix(r.URL.Path, "/_mapping") {
			return &elastictest.Fault{Status: 403, Body: answer}
		}
		return nil
	})
	l.open(1, 0, false)
	l.must(l.checkpoint(at(0, ins, 1, "a")))
	l.open(2, 0, true)
	l.must(l.checkpoint(at(1, ins, 2, "a")))
	answer = `{"error":{"type":"cluster_block_exception","reason":"blocked"},"status":403}`
	is(t, l.c.Open(context.Background(), l.claim(3, 0, true)), sink.ErrTransient, "cluster_block_exception")
}

// An alias of several indexes takes writes into one of them, and would leave a row's older document in another.
func TestIndex_AliasOfSeveral(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		l := s.lane(orders(t), tombstones, nil)
		for _, n := range []string{"-1", "-2"} {
			s.must("PUT", "/"+l.index+n, "")
			s.must("PUT", "/"+l.index+n+"/_alias/"+l.index, "")
		}
		is(t, l.c.Open(context.Background(), l.claim(1, 0, false)), sink.ErrConfig, "is an alias of 2 indexes")
	})
}

// Options.Alias that is there and shows tombstones.
func TestAlias_WithoutFilter(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		o := tombstones
		o.Alias = s.prefix + "-alive"
		l := s.lane(orders(t), o, nil)
		s.must("PUT", "/"+l.index, "")
		s.must("PUT", "/"+l.index+"/_alias/"+o.Alias, "")
		is(t, l.c.Open(context.Background(), l.claim(1, 0, false)), sink.ErrConfig, "has no filter")
	})
}

func TestPipeline_Missing(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		o := tombstones
		o.Pipeline = "none"
		l := s.lane(orders(t), o, nil)
		is(t, l.c.Open(context.Background(), l.claim(1, 0, false)), sink.ErrConfig, "Options.Pipeline")
	})
}

// Two tables in one index would be one document where their keys are equal.
func TestLane_TwoTablesOneIndex(t *testing.T) {
	s := standIn(t)
	es, err := elastic.New(s.client(nil), "one", &tombstones)
	if err != nil {
		t.Fatal(err)
	}
	other := table(t, "others", mode(t, "[I,UA,D]"), 1, "id BIGINT NOT NULL")
	_, err = es.Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "es", Tables: tablesOf(orders(t), other)})
	is(t, err, sink.ErrConfig, "both go to index one")
}

// A server that takes a request and never answers holds nobody longer than the caller's context, whatever the request was.
func TestHangs(t *testing.T) {
	s := standIn(t)
	reached := make(chan struct{})
	h := &hanging{reached: reached}
	l := s.lane(orders(t), tombstones, h)
	l.open(1, 0, false)
	l.must(l.checkpoint(at(0, ins, 1, "a")))
	for range 9 {
		s.must("PUT", "/"+l.index+"/_doc/1", `{"id":1,"v":"by hand","flinksink":{"at":"orders/0/0/0"}}`)
	}
	h.left.Store(2) // the bulk, and then the write by sequence number
	l.must(l.write(at(3, upd, 1, "b")))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	if _, err := l.c.Prepare(ctx, sink.Cut{Checkpoint: 1}); err == nil {
		t.Fatal("Prepare succeeded")
	}
	l.must(l.c.Discard(t.Context()))
	l.must(l.checkpoint(at(3, upd, 1, "b")))
	l.expect(map[string]string{"1": `{"id":1,"v":"b"}`})
}

// hanging is a network in which the bulk that makes left 0 never comes back.
type hanging struct {
	left    atomic.Int64
	reached chan struct{}
}

func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/_bulk") && h.left.Add(-1) == 0 {
		close(h.reached)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return http.DefaultTransport.RoundTrip(r)
}

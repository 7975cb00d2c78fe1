package elastic_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// A search that some shards did not answer has the status 200. Rows that lie there are not called missing.
func TestVerify_ShardsMissing(t *testing.T) {
	s := realServer(t)
	c := newCompared(t, s, retract(t), elastic.Options{Deletes: elastic.Tombstone, Patience: time.Millisecond}, "r-{v}")
	c.put(at(0, ins, 1, "DE", day(1)), at(1, ins, 2, "FR", day(1)))
	v, lines, _ := c.view(2)
	c.want("of intact indexes", lines, nil)
	s.must("DELETE", "/"+s.prefix+"-r-fr", "") // its shards are of the point in time still
	ds, err := v.Compare(context.Background(), c.topic)
	is(t, err, sink.ErrTransient, fmt.Sprintf("1 shards of index %s-r-* did not answer a search", s.prefix))
	if len(ds) > 0 {
		t.Errorf("found %v", ds)
	}
}

// An index that is closed is in no answer at all to a pattern.
func TestVerify_IndexOfRowsClosed(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		c := newCompared(t, s, retract(t), elastic.Options{Deletes: elastic.Tombstone}, "r-{v}")
		c.put(at(0, ins, 1, "DE", day(1)), at(1, ins, 2, "FR", day(1)))
		s.must("PUT", "/"+s.prefix+"-r-archive", "")
		s.must("POST", "/"+s.prefix+"-r-archive/_close", "") // which is somebody else's
		_, lines, _ := c.view(2)
		c.want("beside an index of somebody else that is closed", lines, nil)
		s.must("POST", "/"+s.prefix+"-r-fr/_close", "")
		_, err := c.es.View(context.Background(), sink.ViewRequest{Bridge: "b", Sink: "es", Table: c.table, Incarnation: 3, Positions: []changelog.Position{{Partition: changelog.Partition{Topic: "orders"}, Offset: 2}}})
		is(t, err, sink.ErrTransient, fmt.Sprintf("index %s-r-fr is closed: POST /%[1]s-r-fr/_open opens it", s.prefix))
	})
}

// Whoever decides by a search that nothing is there decides nothing where it was answered in part.
func TestPartialSearches(t *testing.T) {
	for _, part := range []struct{ answer, want string }{
		{`{"timed_out":false,"_shards":{"total":2,"successful":1,"skipped":0,"failed":1,"failures":[{"shard":1,"index":"i","reason":{"type":"no_shard_available_action_exception","reason":"x"}}]},"hits":{"hits":[]}}`,
			"did not answer a search, no_shard_available_action_exception"},
		{`{"timed_out":false,"_shards":{"total":2,"successful":1,"failed":1},"hits":{"hits":[]}}`, "1 shards of index"},
		{`{"timed_out":true,"_shards":{"total":2,"successful":2,"failed":0},"hits":{"hits":[]}}`, "was broken off by the server's time limit"},
	} {
		s := standIn(t)
		searched := false
		inject := func() {
			searched = false
			s.fake.Inject(func(r *http.Request) *elastictest.Fault {
				if !strings.HasSuffix(r.URL.Path, "/_search") {
					return nil
				}
				searched = true
				return &elastictest.Fault{Status: 200, Body: part.answer}
			})
		}
		is1 := func(what string, err error) {
			t.Helper()
			is(t, err, sink.ErrTransient, part.want)
			if !searched {
				t.Fatalf("%s searches nothing", what)
			}
			s.fake.Inject(nil)
		}
		c := newCompared(t, s, retract(t), elastic.Options{Deletes: elastic.Hard, Patience: time.Millisecond}, "r-{v}")
		c.put(at(0, ins, 1, "DE", day(1)), at(1, del, 1, "DE", day(1)))
		v, _, _ := c.view(1)

		inject()
		_, err := v.Compare(t.Context(), c.topic[:1])
		is1("Compare", err)
		inject()
		is1("Extra", v.Extra(t.Context(), sink.ViewPass{Last: true, Lives: func([]byte) (bool, bool) { return true, false }}, func([]sink.Difference) error { return nil }))
		inject()
		is1("Open, which looks for deletes that are owed,", c.c.Open(t.Context(), c.claim(2, 3, true)))
		inject()
		_, err = c.es.Purge(t.Context(), c.table, elastic.Reach*60)
		is1("Purge", err)

		// An index of which nothing is seen may be full of rows that something else wrote.
		c.open(3, 3, true)
		s.must("PUT", "/t-r-fr", `{"mappings":{"properties":{"flinksink":{"type":"object","enabled":false}}}}`)
		s.must("PUT", "/t-r-fr/_doc/9", `{"id":9}`)
		inject()
		is1("the first row for an index", c.checkpoint(at(5, ins, 5, "FR", day(1))))
	}
}

// Copies of a shard that failed do not make a document less durable: the server answers for those that are left.
func TestItem_CopiesFailed(t *testing.T) {
	s := standIn(t)
	l := s.lane(orders(t), tombstones, nil).open(1, 0, false)
	s.fake.Inject(func(r *http.Request) *elastictest.Fault {
		if !strings.HasSuffix(r.URL.Path, "/_bulk") {
			return nil
		}
		// As from a proxy that does not know filter_path.
		return &elastictest.Fault{Status: 200, Body: `{"took":1,"errors":false,"items":[{"index":{"_index":"t-orders","_id":"1","_version":0,"result":"created","_shards":{"total":3,"successful":1,"failed":2,"failures":[` +
			`{"_index":"t-orders","_shard":0,"_node":"n","reason":{"type":"node_disconnected_exception","reason":"x"},"status":"INTERNAL_SERVER_ERROR","primary":false}]},"_seq_no":0,"_primary_term":1,"status":201}}]}`}
	})
	l.must(l.checkpoint(at(0, ins, 1, "a")))
}

package elastic_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

var tombstones = elastic.Options{Deletes: elastic.Tombstone}

// P53: the index holds a version of another cluster's topic.
func TestPitfall_P53_ForeignVersion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		other := s.lane(orders(t), tombstones, nil)
		other.open(1, 0, false)
		other.must(other.checkpoint(at(999, ins, 7, "x"))) // its cut tells the topic's id
		other.must(other.checkpoint(at(1000000, ins, 1, "theirs")))
		ours := s.lane(orders(t), tombstones, nil)
		ours.topic = topicB
		ours.open(2, 0, false)
		is(t, ours.checkpoint(at(0, ins, 1, "ours")), sink.ErrConfig, "of another topic orders (id AQAAAAAAAAAAAAAAAAAAAA), while the one that is read has id AgAAAAAAAAAAAAAAAAAAAA")
		// With a higher incarnation the smaller offset wins.
		ours.open(3, 1, false)
		ours.must(ours.checkpoint(at(0, ins, 1, "ours")))
		ours.expect(map[string]string{"1": `{"id":1,"v":"ours"}`, "7": `{"id":7,"v":"x"}`})
	})
}

// P53: a document that something else wrote is not passed over as applied.
func TestPitfall_P53_ForeignDocument(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		l := s.lane(orders(t), tombstones, nil)
		l.open(1, 0, false)
		s.must("PUT", "/"+l.index+"/_doc/1?version=1000000&version_type=external", `{"id":1,"v":"theirs"}`)
		err := l.checkpoint(at(0, ins, 1, "ours"), at(1, ins, 2, "fine"))
		refusedAt(t, err, 0)
		is(t, err, sink.ErrRejected, "version 1000000 and was written by something else, this change has version 0 (incarnation 0, offset 0)")
	})
}

// P53: offsets of two partitions do not compare.
func TestPitfall_P53_OtherPartition(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		l := s.lane(orders(t), tombstones, nil)
		l.open(1, 0, false)
		far := at(50, ins, 1, "a")
		far.Partition.Partition = 3
		l.must(l.checkpoint(far))
		is(t, l.checkpoint(at(7, upd, 1, "b")), sink.ErrConfig, "holds a document of orders/3")
	})
}

// P54: somebody edits or deletes a document by hand, which raises its version.
func TestPitfall_P54_EditedByHand(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		l := s.lane(orders(t), tombstones, nil)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "a"), at(2, ins, 3, "a")))
		for range 9 {
			s.must("PUT", "/"+l.index+"/_doc/1", `{"id":1,"v":"by hand","flinksink":{"at":"orders/0/0/0"}}`)
		}
		s.must("DELETE", "/"+l.index+"/_doc/2", "")
		for range 9 {
			s.must("PUT", "/"+l.index+"/_doc/3", `{"id":3,"v":"by hand"}`)
		}
		l.must(l.checkpoint(at(4, upd, 1, "b"), at(2, upd, 2, "b")))
		l.expect(map[string]string{"1": `{"id":1,"v":"b"}`, "2": `{"id":2,"v":"b"}`, "3": `{"id":3,"v":"by hand"}`})
		// Where the document does not say any more where it came from, the change is named.
		refusedAt(t, l.checkpoint(at(5, upd, 3, "b")), 5)
		l.must(l.c.Discard(context.Background()))
		l.must(l.checkpoint(at(100, upd, 3, "c")))
		l.expect(map[string]string{"1": `{"id":1,"v":"b"}`, "2": `{"id":2,"v":"b"}`, "3": `{"id":3,"v":"c"}`})
	})
}

// P55: null and empty keys.
func TestPitfall_P55_NullAndEmptyKeys(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		texts := table(t, "texts", mode(t, "[I,UA,D]"), 1, "k STRING", "v STRING")
		l := s.lane(texts, tombstones, nil)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, "a", "good"), at(1, ins, "", "empty"), at(2, ins, changelog.Value{}, "null"), at(3, ins, "null", "text")))
		if docs := l.docs(everything); len(docs) != 4 || docs["null"] != `{"k":"null","v":"text"}` || docs["a"] != `{"k":"a","v":"good"}` {
			t.Fatal(docs)
		}
	})
}

// P56: an append into a data stream that is sent again, and P58: into an index, when the answer was lost.
func TestPitfall_P56_P58_SentAgain(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		app := table(t, "app", changelog.Append, 0, "id BIGINT", "v STRING")
		lost := &faulty{s: s, fault: func(n int, r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/_bulk") && n == 1 }}
		l := s.lane(app, elastic.Options{}, lost)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, 1, "a"), at(1, ins, 1, "a"), at(2, ins, 2, "b")))
		l.must(l.checkpoint(at(0, ins, 1, "a"), at(1, ins, 1, "a"), at(2, ins, 2, "b"))) // a restart
		if docs := l.docs(everything); len(docs) != 3 {
			t.Fatal(docs)
		}
		if lost.lost.Load() != 1 {
			t.Fatal("no answer was lost")
		}
	})
}

// faulty serves requests and then loses the answer of those that fault names, by their number from 1.
type faulty struct {
	s     *server
	n     atomic.Int64
	lost  atomic.Int64
	fault func(n int, r *http.Request) bool
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	n := 0
	if strings.HasSuffix(r.URL.Path, "/_bulk") {
		n = int(f.n.Add(1))
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && f.fault(n, r) {
		f.lost.Add(1)
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		return nil, fmt.Errorf("the connection broke")
	}
	return res, err
}

// P57 and P60: items that the server cannot take now go again, those only, and what changes the same document waits behind them.
func TestPitfall_P57_P60_ItemsAgain(t *testing.T) {
	for _, status := range []int{429, 500, 503} {
		s := standIn(t)
		l := s.lane(orders(t), elastic.Options{Deletes: elastic.Hard, BulkActions: 2, InFlight: 1}, nil)
		l.open(1, 0, false)
		var items, requests atomic.Int64
		s.fake.Inject(func(r *http.Request) *elastictest.Fault {
			if !strings.HasSuffix(r.URL.Path, "orders/_bulk") {
				return nil
			}
			n := requests.Add(1)
			return &elastictest.Fault{Item: func(i int) int {
				items.Add(1)
				if n <= 2 && i == 1 || n == 2 && i == 0 {
					return status
				}
				return 0
			}}
		})
		// The second item is refused twice: once beside the first, then alone. Its delete must not overtake it.
		l.must(l.write(at(0, ins, 1, "a"), at(1, ins, 2, "b")))
		l.must(l.write(at(2, del, 2, "b"), at(3, ins, 3, "c")))
		l.must(l.prepare())
		l.expect(map[string]string{"1": `{"id":1,"v":"a"}`, "3": `{"id":3,"v":"c"}`})
		if items.Load() != 2+1+1+2 {
			t.Fatalf("status %d: %d items were sent, expected 6", status, items.Load())
		}
	}
}

// P59: a document that does not fit the mapping is named, with the field, and its neighbours are stored.
func TestPitfall_P59_Mapping(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		l := s.lane(orders(t), tombstones, nil)
		s.must("PUT", "/"+l.index, `{"mappings":{"dynamic":"strict","_meta":{},"properties":{"id":{"type":"long"},"v":{"type":"keyword","ignore_above":100},"n":{"type":"object","properties":{"x":{"type":"long"}}},
			"flinksink":{"type":"object","enabled":false},"flinksink_deleted":{"type":"date"}}}}`)
		wide := table(t, "orders", mode(t, "[I,UA,D]"), 1, "id BIGINT NOT NULL", "v STRING", "n ROW<x DOUBLE>")
		l = s.lane(wide, tombstones, nil)
		l.open(1, 0, false)
		row := func(f float64) changelog.Value {
			return changelog.RowValue([]changelog.Value{changelog.DoubleValue(f)})
		}
		err := l.checkpoint(at(0, ins, 1, "secret", row(1)), at(1, ins, 2, "secret", row(1e300)), at(2, ins, 3, "secret", row(2)), at(3, ins, 4, "x", row(-1e200)))
		refusedAt(t, err, 1, 3)
		if !strings.Contains(err.Error(), `field "n.x"`) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "e300") || strings.Contains(err.Error(), "E300") {
			t.Fatal(err)
		}
		if docs := l.docs(everything); len(docs) != 2 {
			t.Fatal(docs)
		}
		// The checkpoint is done again without them.
		l.must(l.c.Discard(context.Background()))
		l.must(l.checkpoint(at(0, ins, 1, "secret", row(1)), at(2, ins, 3, "secret", row(2))))
	})
}

// P61: documents near and above what the server takes in one request.
func TestPitfall_P61_TooLarge(t *testing.T) {
	s := standIn(t)
	const limit = 1 << 20
	s.fake.Inject(func(r *http.Request) *elastictest.Fault {
		if r.ContentLength > limit {
			return &elastictest.Fault{Status: 413}
		}
		return nil
	})
	l := s.lane(orders(t), tombstones, nil)
	l.open(1, 0, false)
	var all []changelog.Change
	for i := range 20 {
		all = append(all, at(int64(i), ins, i, strings.Repeat("x", limit/3)))
	}
	all = append(all, at(20, ins, 20, strings.Repeat("x", limit)))
	err := l.checkpoint(all...)
	refusedAt(t, err, 20)
	is(t, err, sink.ErrRejected, "http.max_content_length")
	if docs := l.docs(everything); len(docs) != 20 {
		t.Fatalf("%d documents", len(docs))
	}
}

// P62: the mapping comes from the table, so no document decides what a later one may hold.
func TestPitfall_P62_MappingFromTable(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		tab := table(t, "prices", mode(t, "[I,UA,D]"), 1, "id BIGINT NOT NULL", "price DECIMAL(10, 2)")
		l := s.lane(tab, tombstones, nil)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, 1, changelog.DecimalValue(0, 700, 2)), at(1, ins, 2, changelog.DecimalValue(0, 750, 2))))
		l.expect(map[string]string{"1": `{"id":1,"price":7.00}`, "2": `{"id":2,"price":7.50}`})
		// An index that the server made from the first document is found at Open, not at row two.
		s.must("DELETE", "/"+l.index, "")
		s.must("PUT", "/"+l.index+"/", `{"mappings":{"properties":{"id":{"type":"long"},"price":{"type":"long"}}}}`)
		is(t, l.c.Open(context.Background(), l.claim(2, 0, false)), sink.ErrConfig, `field "price" has type long, which cannot take column "price" DECIMAL(10, 2)`)
	})
}

// P63: something else answers: one clear error at Open, whatever it says its version is.
func TestPitfall_P63_OtherProducts(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		class  error
		text   string
	}{
		{200, `<html>login</html>`, sink.ErrConfig, "does the address of the client lead to Elasticsearch?"},
		{401, `{"error":{"type":"security_exception","reason":"missing authentication credentials"}}`, sink.ErrConfig, "credentials"},
		{403, `{"error":{"type":"security_exception","reason":"action [indices:admin/get] is unauthorized"}}`, sink.ErrConfig, "privilege"},
		{405, `{"error":"Incorrect HTTP method"}`, sink.ErrConfig, "status 405"},
		{503, `Service Unavailable`, sink.ErrTransient, "status 503"},
	} {
		s := standIn(t)
		s.fake.Inject(func(*http.Request) *elastictest.Fault { return &elastictest.Fault{Status: c.status, Body: c.body} })
		l := s.lane(orders(t), tombstones, nil)
		is(t, l.c.Open(context.Background(), l.claim(1, 0, false)), c.class, c.text)
	}
}

// P63: the client of go-elasticsearch looks itself whether it talks to Elasticsearch.
func TestPitfall_P63_ClientSaysSo(t *testing.T) {
	es, err := elastic.New(stranger{}, "orders", &tombstones)
	if err != nil {
		t.Fatal(err)
	}
	c, err := es.Lane(t.Context(), laneOf(t))
	if err != nil {
		t.Fatal(err)
	}
	is(t, c.Open(t.Context(), (&lane{topic: topicA}).claim(1, 0, false)), sink.ErrConfig, "another product than Elasticsearch")
}

type stranger struct{}

func (stranger) Perform(*http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("the client noticed that the server is not Elasticsearch and we do not support this unknown product")
}

// P59: names with dots, of a column and of a key in a map.
func TestPitfall_P59_Dots(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		tab := table(t, "dots", mode(t, "[I,UA,D]"), 1, "id BIGINT NOT NULL", "hello.test STRING", "m MAP<STRING, INT>")
		l := s.lane(tab, tombstones, nil)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, 1, "x", changelog.MapValue([]changelog.Value{changelog.StringValue("a.b"), changelog.IntValue(1), changelog.StringValue("a"), changelog.IntValue(2)}))))
		l.expect(map[string]string{"1": `{"hello.test":"x","id":1,"m":{"a.b":1,"a":2}}`})
		l.open(2, 0, true)
	})
}

// P62: a table of 600 texts, which are 1,200 fields.
func TestPitfall_P62_ManyColumns(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		columns, row := []string{"id BIGINT NOT NULL"}, []any{1}
		for i := range 600 {
			columns, row = append(columns, fmt.Sprintf("c%d STRING", i)), append(row, "x")
		}
		l := s.lane(table(t, "many", mode(t, "[I,UA,D]"), 1, columns...), tombstones, nil)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, row...)))
		if docs := l.docs(everything); !strings.Contains(docs["1"], `"c599":"x"`) {
			t.Fatal(docs)
		}
	})
}

package elastic_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// busy is a server that cannot take the first requests of each kind, and counts them all.
type busy struct {
	mu    sync.Mutex
	asked map[string]int // by the last part of the path
}

// inject has fault say what becomes of request n, from 0, of a kind.
func (b *busy) inject(s *server, fault func(kind string, n int) *elastictest.Fault) {
	b.mu.Lock()
	b.asked = make(map[string]int)
	b.mu.Unlock()
	s.fake.Inject(func(r *http.Request) *elastictest.Fault {
		kind := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		b.mu.Lock()
		defer b.mu.Unlock()
		b.asked[kind]++
		return fault(kind, b.asked[kind]-1)
	})
}

func (b *busy) count(kind string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked[kind]
}

// twice refuses a kind with a status two times.
func twice(status int, kinds ...string) func(string, int) *elastictest.Fault {
	return func(kind string, n int) *elastictest.Fault {
		if n < 2 && slices.Contains(kinds, kind) {
			return &elastictest.Fault{Status: status, Body: `{"error":{"type":"es_rejected_execution_exception"}}`}
		}
		return nil
	}
}

// once answers kind with a fault the first time.
func once(kind string, f elastictest.Fault) func(string, int) *elastictest.Fault {
	return func(k string, n int) *elastictest.Fault {
		if k == kind && n == 0 {
			return &f
		}
		return nil
	}
}

// oneBusyItem is a bulk of which one item is refused with 429.
var oneBusyItem = elastictest.Fault{Item: func(n int) int {
	if n == 1 {
		return 429
	}
	return 0
}}

// No lane stands behind a command that would do again what the server could not take, so a command has the patience of a lane itself.
func TestPatience_Purge(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(kind string, n int) *elastictest.Fault
		kind  string // that is asked more than once
		times int
		want  int // purged
	}{
		{"429 to the search", twice(429, "_search"), "_search", 4, 3}, // the last finds nothing
		{"429 to the bulk", twice(429, "_bulk"), "_bulk", 3, 3},
		{"503 to all", twice(503, "_refresh", "_search", "_bulk"), "_bulk", 3, 3},
		{"429 to an item", once("_bulk", oneBusyItem), "_bulk", 2, 3},
		{"the answer of the bulk is lost", once("_bulk", elastictest.Fault{Lose: true}), "_bulk", 2, 0}, // which it was that took them away is not known
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, b := standIn(t), &busy{}
			l := s.lane(orders(t), tombstones, nil).open(1, 0, false)
			l.must(l.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "b")))
			old := ""
			for _, id := range []string{"x", "y", "z"} {
				old += `{"index":{"_id":"` + id + `","version":5,"version_type":"external"}}` + "\n" + `{"flinksink_deleted":"2020-01-01T00:00:00.000Z"}` + "\n"
			}
			s.must("POST", "/"+l.index+"/_bulk", old)
			es, err := elastic.New(s.client(nil), l.index, &tombstones)
			l.must(err)
			b.inject(s, c.fault)
			n, err := es.Purge(t.Context(), l.table, 24*time.Hour)
			if err != nil || n != c.want {
				t.Fatalf("%d, %v", n, err)
			}
			if got := b.count(c.kind); got != c.times {
				t.Errorf("%s was asked %d times", c.kind, got)
			}
			s.fake.Inject(nil)
			l.expect(map[string]string{"1": `{"id":1,"v":"a"}`, "2": `{"id":2,"v":"b"}`})
		})
	}
}

func TestPatience_Repair(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(kind string, n int) *elastictest.Fault
		kind  string
		times int
		want  sink.Mended
	}{
		{"429 to the search", twice(429, "_search"), "_search", 4, sink.Mended{Written: 1, Deleted: 1}},
		{"429 to the point in time", twice(429, "_pit"), "_pit", 3, sink.Mended{Written: 1, Deleted: 1}},
		{"429 to the look at documents", twice(429, "_mget"), "_mget", 3, sink.Mended{Written: 1, Deleted: 1}},
		{"503 to the bulk", twice(503, "_bulk"), "_bulk", 3, sink.Mended{Written: 1, Deleted: 1}},
		{"429 to an item", once("_bulk", oneBusyItem), "_bulk", 2, sink.Mended{Written: 1, Deleted: 1}},
		{"the answer of the bulk is lost", once("_bulk", elastictest.Fault{Lose: true}), "_bulk", 2, sink.Mended{Changed: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, b := standIn(t), &busy{}
			x := newCompared(t, s, orders(t), tombstones, "orders")
			x.put(at(0, ins, 1, "a"), at(1, ins, 2, "b"))
			x.edit("1", `{"v":"edited"}`)
			s.must("PUT", "/"+x.index+"/_doc/9", `{"id":9,"v":"by hand"}`)
			b.inject(s, c.fault)
			v, _, ds := x.view(2)
			m, err := v.Mend(t.Context(), ds)
			if err != nil || m != c.want {
				t.Fatalf("%+v, %v", m, err)
			}
			if got := b.count(c.kind); got != c.times {
				t.Errorf("%s was asked %d times", c.kind, got)
			}
			s.fake.Inject(nil)
			x.expect(map[string]string{"1": `{"id":1,"v":"a"}`, "2": `{"id":2,"v":"b"}`})
		})
	}
}

// Patience ends, and the error says how long it was, what the server said, and its class once.
func TestPatience_Over(t *testing.T) {
	s := standIn(t)
	o := tombstones
	o.Patience = time.Millisecond
	x := newCompared(t, s, orders(t), o, "orders")
	x.put(at(0, ins, 1, "a"))
	x.edit("1", `{"v":"edited"}`)
	v, _, ds := x.view(1)
	all := func(r *http.Request) *elastictest.Fault {
		return &elastictest.Fault{Status: 429, Body: `{"error":{"type":"es_rejected_execution_exception"}}`}
	}
	s.fake.Inject(all)
	_, purge := x.es.Purge(t.Context(), x.table, 24*time.Hour)
	_, mend := v.Mend(t.Context(), ds)
	_, young := x.es.Purge(t.Context(), x.table, time.Minute)
	for _, c := range []struct {
		err, class error
		text       string
	}{
		{purge, sink.ErrTransient, "flinksink: purge: transient: tried again for 1ms (Options.Patience): the server does not refresh index t-orders: status 429, es_rejected_execution_exception"},
		{mend, sink.ErrTransient, `flinksink: repair sink "es" of bridge "b": transient: tried again for 1ms (Options.Patience): the server does not read documents of index t-orders: status 429, es_rejected_execution_exception`},
		{young, sink.ErrConfig, "flinksink: purge: configuration: age 1m0s is below 1h0m0s: a process that is stopped for longer could bring deleted rows back"},
	} {
		if is(t, c.err, c.class, ""); c.err.Error() != c.text {
			t.Errorf("%v\nexpected %s", c.err, c.text)
		}
	}
	// What will not change by itself is not tried again.
	b := &busy{}
	b.inject(s, func(string, int) *elastictest.Fault { return &elastictest.Fault{Status: 403, Body: "{}"} })
	_, err := v.Compare(t.Context(), []changelog.Change{at(0, ins, 1, "a")})
	if is(t, err, sink.ErrConfig, "privilege"); b.count("_search") != 1 {
		t.Errorf("asked %d times", b.count("_search"))
	}
}

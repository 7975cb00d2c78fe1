package elastic_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

var hard = elastic.Options{Deletes: elastic.Hard}

// owedNote is a note of deletes as a search finds it.
type owedNote struct {
	id, index, deletes string
	noted              int64
}

// notes returns what is noted of deletes.
func (l *lane) notes() (all []owedNote) {
	l.t.Helper()
	hits, err := l.s.search(l.s.prefix+"-control", everything)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, h := range hits {
		var n struct {
			Index, Deletes string
			Noted          int64
		}
		if err := json.Unmarshal(h.Source, &n); err != nil {
			l.t.Fatal(err)
		}
		if n.Noted != 0 {
			all = append(all, owedNote{h.ID, n.Index, n.Deletes, n.Noted})
		}
	}
	return all
}

// age makes every note older.
func (l *lane) age(by time.Duration) {
	l.t.Helper()
	for _, n := range l.notes() {
		id := strings.SplitN(n.id, "#", 2)[0]
		hits, err := l.s.search(l.s.prefix+"-control", `{"ids":{"values":["`+id+`"]}}`)
		if err != nil || len(hits) != 1 {
			l.t.Fatal(hits, err)
		}
		var m map[string]any
		d := json.NewDecoder(bytes.NewReader(hits[0].Source))
		d.UseNumber()
		if err := d.Decode(&m); err != nil {
			l.t.Fatal(err)
		}
		m["noted"] = n.noted - by.Milliseconds()
		body, err := json.Marshal(m)
		if err != nil {
			l.t.Fatal(err)
		}
		l.s.must("PUT", "/"+l.s.prefix+"-control/_doc/"+id, string(body))
	}
}

// The crash that a version alone does not survive: a generation deletes a row and saves, the server restarts and forgets the delete, and the write of an
// older generation arrives that was on its way all the time. The next generation ends with the row deleted.
func TestOwed_StaleWriteAfterRestart(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		zombie := s.lane(orders(t), hard, nil).open(1, 0, false)
		zombie.must(zombie.checkpoint(at(1, ins, 2, "stays")))
		a := s.lane(orders(t), hard, nil).open(2, 0, true)
		a.must(a.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "stays")))
		a.must(a.checkpoint(at(2, del, 1, "a"), at(3, del, 3, "was never there")))
		if n := a.notes(); strings.Count(fmt.Sprint(n), `{"delete":`) != 2 {
			t.Fatalf("noted: %v", n)
		}
		s.forget(a.index)
		// Its lease has not run out, as it does not know yet that it was ended.
		elastic.AgeLease(zombie.c, -time.Hour) // whatever the machine did meanwhile
		zombie.must(zombie.checkpoint(at(0, ins, 1, "a")))
		zombie.expect(map[string]string{"1": `{"id":1,"v":"a"}`, "2": `{"id":2,"v":"stays"}`}) // the row is back

		a.age(-time.Hour)                                      // not due, however long this took
		early := s.lane(orders(t), hard, nil).open(3, 0, true) // a takeover at a time when such a write may still come
		early.must(early.checkpoint(at(4, upd, 2, "changed")))
		if len(early.notes()) == 0 {
			t.Fatal("what is not due was taken away")
		}
		early.age(elastic.Reach + time.Hour)
		late := s.lane(orders(t), hard, nil).open(4, 0, true)
		late.expect(map[string]string{"2": `{"id":2,"v":"changed"}`})
		if n := late.notes(); len(n) != 0 {
			t.Fatalf("still noted: %v", n)
		}
	})
}

// A delete that is sent again late does nothing to a row that came back by a newer change, and an index that was taken away is not made for it.
func TestOwed_NewerRow(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.lane(orders(t), hard, nil).open(1, 0, false)
		a.must(a.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "b")))
		a.must(a.checkpoint(at(2, del, 1, "a"), at(3, del, 2, "b")))
		a.must(a.checkpoint(at(4, ins, 1, "again")))
		a.age(elastic.Reach)
		s.forget(a.index)
		b := s.lane(orders(t), hard, nil).open(2, 0, true)
		b.expect(map[string]string{"1": `{"id":1,"v":"again"}`})
		b.must(b.checkpoint(at(5, del, 1, "again")))
		b.age(elastic.Reach)
		s.must("DELETE", "/"+b.index, "")
		c := s.lane(orders(t), hard, nil).open(3, 0, false)
		c.expect(map[string]string{})
		if n := c.notes(); len(n) != 0 {
			t.Fatalf("still noted: %v", n)
		}
		if mapping := s.must("GET", "/"+c.index, ""); !strings.Contains(mapping, "flinksink:b:es") {
			t.Fatalf("the index was made by a delete: %s", mapping)
		}
	})
}

// Where rows name their indexes a note says which; a delete that moves a row is one, too.
func TestOwed_ManyIndexes(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		tab := table(t, "o-{v}", mode(t, "[I,UB,UA,D]"), 1, "id BIGINT NOT NULL", "v STRING")
		a := s.lane(tab, hard, nil).open(1, 0, false)
		a.must(a.checkpoint(at(0, ins, 1, "x"), at(1, ins, 2, "y")))
		a.must(a.checkpoint(at(2, changelog.UpdateBefore, 1, "x"), at(3, upd, 1, "y"), at(4, del, 2, "y")))
		if n := fmt.Sprint(a.notes()); !strings.Contains(n, s.prefix+"-o-x") || !strings.Contains(n, s.prefix+"-o-y") {
			t.Fatalf("noted: %v", n)
		}
		for _, index := range []string{"x", "y"} {
			s.forget(s.prefix + "-o-" + index)
		}
		s.must("POST", "/_bulk", fmt.Sprintf(`{"index":{"_index":"%[1]s-o-x","_id":"1","version":0,"version_type":"external_gte"}}`+"\n"+`{"id":1,"v":"x"}`+"\n"+
			`{"index":{"_index":"%[1]s-o-y","_id":"2","version":1,"version_type":"external_gte"}}`+"\n"+`{"id":2,"v":"y"}`+"\n", s.prefix))
		a.age(elastic.Reach)
		s.lane(tab, hard, nil).open(2, 0, true)
		x, y := &lane{t: t, s: s, index: s.prefix + "-o-x"}, &lane{t: t, s: s, index: s.prefix + "-o-y"}
		x.expect(map[string]string{})
		y.expect(map[string]string{"1": `{"id":1,"v":"y"}`})
	})
}

// A lane that was opened long ago and loses no answer owes nothing. One that loses an answer does, from then on; also if it was lost within the server, between the
// node that took the request and a shard's. What a full queue refuses was not begun.
func TestOwed_OnlyWhereAWriteMayBeOnItsWay(t *testing.T) {
	refuse := func(status int) *elastictest.Fault {
		return &elastictest.Fault{Item: func(int) int { return status }}
	}
	for _, c := range []struct {
		name  string
		fault *elastictest.Fault
		notes int
	}{
		{"the answer", &elastictest.Fault{Lose: true}, 1},
		{"an item's answer", refuse(503), 1},
		{"nothing", refuse(429), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := standIn(t)
			var mu sync.Mutex
			lose := false
			s.fake.Inject(func(r *http.Request) *elastictest.Fault {
				mu.Lock()
				defer mu.Unlock()
				if !lose || !strings.HasSuffix(r.URL.Path, "/_bulk") {
					return nil
				}
				lose = false
				return c.fault
			})
			l := s.lane(orders(t), hard, nil).open(1, 0, false)
			elastic.PassReach(l.c)
			l.must(l.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "b"), at(2, ins, 3, "c")))
			l.must(l.checkpoint(at(3, del, 1, "a")))
			if n := l.notes(); len(n) != 0 {
				t.Fatalf("noted: %v", n)
			}
			mu.Lock()
			lose = true
			mu.Unlock()
			l.must(l.checkpoint(at(4, upd, 2, "changed"))) // is sent twice
			l.must(l.checkpoint(at(5, del, 2, "changed")))
			if n := l.notes(); len(n) != c.notes {
				t.Fatalf("noted: %v", n)
			}
		})
	}
}

// A client that sends a request again by itself, as that of go-elasticsearch does, hides that an answer was lost.
func TestOwed_ClientRetries(t *testing.T) {
	s := standIn(t)
	var lose atomic.Bool
	s.fake.Inject(func(r *http.Request) *elastictest.Fault {
		if strings.HasSuffix(r.URL.Path, "/_bulk") && lose.CompareAndSwap(true, false) {
			return &elastictest.Fault{Lose: true}
		}
		return nil
	})
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	client, err := elastictransport.New(elastictransport.Config{URLs: []*url.URL{u}})
	if err != nil {
		t.Fatal(err)
	}
	es, err := elastic.New(client, "t-orders", &elastic.Options{Deletes: elastic.Hard, CreateIndex: true, ControlIndex: "t-control"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := es.Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "es", Tables: tablesOf(orders(t))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	l := (&lane{t: t, table: orders(t), c: c, s: s, index: "t-orders", topic: topicA}).open(1, 0, false)
	elastic.PassReach(l.c)
	l.must(l.checkpoint(at(0, ins, 1, "a"), at(1, del, 2, "b")))
	if n := l.notes(); len(n) != 0 {
		t.Fatalf("noted: %v", n)
	}
	lose.Store(true)
	l.must(l.checkpoint(at(2, upd, 1, "b")))
	if lose.Load() {
		t.Fatal("no answer was lost")
	}
	l.must(l.checkpoint(at(3, del, 1, "b")))
	if n := l.notes(); len(n) != 1 {
		t.Fatalf("noted: %v", n)
	}
}

// A lane that goes on pays by itself when the time has come, without a change that would have to come.
func TestOwed_PaidWhenDue(t *testing.T) {
	s := standIn(t)
	net := &payment{begin: make(chan struct{}), paid: make(chan struct{})}
	l := s.lane(orders(t), hard, net).open(1, 0, false)
	elastic.ShortenReach(l.c, 50*time.Millisecond)
	net.held.Store(true)
	l.must(l.write(at(0, ins, 1, "a")))
	l.must(l.checkpoint(at(1, del, 1, "a")))
	s.fake.ForgetDeleted()
	s.must("POST", "/"+l.index+"/_bulk", `{"index":{"_id":"1","version":0,"version_type":"external_gte"}}`+"\n"+`{"id":1,"v":"a"}`+"\n")
	close(net.begin)
	<-net.paid
	l.expect(map[string]string{})
	if n := l.notes(); len(n) != 0 {
		t.Fatalf("still noted: %v", n)
	}
}

// payment is a network in which a lane looks for what it owes only once it may, however soon that is due, and which tells when a note was taken away.
type payment struct {
	held  atomic.Bool
	begin chan struct{} // closed: it may
	paid  chan struct{} // closed then
	once  sync.Once
}

func (p *payment) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.held.Load() && strings.HasSuffix(r.URL.Path, "/_search") {
		select {
		case <-p.begin:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	takes := false
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		takes = bytes.HasPrefix(body, []byte(`{"delete":{"_id":"owed-`))
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if takes && err == nil {
		p.once.Do(func() { close(p.paid) })
	}
	return res, err
}

// A checkpoint whose deletes cannot be noted is not prepared, and what cannot be paid is told.
func TestOwed_Refused(t *testing.T) {
	s := standIn(t)
	status := 0
	s.fake.Inject(func(r *http.Request) *elastictest.Fault {
		if status != 0 && strings.Contains(r.URL.Path, "-control/_") && (strings.HasSuffix(r.URL.Path, "/_search") || elastic.IsNote(r)) {
			return &elastictest.Fault{Status: status, Body: `{"error":{"type":"security_exception"}}`}
		}
		return nil
	})
	l := s.lane(orders(t), hard, nil).open(1, 0, false)
	l.must(l.write(at(0, del, 1, "a")))
	status = 403
	is(t, l.prepare(), sink.ErrConfig, "the server does not write into index t-control")
	is(t, l.c.Open(context.Background(), l.claim(2, 0, true)), sink.ErrConfig, "search index t-control")
	status = 0
	l.open(3, 0, true)
	elastic.FailPayment(l.c)
	status = 403
	is(t, l.checkpoint(at(0, ins, 1, "a")), sink.ErrConfig, "search index t-control")
	status = 0
	l.open(4, 0, true)
	l.must(l.checkpoint(at(0, ins, 1, "a")))
}

// An index that takes nothing for now keeps what it is owed, and holds up no other.
func TestOwed_OneIndexBlocked(t *testing.T) {
	s := standIn(t)
	names := "ab"
	var lanes []*lane
	for i := range names {
		tab := orders(t)
		tab.Name = names[i : i+1]
		l := s.lane(tab, hard, nil).open(sink.GenerationID(i+1), 0, false)
		for n := range 20 {
			l.must(l.checkpoint(at(int64(n), del, n, "x")))
		}
		lanes = append(lanes, l)
	}
	a, b := lanes[0], lanes[1]
	a.age(elastic.Reach + time.Hour)
	s.must("POST", "/"+a.index+"/_close", "")
	var h heard
	b = s.lane(b.table, elastic.Options{Deletes: elastic.Hard, Owing: h.told}, nil).open(3, 0, true)
	is(t, h.last(t, 1), sink.ErrTransient, `send deletes again sink "es" of bridge "b"`)
	is(t, h.last(t, 1), sink.ErrTransient, "index t-a does not take deletes that have to be sent again now, so rows that are deleted may be seen: status 400, index_closed_exception")
	for _, n := range b.notes() {
		if n.index != a.index {
			t.Fatalf("still noted: %v", n)
		}
	}
	if n := len(b.notes()); n != 20 {
		t.Fatalf("%d are noted, expected 20", n)
	}
	s.must("POST", "/"+a.index+"/_open", "")
	b.open(4, 0, true)
	if n := b.notes(); len(n) != 0 {
		t.Fatalf("still noted: %v", n)
	}
	if err := h.last(t, 2); err != nil {
		t.Fatalf("told %v", err)
	}
}

// What the server will never take ends the lane, by name and with the cure, and holds up no other note.
func TestOwed_RefusedForGood(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		names := "ab"
		var lanes []*lane
		for i := range names {
			tab := orders(t)
			tab.Name = names[i : i+1]
			l := s.lane(tab, hard, nil).open(sink.GenerationID(i+1), 0, false)
			l.must(l.checkpoint(at(0, del, 7, "secret")))
			lanes = append(lanes, l)
		}
		a, b := lanes[0], lanes[1]
		a.age(elastic.Reach)
		if s.real {
			// The name of a has become an alias of two indexes, neither of which takes writes.
			s.must("DELETE", "/"+a.index, "")
			s.must("PUT", "/"+s.prefix+"-a1", "")
			s.must("PUT", "/"+s.prefix+"-a2", "")
			s.must("POST", "/_aliases", fmt.Sprintf(`{"actions":[{"add":{"index":"%[1]s-a1","alias":"%[1]s-a"}},{"add":{"index":"%[1]s-a2","alias":"%[1]s-a"}}]}`, s.prefix))
		} else {
			s.fake.Inject(func(r *http.Request) *elastictest.Fault {
				if r.URL.Path != "/t-a/_bulk" {
					return nil
				}
				return &elastictest.Fault{Item: func(int) int { return 400 }}
			})
		}
		var h heard
		b = s.lane(b.table, elastic.Options{Deletes: elastic.Hard, Owing: h.told}, nil)
		err := b.c.Open(t.Context(), b.claim(3, 0, true))
		left := b.notes()
		if len(left) != 1 || left[0].index != a.index {
			t.Fatalf("still noted: %v", left)
		}
		want := fmt.Sprintf("index %s refuses deletes that have to be sent again, so rows that are deleted may be seen: status 400, illegal_argument_exception. Mend the index; or delete document %s of index "+
			"%s-control, which notes them, and then verify and repair", a.index, left[0].id, s.prefix)
		is(t, err, sink.ErrConfig, want)
		is(t, h.last(t, 1), sink.ErrConfig, want)
		s.must("DELETE", "/"+s.prefix+"-control/_doc/"+left[0].id, "")
		b.open(4, 0, true)
		if err := h.last(t, 2); err != nil {
			t.Fatalf("told %v", err)
		}
	})
}

// A note that somebody changed is named, whatever is in it, and the others are paid.
func TestOwed_Unreadable(t *testing.T) {
	for _, deletes := range []string{"x", "{}\n", `{"delete":{"_id":"1","version":`, `{"index":{"_id":"1"}}` + "\n", "\n"} {
		t.Run(deletes, func(t *testing.T) {
			s := standIn(t)
			l := s.lane(orders(t), hard, nil).open(1, 0, false)
			l.must(l.checkpoint(at(0, del, 1, "a"), at(1, del, 2, "b")))
			l.must(l.checkpoint(at(2, del, 3, "c")))
			l.age(elastic.Reach)
			n := l.notes()[0]
			var m map[string]any
			hits, err := s.search("t-control", `{"ids":{"values":["`+n.id+`"]}}`)
			l.must(err)
			l.must(json.Unmarshal(hits[0].Source, &m))
			m["deletes"], m["noted"] = deletes, n.noted
			body, err := json.Marshal(m)
			l.must(err)
			s.must("PUT", "/t-control/_doc/"+n.id, string(body))
			is(t, l.c.Open(t.Context(), l.claim(2, 0, true)), sink.ErrConfig, "document "+n.id+" of index t-control is no note of deletes that can be read: somebody changed it. Delete it, and then verify and repair")
			if left := l.notes(); len(left) != 1 || left[0].id != n.id {
				t.Fatalf("still noted: %v", left)
			}
		})
	}
}

// What cannot be paid is told while no change comes, too, and that it was paid then.
func TestOwed_ToldWhileIdle(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		class  error
		text   string
	}{
		{401, `{"error":{"type":"security_exception","reason":"unable to authenticate"}}`, sink.ErrConfig, "status 401, security_exception: the client's credentials are not accepted"},
		{429, `{"error":{"type":"es_rejected_execution_exception"}}`, sink.ErrTransient, "status 429, es_rejected_execution_exception"},
	} {
		s := standIn(t)
		var refuse atomic.Bool
		prepared := make(chan struct{})
		s.fake.Inject(func(r *http.Request) *elastictest.Fault {
			if refuse.Load() && strings.HasSuffix(r.URL.Path, "/_search") {
				<-prepared // or the checkpoint hears of it that noted them, where it takes longer than until they are due
				return &elastictest.Fault{Status: c.status, Body: c.body}
			}
			return nil
		})
		told := make(chan error, 1)
		l := s.lane(orders(t), elastic.Options{Deletes: elastic.Hard, Owing: func(err error) { told <- err }}, nil).open(1, 0, false)
		elastic.ShortenReach(l.c, 50*time.Millisecond)
		refuse.Store(true)
		l.must(l.write(at(0, ins, 1, "a")))
		err := l.checkpoint(at(1, del, 1, "a"))
		close(prepared)
		l.must(err)
		is(t, <-told, c.class, c.text)
		elastic.FailPayment(l.c) // as it is about to be noted
		// A checkpoint asks again, and fails with it.
		failed := make(chan error, 1)
		go func() { failed <- l.checkpoint(at(2, ins, 2, "b")) }()
		is(t, <-told, c.class, c.text)
		is(t, <-failed, c.class, c.text)
		l.must(l.c.Discard(t.Context()))
		refuse.Store(false)
		go func() { failed <- l.checkpoint(at(2, ins, 2, "b")) }()
		if err := <-told; err != nil {
			t.Fatalf("told %v", err)
		}
		l.must(<-failed)
	}
}

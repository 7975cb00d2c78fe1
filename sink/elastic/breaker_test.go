package elastic_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

// pressed is a network before a server that answers 429 to those bulk requests that refuse says, and notes what is under way.
type pressed struct {
	refuse func(n, items, size int) bool // the nth request
	// The first requests are refused this many at once, twice, when all of them are under way: then every pipe has sent all that it sends before it knows that
	// the breaker is open. 0: each by itself.
	atOnce int

	mu       sync.Mutex
	n        int
	group    chan struct{} // closed when all of those that are refused at once are there
	underWay int
	alone    int   // requests that began while no other was under way, since the last that did not
	items    []int // of each request
}

func (p *pressed) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/_bulk") {
		return http.DefaultTransport.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	items := bytes.Count(body, []byte(`"version_type"`))
	p.mu.Lock()
	p.n++
	p.underWay++
	p.alone++
	if p.underWay > 1 {
		p.alone = 0
	}
	p.items = append(p.items, items)
	refused := p.refuse(p.n, items, len(body))
	if p.n <= 2*p.atOnce {
		if p.n%p.atOnce == 1 {
			p.group = make(chan struct{})
		}
		group := p.group
		if p.n%p.atOnce == 0 {
			p.underWay = 0 // all of them are answered now
			close(group)
		}
		p.mu.Unlock()
		select {
		case <-group:
			return tooMany(r), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.underWay--
	}()
	if refused {
		return tooMany(r), nil
	}
	return http.DefaultTransport.RoundTrip(r)
}

func tooMany(r *http.Request) *http.Response {
	return &http.Response{StatusCode: 429, Header: http.Header{"X-Elastic-Product": {"Elasticsearch"}}, Body: io.NopCloser(strings.NewReader(`{"error":{"type":"es_rejected_execution_exception"}}`)), Request: r}
}

// heard is what Options.Pressed was told, or Options.Owing.
type heard struct {
	mu  sync.Mutex
	all []error
}

func (h *heard) told(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, err)
}

// last returns what was told last, the nth.
func (h *heard) last(t testing.TB, n int) error {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) != n {
		t.Fatalf("told %d times, expected %d: %v", len(h.all), n, h.all)
	}
	return h.all[n-1]
}

func many(n int) (all []changelog.Change) {
	for i := range n {
		all = append(all, at(int64(i), ins, i, "v"))
	}
	return all
}

// A storm of 429: from the fifth refusal on one request is under way, smaller and smaller, and when one is taken all of it goes on.
func TestBreaker_Storm(t *testing.T) {
	s := standIn(t)
	const inFlight, storm = 4, 20
	net := &pressed{refuse: func(n, _, _ int) bool { return n <= storm }, atOnce: inFlight}
	var h heard
	l := s.lane(orders(t), elastic.Options{Deletes: elastic.Tombstone, BulkActions: 100, InFlight: inFlight, Pressed: h.told}, net).open(1, 0, false)
	elastic.ShortenPauses(l.c, time.Millisecond)
	l.must(l.checkpoint(many(3000)...))
	if n := len(l.docs(everything)); n != 3000 {
		t.Fatalf("%d documents", n)
	}
	// Those that were let in before the fifth refusal was seen were under way together.
	for i, n := range net.items[:storm] {
		if i >= 2*inFlight && n > 50 {
			t.Errorf("request %d had %d items", i, n)
		}
	}
	if n := net.items[storm]; n != 1 {
		t.Errorf("the request after the storm had %d items, expected a probe of one", n)
	}
	if len(h.all) != 2 || h.all[1] != nil {
		t.Fatalf("told %v", h.all)
	}
	is(t, h.all[0], sink.ErrTransient, "the server took none of 5 requests in a row; they are sent one at a time, and smaller, until one is taken: status 429, es_rejected_execution_exception")
	// Sizes double until they are full again.
	if last := net.items[len(net.items)-1]; last > 100 {
		t.Errorf("a request had %d items", last)
	}
	net.items = nil
	l.must(l.checkpoint(many(3000)...))
	if net.items[0] != 100 || slices.Max(net.items) != 100 { // a pipe waits for a full one only while it has nothing else to do
		t.Errorf("after the storm requests had %v items", net.items)
	}
}

// While the breaker is open no two requests are under way.
func TestBreaker_OneAtATime(t *testing.T) {
	s := standIn(t)
	const inFlight, storm = 4, 60
	net := &pressed{atOnce: inFlight}
	net.refuse = func(n, _, _ int) bool {
		if n == storm && net.alone < storm-2*inFlight {
			t.Errorf("only the last %d of %d requests were alone", net.alone, storm)
		}
		return n <= storm
	}
	l := s.lane(orders(t), elastic.Options{Deletes: elastic.Tombstone, BulkActions: 100, InFlight: inFlight}, net).open(1, 0, false)
	elastic.ShortenPauses(l.c, time.Microsecond)
	l.must(l.checkpoint(many(2000)...))
}

// A server that bounds the bytes under way refuses a large request for ever, and takes small ones.
func TestBreaker_SmallerIsTaken(t *testing.T) {
	s := standIn(t)
	net := &pressed{refuse: func(_, _, size int) bool { return size > 2000 }}
	l := s.lane(orders(t), elastic.Options{Deletes: elastic.Tombstone, Patience: time.Hour}, net).open(1, 0, false)
	elastic.ShortenPauses(l.c, time.Microsecond)
	l.must(l.checkpoint(many(300)...))
	if n := len(l.docs(everything)); n != 300 {
		t.Fatalf("%d documents", n)
	}
}

// What is given up says so, and the next try begins with a probe.
func TestBreaker_GivenUp(t *testing.T) {
	// On a busy machine patience may be over before the fifth refusal: then there is more of it.
	for patience := 20 * time.Millisecond; !givenUp(t, patience); patience *= 4 {
		if patience > time.Minute {
			t.Fatalf("five requests were not refused in %v", patience)
		}
	}
}

// givenUp reports false when patience was over before the breaker opened.
func givenUp(t *testing.T, patience time.Duration) bool {
	s := standIn(t)
	storm := true
	net := &pressed{refuse: func(int, int, int) bool { return storm }}
	var h heard
	l := s.lane(orders(t), elastic.Options{Deletes: elastic.Tombstone, Patience: patience, BulkActions: 100, Pressed: h.told}, net).open(1, 0, false)
	elastic.ShortenPauses(l.c, time.Millisecond)
	err := l.checkpoint(many(1000)...)
	is(t, err, sink.ErrTransient, fmt.Sprintf("the server could not take documents for index t-orders for %v", patience))
	net.mu.Lock()
	storm, net.items = false, nil
	net.mu.Unlock()
	if !strings.Contains(err.Error(), fmt.Sprintf(" for %v (", patience)) {
		return false
	}
	is(t, err, sink.ErrTransient, " requests in a row, the last ones alone and smaller): ")
	l.open(2, 0, true)
	l.must(l.checkpoint(many(1000)...))
	if n := net.items[0]; n > 50 {
		t.Errorf("the first request had %d items", n)
	}
	if len(h.all) != 2 || h.all[1] != nil {
		t.Fatalf("told %v", h.all)
	}
	return true
}

// A request whose items are all refused for now counts, one of which a single item is taken does not.
func TestBreaker_Items(t *testing.T) {
	for _, c := range []struct {
		name string
		item func(request, n int) int
		told bool
	}{
		{"all 429", func(r, _ int) int {
			if r <= 12 {
				return 429
			}
			return 0
		}, true},
		{"all but one 503", func(r, n int) int {
			if r <= 12 && n != 1 {
				return 503
			}
			return 0
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := standIn(t)
			var h heard
			l := s.lane(orders(t), elastic.Options{Deletes: elastic.Tombstone, InFlight: 1, Pressed: h.told}, nil).open(1, 0, false)
			elastic.ShortenPauses(l.c, time.Millisecond)
			requests := 0
			s.fake.Inject(func(r *http.Request) *elastictest.Fault {
				if !strings.HasSuffix(r.URL.Path, "/_bulk") {
					return nil
				}
				requests++
				now := requests
				return &elastictest.Fault{Item: func(n int) int { return c.item(now, n) }}
			})
			l.must(l.checkpoint(many(100)...))
			if n := len(l.docs(everything)); n != 100 {
				t.Fatalf("%d documents", n)
			}
			if told := len(h.all) > 0; told != c.told {
				t.Fatalf("told %v", h.all)
			}
		})
	}
}

// The end of the lane's context ends the wait for a turn.
func TestBreaker_Cancelled(t *testing.T) {
	s := standIn(t)
	net := &pressed{refuse: func(int, int, int) bool { return true }}
	opened := make(chan struct{})
	l := s.lane(orders(t), elastic.Options{Deletes: elastic.Tombstone, Patience: time.Hour, BulkActions: 60, InFlight: 4, Pressed: func(err error) {
		if err != nil {
			close(opened)
		}
	}}, net).open(1, 0, false)
	elastic.ShortenPauses(l.c, 10*time.Millisecond)
	l.must(l.write(many(300)...)) // what each pipe has, about 75, fits into one request under way: a second one would be waited for
	<-opened
	l.must(l.c.Discard(t.Context()))
}

// P57: only the items that were refused go again, also where they are the first and the last of a request, and none that was taken between them.
func TestPitfall_P57_FirstAndLast(t *testing.T) {
	s := standIn(t)
	l := s.lane(orders(t), elastic.Options{Deletes: elastic.Tombstone, InFlight: 1}, nil).open(1, 0, false)
	elastic.ShortenPauses(l.c, time.Millisecond)
	var sent []string
	s.fake.Inject(func(r *http.Request) *elastictest.Fault {
		if !strings.HasSuffix(r.URL.Path, "/_bulk") {
			return nil
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		sent = append(sent, fmt.Sprint(bytes.Count(body, []byte("version_type"))))
		if len(sent) > 1 {
			return nil
		}
		return &elastictest.Fault{Item: func(n int) int {
			if n == 0 || n == 4 {
				return 429
			}
			return 0
		}}
	})
	l.must(l.checkpoint(many(5)...))
	if got := strings.Join(sent, " "); got != "5 2" {
		t.Fatalf("requests of %s items, expected 5 and then 2", got)
	}
	if n := len(l.docs(everything)); n != 5 {
		t.Fatal(errors.New("documents are missing"))
	}
}

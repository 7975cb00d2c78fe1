//go:build unix

package elastic_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// busyVariable names an Elasticsearch that was started with the settings of TestStorm_RealServer, in place of one of the test's own.
const busyVariable = "FLINKSINK_ELASTIC_BUSY"

// counted is a network that counts what a server refuses for now: whole requests and items.
type counted struct{ whole, items, requests atomic.Int64 }

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/_bulk") {
		return res, err
	}
	c.requests.Add(1)
	if res.StatusCode == 429 {
		c.whole.Add(1)
		return res, nil
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	c.items.Add(int64(bytes.Count(body, []byte(`"status":429`))))
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// A real server whose write queue holds one request, and which bounds the bytes under way below what the lanes have together: it refuses most requests, whole and in part.
// Lanes with several requests in flight each write the same documents over and over, and each document ends as its last change says.
func TestStorm_RealServer(t *testing.T) {
	s := &server{t: t, url: strings.TrimSuffix(os.Getenv(busyVariable), "/"), real: true, prefix: "storm-" + strconv.Itoa(os.Getpid())}
	if s.url == "" {
		s.url = newNode(t, "thread_pool.write.queue_size=1", "thread_pool.write.size=1", "indexing_pressure.memory.limit=300kb").url
	}
	const lanes, rounds, keys = 3, 3, 200
	var net counted
	var told atomic.Int64
	var wg sync.WaitGroup
	for n := range lanes {
		tab := orders(t)
		tab.Name = "orders-" + strconv.Itoa(n)
		es, err := elastic.New(s.client(nil), s.prefix+"-"+tab.Name, &tombstones)
		if err != nil {
			t.Fatal(err)
		}
		mapping, err := es.Mapping(tab)
		if err != nil {
			t.Fatal(err)
		}
		s.must("PUT", "/"+s.prefix+"-"+tab.Name, strings.Replace(mapping, "{", `{"settings":{"number_of_shards":6,"number_of_replicas":0},`, 1))
		l := s.lane(tab, elastic.Options{Deletes: elastic.Tombstone, BulkActions: 120, InFlight: 4, Patience: 10 * 60e9, Pressed: func(err error) {
			if err != nil {
				told.Add(1)
			}
		}}, &net).open(sink.GenerationID(n+1), 0, false)
		wg.Go(func() {
			pad := strings.Repeat("x", 200)
			for r := range rounds {
				var changes []changelog.Change
				for k := range keys {
					kind := upd
					if r == rounds-1 && k%5 == 0 {
						kind = del
					}
					changes = append(changes, at(int64(r*keys+k), kind, k, fmt.Sprintf("%d-%d %s", r, k, pad)))
				}
				if err := l.checkpoint(changes...); err != nil {
					t.Errorf("lane %d, round %d: %v", n, r, err)
					return
				}
			}
			docs := l.docs(everything)
			if len(docs) != keys {
				t.Errorf("lane %d: %d documents", n, len(docs))
			}
			for k := range keys {
				want := fmt.Sprintf(`{"id":%d,"v":"%d-%d %s"}`, k, rounds-1, k, pad)
				if k%5 == 0 {
					want = `{"flinksink_deleted":"T"}`
				}
				if got := docs[strconv.Itoa(k)]; got != want {
					t.Errorf("lane %d: document %d is %s", n, k, got)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d requests; %d were refused whole, and %d items of others; Options.Pressed was told %d times", net.requests.Load(), net.whole.Load(), net.items.Load(), told.Load())
	if net.whole.Load() == 0 || net.items.Load() == 0 {
		t.Error("the server was not busy enough to refuse requests both whole and in part")
	}
}

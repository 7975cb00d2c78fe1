package elastic_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	flinkjson "github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/sinktest"
)

type urlURL = url.URL

// wire is the network between one process and the server. After cut nothing passes.
type wire struct {
	http.RoundTripper
	mu     sync.Mutex
	broken bool
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	broken := w.broken
	w.mu.Unlock()
	if broken {
		return nil, fmt.Errorf("the process is dead")
	}
	return w.RoundTripper.RoundTrip(r)
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = true
}

// harness describes the sink to the suite, with a store in memory.
func harness(s *server, deletes elastic.Deletes) sinktest.Harness {
	var store *sinktest.Server
	query := everything
	if deletes == elastic.Tombstone {
		query = alive
	}
	return sinktest.Harness{
		Convergent: true,
		WholeRows:  true,
		Timeout:    5 * time.Minute,
		Reset: func(context.Context, *changelog.Table) error {
			store = sinktest.NewServer()
			for _, n := range []string{"data", "letters", "control"} {
				s.call("DELETE", "/"+s.prefix+"-"+n, "")
			}
			return nil
		},
		Connect: func(context.Context, *changelog.Table) (sinktest.Client, error) {
			transport := http.DefaultTransport.(*http.Transport).Clone()
			w := &wire{RoundTripper: transport}
			es, err := elastic.New(s.client(w), s.prefix+"-data", &elastic.Options{Deletes: deletes, CreateIndex: true, DeadLetters: s.prefix + "-letters", ControlIndex: s.prefix + "-control"})
			return sinktest.Client{Sink: es, Store: sinktest.NewStore(store), Release: func() { w.cut(); transport.CloseIdleConnections() }}, err
		},
		Rows: func(context.Context, *changelog.Table) ([]sinktest.Row, error) {
			hits, err := s.search(s.prefix+"-data", query)
			if err != nil {
				return nil, err
			}
			rows := make([]sinktest.Row, len(hits))
			for i, h := range hits {
				if err := json.Unmarshal(h.Source, &rows[i]); err != nil {
					return nil, err
				}
			}
			return rows, nil
		},
		Values: func(_ context.Context, t *changelog.Table) ([]changelog.Row, error) {
			hits, err := s.search(s.prefix+"-data", query)
			if err != nil {
				return nil, err
			}
			return values(t, hits)
		},
		Letters: func(context.Context) ([]sink.DeadLetter, error) { return letters(s) },
	}
}

// values reads documents with another package's reader, but for TIME, of which that reads whole seconds only, as Flink does.
func values(t *changelog.Table, hits []hit) ([]changelog.Row, error) {
	texts := *t
	texts.Schema = &changelog.Schema{Key: t.Schema.Key, Columns: slices.Clone(t.Schema.Columns)}
	times := make(map[int]bool)
	for i := range texts.Schema.Columns {
		if texts.Schema.Columns[i].Type.Root == changelog.RootTime {
			texts.Schema.Columns[i].Type, times[i] = changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength}, true
		}
	}
	t = &texts
	p := changelog.Payload{Table: t, Options: map[string]string{"timestamp-format.standard": "ISO-8601"}}
	for i, c := range t.Schema.Columns {
		p.Columns, p.Names = append(p.Columns, i), append(p.Names, c.Name)
	}
	d, err := flinkjson.Format{}.NewDecoder(p)
	if err != nil {
		return nil, err
	}
	b := changelog.NewBatch(t)
	var rows []changelog.Row
	for _, h := range hits {
		if err := d.DecodePayload(b, h.Source, &changelog.Record{}); err != nil {
			return nil, fmt.Errorf("document %s: %w", h.ID, err)
		}
	}
	for _, c := range b.Changes {
		for i := range times {
			if text := c.Row[i]; !text.IsNull() {
				at, err := time.Parse("15:04:05.999999999", text.Str())
				if err != nil {
					return nil, err
				}
				c.Row[i] = changelog.TimeValue(int64(at.Sub(at.Truncate(24 * time.Hour))))
			}
		}
		rows = append(rows, c.Row)
	}
	return rows, nil
}

// letters reads the index of dead letters.
func letters(s *server) ([]sink.DeadLetter, error) {
	hits, err := s.search(s.prefix+"-letters", everything)
	if err != nil {
		return nil, err
	}
	var all []sink.DeadLetter
	for _, h := range hits {
		var l struct {
			sink.DeadLetter
			Topic     string
			Partition int32
			Key       *string
			Value     *string
			Headers   []struct {
				Key   string
				Value *string
			}
		}
		if err := json.Unmarshal(h.Source, &l); err != nil {
			return nil, err
		}
		d := l.DeadLetter
		d.Partition = changelog.Partition{Topic: l.Topic, Partition: l.Partition}
		d.Key, d.Value = unbase64(l.Key), unbase64(l.Value)
		d.Headers = nil
		for _, x := range l.Headers {
			d.Headers = append(d.Headers, changelog.Header{Key: string(unbase64(&x.Key)), Value: unbase64(x.Value)})
		}
		all = append(all, d)
	}
	return all, nil
}

func unbase64(s *string) []byte {
	if s == nil {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(*s)
	if err != nil {
		panic(err)
	}
	return b
}

func TestLaws_Tombstone(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) { sinktest.Run(t, harness(s, elastic.Tombstone)) })
}

func TestLaws_Hard(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		if s.real && os.Getenv("FLINKSINK_LONG") == "" {
			t.Skip("FLINKSINK_LONG is not set: the laws are run on the stand-in, and on the real server with Tombstone")
		}
		sinktest.Run(t, harness(s, elastic.Hard))
	})
}

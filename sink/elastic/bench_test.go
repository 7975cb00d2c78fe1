package elastic_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// free is a server that costs nothing: it answers every bulk with as many successes as it has items.
type free struct{ answers map[int]string }

func (f free) Perform(r *http.Request) (*http.Response, error) {
	body := `{"t":{"aliases":{},"mappings":{"_meta":{"flinksink:b:es":true}},"settings":{"index":{"uuid":"u"}}}}`
	if strings.HasSuffix(r.URL.Path, "/_bulk") {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		n := strings.Count(string(b), "\n") / 2
		body = f.answers[n]
		if body == "" {
			body = `{"items":[` + strings.TrimSuffix(strings.Repeat(`{"index":{"status":200}},`, n), ",") + `]}`
			f.answers[n] = body
		}
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"X-Elastic-Product": {"Elasticsearch"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// BenchmarkWrite makes bulk requests of documents of about 200 bytes, on one core.
func BenchmarkWrite(b *testing.B) {
	t := table(b, "t", mode(b, "[I,UA,D]"), 1, "id BIGINT NOT NULL", "customer STRING", "country STRING", "status STRING", "net BIGINT", "vat DOUBLE", "at TIMESTAMP(3)", "note STRING")
	es, err := elastic.New(free{make(map[int]string)}, "t", &elastic.Options{Deletes: elastic.Tombstone, InFlight: 1})
	if err != nil {
		b.Fatal(err)
	}
	c, err := es.Lane(context.Background(), sink.Lane{Bridge: "b", Sink: "es", Tables: []*changelog.Table{t}})
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Open(context.Background(), sink.Claim{Generation: sink.Generation{Bridge: "b", ID: 1}}); err != nil {
		b.Fatal(err)
	}
	batch := changelog.NewBatch(t)
	for i := range 5000 {
		batch.Append(at(int64(i), ins, i, "customer name", "Germany", "SHIPPED", 123456, 19.5, changelog.TimestampValue(1709210096, 5e6), "some longer text that a row may have in it"))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += batch.Len() {
		if err := c.Write(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Prepare(context.Background(), sink.Cut{}); err != nil {
			b.Fatal(err)
		}
	}
}

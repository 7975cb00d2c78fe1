package bridge

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
	"github.com/twmb/franz-go/pkg/kgo"
)

// keyedInput reads the topic as a table of a key and a text.
func keyedInput(t *testing.T, k *cluster) Input {
	t.Helper()
	tab, err := ddl.Find(`CREATE TABLE kv (k BIGINT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = '`+k.topic+`',
		'properties.bootstrap.servers' = '`+k.addr+`', 'key.format' = 'json', 'value.format' = 'json')`, "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := format.New(tab, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	in, err := FromTable(tab, d)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// Of an index the positions are in another system, and documents are visible before they are saved: a bridge that runs gives no false difference, what was
// planted is found and mended beside it, and at the end nothing differs.
func TestVerify_Elastic(t *testing.T) {
	es := elastictest.NewServer()
	defer es.Close()
	u, err := url.Parse(es.URL)
	if err != nil {
		t.Fatal(err)
	}
	client, err := elastictransport.New(elastictransport.Config{URLs: []*url.URL{u}})
	if err != nil {
		t.Fatal(err)
	}
	to, err := elastic.New(client, "kv", &elastic.Options{Deletes: elastic.Tombstone, CreateIndex: true})
	if err != nil {
		t.Fatal(err)
	}
	k := newCluster(t, 3)
	in := keyedInput(t, k)
	put := func(id int, value string) {
		t.Helper()
		r := k.record(int32(id%3), fmt.Sprintf(`{"k":%d,"v":%q}`, id, value))
		if r.Key = fmt.Appendf(nil, `{"k":%d}`, id); value == "" {
			r.Value = nil
		}
		if err := k.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Error(err)
		}
	}
	for id := range 300 {
		put(id, "first")
	}
	for id := range 100 {
		put(id, []string{"", "second"}[id%2])
	}
	o := options(newTarget())
	o.UntilEnd = true
	b, err := New("test", in, to, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	verify := func(run func(context.Context, string, Input, sink.Verifiable, *Options, *VerifyOptions) (VerifyReport, error), v *VerifyOptions) VerifyReport {
		t.Helper()
		r, err := run(t.Context(), "test", in, to, o, v)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := verify(Verify, nil); !r.Clean() || r.Exact || r.Keys != 250 || r.NoExtra != "" {
		t.Fatalf("of an intact index: %+v", r)
	}
	call := func(method, id, body string) {
		t.Helper()
		req, err := http.NewRequest(method, es.URL+"/kv/_doc/"+id, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if answer, _ := io.ReadAll(res.Body); res.StatusCode >= 300 {
			t.Fatalf("%s %s: %d %s", method, id, res.StatusCode, answer)
		}
	}
	o.UntilEnd = false
	if b, err = New("test", in, to, o); err != nil {
		t.Fatal(err)
	}
	running := start(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			put(100+n%50, []string{"", "a", "b"}[n%3])
			time.Sleep(time.Millisecond) // of a topic that grows as fast as it can every look would take longer than the one before
		}
	}()
	for range 10 {
		if r := verify(Verify, nil); !r.Clean() {
			t.Errorf("beside a bridge: %+v", r)
		}
	}
	call("DELETE", "200", "")
	call("PUT", "201", `{"k":201,"v":"by hand"}`)
	call("PUT", "1000", `{"k":1000,"v":"extra"}`)
	var keys []string
	small := &VerifyOptions{Memory: 1 << 20, Keys: true, Found: func(d sink.Difference) { keys = append(keys, d.Kind.String()+" "+d.Key) }}
	if r := verify(Verify, small); r.Missing != 1 || r.Stale != 1 || r.Extra != 1 || fmt.Sprint(keys) != "[missing (200) stale (201) extra 1000]" && fmt.Sprint(keys) != "[stale (201) missing (200) extra 1000]" {
		t.Errorf("planted: %+v, %q", r, keys)
	}
	if r := verify(Repair, nil); r.Mended != (sink.Mended{Written: 2, Deleted: 1}) {
		t.Errorf("mended beside a bridge: %+v", r)
	}
	cancel()
	<-done
	running.stop()
	if err := running.wait(); err != nil {
		t.Fatal(err)
	}
	if r := verify(Verify, nil); !r.Clean() {
		t.Errorf("at the end: %+v", r)
	}
	noStore := *o
	noStore.Store = nil
	if _, err := Verify(t.Context(), "test", in, to, &noStore, nil); sink.ClassOf(err) != sink.ErrConfig || !strings.Contains(err.Error(), "Options.Store") {
		t.Errorf("without a store: %v", err)
	}
}

// A Java broker's compressed batches, aborted transactions and the markers at the ends of partitions are read as a consumer reads them.
func TestVerify_JavaBroker(t *testing.T) {
	k, _ := java(t, 2)
	es := elastictest.NewServer()
	defer es.Close()
	u, err := url.Parse(es.URL)
	if err != nil {
		t.Fatal(err)
	}
	client, err := elastictransport.New(elastictransport.Config{URLs: []*url.URL{u}})
	if err != nil {
		t.Fatal(err)
	}
	to, err := elastic.New(client, "kv", &elastic.Options{Deletes: elastic.Tombstone, CreateIndex: true})
	if err != nil {
		t.Fatal(err)
	}
	in := keyedInput(t, k)
	for round, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		cl := k.client(kgo.TransactionalID(k.topic+"-verify"), kgo.ProducerBatchCompression(kgo.GzipCompression()))
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for id := range 500 {
			r := k.record(int32(id%2), fmt.Sprintf(`{"k":%d,"v":"round %d"}`, id+100*round, round))
			r.Key = fmt.Appendf(nil, `{"k":%d}`, id+100*round)
			cl.Produce(t.Context(), r, nil)
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		cl.Close()
	}
	o := options(newTarget())
	o.UntilEnd = true
	b, err := New(k.topic, in, to, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(t.Context(), k.topic, in, to, o, nil); err != nil || !r.Clean() || r.Keys != 700 {
		t.Errorf("%+v, %v", r, err)
	}
}

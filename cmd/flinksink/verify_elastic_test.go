package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/internal/capture"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// An index whose bridge is a Go program, with its positions in Postgres, is compared and mended from a shell.
func TestVerify_Index(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	es := elastictest.NewServer()
	defer es.Close()
	if err := capture.Load(t.Context(), []string{broker}, "keyed", 1, nil); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic("keyed"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for id := range 10 {
		r := &kgo.Record{Key: fmt.Appendf(nil, `{"id":%d}`, id), Value: fmt.Appendf(nil, `{"id":%d,"name":"n"}`, id)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c := &call{patience: patience}
	if _, err := c.openIndex(es.URL+"/keyed", &indexFlags{deletes: "never"}); !isConfig(err) {
		t.Errorf("an unknown --index-deletes: %v", err)
	}
	to, err := c.openIndex(es.URL+"/keyed", &indexFlags{deletes: "tombstone"})
	if err != nil {
		t.Fatal(err)
	}
	body := strings.NewReader(`{"mappings":{"properties":{"id":{"type":"long"},"name":{"type":"keyword"}}}}`)
	req, err := http.NewRequest("PUT", es.URL+"/keyed", body)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(req); err != nil || res.StatusCode != 200 {
		t.Fatal(err)
	}
	tab, err := ddl.Find(strings.Replace(keyedDDL, "= 'x'", "= '"+broker+"'", 1), "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := decoder(tab, &tableFlags{})
	if err != nil {
		t.Fatal(err)
	}
	in, err := bridge.FromTable(tab, d)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), s.to)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store, err := newStore(pool, s.schema)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bridge.New("keyed", in, to, &bridge.Options{UntilEnd: true, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := write(t, "ddl.sql", keyedDDL)
	with := func(name string, more ...string) result {
		t.Helper()
		return command(t, append([]string{name, "--bridge", "keyed", "--ddl", file, "--brokers", broker, "--to", es.URL + "/keyed", "--store", s.to, "--store-schema", s.schema}, more...)...)
	}
	if got := with("verify"); got.status != exitDone || !strings.HasPrefix(got.out, "bridge \"keyed\": topic keyed against elastic keyed, below keyed/0@10\nrows compared: 10, in ") {
		t.Errorf("of an intact index: %+v", got)
	}
	if req, err = http.NewRequest("DELETE", es.URL+"/keyed/_doc/3", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := http.DefaultClient.Do(req); err != nil {
		t.Fatal(err)
	}
	if got := with("verify", "--show-keys"); got.status != exitFailed || !strings.HasPrefix(got.out, "missing (3) keyed/0@3\n") {
		t.Errorf("of a document that is missing: %+v", got)
	}
	if got := with("repair", "--yes"); got.status != exitDone || !strings.Contains(got.out, "mended: 1 rows written") {
		t.Errorf("a repair: %+v", got)
	}
	if got := with("verify"); got.status != exitDone {
		t.Errorf("after the repair: %+v", got)
	}
	got := command(t, "verify", "--bridge", "keyed", "--ddl", file, "--brokers", broker, "--to", es.URL+"/keyed")
	if got.status != exitConfig || !strings.Contains(got.errs, "--store is missing") {
		t.Errorf("without --store: %+v", got)
	}
	got = with("verify", "--to", strings.Replace(es.URL, "http://", "http://me:geheim42@", 1)+"/keyed/x")
	if got.status != exitConfig || strings.Contains(got.errs, "geheim42") {
		t.Errorf("a wrong address with a password: %+v", got)
	}
}

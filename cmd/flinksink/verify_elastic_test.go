package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// An index is filled, compared and mended from a shell, with its positions in Postgres.
func TestVerify_Index(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	es := elastictest.NewServer()
	defer es.Close()
	keyed(t, broker, 10)
	file := write(t, "ddl.sql", keyedDDL)
	with := func(name string, more ...string) result {
		t.Helper()
		return command(t, append([]string{name, "--bridge", "keyed", "--ddl", file, "--brokers", broker, "--to", es.URL + "/keyed", "--store", s.to, "--store-schema", s.schema}, more...)...)
	}
	if got := with("run", "--until-end", "--create-table", "--index-deletes", "tombstone"); got.status != exitDone {
		t.Fatalf("run: %+v", got)
	}
	if got := with("verify"); got.status != exitDone || !strings.HasPrefix(got.out, "bridge \"keyed\": topic keyed against index keyed, below keyed/0@10\nrows compared: 10, in ") {
		t.Errorf("of an intact index: %+v", got)
	}
	forget, err := http.NewRequest("DELETE", es.URL+"/keyed/_doc/3", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := http.DefaultClient.Do(forget); err != nil {
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
}

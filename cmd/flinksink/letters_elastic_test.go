package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/sink/elastic/elastictest"
)

// Letters that are kept in Elasticsearch are shown as those of any other place.
func TestLetters_Index(t *testing.T) {
	broker := newBroker(t)
	es := elastictest.NewServer()
	t.Cleanup(es.Close)
	keyed(t, broker, 2)
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic("keyed"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const bad = `{"id":"SECRET"}`
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Key: []byte(`{"id":7}`), Value: []byte(bad)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	letters := func(more ...string) result {
		return command(t, append([]string{"letters", "--store", es.URL}, more...)...)
	}
	if got := letters(); got.status != exitDone || got.out != "no dead letters\n" {
		t.Fatalf("before anything is stored: %+v", got)
	}
	got := command(t, "run", "--bridge", "b", "--ddl", write(t, "ddl.sql", keyedDDL), "--brokers", broker, "--to", es.URL+"/keyed", "--index-deletes", "tombstone", "--create-table",
		"--store", "file:"+filepath.Join(t.TempDir(), "s"), "--until-end", "--on-data", "dead-letter")
	if got.status != exitDone {
		t.Fatalf("%+v", got)
	}
	for _, more := range [][]string{nil, {"--bridge", "b"}} {
		if got := letters(more...); got.status != exitDone || !strings.Contains(got.out, `bridge "b"  keyed:0:2`) || !strings.Contains(got.out, `column "id"  data: `) || strings.Contains(got.out, "SECRET") {
			t.Errorf("%v: %+v", more, got)
		}
	}
	var printed struct {
		Letters []struct {
			Bridge     string
			Offset     int64
			Checkpoint int64
			Value      []byte
		}
	}
	if err := json.Unmarshal([]byte(letters("--json").out), &printed); err != nil || len(printed.Letters) != 1 || string(printed.Letters[0].Value) != bad || printed.Letters[0].Bridge != "b" || printed.Letters[0].Checkpoint == 0 {
		t.Errorf("%v: %+v", err, printed)
	}
	if got := letters("--bridge", "another"); got.out != "no dead letters\n" {
		t.Errorf("of another bridge: %+v", got)
	}
	if got := command(t, "letters", "--store", es.URL+"/keyed"); got.status != exitConfig || !strings.Contains(got.errs, "no dead letter") || strings.Contains(got.errs, "Options.") {
		t.Errorf("of an index of rows: %+v", got)
	}
}

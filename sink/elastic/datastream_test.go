package elastic_test

import (
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// P56: a data stream takes inserts with op_type create, and a conflict on an id of our own means that it was done before. The server makes the stream's
// indexes, and begins new ones.
func TestPitfall_P56_DataStream(t *testing.T) {
	s := realServer(t)
	name := s.prefix + "-logs"
	if status, _ := s.call("PUT", "/_index_template/"+name, `{"index_patterns":["`+name+`"],"data_stream":{},"template":{"mappings":{"properties":{"id":{"type":"long"},"flinksink":{"type":"object","enabled":false}}}}}`); status >= 300 {
		t.Skip("this server has no data streams")
	}
	t.Cleanup(func() { s.call("DELETE", "/_index_template/"+name, "") }) // a call that deletes the stream is not in each build
	logs := table(t, "logs", changelog.Append, 0, "id BIGINT", "at TIMESTAMP_LTZ(3)")
	o := elastic.Options{DataStream: true, Columns: map[string]string{"at": "@timestamp"}}
	l := s.lane(logs, o, nil)
	is(t, l.c.Open(t.Context(), l.claim(1, 0, false)), sink.ErrConfig, "there is no data stream")
	// This build has no call to make one either: the first document does.
	s.must("POST", "/"+name+"/_bulk", `{"create":{"_id":"first"}}`+"\n"+`{"@timestamp":"2024-01-01T00:00:00Z","id":0}`+"\n")
	l.open(2, 0, false)
	now := changelog.TimestampLTZValue(time.Now().Unix(), 0)
	all := []changelog.Change{at(0, ins, 1, now), at(1, ins, 1, now), at(2, ins, 2, now)}
	l.must(l.checkpoint(all...))
	l.open(3, 0, true)
	l.must(l.checkpoint(all...))
	if n := l.c.(sink.Superseder).Superseded(); n != 3 {
		t.Fatalf("superseded: %d", n)
	}
	if docs := l.docs(everything); len(docs) != 4 || !strings.Contains(docs["~orders/0/2/0"], `"id":2`) {
		t.Fatal(docs)
	}
	// Without the mode an index is expected, and the other way round.
	plain := s.lane(logs, elastic.Options{Columns: o.Columns}, nil)
	is(t, plain.c.Open(t.Context(), plain.claim(4, 0, false)), sink.ErrConfig, "Options.DataStream is false, but the server says otherwise")
	// A new index of the stream is no loss.
	if status, body := s.call("POST", "/"+name+"/_rollover", ""); status >= 300 {
		t.Logf("no rollover here: %d %s", status, body)
	}
	l.must(l.checkpoint(at(3, ins, 3, now)))
	// A row without a time is named.
	refusedAt(t, l.checkpoint(at(4, ins, 4, changelog.Value{})), 4)
}

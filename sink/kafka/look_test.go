package kafka_test

import (
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
)

// Check says what Open would say, and changes nothing.
func TestCheck(t *testing.T) {
	e := newFake(t)
	topic, err := e.topic(t.Context(), "looked-at", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(topic string, o *kafka.Options) error {
		t.Helper()
		into, err := ddl.Find(`CREATE TABLE t (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '`+topic+`', 'properties.bootstrap.servers' = 'x', 'format' = 'json')`, "")
		if err != nil {
			t.Fatal(err)
		}
		s, err := kafka.TwoPhase(e.client(), into, []changelog.Format{json.Format{}}, o)
		if err != nil {
			t.Fatal(err)
		}
		kafka.ShortenNews(s, 50*time.Millisecond)
		big, err := changelog.ParseType("BIGINT")
		if err != nil {
			t.Fatal(err)
		}
		table := &changelog.Table{Name: "t", Mode: changelog.Append, Schema: &changelog.Schema{Columns: []changelog.Column{{Name: "id", Type: big}}}}
		return s.Check(t.Context(), sink.Lane{Bridge: "b", Sink: "s", Tables: []*changelog.Table{table}})
	}
	if err := check(topic, nil); err != nil {
		t.Errorf("of what is there: %v", err)
	}
	if err := check(topic+"-absent", nil); err == nil || !strings.Contains(err.Error(), topic+"-absent") {
		t.Errorf("of a topic that is missing: %v", err)
	}
	if err := check(topic, &kafka.Options{TransactionTimeout: 20 * 24 * time.Hour}); sink.ClassOf(err) != sink.ErrConfig || !strings.Contains(err.Error(), "transaction.max.timeout.ms") {
		t.Errorf("of a timeout that is too long: %v", err)
	}
	if err := check(topic, &kafka.Options{DeadLetterTopic: topic + "-letters"}); err == nil || !strings.Contains(err.Error(), "DeadLetterTopic") {
		t.Errorf("of a topic of letters that is missing: %v", err)
	}
}

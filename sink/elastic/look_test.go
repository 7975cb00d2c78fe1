package elastic_test

import (
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// Check says what Open would say, and makes nothing.
func TestCheck(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		l := s.lane(orders(t), tombstones, nil)
		lane := sink.Lane{Bridge: "b", Sink: "s", Tables: laneOf(t).Tables}
		check := func(index string, create bool) ([]string, error) {
			o := tombstones
			o.CreateIndex = create
			es, err := elastic.New(s.client(nil), index, &o)
			if err != nil {
				t.Fatal(err)
			}
			return es.Check(t.Context(), lane)
		}
		absent := l.index + "-absent"
		if _, err := check(absent, false); sink.ClassOf(err) != sink.ErrConfig || !strings.Contains(err.Error(), "PUT /"+absent) {
			t.Errorf("of an index that is missing: %v", err)
		}
		if found, err := check(absent, true); err != nil || !strings.Contains(strings.Join(found, ""), "is made at the start") {
			t.Errorf("of an index that Open makes: %q, %v", found, err)
		}
		if status, _ := s.call("GET", "/"+absent, ""); status != 404 {
			t.Errorf("it made the index: status %d", status)
		}
		if found, err := check(absent+"-{id}", false); err != nil || !strings.Contains(strings.Join(found, ""), "no index like") {
			t.Errorf("of indexes that rows name: %q, %v", found, err)
		}
		l.open(1, 0, false)
		if found, err := check(l.index, false); err != nil || !strings.Contains(strings.Join(found, ""), l.index+" takes table") {
			t.Errorf("of an index that fits: %q, %v", found, err)
		}
		s.must("POST", "/"+l.index+"/_close", "")
		if _, err := check(l.index, false); sink.ClassOf(err) != sink.ErrTransient || !strings.Contains(err.Error(), "/_open") {
			t.Errorf("of an index that is closed: %v", err)
		}
		is(t, l.c.Open(t.Context(), l.claim(2, 0, true)), sink.ErrTransient, "POST /"+l.index+"/_open")
		s.must("POST", "/"+l.index+"/_open", "")
		other := l.index + "-other"
		s.must("PUT", "/"+other, `{"mappings":{"properties":{"id":{"type":"boolean"}}}}`)
		t.Cleanup(func() { s.call("DELETE", "/"+other, "") })
		if _, err := check(other, true); sink.ClassOf(err) != sink.ErrConfig || !strings.Contains(err.Error(), `"id"`) {
			t.Errorf("of an index that does not fit: %v", err)
		}
	})
}

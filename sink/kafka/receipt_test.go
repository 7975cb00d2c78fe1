package kafka

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// A receipt of each version that was ever written stays readable; the file is what a release wrote and is not made anew.
func TestReceipt(t *testing.T) {
	want := receipt{producer: producer{"flinksink.orders.0123456789ab.17", 4711, 3}, version: 2, timeout: 15 * time.Minute,
		at:    time.Date(2026, 3, 1, 12, 0, 0, 5e6, time.UTC),
		wrote: []wrote{{place{"a", 0}, [16]byte{1, 2}, 41}, {place{"a", 2}, [16]byte{1, 2}, 7}, {place{"b", 1}, [16]byte{3}, 0}}}
	golden := filepath.Join("testdata", "receipt_v1.json")
	data, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("FLINKSINK_UPDATE") != "" {
		if err := os.WriteFile(golden, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(stored)) != string(data) {
		t.Errorf("encoded differently than it was:\n%s\n%s", data, stored)
	}
	got, err := parseReceipt(sink.Committable{Version: 1, Data: stored})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, expected %+v", got, want)
	}
}

func TestReceipt_Damaged(t *testing.T) {
	for _, c := range []struct {
		version int
		data    string
		class   error
	}{
		{2, `{}`, sink.ErrConfig}, {1, ``, sink.ErrLost}, {1, `{}`, sink.ErrLost}, {1, `{"transactional_id":"x","producer_id":1,"topics":[]}`, sink.ErrLost},
		{1, `{"transactional_id":"x","producer_id":1,"topics":[{"topic":"t","id":"AA==","last":[[0,1]]}]}`, sink.ErrLost},
		{1, `{"transactional_id":"x","producer_id":-1,"topics":[{"topic":"t","id":"AAAAAAAAAAAAAAAAAAAAAA==","last":[[0,1]]}]}`, sink.ErrLost},
	} {
		_, err := parseReceipt(sink.Committable{Version: c.version, Data: []byte(c.data)})
		if !errors.Is(sink.ClassOf(err), c.class) || err == nil {
			t.Errorf("%q in version %d: %v, expected %v", c.data, c.version, err, c.class)
		}
	}
}

func FuzzParseReceipt(f *testing.F) {
	f.Add([]byte(`{"transactional_id":"x","producer_id":1,"topics":[{"topic":"t","id":"AAAAAAAAAAAAAAAAAAAAAA==","last":[[0,1]]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseReceipt(sink.Committable{Version: 1, Data: b})
		if err == nil && (r.id == "" || len(r.wrote) == 0) {
			t.Errorf("a receipt of nothing: %+v", r)
		}
	})
}

// P78: a name of any length gives an id of a bounded one, always the same, and never that of another bridge, sink or generation.
func TestName(t *testing.T) {
	long := strings.Repeat("n", 40_000)
	seen := map[string]string{}
	for _, c := range []struct {
		bridge, sink string
		g            sink.GenerationID
	}{{"a", "b", 1}, {"a", "b", 11}, {"a", "b1", 1}, {"ab", "", 1}, {"a", "", 1}, {"a.b", "", 1}, {"a_b", "", 1}, {"", "ab", 1}, {long, "", 1}, {long + "x", "", 1}, {long, "x", 1}, {"ä", "ö", 1}, {"日本", "", 1}} {
		id := nameOf("p", c.bridge, c.sink, c.g)
		if len(id) > 200 {
			t.Errorf("an id of %d bytes", len(id))
		}
		if id != nameOf("p", c.bridge, c.sink, c.g) {
			t.Errorf("two ids for one name")
		}
		if other, ok := seen[id]; ok {
			t.Errorf("%.20q/%q/%d has the id of %s", c.bridge, c.sink, c.g, other)
		}
		seen[id] = c.bridge
	}
}

// The ids of a release are those of the next: a successor fences by them.
func TestName_Golden(t *testing.T) {
	for want, got := range map[string]string{
		"flinksink.orders.f425492d679a54d9ac1e23f8.17": nameOf("flinksink", "orders", "copy", 17),
		"flinksink.orders.8bb02ba0f4cf6eda54fd2543.0":  nameOf("flinksink", "orders", "", 0),
	} {
		if got != want {
			t.Errorf("the id is %q, it was %q", got, want)
		}
	}
}

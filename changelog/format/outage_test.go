package format_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/avroconfluent"
	"github.com/flinksink/flinksink/changelog/format/internal/registry/registrytest"
)

const registryTable = `CREATE TABLE t (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092',
	'key.format' = 'avro-confluent', 'key.avro-confluent.url' = 'http://registry', 'value.format' = 'avro-confluent', 'value.avro-confluent.url' = 'http://registry')`

// An outage of the registry is told as one, with the record's coordinates, by a decoder and an encoder; afterwards the schemas are under the topic.
func TestRegistry_Outage(t *testing.T) {
	tab, err := ddl.Find(registryTable, "t")
	if err != nil {
		t.Fatal(err)
	}
	g := &registrytest.Registry{}
	down := func(w http.ResponseWriter, _ *http.Request) bool {
		registrytest.Answer(w, http.StatusServiceUnavailable, 50003, "forwarding failed")
		return true
	}
	formats := []changelog.Format{avroconfluent.Format{HTTP: g.Client()}}
	d, err := format.New(tab, formats, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := format.NewEncoder(tab, formats, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := changelog.Partition{Topic: "orders", Partition: 3}
	change := changelog.Change{Partition: at, Offset: 9, Kind: changelog.UpdateAfter, Row: changelog.Row{changelog.IntValue(1), changelog.StringValue("a")}}
	outage := func(err error) {
		t.Helper()
		var out *changelog.UnavailableError
		var data *changelog.DataError
		if !errors.As(err, &out) || errors.As(err, &data) || out.Partition != at || out.Offset != 9 || !strings.HasPrefix(err.Error(), "changelog: orders/3 offset 9: avro-confluent: ") {
			t.Errorf("%T: %v", err, err)
		}
	}
	g.Fault = down
	var r changelog.Record
	outage(e.Encode(&r, &change))
	g.Fault = nil
	r = changelog.Record{Partition: at, Offset: 9}
	if err := e.Encode(&r, &change); err != nil {
		t.Fatal(err)
	}
	if g.Subject("orders-key") == "" || g.Subject("orders-value") == "" {
		t.Errorf("requests %q", g.Requests())
	}
	b := changelog.NewBatch(d.Table())
	g.Fault = down
	outage(d.Decode(b, &r))
	g.Fault = nil
	if err := d.Decode(b, &r); err != nil || b.Len() != 1 || b.Changes[0].Row[1].Str() != "a" {
		t.Errorf("%v, %d changes", err, b.Len())
	}
}

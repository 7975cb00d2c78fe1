package bridge

import (
	"fmt"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/twmb/franz-go/pkg/kgo"
)

// compared is a topic, a bridge and its table.
type compared struct {
	t  *testing.T
	db *database
	k  *cluster
	in Input
	to *postgres.Sink
}

const (
	typesDDL = "k BIGINT, k2 STRING, b BOOLEAN, i INT, d DOUBLE, n DECIMAL(20, 4), s STRING, ts TIMESTAMP(9), tz TIMESTAMP_LTZ(3), da DATE, ti TIME(3), j STRING, u STRING, a ARRAY<INT>, x STRING"
	typesSQL = "k bigint, k2 text, b boolean, i integer, d double precision, n numeric, s varchar(100), ts timestamp, tz timestamptz, da date, ti time, j jsonb, u uuid, a integer[], own text DEFAULT 'own', PRIMARY KEY (k, k2)"
)

func newCompared(t *testing.T, name, table string, o postgres.Options) *compared {
	t.Helper()
	c := &compared{t: t, db: newDatabase(t, "verify_"+name), k: newCluster(t, 3)}
	c.db.exec("CREATE TABLE kv (" + table + ")")
	tab, err := ddl.Find(`CREATE TABLE kv (`+typesDDL+`, PRIMARY KEY (k, k2) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 'texts',
		'properties.bootstrap.servers' = '`+c.k.addr+`', 'key.format' = 'json', 'value.format' = 'json')`, "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := format.New(tab, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.in, err = FromTable(tab, d); err != nil {
		t.Fatal(err)
	}
	o.Schema, o.TruncateNanos = c.db.schema+"_own", true
	if o.Columns == nil {
		o.Columns = map[string]string{"x": ""}
	}
	if c.to, err = postgres.New(c.db.pool, "", &o); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *compared) record(k int, value string) *kgo.Record {
	r := c.k.record(int32(k%3), value)
	r.Key = fmt.Appendf(nil, `{"k":%d,"k2":"ü,%d"}`, k, k)
	if value == "" {
		r.Value = nil
	}
	return r
}

// row is a message that puts a row there, with a version that changes every column.
func row(k, version int) string {
	return fmt.Sprintf(`{"k":%d,"k2":"ü,%d","b":%t,"i":%d,"d":%s,"n":%d.5000,"s":"s%d","ts":"2024-02-29 12:34:56.12345678%d","tz":"2024-02-29 12:34:56.%03dZ","da":"2024-01-%02d",`+
		`"ti":"01:02:%02d","j":"{\"b\":1,\"a\":%d.0}","u":"6f9619ff-8b86-d011-b42d-00c04fc96%03d","a":[%d,null],"x":"left out %d"}`,
		k, k, version%2 == 0, version, []string{"1.5", `"NaN"`, "-0.0", "1e300"}[version%4], version, version, version%10, version%1000, version%28+1, version%60, version, version%1000, version, version)
}

func (c *compared) put(rs ...*kgo.Record) {
	c.t.Helper()
	if err := c.k.cl.ProduceSync(c.t.Context(), rs...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// story puts n keys there, updates half of them and deletes a tenth.
func (c *compared) story(n int) {
	var rs []*kgo.Record
	for k := range n {
		rs = append(rs, c.record(k, row(k, 1)))
	}
	for k := range n {
		switch {
		case k%10 == 0:
			rs = append(rs, c.record(k, ""))
		case k%2 == 0:
			rs = append(rs, c.record(k, row(k, k)))
		}
	}
	c.put(rs...)
}

func (c *compared) options() *Options {
	o := options(newTarget())
	o.Store = nil
	return o
}

// catchUp runs the bridge to the end of the topic.
func (c *compared) catchUp(o *Options) {
	c.t.Helper()
	o.UntilEnd = true
	b, err := New("test", c.in, c.to, o)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := start(c.t, b).wait(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *compared) verify(v *VerifyOptions) VerifyReport {
	c.t.Helper()
	r, err := Verify(c.t.Context(), "test", c.in, c.to, c.options(), v)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *compared) repair(v *VerifyOptions) VerifyReport {
	c.t.Helper()
	r, err := Repair(c.t.Context(), "test", c.in, c.to, c.options(), v)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *compared) rows() []string { return c.db.all("SELECT kv::text FROM kv ORDER BY k, k2") }

// counts is what a report found, in few words.
func counts(r VerifyReport) string {
	return fmt.Sprintf("keys %d missing %d stale %d extra %d", r.Keys, r.Missing, r.Stale, r.Extra)
}

package bridge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/twmb/franz-go/pkg/kgo"
)

// inputOf makes an input of a CREATE TABLE whose brokers are k's.
func (k *cluster) inputOf(createTable string) Input {
	k.t.Helper()
	tables, err := ddl.Parse(strings.ReplaceAll(createTable, "BROKERS", k.addr))
	if err != nil || len(tables) != 1 {
		k.t.Fatal(tables, err)
	}
	d, err := format.New(tables[0], []changelog.Format{json.Format{}}, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	in, err := FromTable(tables[0], d)
	if err != nil {
		k.t.Fatal(err)
	}
	return in
}

const (
	customersTable = `CREATE TABLE customers (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 'customers',
		'properties.bootstrap.servers' = 'BROKERS', 'key.format' = 'json', 'value.format' = 'json')`
	clicksTable = `CREATE TABLE clicks (customer BIGINT, page STRING) WITH ('connector' = 'kafka', 'topic' = 'clicks', 'properties.bootstrap.servers' = 'BROKERS',
		'format' = 'json', 'scan.startup.mode' = 'earliest-offset')`
)

// Two topics with different DDLs go into two tables by one transaction, which holds the positions of both.
func TestMany_OnePostgresTransaction(t *testing.T) {
	db := newDatabase(t, "many")
	k := newCluster(t, 1)
	for _, topic := range []string{"customers", "clicks"} {
		if _, err := k.adm.CreateTopic(t.Context(), 2, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	var records []*kgo.Record
	for i := range 500 {
		records = append(records,
			&kgo.Record{Topic: "customers", Partition: int32(i % 2), Key: fmt.Appendf(nil, `{"id":%d}`, i%50), Value: fmt.Appendf(nil, `{"id":%d,"name":"n%d"}`, i%50, i)},
			&kgo.Record{Topic: "clicks", Partition: int32(i % 2), Value: fmt.Appendf(nil, `{"customer":%d,"page":"p%d"}`, i%50, i)})
	}
	if err := k.cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	to, err := postgres.New(db.pool, "", &postgres.Options{Schema: db.schema + "_own", CreateTable: true, Into: func(t *changelog.Table) string { return "into_" + t.Name }})
	if err != nil {
		t.Fatal(err)
	}
	// What a reader sees at one moment: the rows of both tables go exactly as far as the positions of both topics. (Transaction numbers do not tell, as a batch may
	// be written in a savepoint, whose number is another one.)
	var apart []string
	o := &Options{UntilEnd: true, Interval: time.Hour}
	o.Hooks.Saved = func(sink.Report) {
		apart = append(apart, db.all(strings.ReplaceAll(`SELECT 'clicks' WHERE (SELECT count(*) FROM into_clicks) <> (SELECT sum(next_offset) FROM OWN.position WHERE topic = 'clicks')
			UNION ALL SELECT 'customers' FROM OWN.position p WHERE topic = 'customers' AND next_offset > 0 AND NOT EXISTS (SELECT FROM into_customers WHERE name = 'n' || 2 * (p.next_offset - 1) + p.partition)`,
			"OWN", db.schema+"_own"))...)
	}
	b, err := NewMany("many", []Input{k.inputOf(customersTable), k.inputOf(clicksTable)}, []Output{{Name: "postgres", Sink: to}}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	got := db.all(`SELECT count(*)::text FROM into_customers UNION ALL SELECT count(*)::text FROM into_clicks UNION ALL SELECT count(DISTINCT name)::text FROM into_customers
		UNION ALL SELECT count(*)::text FROM ` + db.schema + `_own.position WHERE next_offset > 0`)
	if !slices.Equal(got, []string{"50", "500", "50", "4"}) {
		t.Errorf("found %q", got)
	}
	if len(apart) > 0 {
		t.Errorf("rows and positions are apart: %q", apart)
	}
	if n := b.Status().Counters; !n.Balanced() || n.Read != 1000 || n.Applied+n.Superseded != 1000 {
		t.Errorf("counted %+v", n)
	}
}

// shows is a sink that shows rows as it is given them.
type shows struct {
	mu   sync.Mutex
	rows []string
}

func (s *shows) Guarantee() sink.Guarantee {
	return sink.Guarantee{Level: sink.Convergent, Visible: "early; converges"}
}
func (s *shows) Lane(context.Context, sink.Lane) (sink.Committer, error) { return showsLane{s}, nil }

type showsLane struct{ s *shows }

func (l showsLane) Open(context.Context, sink.Claim) error { return nil }
func (l showsLane) Write(_ context.Context, b *changelog.Batch) error {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for _, c := range b.Changes {
		l.s.rows = append(l.s.rows, strings.Clone(c.Row[1].Str()))
	}
	return nil
}
func (l showsLane) Prepare(context.Context, sink.Cut) (sink.Committable, error) {
	return sink.Committable{}, nil
}
func (l showsLane) Discard(context.Context) error                  { return nil }
func (l showsLane) Commit(context.Context, sink.Committable) error { return nil }
func (l showsLane) Abort(context.Context, sink.Committable) error  { return nil }
func (l showsLane) Close(context.Context) error                    { return nil }

// A row that Postgres refuses, by whatever constraint and however late, is dropped by the data policy, and was never seen in a sink that shows rows
// early: nothing would take it away there.
func TestMany_RefusedByPostgresIsNotSeenEarly(t *testing.T) {
	for name, constraint := range map[string]string{
		"check":    "CHECK (name <> 'bad')",
		"deferred": "UNIQUE (name) DEFERRABLE INITIALLY DEFERRED",
	} {
		t.Run(name, func(t *testing.T) {
			db := newDatabase(t, "refuse_"+name)
			db.exec("CREATE TABLE into_customers (id bigint PRIMARY KEY, name text, " + constraint + "); INSERT INTO into_customers VALUES (1000, 'bad!')")
			k := newCluster(t, 1)
			if _, err := k.adm.CreateTopic(t.Context(), 1, 1, nil, "customers"); err != nil {
				t.Fatal(err)
			}
			bad := map[string]string{"check": "bad", "deferred": "bad!"}[name]
			var records []*kgo.Record
			for i := range 100 {
				v := fmt.Sprintf("n%d", i)
				if i == 70 {
					v = bad
				}
				records = append(records, &kgo.Record{Topic: "customers", Key: fmt.Appendf(nil, `{"id":%d}`, i), Value: fmt.Appendf(nil, `{"id":%d,"name":%q}`, i, v)})
			}
			if err := k.cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			to, err := postgres.New(db.pool, "into_customers", &postgres.Options{Schema: db.schema + "_own"})
			if err != nil {
				t.Fatal(err)
			}
			early := &shows{}
			b, err := NewMany("many", []Input{k.inputOf(customersTable)}, []Output{{Name: "early", Sink: early}, {Name: "postgres", Sink: to}},
				&Options{UntilEnd: true, OnData: Skip, Target: "test"})
			if err != nil {
				t.Fatal(err)
			}
			if err := start(t, b).wait(); err != nil {
				t.Fatal(err)
			}
			if got := db.all("SELECT count(*)::text FROM into_customers WHERE id < 1000"); got[0] != "99" {
				t.Errorf("%s rows", got[0])
			}
			if slices.Contains(early.rows, bad) {
				t.Error("the early sink holds the refused row")
			}
			seen := map[string]bool{}
			for _, r := range early.rows {
				seen[r] = true
			}
			if len(seen) != 99 {
				t.Errorf("the early sink holds %d rows", len(seen))
			}
		})
	}
}

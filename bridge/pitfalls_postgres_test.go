package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
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
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

// database is a schema of its own on a real server.
type database struct {
	t      *testing.T
	pool   *pgxpool.Pool
	schema string
}

func newDatabase(t *testing.T, name string, params ...string) *database {
	t.Helper()
	dsn := os.Getenv("FLINKSINK_POSTGRES")
	if dsn == "" {
		t.Skip("FLINKSINK_POSTGRES is not set: it names a Postgres server that tests may fill, e.g. postgres://postgres@127.0.0.1:5432/postgres; ./test starts one")
	}
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	d := &database{t: t, schema: fmt.Sprintf("bridge_pitfalls_%d_%s", os.Getpid(), name)}
	c.ConnConfig.RuntimeParams["search_path"] = d.schema
	c.MaxConns = 20
	for i := 0; i < len(params); i += 2 {
		c.ConnConfig.RuntimeParams[params[i]] = params[i+1]
	}
	if d.pool, err = pgxpool.NewWithConfig(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	d.exec("CREATE SCHEMA " + d.schema)
	t.Cleanup(func() {
		d.exec("DROP SCHEMA IF EXISTS " + d.schema + " CASCADE; DROP SCHEMA IF EXISTS " + d.schema + "_own CASCADE")
		d.pool.Close()
	})
	return d
}

func (d *database) exec(sql string) {
	d.t.Helper()
	if _, err := d.pool.Exec(context.Background(), sql); err != nil {
		d.t.Fatal(err)
	}
}

func (d *database) all(query string) []string {
	d.t.Helper()
	rows, err := d.pool.Query(context.Background(), query)
	if err != nil {
		d.t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// hundred are messages of which six are bad: in their text, in what Postgres can store, in what the table allows.
func hundred() (values []string, bad []int64) {
	odd := map[int]string{
		41: `"v":"Hello world\u0000!"`,
		52: `"j":"{\"a\":\"x\\u0000y\"}"`,
		53: `"j":"{\"a\":\"\\ud800\"}"`,
		54: `"j":"{\"a\":\"\\\\u0000\"}"`, // an escaped backslash: nothing is wrong with it
		60: `"u":"secret"`,
		61: `"u":"6f9619ff-8b86-d011-b42d-00c04fc964ff"`,
		70: `"v":"secret"`,
		80: `"v":"secret`,
	}
	for i := range 100 {
		more, ok := odd[i]
		if !ok {
			more = `"v":"fine"`
		}
		if ok && i != 54 && i != 61 {
			bad = append(bad, int64(i))
		}
		values = append(values, fmt.Sprintf(`{"k":%d,%s}`, firstKey+int64(i), more))
	}
	return values, bad
}

// firstKey is the first integer that a double cannot hold.
const firstKey int64 = 9007199254740993

// One bad text in a hundred messages, and its neighbours: a NUL in text (P47), escapes that jsonb cannot store and one that it can (P48), texts
// that are no uuid (P49), a constraint, a message that is cut off. The data policy decides, and the others are written, each with its digits (P10).
func TestPitfall_BadValuesInPostgres(t *testing.T) {
	values, bad := hundred()
	for _, policy := range []DataPolicy{Halt, DeadLetter, Skip} {
		t.Run(policy.String(), func(t *testing.T) {
			db := newDatabase(t, strings.ReplaceAll(policy.String(), "-", "_"))
			db.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text CHECK (v <> 'secret'), j jsonb, u uuid)")
			k := newCluster(t, 1)
			var records []*kgo.Record
			for i, v := range values {
				r := k.record(0, v)
				r.Key = fmt.Appendf(nil, `{"k":%d}`, firstKey+int64(i))
				records = append(records, r)
			}
			if err := k.cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			tab, err := ddl.Find(`CREATE TABLE kv (k BIGINT, v STRING, j STRING, u STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 'texts',
				'properties.bootstrap.servers' = '`+k.addr+`', 'key.format' = 'json', 'value.format' = 'json')`, "")
			if err != nil {
				t.Fatal(err)
			}
			d, err := format.New(tab, []changelog.Format{json.Format{}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			in, err := FromTable(tab, d)
			if err != nil {
				t.Fatal(err)
			}
			to, err := postgres.New(db.pool, "", &postgres.Options{Schema: db.schema + "_own"})
			if err != nil {
				t.Fatal(err)
			}
			run := func() error {
				o := options(newTarget())
				o.Store, o.UntilEnd, o.OnData = nil, true, policy
				b, err := New("test", in, to, o)
				if err != nil {
					t.Fatal(err)
				}
				return start(t, b).wait()
			}
			rows := func() string {
				return strings.Join(db.all("SELECT count(*) || ' ' || min(k) || ' ' || max(k) FROM kv"), "")
			}
			position := func() string {
				return strings.Join(db.all("SELECT next_offset::text FROM "+db.schema+"_own.position"), "")
			}
			for range 2 { // and once more from where it is
				err := run()
				if policy == Halt {
					var e *sink.Error
					if !errors.As(err, &e) || e.Class != sink.ErrRejected || e.Position == nil || e.Position.Offset != 41 || !strings.Contains(err.Error(), "texts:0:41") {
						t.Fatalf("got %v", err)
					}
					if strings.Contains(err.Error(), "Hello") {
						t.Errorf("the text holds the value: %v", err)
					}
					if got, want := rows()+" at "+position(), fmt.Sprintf("41 %d %d at 41", firstKey, firstKey+40); got != want {
						t.Errorf("%s, expected %s", got, want)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if got, want := rows()+" at "+position(), fmt.Sprintf("94 %d %d at 100", firstKey, firstKey+99); got != want {
					t.Errorf("%s, expected %s", got, want)
				}
				if got := db.all("SELECT j::text FROM kv WHERE j IS NOT NULL"); !slices.Equal(got, []string{`{"a": "\\u0000"}`}) {
					t.Errorf("jsonb holds %q", got)
				}
				letters := db.all("SELECT message_offset || ' ' || convert_from(key, 'UTF8') FROM " + db.schema + "_own.dead_letter ORDER BY message_offset")
				want := []string{}
				for _, o := range bad {
					if policy == DeadLetter {
						want = append(want, fmt.Sprintf(`%d {"k":%d}`, o, firstKey+int64(o)))
					}
				}
				if !slices.Equal(letters, want) {
					t.Errorf("dead letters %q, expected %q", letters, want)
				}
			}
		})
	}
}

// Eight partitions on two and on eight lanes hold the same keys in other orders, in checkpoints of many batches: the lanes get into deadlocks, and
// each that the server ends is done again from its saved positions. Everything is read to its end, and each row is the last of some partition (P34).
func TestPitfall_LanesWantTheSameRows(t *testing.T) {
	const partitions, keys, rounds = 8, 10, 6
	deadlocks := 0
	for n := 0; n < 2 || deadlocks == 0 && n < 50; n++ { // which of them meet, chance decides: until some have
		lanes := []int{2, 8}[n%2]
		db := newDatabase(t, fmt.Sprint(n, "_lanes"), "deadlock_timeout", "5ms")
		k := newCluster(t, partitions)
		rnd := rand.New(rand.NewPCG(1, uint64(n)))
		for p := range int32(partitions) {
			var values []string
			for round := range rounds {
				for _, key := range rnd.Perm(keys) {
					values = append(values, fmt.Sprintf("+U %d %d/%d", key, p, round))
				}
			}
			k.put(p, values...)
		}
		to, err := postgres.New(db.pool, "", &postgres.Options{Schema: db.schema + "_own", CreateTable: true})
		if err != nil {
			t.Fatal(err)
		}
		d := newRows()
		d.table.Mode = changelog.Upsert
		o := options(newTarget())
		o.Store, o.UntilEnd, o.Lanes = nil, true, lanes
		o.ByteBudget, o.Bytes = 256<<10, 128<<10 // a load holds one message, a checkpoint four
		o.Interval = time.Hour
		o.backoff = func(int) time.Duration { return time.Millisecond }
		var mu sync.Mutex
		o.Hooks.Retry = func(err error, _ int) {
			mu.Lock()
			defer mu.Unlock()
			var pe *pgconn.PgError
			if errors.As(err, &pe) && pe.Code == "40P01" {
				deadlocks++
			}
		}
		b, err := New("test", Input{Topics: []string{k.topic}, Decoder: d, Client: []kgo.Opt{kgo.SeedBrokers(k.addr)}}, to, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := start(t, b).wait(); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Join(db.all("SELECT sum(next_offset) || ' ' || min(next_offset) FROM "+db.schema+"_own.position"), ""), fmt.Sprint(partitions*keys*rounds, " ", keys*rounds); got != want {
			t.Errorf("%d lanes: positions %s, expected %s", lanes, got, want)
		}
		if got, want := strings.Join(db.all(fmt.Sprintf("SELECT count(*) || ' ' || count(*) FILTER (WHERE v LIKE '%%/%d') FROM rows", rounds-1)), ""), fmt.Sprint(keys, " ", keys); got != want {
			t.Errorf("%d lanes: rows, and those that are the last of a partition: %s, expected %s", lanes, got, want)
		}
	}
	t.Logf("%d deadlocks", deadlocks)
	if deadlocks == 0 {
		t.Error("no deadlock was met: this test shows nothing")
	}
}

package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/debezium"
	formatjson "github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/internal/capture"
	"github.com/flinksink/flinksink/internal/rowtext"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// patience is how long no checkpoint may come. It asserts nothing about time.
const patience = time.Minute

// captured is a topic in a retract encoding that a Flink job wrote, with what Flink read from it.
type captured struct {
	name    string
	key     string // a column that is unique whenever no update is under way
	records []capture.Record
	changes map[changelog.Partition][]flinkChange // in order
	final   []string                              // rows, sorted
}

type flinkChange struct {
	Op        string
	Partition int32
	Offset    int64
	Row       json.RawMessage
}

func capturedRetracts(t *testing.T) (out []*captured) {
	t.Helper()
	for name, key := range map[string]string{"debezium_groupby": "cust", "debezium_join": "id", "debezium_topn": "rk", "debezium_keyed": "cust", "debezium_pk": "cust"} {
		c := &captured{name: name, key: key, changes: make(map[changelog.Partition][]flinkChange)}
		var err error
		if c.records, err = capture.ReadFile(c.file("topic.jsonl")); err != nil {
			t.Fatal(err)
		}
		for _, x := range c.lines(t, "read.jsonl") {
			p := changelog.Partition{Topic: name, Partition: x.Partition}
			c.changes[p] = append(c.changes[p], x)
		}
		for _, x := range c.lines(t, "final.jsonl") {
			c.final = append(c.final, string(x.Row))
		}
		slices.Sort(c.final)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *captured) int { return strings.Compare(a.name, b.name) })
	return out
}

func (c *captured) file(name string) string {
	return filepath.Join("..", "testdata", "flink", c.name, name)
}

func (c *captured) lines(t *testing.T, name string) (out []flinkChange) {
	t.Helper()
	text, err := os.ReadFile(c.file(name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var x flinkChange
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

// table is the captured table; keyed gives it the primary key that Postgres needs to find a row that goes away.
func (c *captured) table(t *testing.T, keyed bool) *ddl.Table {
	t.Helper()
	text, err := os.ReadFile(c.file("ddl.sql"))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := ddl.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if keyed && len(tables[0].PrimaryKey) == 0 {
		tables[0].PrimaryKey = []string{c.key}
	}
	return tables[0]
}

// state returns the rows that are there when each partition is read up to a position, and whether no update is under way there: the
// change before each position put a row there, or is the last of all.
func (c *captured) state(at []changelog.Position) (rows []string, whole bool) {
	n := make(map[string]int)
	whole = true
	for _, pos := range at {
		all := c.changes[pos.Partition]
		for i, x := range all {
			if x.Offset >= pos.Offset {
				break
			}
			if x.Op[0] == '+' {
				n[string(x.Row)]++
			} else {
				n[string(x.Row)]--
			}
			if next := i + 1; x.Op[0] == '-' && next < len(all) && all[next].Offset >= pos.Offset {
				whole = false
			}
		}
	}
	rows = []string{}
	for _, r := range slices.Sorted(maps.Keys(n)) {
		for range n[r] {
			rows = append(rows, r)
		}
	}
	return rows, whole
}

// run bridges the captured topic into to, with a checkpoint after every change, and compares what readers of the sink see after each.
func (c *captured) run(t *testing.T, table *ddl.Table, d changelog.Decoder, to sink.Sink, store sink.Store, hold bridge.HoldPolicy, see func() []string) (parted int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stands := time.AfterFunc(patience, func() { cancel(errors.New("no checkpoint came for a minute")) })
	defer stands.Stop()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	partitions := 1
	if table.Options["key.format"] != "" {
		partitions = 3
	}
	if err := capture.Load(ctx, broker.ListenAddrs(), c.name, partitions, c.records); err != nil {
		t.Fatal(err)
	}
	table.Options["properties.bootstrap.servers"] = strings.Join(broker.ListenAddrs(), ",")
	table.Options["scan.startup.mode"] = "earliest-offset"
	in, err := bridge.FromTable(table, d)
	if err != nil {
		t.Fatal(err)
	}
	if hold == bridge.HoldNever {
		in.NullKeys = false
	}
	var mistakes []string
	checkpoints := 0
	o := &bridge.Options{
		Client:          []kgo.Opt{kgo.FetchMaxWait(50 * time.Millisecond)},
		HoldRetractions: hold,
		Store:           store,
		UntilEnd:        true,
		Interval:        time.Hour, // whatever is applied was released by what follows it
		Changes:         1,
		ByteBudget:      256 << 10, // a batch that holds a message is full
	}
	o.Hooks.Committed = func(r sink.Report) {
		checkpoints++
		stands.Reset(patience)
		want, whole := c.state(r.To)
		if got := see(); !slices.Equal(got, want) {
			mistakes = append(mistakes, fmt.Sprintf("at %v:\n got %q\nwant %q", r.To, got, want))
		}
		if !whole {
			parted++
		}
	}
	b, err := bridge.New(c.name, in, to, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Run(ctx), context.Cause(ctx)); err != nil {
		t.Fatal(err)
	}
	if len(mistakes) > 0 {
		t.Errorf("%d of %d checkpoints show other rows than Flink read: %s", len(mistakes), checkpoints, mistakes[0])
	}
	if checkpoints < 5 {
		t.Errorf("%d checkpoints for %d messages", checkpoints, len(c.records))
	}
	if got := see(); !slices.Equal(got, c.final) {
		t.Errorf("rows at the end\n got %q\nwant %q", got, c.final)
	}
	return parted
}

func (c *captured) decoder(t *testing.T, table *ddl.Table) changelog.Decoder {
	t.Helper()
	d, err := format.New(table, []changelog.Format{debezium.Format{}, formatjson.Format{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Flink writes an update as a delete and an insert, two messages. No reader of the sink sees the state between them.
func TestCaptured_Memory(t *testing.T) {
	for _, c := range capturedRetracts(t) {
		for policy, hold := range map[string]bridge.HoldPolicy{"held": bridge.HoldByMode, "never": bridge.HoldNever} {
			t.Run(c.name+" "+policy, func(t *testing.T) {
				srv := sinktest.NewServer()
				table := c.table(t, false)
				d := c.decoder(t, table)
				parted := c.run(t, table, d, sinktest.NewSink(srv, nil), sinktest.NewStore(srv), hold, func() []string {
					out := []string{}
					for _, r := range srv.Table(d.Table().Name) {
						out = append(out, string(rowtext.AppendRow(nil, d.Table().Schema, r)))
					}
					slices.Sort(out)
					return out
				})
				if hold == bridge.HoldByMode && parted > 0 {
					t.Errorf("%d checkpoints fall between the two halves of an update", parted)
				}
				if hold == bridge.HoldNever && parted == 0 {
					t.Error("no checkpoint fell between the two halves of an update: this test would not see a mistake")
				}
			})
		}
	}
}

const postgresVariable = "FLINKSINK_POSTGRES"

func TestCaptured_Postgres(t *testing.T) {
	dsn := os.Getenv(postgresVariable)
	if dsn == "" {
		t.Skipf("%s is not set: it names a Postgres server that tests may fill, e.g. postgres://postgres@127.0.0.1:5432/postgres; ./test starts one", postgresVariable)
	}
	for _, c := range capturedRetracts(t) {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := pgxpool.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			schema := fmt.Sprintf("bridge_test_%d_%s", os.Getpid(), c.name)
			cfg.ConnConfig.RuntimeParams["search_path"] = schema
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			exec := func(sql string) {
				if _, err := pool.Exec(context.Background(), sql); err != nil {
					t.Fatal(err)
				}
			}
			exec("CREATE SCHEMA " + schema)
			t.Cleanup(func() {
				exec("DROP SCHEMA IF EXISTS " + schema + " CASCADE; DROP SCHEMA IF EXISTS " + schema + "_own CASCADE")
				pool.Close()
			})
			table := c.table(t, true)
			d := c.decoder(t, table)
			to, err := postgres.New(pool, "", &postgres.Options{Schema: schema + "_own", CreateTable: true})
			if err != nil {
				t.Fatal(err)
			}
			// The row as captured: an object of texts, BOOLEAN as CAST prints it.
			var pairs []string
			for _, col := range d.Table().Schema.Columns {
				text := col.Name + "::text"
				if col.Type.Root == changelog.RootBoolean {
					text = "upper(" + text + ")"
				}
				pairs = append(pairs, fmt.Sprintf(`'"%s":' || coalesce(to_json(%s)::text, 'null')`, col.Name, text))
			}
			query := "SELECT '{' || " + strings.Join(pairs, " || ',' || ") + " || '}' FROM " + d.Table().Name
			parted := c.run(t, table, d, to, nil, bridge.HoldByMode, func() []string {
				rows, err := pool.Query(context.Background(), query)
				if err != nil {
					t.Error(err)
					return nil
				}
				out, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					t.Error(err)
				}
				slices.Sort(out)
				return append([]string{}, out...)
			})
			if parted > 0 {
				t.Errorf("%d checkpoints fall between the two halves of an update", parted)
			}
		})
	}
}

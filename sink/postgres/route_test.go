package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// Several source tables under one coordinator, sent to tables by a function: what one checkpoint writes becomes visible together, into the tables that
// the function names, with renames of their own; and when one of the tables refuses a row, nothing of the checkpoint is in any of them.
func TestCoordinator_SeveralTables(t *testing.T) {
	e := newEnv(t)
	e.exec(`CREATE TABLE "All Orders" (id bigint PRIMARY KEY, amount numeric(10,2) CHECK (amount < 1000)); CREATE TABLE people (person bigint PRIMARY KEY, name text); CREATE TABLE log (line text)`)
	orders := table(t, "orders", upsert, "id", "id BIGINT NOT NULL", "amount DECIMAL(10, 2)")
	people := table(t, "persons", upsert, "id", "id BIGINT NOT NULL", "name STRING")
	lines := table(t, "log", appnd, "", "line STRING")
	o := e.options()
	o.Into = func(t *changelog.Table) string {
		return map[string]string{"orders": e.schema + `."All Orders"`, "persons": "people"}[t.Name]
	}
	o.Columns = map[string]string{"persons.id": "person"}
	s, err := postgres.New(e.pool(nil), "", o)
	if err != nil {
		t.Fatal(err)
	}
	var refused []string
	src := &rewinder{}
	c, err := sink.NewCoordinator(t.Context(), sink.Options{
		Bridge: "bridge", Sinks: []sink.Declared{{Name: "target", Sink: s}}, Source: src, Tables: []*changelog.Table{orders, people, lines},
		Backoff:  func(int) time.Duration { return time.Millisecond },
		Rejected: func(err *sink.Error) bool { refused = append(refused, blamed(err)); return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	topics := []string{"a", "b", "c"}
	var parts []changelog.Partition
	for _, topic := range topics {
		parts = append(parts, changelog.Partition{Topic: topic})
	}
	if _, err := c.Assign(t.Context(), parts); err != nil {
		t.Fatal(err)
	}
	write := func(tb *changelog.Table, topic string, at int64, row ...changelog.Value) error {
		b := changelog.NewBatch(tb)
		p := changelog.Partition{Topic: topic}
		b.Append(changelog.Change{Partition: p, Offset: at, Kind: changelog.Insert, Row: row})
		return c.Write(t.Context(), b, sink.Progress{Records: 1, To: []changelog.Position{{Partition: p, Offset: at + 1, LeaderEpoch: -1}}})
	}
	for _, err := range []error{
		write(orders, "a", 0, num(1), dec("1.50", 10, 2)), write(people, "b", 0, num(7), str("Ada")), write(lines, "c", 0, str("x")), write(lines, "c", 1, str("x")),
		write(orders, "a", 1, num(1), dec("2.50", 10, 2)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := func() string {
		return fmt.Sprint(e.all(`SELECT * FROM "All Orders"`), e.all("SELECT * FROM people"), e.all("SELECT * FROM log"), e.all("SELECT topic, next_offset FROM "+e.own+".position"))
	}
	if got := seen(); strings.Contains(got, "Ada") || strings.Contains(got, "2.50") {
		t.Errorf("visible before the checkpoint: %s", got)
	}
	if _, err := c.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "[(1,2.50)] [(7,Ada)] [(x) (x)] [(a,2) (b,1) (c,2)]"
	if got := seen(); got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	if err := write(people, "b", 1, num(8), str("Bob")); err != nil {
		t.Fatal(err)
	}
	if err := write(orders, "a", 2, num(2), dec("5000.00", 10, 2)); sink.ClassOf(err) != sink.ErrRejected || len(refused) != 1 {
		t.Errorf("a row that its table refuses: %v, %v", err, refused)
	}
	if got := seen(); got != want {
		t.Errorf("after a refusal: %s, expected %s", got, want)
	}
}

// One source table, whose topics go to tables of their own.
func TestWrite_ByTopic(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE east (k bigint PRIMARY KEY, v text); CREATE TABLE west (k bigint PRIMARY KEY, v text CHECK (v <> 'bad')); CREATE TABLE rest (k bigint PRIMARY KEY, v text)")
	o := e.options()
	o.Topics = map[string]string{"eu": "east", "us": e.schema + ".west"}
	tb := e.anyTable()
	at := func(topic string, offset, k int64, v string) changelog.Change {
		return changelog.Change{Partition: changelog.Partition{Topic: topic}, Offset: offset, Kind: changelog.UpdateAfter, Row: changelog.Row{num(k), str(v)}}
	}
	lane := func(into string) *writer {
		c, err := e.lane(e.pool(nil), into, o, tb)
		if err != nil {
			t.Fatal(err)
		}
		w := &writer{t: t, ctx: t.Context(), c: c, table: tb}
		t.Cleanup(func() { c.Close(context.Background()) })
		w.acquire()
		return w
	}
	w := lane("rest")
	w.at = 3
	w.put(at("eu", 0, 1, "a"), at("us", 0, 1, "b"), at("topic", 0, 1, "c"), at("eu", 1, 1, "A"), at("us", 1, 2, "B"))
	if got := fmt.Sprint(e.all("SELECT * FROM east"), e.all("SELECT * FROM west"), e.all("SELECT * FROM rest")); got != "[(1,A)] [(1,b) (2,B)] [(1,c)]" {
		t.Errorf("%s", got)
	}
	err := w.write(at("eu", 5, 3, "x"), at("us", 5, 3, "bad"), at("eu", 6, 4, "x"))
	if sink.ClassOf(err) != sink.ErrRejected || !strings.Contains(err.Error(), "us/0@5") {
		t.Errorf("%v", err)
	}
	w.c.Discard(t.Context())

	e.exec("DROP SCHEMA " + e.own + " CASCADE")
	w = lane("")
	if err := w.write(at("eu", 9, 9, "x")); err != nil {
		t.Fatal(err)
	}
	wantConfig(t, w.write(at("apac", 9, 9, "x")), `"apac"`, "Options.Topics")
}

// Every table is compared with its own source, all of it at once.
func TestCheck_SeveralTables(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE one (k int PRIMARY KEY, v text); CREATE TABLE two (k bigint, w text)")
	one, two := e.anyTable(), table(t, "other", upsert, "k", "k BIGINT NOT NULL", "w STRING", "x INT")
	o := e.options()
	o.Into = func(t *changelog.Table) string { return map[string]string{"kv": "one", "other": "two"}[t.Name] }
	_, err := e.lane(e.pool(nil), "", o, one, two)
	wantConfig(t, err, `one": column "k": type integer cannot hold BIGINT`, `two": column "x" is missing`, `two": there is no unique index`)
	o.Into = func(*changelog.Table) string { return "a b" }
	_, err = e.lane(e.pool(nil), "", o, one, two)
	wantConfig(t, err, `Options.Into of source table "kv"`, `Options.Into of source table "other"`)
	_, err = e.lane(e.pool(nil), "one", o, one)
	wantConfig(t, err, "Options.Into is set")
	o.Into, o.Topics = nil, map[string]string{"t": "one"}
	_, err = e.lane(e.pool(nil), "", o, one, two)
	wantConfig(t, err, "Options.Into", "2 source tables")
	o.Topics = map[string]string{"t": "one two"}
	_, err = e.lane(e.pool(nil), "", o, one)
	wantConfig(t, err, "Options.Topics[t]")
	o.Topics, o.Columns = nil, map[string]string{"kv.v": "V", "other.nothing": "x"}
	_, err = e.lane(e.pool(nil), "", o, one, two)
	wantConfig(t, err, `renames "other.nothing"`)

	// Tables that are missing are made where their rows will go.
	o.Columns, o.CreateTable = map[string]string{"kv.v": "text of v"}, true
	o.Into = func(t *changelog.Table) string { return e.schema + `."new ` + t.Name + `"` }
	if _, err = e.lane(e.pool(nil), "", o, one, two); err != nil {
		t.Fatal(err)
	}
	if got := e.all("SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = '" + e.schema + "' AND table_name LIKE 'new%'"); !slices.Equal(got,
		[]string{`("new kv","text of v")`, `("new kv",k)`, `("new other",k)`, `("new other",w)`, `("new other",x)`}) {
		t.Errorf("%v", got)
	}
}

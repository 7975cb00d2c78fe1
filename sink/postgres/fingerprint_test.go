package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

// into starts a lane that writes into a table, as a process with this search_path would, and acquires.
func (e *env) into(searchPath, into string, tb *changelog.Table) (*writer, error) {
	e.t.Helper()
	p := e.pool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = searchPath })
	s, err := postgres.New(p, into, e.options())
	if err != nil {
		e.t.Fatal(err)
	}
	c, err := s.Lane(e.t.Context(), sink.Lane{Bridge: "bridge", Sink: "target", Tables: []*changelog.Table{tb}})
	if err != nil {
		return nil, err
	}
	w := &writer{t: e.t, ctx: e.t.Context(), c: c, table: tb}
	return w, w.tryAcquire()
}

// A bridge belongs to the table that its positions count for, however the table is named: under the same name another table would
// begin where the first one ends, and lack all rows before.
func TestAcquire_OtherTarget(t *testing.T) {
	e := newEnv(t)
	other := e.schema + "_other"
	e.exec("CREATE SCHEMA " + other)
	t.Cleanup(func() { e.exec("DROP SCHEMA " + other + " CASCADE") })
	const columns = " (k bigint PRIMARY KEY, v text)"
	e.exec("CREATE TABLE kv" + columns + "; CREATE TABLE kv2" + columns + "; CREATE TABLE " + other + ".kv" + columns)
	kv, kv2 := e.anyTable(), e.anyTable()
	kv2.Name = "kv2"

	w, err := e.into(e.schema, "kv", kv)
	if err != nil {
		t.Fatal(err)
	}
	w.put(w.change(changelog.Insert, num(1), str("a")))
	for _, tc := range []struct {
		what, path, into string
		table            *changelog.Table
		found            string
	}{
		{"another source table", e.schema, "", kv2, `"` + e.schema + `"."kv2"`},
		{"another search_path", other, "", kv, `"` + other + `"."kv"`},
		{"another search_path, table named", other + "," + e.schema, "kv", kv, `"` + other + `"."kv"`},
		{"another table named", e.schema, "kv2", kv, `"` + e.schema + `"."kv2"`},
		{"another schema named", e.schema, other + ".kv", kv, `"` + other + `"."kv"`},
	} {
		_, err := e.into(tc.path, tc.into, tc.table)
		if err == nil {
			t.Errorf("%s: not refused", tc.what)
			continue
		}
		wantConfig(t, err, `"`+e.schema+`"."kv"`, tc.found, "give this bridge a name of its own")
		if strings.Contains(err.Error(), "Options.Bridge") {
			t.Errorf("%s: the error names a setting that does not exist: %v", tc.what, err)
		}
	}
	for _, same := range []struct{ path, into string }{
		{e.schema, ""}, {e.schema, e.schema + ".kv"}, {other, e.schema + ".KV"}, {e.schema + "," + other, `"kv"`},
	} {
		if _, err := e.into(same.path, same.into, kv); err != nil {
			t.Errorf("the same table as %q along %s: %v", same.into, same.path, err)
		}
	}
}

// A table that comes to stand in front of the target in the search_path is not written into from the middle of the topic on.
func TestOpen_TargetHidden(t *testing.T) {
	e := newEnv(t)
	front := e.schema + "_front"
	e.exec("CREATE SCHEMA " + front)
	t.Cleanup(func() { e.exec("DROP SCHEMA " + front + " CASCADE") })
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text)")
	w, err := e.into(front+","+e.schema, "", e.anyTable())
	if err != nil {
		t.Fatal(err)
	}
	w.put(w.change(changelog.Insert, num(1), str("a")))
	e.exec("CREATE TABLE " + front + ".kv (k bigint PRIMARY KEY, v text)")
	wantConfig(t, w.tryAcquire(), `"`+e.schema+`"."kv"`, `"`+front+`"."kv"`)
	e.exec("DROP TABLE " + front + ".kv")
	w.acquire()
	w.put(w.change(changelog.Insert, num(2), str("b")))
	if got := e.all("SELECT * FROM " + e.schema + ".kv"); !slices.Equal(got, []string{"(1,a)", "(2,b)"}) {
		t.Errorf("%v", got)
	}
}

// A table that is renamed under a running bridge is missing; renamed back, the bridge goes on.
func TestOpen_TargetRenamed(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text)")
	w, err := e.into(e.schema, "", e.anyTable())
	if err != nil {
		t.Fatal(err)
	}
	w.put(w.change(changelog.Insert, num(1), str("a")))
	e.exec("ALTER TABLE kv RENAME TO old")
	wantConfig(t, w.write(w.change(changelog.Insert, num(2), str("b"))), `"kv" does not exist`)
	if err := w.c.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantConfig(t, w.tryAcquire(), `"kv" does not exist`)
	e.exec("ALTER TABLE old RENAME TO kv")
	w.acquire()
	w.put(w.change(changelog.Insert, num(2), str("b")))
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(1,a)", "(2,b)"}) {
		t.Errorf("%v", got)
	}
}

// The order in which the tables are named makes no other bridge.
func TestAcquire_SeveralTargets(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.CreateTable = true
	one, two := table(t, "one", appnd, "", "x INT"), table(t, "two", appnd, "", "x INT")
	for _, tables := range [][]*changelog.Table{{one, two}, {two, one}} {
		c, err := e.lane(e.pool(nil), "", o, tables...)
		if err != nil {
			t.Fatal(err)
		}
		w := &writer{t: t, ctx: t.Context(), c: c, table: one}
		w.acquire()
	}
	_, err := e.lane(e.pool(nil), "", o, one)
	wantConfig(t, err, `"two"`)
}

// A standby that is given no partition must hear of its mistake at the start, not at the failover.
func TestLane_OtherTarget(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text); CREATE TABLE kv2 (k bigint PRIMARY KEY, v text)")
	if _, err := e.into(e.schema, "kv", e.anyTable()); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.New(e.pool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = e.schema }), "kv2", e.options())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Lane(t.Context(), sink.Lane{Bridge: "bridge", Sink: "target", Tables: []*changelog.Table{e.anyTable()}})
	wantConfig(t, err, `"kv"`, `"kv2"`, "give this bridge a name of its own")
}

// A key that goes into another column is another target: the rows before would not be found by it. Other columns may be renamed at will.
func TestAcquire_RenamedKey(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint UNIQUE, id bigint UNIQUE, v text, w text)")
	renamed := func(columns map[string]string) error {
		o := e.options()
		o.Columns = columns
		c, err := e.lane(e.pool(nil), "", o, e.anyTable())
		if err != nil {
			return err
		}
		w := &writer{t: t, ctx: t.Context(), c: c, table: e.anyTable()}
		if err := w.tryAcquire(); err != nil {
			return err
		}
		w.put(w.change(changelog.Insert, num(1), str("a")))
		return nil
	}
	if err := renamed(map[string]string{"k": "id"}); err != nil {
		t.Fatal(err)
	}
	if err := renamed(map[string]string{"k": "id", "v": "w"}); err != nil {
		t.Errorf("another column for v: %v", err)
	}
	wantConfig(t, renamed(nil), `"kv" (key "id")`, "give this bridge a name of its own")
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(,1,a,a)"}) {
		t.Errorf("%v", got)
	}
}

// Options.CreateTable and Check go by the names of the Postgres columns.
func TestColumns_Created(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.CreateTable, o.Columns = true, map[string]string{"k": "id", "v": `the "value"`}
	wantFindings(t, findings(t, e.pool(nil), o, "f", e.anyTable()), "table ok: the bridge makes it")
	w := e.writer(e.pool(nil), o, e.anyTable())
	w.put(w.change(changelog.Insert, num(1), str("a")), w.change(changelog.Insert, num(2), str("b")), w.change(changelog.Delete, num(1), null))
	if got := e.one(`SELECT string_agg(id || "the ""value""", '') FROM kv`); got != "2b" {
		t.Errorf("%s", got)
	}
	err := w.write(w.change(changelog.Insert, num(3), str("\x00")))
	wantBlamed(t, err, `3 the "value"`)
}

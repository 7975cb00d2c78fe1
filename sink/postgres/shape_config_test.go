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

// Settings that contradict one another are found before there is a server.
func TestNew_Shapes(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, tc := range []struct {
		o    postgres.Options
		want string
	}{
		{postgres.Options{SoftDelete: postgres.SoftDelete{Deleted: "x"}}, "SoftDelete has no Column"},
		{postgres.Options{SoftDelete: postgres.SoftDelete{Column: "c", From: "f", Deleted: "x"}}, "both From and a value"},
		{postgres.Options{SoftDelete: postgres.SoftDelete{Column: "c", Live: "x"}}, "Live stands without"},
		{postgres.Options{SoftDelete: postgres.SoftDelete{Column: "c", Deleted: postgres.Now, Live: "x"}}, "Live stands without"},
		{postgres.Options{SoftDelete: postgres.SoftDelete{Column: "c", Deleted: "x", Live: "x"}}, "are the same"},
		{postgres.Options{SoftDelete: postgres.SoftDelete{Column: strings.Repeat("c", 64)}}, "64 bytes"},
		{postgres.Options{SoftDelete: postgres.SoftDelete{Column: "c"}, IgnoreDeletes: true}, "drop one"},
		{postgres.Options{SoftDelete: postgres.SoftDelete{Column: "c"}, Audit: postgres.AuditColumns{Topic: "c"}}, "give each its own"},
		{postgres.Options{Audit: postgres.AuditColumns{Topic: "c", Time: "c"}}, "Options.Audit.Topic and Options.Audit.Time both name"},
		{postgres.Options{AppendOnce: true, SkipUnchanged: true}, "for tables without a key"},
		{postgres.Options{AppendOnce: true, Version: "v"}, "for tables without a key"},
		{postgres.Options{AppendOnce: true, SoftDelete: postgres.SoftDelete{Column: "c"}}, "for tables without a key"},
		{postgres.Options{AppendOnce: true, Audit: postgres.AuditColumns{Time: "flinksink_topic"}}, "both name"},
		{postgres.Options{Swap: postgres.Swap{Run: "r"}}, "Swap has no Group"},
		{postgres.Options{Swap: postgres.Swap{Group: []string{"g"}}, Version: "v"}, "drop one"},
	} {
		_, err := postgres.New(pool, "", &tc.o)
		wantConfig(t, err, tc.want)
	}
}

// What a shape needs of the source table and of the target is found at the start, with the cure.
func TestCheck_Shapes(t *testing.T) {
	keyed := []string{"k INT", "v STRING", "n BIGINT", "s STRING", "f DOUBLE", "t9 TIMESTAMP(9)", "last BOOLEAN"}
	const columns = "k int PRIMARY KEY, v text, n bigint, s text, f float8, t9 timestamp, last boolean"
	for _, tc := range []struct {
		name, ddl, mode, key string
		set                  func(o *postgres.Options)
		want                 string
	}{
		{"append once with a key", columns, upsert, "k", func(o *postgres.Options) { o.AppendOnce = true }, "has one"},
		{"append once and rules", columns + ", flinksink_topic text, flinksink_partition int, flinksink_offset bigint, flinksink_index int, UNIQUE (flinksink_topic, flinksink_partition, flinksink_offset, flinksink_index)); " +
			"CREATE RULE r AS ON INSERT TO shaped DO ALSO NOTIFY x; SELECT (1", appnd, "", func(o *postgres.Options) { o.AppendOnce = true }, "it has rules"},
		{"append once and retractions", columns, retract, "", func(o *postgres.Options) { o.AppendOnce = true }, "set Options.IgnoreDeletes"},
		{"append once without columns", columns, appnd, "", func(o *postgres.Options) { o.AppendOnce = true }, "ADD COLUMN \"flinksink_offset\" bigint NOT NULL"},
		{"append once without an index", columns + ", flinksink_topic text, flinksink_partition int, flinksink_offset bigint, flinksink_index int", appnd, "", func(o *postgres.Options) { o.AppendOnce = true },
			`CREATE UNIQUE INDEX ON`},
		{"soft delete without a key", columns, appnd, "", func(o *postgres.Options) { o.SoftDelete.Column = "gone" }, "SoftDelete finds rows by their key"},
		{"skip without a key", columns, appnd, "", func(o *postgres.Options) { o.SkipUnchanged = true }, "SkipUnchanged finds rows by their key"},
		{"version without a key", columns, appnd, "", func(o *postgres.Options) { o.Version = "n" }, "Version finds rows by their key"},
		{"mark is missing", columns, upsert, "k", func(o *postgres.Options) { o.SoftDelete.Column = "gone" }, `ADD COLUMN "gone" boolean NOT NULL DEFAULT false`},
		{"mark of another type", columns + ", gone text", upsert, "k", func(o *postgres.Options) { o.SoftDelete.Column = "gone" }, "make the column boolean"},
		{"mark is no time", columns + ", gone timestamp", upsert, "k", func(o *postgres.Options) { o.SoftDelete = postgres.SoftDelete{Column: "gone", Deleted: postgres.Now} }, "timestamp(6) with time zone"},
		{"mark is NOT NULL", columns + ", gone timestamptz NOT NULL", upsert, "k", func(o *postgres.Options) { o.SoftDelete = postgres.SoftDelete{Column: "gone", Deleted: postgres.Now} }, "DROP NOT NULL"},
		{"mark does not fit", columns + ", gone varchar(2)", upsert, "k", func(o *postgres.Options) { o.SoftDelete = postgres.SoftDelete{Column: "gone", Deleted: "deleted"} }, "does not fit"},
		{"mark is no number", columns + ", gone int", upsert, "k", func(o *postgres.Options) { o.SoftDelete = postgres.SoftDelete{Column: "gone", Deleted: "deleted"} }, "holds integers"},
		{"mark is json", columns + ", gone jsonb", upsert, "k", func(o *postgres.Options) { o.SoftDelete = postgres.SoftDelete{Column: "gone", Deleted: "{}"} }, "cannot hold a mark"},
		{"mark is computed", columns + ", gone boolean GENERATED ALWAYS AS (n = 1) STORED", upsert, "k", func(o *postgres.Options) { o.SoftDelete.Column = "gone" }, "computed by the server"},
		{"mark is a source column", columns, upsert, "k", func(o *postgres.Options) { o.SoftDelete.Column = "last" }, "which source column"},
		{"mark from nowhere", columns + ", gone int", upsert, "k", func(o *postgres.Options) { o.SoftDelete = postgres.SoftDelete{Column: "gone", From: "nope"} }, "no column of source table"},
		{"mark from another type", columns + ", gone int", upsert, "k", func(o *postgres.Options) { o.SoftDelete = postgres.SoftDelete{Column: "gone", From: "v"} }, "cannot hold every text"},
		{"version is nowhere", columns, upsert, "k", func(o *postgres.Options) { o.Version, o.IgnoreDeletes = "nope", true }, "no column of source table"},
		{"version is left out", columns, upsert, "k", func(o *postgres.Options) {
			o.Version, o.IgnoreDeletes, o.Columns = "n", true, map[string]string{"n": ""}
		}, "leaves out"},
		{"version is the key", columns, upsert, "k", func(o *postgres.Options) { o.Version, o.IgnoreDeletes = "k", true }, "part of the key"},
		{"version is a text", columns, upsert, "k", func(o *postgres.Options) { o.Version, o.IgnoreDeletes = "s", true }, "have to be integers"},
		{"version is cut off", columns, upsert, "k", func(o *postgres.Options) { o.Version, o.IgnoreDeletes, o.TruncateNanos = "t9", true, true }, "with all of their digits"},
		{"version and deletes", columns, upsert, "k", func(o *postgres.Options) { o.Version = "n" }, "set Options.SoftDelete, or Options.IgnoreDeletes"},
		{"audit of another type", columns + ", off int", upsert, "k", func(o *postgres.Options) { o.Audit.Offset = "off" }, "Options.Audit.Offset"},
		{"audit is missing", columns, upsert, "k", func(o *postgres.Options) { o.Audit.Time = "at" }, `ADD COLUMN "at" timestamp(6) with time zone`},
		{"swap and deletes", columns, upsert, "k", func(o *postgres.Options) { o.Swap.Group = []string{"k"} }, "set Options.IgnoreDeletes"},
		{"swap of nothing", columns, appnd, "", func(o *postgres.Options) { o.Swap.Group = []string{"nope"} }, "no column of source table"},
		{"swap by a row that is no BOOLEAN", columns, appnd, "", func(o *postgres.Options) { o.Swap = postgres.Swap{Group: []string{"k"}, Last: "n"} }, "has to be a BOOLEAN"},
		{"swap by a column that is left out", columns, appnd, "", func(o *postgres.Options) {
			o.Swap.Group, o.Columns = []string{"v"}, map[string]string{"v": ""}
		}, "could not be found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnv(t)
			source := keyed
			if tc.ddl != "" {
				e.exec("CREATE TABLE shaped (" + tc.ddl + ")")
			}
			if tc.name != "version is cut off" {
				source = slices.DeleteFunc(slices.Clone(keyed), func(c string) bool { return strings.HasPrefix(c, "t9") })
			}
			o := e.options()
			tc.set(o)
			_, err := e.lane(e.pool(nil), "", o, table(t, "shaped", tc.mode, tc.key, source...))
			wantConfig(t, err, tc.want)
		})
	}
}

// Swap cannot be one of several tables.
func TestCheck_SwapAlone(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.CreateTable, o.Swap.Group = true, []string{"k"}
	_, err := e.lane(e.pool(nil), "", o, table(t, "one", appnd, "k", "k INT"), table(t, "two", appnd, "k", "k INT"))
	wantConfig(t, err, "lane of one table")
}

// A role that may not delete can do all that a soft delete needs, and is told what it lacks for Swap.
func TestCheck_ShapesRights(t *testing.T) {
	e := newEnv(t)
	role := e.schema + "_role"
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, v text UNIQUE, gone boolean); CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + e.schema + " TO " + role + "; GRANT INSERT, UPDATE, SELECT ON kv TO " + role)
	e.exec("CREATE SCHEMA " + e.own + " AUTHORIZATION " + role)
	t.Cleanup(func() { e.exec("DROP OWNED BY " + role); e.exec("DROP ROLE " + role) })
	o := e.options()
	o.SoftDelete.Column = "gone"
	p := e.pool(func(c *pgxpool.Config) { c.ConnConfig.User = role })
	w := e.writer(p, o, table(t, "kv", upsert, "k", "k INT", "v STRING"))
	w.put(w.change(changelog.Insert, num(1), str("a")), w.change(changelog.Delete, num(2), null))
	// Refused for another row: nobody can be blamed without taking rows out, and the caller makes smaller checkpoints.
	err := w.refusal([]changelog.Change{w.change(changelog.Insert, num(2), str("a")), w.change(changelog.Insert, num(3), str("a"))})
	if sink.ClassOf(err) != sink.ErrRejected {
		t.Errorf("%v", err)
	}
	w.acquire()
	w.put(w.change(changelog.Delete, num(1), null))
	wantRows(t, e.all("SELECT * FROM kv"), "(1,a,t)")
	s := e.options()
	s.Swap.Group = []string{"k"}
	_, err = e.lane(p, "", s, table(t, "kv", appnd, "k", "k INT", "v STRING"))
	wantConfig(t, err, "GRANT DELETE ON")
}

// The statement that is printed makes a table that fits, with the columns and indexes of its shape.
func TestSQL_Shapes(t *testing.T) {
	e := newEnv(t)
	for _, tc := range []struct {
		mode, key string
		set       func(o *postgres.Options)
		want      []string
	}{
		{upsert, "k", func(o *postgres.Options) {
			o.SoftDelete, o.Audit.Time = postgres.SoftDelete{Column: "gone", Deleted: "it's gone", Live: "it's here"}, "at"
		}, []string{`"gone" text NOT NULL DEFAULT 'it''s here'`, `"at" timestamp(6) with time zone`, "WITH (fillfactor = 70)"}},
		{appnd, "", func(o *postgres.Options) { o.AppendOnce, o.Audit.Topic = true, "src" },
			[]string{`"src" text NOT NULL`, `UNIQUE ("src", "flinksink_partition", "flinksink_offset", "flinksink_index")`}},
	} {
		o := e.options()
		o.CreateTable = true
		tc.set(o)
		s, err := postgres.New(e.pool(nil), "", o)
		if err != nil {
			t.Fatal(err)
		}
		tb := table(t, "shaped", tc.mode, tc.key, "k INT", "v STRING")
		sql := s.SQL(tb)
		for _, want := range tc.want {
			if !strings.Contains(sql, want) {
				t.Errorf("no %s in\n%s", want, sql)
			}
		}
		if strings.Contains(sql, "fillfactor") == (tc.mode == appnd) {
			t.Errorf("mode %s:\n%s", tc.mode, sql)
		}
		e.exec("DROP TABLE IF EXISTS shaped; DROP SCHEMA IF EXISTS " + e.own + " CASCADE")
		if _, err := s.Lane(t.Context(), sink.Lane{Bridge: "bridge", Sink: "target", Tables: []*changelog.Table{tb}}); err != nil {
			t.Error(err)
		}
	}
}

// A table whose rows are updated and find no room in their pages is remarked on, and one that was made by the sink is not.
func TestCheck_Fillfactor(t *testing.T) {
	for _, tc := range []struct {
		ddl, mode, want string
	}{
		{"CREATE TABLE kv (k int PRIMARY KEY, v text)", upsert, "ALTER TABLE"},
		{"CREATE TABLE kv (k int PRIMARY KEY, v text) WITH (fillfactor = 95)", upsert, "is 95: "},
		{"CREATE TABLE kv (k int PRIMARY KEY, v text) WITH (fillfactor = 70)", upsert, ""},
		{"CREATE TABLE kv (k int PRIMARY KEY, v text)", appnd, ""},
		{"CREATE TABLE kv (k int PRIMARY KEY, v text) PARTITION BY LIST (k); CREATE TABLE kv1 PARTITION OF kv DEFAULT WITH (fillfactor = 70)", upsert, ""},
		{"CREATE TABLE kv (k int PRIMARY KEY, v text) PARTITION BY LIST (k); CREATE TABLE kv1 PARTITION OF kv DEFAULT; CREATE TABLE kv2 PARTITION OF kv FOR VALUES IN (1)", upsert, "of each partition"},
	} {
		e := newEnv(t)
		e.exec(tc.ddl)
		s, err := postgres.New(e.pool(nil), "", e.options())
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, f := range s.Check(t.Context(), sink.Lane{Bridge: "bridge", Sink: "target", Tables: []*changelog.Table{table(t, "kv", tc.mode, "k", "k INT", "v STRING")}}, "") {
			if f.Err != nil {
				t.Error(f.Err)
			}
			if f.What == "table" {
				found = f.Found
			}
		}
		if got := strings.Contains(found, "advice: "); got != (tc.want != "") || !strings.Contains(found, tc.want) {
			t.Errorf("%s: %s", tc.ddl, found)
		}
	}
}

package explain

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format/debezium"
	"github.com/flinksink/flinksink/changelog/format/json"
)

var update = flag.Bool("update", false, "rewrite the reports in testdata")

var formats = []changelog.Format{debezium.Format{}, json.Format{}}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var intos = regexp.MustCompile(`(?m)INSERT INTO (\w+) `)

// Each testdata/NAME.txt is what Flink 2.2 answered to the statements of NAME.sql; NAME.report is what is said of it, table by table.
func TestCheck_WhatFlinkPrinted(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < 23 {
		t.Fatalf("%d texts, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(path, ".txt")
		if strings.HasSuffix(name, "ddl_errors") || strings.HasSuffix(name, "show_create") {
			continue // many tables, and none: see below
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, sql := read(t, path), read(t, name+".sql")
			var got strings.Builder
			met := map[string]bool{}
			for _, m := range intos.FindAllStringSubmatch(sql, -1) {
				if met[m[1]] {
					continue
				}
				met[m[1]] = true
				tab, err := ddl.Find(sql, m[1])
				if err != nil {
					t.Fatal(err)
				}
				r, err := Check(text, tab, formats, Settings{Sink: Postgres, Partitions: 3})
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "table %s\npromise %s\nwrong %v\n", m[1], r.Promise(), r.Wrong())
				for _, f := range r.Findings {
					fmt.Fprintln(&got, f)
				}
			}
			if *update {
				if err := os.WriteFile(name+".report", []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(read(t, name+".report"), got.String()); d != "" {
				t.Errorf("-update rewrites it:\n%s", d)
			}
		})
	}
}

// The facts of the captured plans, said by hand.
func TestParse_WhatFlinkPrinted(t *testing.T) {
	for _, c := range []struct {
		name           string
		plan           int // which of the text
		sink           string
		input, mode    string
		materialize    bool
		update, delete string // the first nodes
	}{
		{"01_insert_only", 0, "out_json", "[I]", "[I]", false, "", ""},
		{"02_group_by_upsert", 0, "per_cust", "[I,UA]", "[I,UA]", false, "GroupAggregate(groupBy=[usr])", ""},
		{"03_group_by_debezium", 0, "per_cust", "[I,UB,UA]", "[I,UB,UA]", false, "GroupAggregate(groupBy=[usr])", ""},
		{"04_group_by_changelog_upsert", 0, "per_cust", "[I,UA,D]", "[I,UA,D]", false, "TableSourceScan(table=[default_catalog.default_database.orders])", "TableSourceScan(table=[default_catalog.default_database.orders])"},
		{"06_join_same_key", 0, "joined", "[I,UB,UA,D]", "[I,UA,D]", true, "TableSourceScan(table=[default_catalog.default_database.orders])", "TableSourceScan(table=[default_catalog.default_database.orders])"},
		{"10_topn_no_rank", 0, "top", "[I,UB,UA,D]", "[I,UA,D]", true, "Rank(partitionBy=[usr])", "Rank(partitionBy=[usr])"},
		{"11_dedup", 0, "last_click", "[I,UA,D]", "[I,UA,D]", false, "Rank(partitionBy=[usr])", "Rank(partitionBy=[usr])"},
		{"11_dedup", 1, "last_click", "[I]", "[I]", false, "", ""},
		{"15_upsert_source_to_upsert_sink", 0, "copy", "[UA,D]", "[UA,D]", false, "TableSourceScan(table=[default_catalog.default_database.customers])", "TableSourceScan(table=[default_catalog.default_database.customers])"},
		{"16_window_append", 0, "win", "[I]", "[I]", false, "", ""},
		{"18_statement_set", 1, "last_click", "[I,UA,D]", "[I,UA,D]", false, "Rank(partitionBy=[usr])", "Rank(partitionBy=[usr])"},
		{"18_statement_set", 2, "out_json", "[I]", "[I]", false, "", ""},
		{"19_materialize_none_force", 0, "joined", "[I,UB,UA,D]", "[I,UB,UA,D]", false, "TableSourceScan(table=[default_catalog.default_database.orders])", "TableSourceScan(table=[default_catalog.default_database.orders])"},
		{"19_materialize_none_force", 1, "joined", "[I,UB,UA,D]", "[I,UA,D]", true, "TableSourceScan(table=[default_catalog.default_database.orders])", "TableSourceScan(table=[default_catalog.default_database.orders])"},
		{"21_show_create", 0, "", "[UA,D]", "[UA,D]", false, "TableSourceScan(table=[default_catalog.default_database.customers])", "TableSourceScan(table=[default_catalog.default_database.customers])"},
		{"22_temporal_join", 0, "out_json", "[I]", "[I]", false, "", ""},
	} {
		e, err := Parse(read(t, filepath.Join("testdata", c.name+".txt")))
		if err != nil {
			t.Fatal(err)
		}
		if c.plan >= len(e.Plans) {
			t.Errorf("%s: %d plans", c.name, len(e.Plans))
			continue
		}
		p := e.Plans[c.plan]
		short := func(n *Node) string {
			if n == nil {
				return ""
			}
			return n.short()
		}
		got := fmt.Sprintf("%s %s %s %v %q %q", p.Table(), p.Input, p.Mode(), p.Materialize, short(p.FirstUpdate()), short(p.FirstDelete()))
		want := fmt.Sprintf("%s %s %s %v %q %q", c.sink, c.input, c.mode, c.materialize, c.update, c.delete)
		if got != want || !p.Known {
			t.Errorf("%s plan %d:\n got %s\nwant %s", c.name, c.plan, got, want)
		}
	}
}

// Every error that Flink printed for a CREATE TABLE is found, and those with a known cure have it.
func TestParse_PlannerErrors(t *testing.T) {
	text := read(t, "testdata/23_ddl_errors.txt")
	e, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Count(text, "[ERROR]"); len(e.Refusals) != want {
		t.Errorf("%d refusals of %d errors", len(e.Refusals), want)
	}
	cured := 0
	for _, r := range e.Refusals {
		if strings.Contains(r.Text, "Exception") || strings.Contains(r.Text, "caused by") || r.Text == "" {
			t.Errorf("text %q", r.Text)
		}
		if r.Cure != "" {
			cured++
		}
	}
	if cured < 8 {
		t.Errorf("%d have a cure", cured)
	}
}

func TestParse_Refusals(t *testing.T) {
	for _, c := range []struct{ text, sink, requester, node, kinds, cure string }{
		{"org.apache.flink.table.api.TableException: Table sink 'c.d.s' doesn't support consuming update and delete changes which is produced by node Join(joinType=[InnerJoin], where=[=(a, b)])",
			"c.d.s", "Table sink 'c.d.s'", "Join", "[UB,UA,D]", "FOR SYSTEM_TIME AS OF"},
		{"Exception in thread \"main\" org.apache.flink.table.api.TableException: OverAggregate doesn't support consuming delete changes which is produced by node TableSourceScan(table=[[c, d, x]], fields=[a])",
			"", "", "TableSourceScan", "[D]", "read a source that holds inserts only"},
		{"Match Recognize doesn't support consuming update changes which is produced by node GroupAggregate(groupBy=[a], select=[a])", "", "Match Recognize", "GroupAggregate", "[UB,UA]", "TUMBLE, HOP or CUMULATE"},
		{"[ERROR] Could not execute SQL statement. Reason:\norg.apache.flink.table.api.ValidationException: The query has an upsert key that differs from the primary key of the sink table 'c.d.s'. Primary key: [a]", "", "", "", "[]", "ON CONFLICT DO DEDUPLICATE"},
	} {
		e, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		r := e.Refusals[len(e.Refusals)-1]
		if r.Sink != c.sink || c.requester != "" && r.Requester != c.requester || r.Kinds.String() != c.kinds || (r.Node == nil) != (c.node == "") || r.Node != nil && r.Node.Name != c.node || !strings.Contains(r.Cure, c.cure) {
			t.Errorf("%s:\n%+v", c.text, r)
		}
	}
}

func TestParse_OddTexts(t *testing.T) {
	for _, text := range []string{"", "\x00", "SELECT 1", "== Optimized Physical Plan ==\n", "== Abstract Syntax Tree ==\nLogicalSink(table=[a])"} {
		if e, err := Parse(text); err == nil {
			t.Errorf("%q: %+v", text, e)
		}
	}
	e, err := Parse("Sink(table=[c.d.`s`], fields=[a], upsertMaterialize=[true], changelogMode=[NONE])\r\n" +
		"+- Calc(select=[a], where=[=(a, 'x\n== no heading\n+- y')], changelogMode=[I,UA,PD])\r\n" +
		"   +- Union(all=[true], union=[a], changelogMode=[I,UA,PD])\n      :- A(changelogMode=[I])\n      +- B(changelogMode=[I,UA,PD], upsertKeys=[[a]])\n")
	if err != nil {
		t.Fatal(err)
	}
	p := e.Plans[0]
	if len(e.Plans) != 1 || p.Table() != "s" || p.Input != changelog.Upsert || !p.KeyOnly || !p.Materialize || p.FirstUpdate().Text != "B(upsertKeys=[[a]])" {
		t.Errorf("%+v %+v", p, p.FirstUpdate())
	}
	tab, err := ddl.Find("CREATE TABLE s (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 's', 'key.format' = 'json', 'value.format' = 'json')", "")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"== Optimized Physical Plan ==\nSink(table=[c.d.other], changelogMode=[NONE])\n+- A(changelogMode=[I])": "the plan writes other, and the table is s",
		"== Optimized Physical Plan ==\nA(changelogMode=[I])":                                                   "the plan is that of a SELECT",
		"== Optimized Physical Plan ==\nSink(table=[c.d.s])\n+- A(b=[c])":                                       "the plan does not tell which kinds",
	} {
		r, err := Check(text, tab, formats, Settings{})
		if err != nil || !strings.Contains(fmt.Sprint(r.Findings), want) || r.Promise() != 0 {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
	if _, err := Check("Sink(changelogMode=[NONE])", nil, nil, Settings{}); err == nil {
		t.Error("no table")
	}
}

// FuzzParse holds that a text is read or refused, and that what was read can be asked everything.
func FuzzParse(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*.txt")
	for _, p := range paths {
		f.Add(read(f, p))
	}
	f.Add("+- A(changelogMode=[")
	f.Add("Sink(table=[[[")
	tab, err := ddl.Find("CREATE TABLE per_cust (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 's', 'key.format' = 'json', 'value.format' = 'json')", "")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Check(text, tab, formats, Settings{Sink: Postgres, Partitions: 2})
		if err != nil {
			return
		}
		if len(r.Findings) == 0 {
			t.Error("nothing found")
		}
		if p := r.Plan; p != nil && p.Known && r.Promise()&^p.Input&^changelog.Upsert != 0 {
			t.Errorf("%s of %s", r.Promise(), p.Input)
		}
		for _, f := range r.Findings {
			_ = f.String()
		}
	})
}

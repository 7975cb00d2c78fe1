package postgres_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// rowOfPage is the first cell of the row of the page's table of types that a type belongs to.
func rowOfPage(t *testing.T, flink string) string {
	t.Helper()
	typ, err := changelog.ParseType(flink)
	if err != nil {
		t.Fatal(err)
	}
	digits := func(name string) string {
		if typ.Precision > 6 {
			return fmt.Sprintf("%s(7) to %[1]s(9)", name)
		}
		return fmt.Sprintf("%s(0) to %[1]s(6)", name)
	}
	scalar := func(x *changelog.Type) bool {
		return x.Root != changelog.RootArray && x.Root != changelog.RootMap && x.Root != changelog.RootMultiset && x.Root != changelog.RootRow
	}
	switch typ.Root {
	case changelog.RootBoolean:
		return "BOOLEAN"
	case changelog.RootTinyInt:
		return "TINYINT"
	case changelog.RootSmallInt:
		return "SMALLINT"
	case changelog.RootInt:
		return "INT"
	case changelog.RootBigInt:
		return "BIGINT"
	case changelog.RootFloat:
		return "FLOAT"
	case changelog.RootDouble:
		return "DOUBLE"
	case changelog.RootDecimal:
		switch p := typ.Precision; {
		case typ.Scale > 0 || p > 18:
			return "DECIMAL(p, s)"
		case p > 9:
			return "DECIMAL(18, 0) and less"
		case p > 4:
			return "DECIMAL(9, 0) and less"
		}
		return "DECIMAL(4, 0) and less"
	case changelog.RootChar, changelog.RootVarchar:
		return "CHAR, VARCHAR, STRING"
	case changelog.RootBinary, changelog.RootVarbinary:
		return "BINARY, VARBINARY, BYTES"
	case changelog.RootDate:
		return "DATE"
	case changelog.RootTime:
		return digits("TIME")
	case changelog.RootTimestamp:
		return digits("TIMESTAMP")
	case changelog.RootTimestampLTZ:
		return digits("TIMESTAMP_LTZ")
	case changelog.RootIntervalYearMonth:
		return "INTERVAL YEAR TO MONTH"
	case changelog.RootIntervalDayTime:
		return "INTERVAL DAY TO SECOND"
	case changelog.RootArray:
		switch typ.Elem.Root {
		case changelog.RootRow:
			return "ARRAY of ROW"
		case changelog.RootMap:
			return "ARRAY of MAP"
		case changelog.RootArray:
			return "ARRAY of ARRAY"
		}
		return "ARRAY of scalars"
	case changelog.RootMap:
		if scalar(typ.Key) && scalar(typ.Elem) {
			return "MAP of scalars"
		}
		return "MAP with a nested key or value"
	case changelog.RootMultiset:
		return "MULTISET"
	case changelog.RootRow:
		return "ROW"
	}
	t.Fatalf("%s is not on the page", flink)
	return ""
}

// cellOfPage is the name under which the page lists a column type.
func cellOfPage(pg string) string {
	switch base, _, _ := strings.Cut(pg, "("); {
	case strings.HasSuffix(pg, "]"):
		return "array"
	case pg == "codes" || pg == "moods":
		return "array"
	case pg == "mood" || pg == "glad":
		return "enum"
	case pg == "words":
		return "text"
	case pg == "point2" || pg == "point3" || pg == "kit" || pg == "place" || pg == "chart":
		return "composite"
	default:
		return base
	}
}

// elsewhere are cells with a test of their own, since a server may lack the type.
var elsewhere = map[string]string{"CHAR, VARCHAR, STRING citext": "TestTypes_Citext", "CHAR, VARCHAR, STRING xml": "TestTypes_XML"}

// Every cell of the page's table of types is a case that is written to a real server and read back, and every case is on the page.
func TestPage_EveryCellIsWritten(t *testing.T) {
	page := postgres.TypesOfPage(t)
	written := map[string]bool{}
	for _, tc := range allTypeCases() {
		row := rowOfPage(t, tc.flink)
		cell := cellOfPage(tc.pg)
		if cell == "" {
			cell = page[row][0]
		}
		written[row+" "+cell] = true
		if !slices.Contains(page[row], cell) {
			t.Errorf("%s into %s: the page does not list %s for %s", tc.flink, tc.pg, cell, row)
		}
	}
	for row, cells := range page {
		for _, cell := range cells {
			if at := row + " " + cell; !written[at] && elsewhere[at] == "" {
				t.Errorf("%s into %s is on the page, and no case writes it", row, cell)
			}
		}
	}
}

// The queries of the page run as they stand.
func TestPage_Queries(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE events (v text CHECK (v <> 'bad'), flinksink_topic text, flinksink_partition int, flinksink_offset bigint, flinksink_index int)")
	o := e.options()
	o.Audit = postgres.AuditColumns{Topic: "flinksink_topic", Partition: "flinksink_partition", Offset: "flinksink_offset", Index: "flinksink_index"}
	w := e.writer(e.pool(nil), o, table(t, "events", appnd, "", "v STRING"))
	if err := w.c.(sink.DeadLetterKeeper).WriteDeadLetters(t.Context(), []sink.DeadLetter{{Partition: part0, Offset: 1, Class: "data", Error: "x", Changes: 1}}); err != nil {
		t.Fatal(err)
	}
	w.put(w.change(changelog.Insert, str("a")), w.change(changelog.Insert, str("a")))
	e.exec("INSERT INTO events SELECT * FROM events LIMIT 1")
	text, err := os.ReadFile("../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"positions": `^\(bridge,topic,0,2,`, "counters": `^\(bridge,1,1,.*,2,2,0.000,0,0\)`, "letters": `^\(bridge,data,.*,1\)`, "duplicates": `^\(1,0.333333\)`, "open": ``}
	found := regexp.MustCompile("(?s)<!-- query: (\\w+) -->\n```sql\n(.*?);\n```").FindAllStringSubmatch(string(text), -1)
	if len(found) != len(want) {
		t.Errorf("%d queries, expected %d", len(found), len(want))
	}
	for _, q := range found {
		pattern, ok := want[q[1]]
		if !ok {
			t.Errorf("a query %s", q[1])
		}
		got := e.all(strings.ReplaceAll(q[2], "flinksink.", e.own+"."))
		if pattern != "" && (len(got) != 1 || !regexp.MustCompile(pattern).MatchString(got[0])) {
			t.Errorf("%s: %q", q[1], got)
		}
	}
}

// Texts go through Postgres' own cast where that was asked for, and nowhere else; what a type does not read is a change that is refused.
func TestTypes_Cast(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TYPE pair AS (a int, b text); CREATE DOMAIN positive AS int CHECK (value > 0)")
	p := e.pool(nil)
	for _, tc := range []struct{ pg, text, want, bad string }{
		{"integer", " 42 ", "42", "x"},
		{"numeric(10,2)", "1.005", "1.01", "1e20"},
		{"boolean", "yes", "true", "maybe"},
		{"double precision", "1e-300", "1e-300", "x"},
		{"date", "2024-02-29", "2024-02-29", "2023-02-29"},
		{"timestamptz", "2024-02-29 12:00:00+02", "2024-02-29 10:00:00+00", "x"},
		{"timestamp(0)", "infinity", "infinity", "x"},
		{"interval", "1 day 2 hours", "1 day 02:00:00", "x"},
		{"bytea", `\x00ff`, `\x00ff`, `\x0`},
		{"point", "(1,2)", "(1,2)", "1"},
		{"int4range", "[1,5]", "[1,6)", "5"},
		{"tsvector", "a fat cat", "'a' 'cat' 'fat'", "'"},
		{"money", "12.5", "$12.50", "x"},
		{`"char"`, "xyz", "x", ""},
		{"bit(4)", "1010", "1010", "10"},
		{"oid", "7", "7", "-x"},
		{"int[]", "{1,NULL,{3}}", "", "{1,NULL,{3}}"},
		{"int[]", "{{1,2},{3,4}}", "{{1,2},{3,4}}", "{1"},
		{"pair", "(1,x)", "(1,x)", "(1)"},
		{"positive", "5", "5", "-5"},
		{"uuid", "6F9619FF8B86D011B42D00C04FC964FF", "6f9619ff-8b86-d011-b42d-00c04fc964ff", "x"},
		{"varchar(3)", "abc", "abc", "abcd"},
	} {
		t.Run(tc.pg, func(t *testing.T) {
			e.exec("DROP TABLE IF EXISTS kv; CREATE TABLE kv (k int PRIMARY KEY, v " + tc.pg + ")")
			tb := table(t, "kv", upsert, "k", "k INT NOT NULL", "v STRING")
			o := e.options()
			o.Cast = []string{"v"}
			w := e.writer(p, o, tb)
			if tc.want != "" {
				w.put(w.change(changelog.Insert, num(1), str(tc.text)), w.change(changelog.Insert, num(2), null))
				if got := e.one("SELECT set_config('timezone', 'UTC', false) || (SELECT v::text FROM kv WHERE k = 1)"); got != "UTC"+tc.want {
					t.Errorf("%s", got)
				}
			}
			if tc.bad == "" {
				return
			}
			err := w.write(w.change(changelog.Insert, num(3), str(tc.bad)))
			if sink.ClassOf(err) != sink.ErrRejected || !strings.Contains(err.Error(), fmt.Sprintf("topic/0@%d", w.at-1)) {
				t.Errorf("%q: %v", tc.bad, err)
			}
			w.c.Close(t.Context())
		})
	}
	e.exec("DROP TABLE kv; CREATE TABLE kv (k int PRIMARY KEY, v int, n int)")
	lane := func(o *postgres.Options, columns ...string) error {
		_, err := e.lane(e.pool(nil), "", o, table(t, "kv", upsert, "k", columns...))
		return err
	}
	o := e.options()
	wantConfig(t, lane(o, "k INT NOT NULL", "v STRING"), "Options.Cast")
	o.Cast = []string{"k", "nothing", "n"}
	wantConfig(t, lane(o, "k STRING NOT NULL", "v INT", "n INT"), "key that is cast", `"nothing", which is no column`, `"n", which is INT`)
}

// A composite type has to have the ROW's fields, all of them and no others, and types that hold theirs.
func TestTypes_CompositeRefused(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TYPE p AS (x int, y text); CREATE TABLE kv (k int PRIMARY KEY, v p)")
	for flink, want := range map[string][]string{
		"ROW<x INT>":                       {`attribute "y"`, "no field"},
		"ROW<x INT, y STRING, z INT>":      {`no attribute "z"`, "jsonb"},
		"ROW<x BIGINT, y STRING>":          {`attribute "x"`, "integer cannot hold BIGINT"},
		"MAP<STRING, INT>":                 {"jsonb"},
		"ROW<x INT, y TIMESTAMP_LTZ(9)>":   nil, // text holds it
		"ROW<X INT, y STRING>":             {`attribute "x"`, `no attribute "X"`},
		"ARRAY<ROW<x INT, y STRING>>":      {"jsonb"},
		"ROW<x ARRAY<INT>, y STRING>":      {`attribute "x"`},
		"ROW<x INT, y MAP<STRING, BYTES>>": nil,
	} {
		_, err := e.lane(e.pool(nil), "", e.options(), table(t, "kv", upsert, "k", "k INT NOT NULL", "v "+flink))
		if want == nil {
			if err != nil {
				t.Errorf("%s: %v", flink, err)
			}
			continue
		}
		wantConfig(t, err, want...)
	}
	e.exec("DROP TABLE kv; CREATE TABLE kv (k p PRIMARY KEY, v text)")
	_, err := e.lane(e.pool(nil), "", e.options(), table(t, "kv", upsert, "k", "k ROW<x INT, y STRING> NOT NULL", "v STRING"))
	wantConfig(t, err, "cannot hold a key")
}

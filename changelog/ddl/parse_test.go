package ddl

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const whole = `
CREATE TEMPORARY TABLE IF NOT EXISTS cat.` + "`d``b`.`T;1`" + ` ( -- a comment; with ' and ` + "`" + `
  id BIGINT /* inline ' */ CONSTRAINT pk PRIMARY KEY NOT ENFORCED COMMENT 'it''s the key',
  ` + "`a``b`" + ` ROW<x INT NOT NULL, -- of a row
     y STRING> NOT NULL,
  o BIGINT METADATA FROM 'offset' VIRTUAL,
  ` + "`timestamp`" + ` TIMESTAMP_LTZ(3) METADATA COMMENT 'when',
  n AS CONCAT('a,b)', CAST(id AS STRING), '--x') -- computed
     COMMENT 'a name',
  m AS id * (2 + 1),
  WATERMARK FOR ` + "`timestamp`" + ` AS ` + "`timestamp`" + ` - INTERVAL '5' SECOND
)
COMMENT 'a; table'
DISTRIBUTED BY HASH(id) INTO 4 BUCKETS
PARTITIONED BY (n)
WITH (
  'connector' = 'kafka', -- comment
  'properties.sasl.jaas.config' = 'x required username="u" password="hunter2";',
  'empty' = ''
);`

func TestParseWhole(t *testing.T) {
	got, err := Find(whole, "")
	if err != nil {
		t.Fatal(err)
	}
	typ := func(s string) changelog.Type {
		ty, err := changelog.ParseType(s)
		if err != nil {
			t.Fatal(err)
		}
		return ty
	}
	column := func(name, ty string) Column {
		return Column{Column: changelog.Column{Name: name, Type: typ(ty)}}
	}
	id := column("id", "BIGINT NOT NULL")
	id.Comment = "it's the key"
	row := column("a`b", "ROW<x INT NOT NULL, y STRING> NOT NULL")
	o := column("o", "BIGINT")
	o.Metadata, o.Virtual = "offset", true
	ts := column("timestamp", "TIMESTAMP_LTZ(3)")
	ts.Metadata, ts.Comment = "timestamp", "when"
	want := &Table{
		Catalog: "cat", Database: "d`b", Table: "T;1", Temporary: true, IfNotExists: true,
		Columns: []Column{id, row, o, ts,
			{Column: changelog.Column{Name: "n", Comment: "a name"}, Computed: "CONCAT('a,b)', CAST(id AS STRING), '--x')"},
			{Column: changelog.Column{Name: "m"}, Computed: "id * (2 + 1)"},
		},
		PrimaryKey: []string{"id"}, Constraint: "pk",
		Watermark:     &Watermark{"timestamp", "`timestamp` - INTERVAL '5' SECOND"},
		DistributedBy: &Distribution{"HASH", []string{"id"}, 4},
		PartitionedBy: []string{"n"},
		Comment:       "a; table",
		Options: Options{
			"connector": "kafka", "empty": "",
			"properties.sasl.jaas.config": `x required username="u" password="hunter2";`,
		},
	}
	if diff := diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Name() != "T;1" {
		t.Errorf("name %q", got.Name())
	}
	s := got.Schema()
	if s != got.Schema() {
		t.Error("not the same schema each time")
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if len(s.Columns) != 4 || s.Columns[3].Name != "timestamp" || !cmp.Equal(s.Key, []int{0}) {
		t.Errorf("schema %+v", s)
	}
}

// TestSchemaKeyOrder: the key is in the order of the clause, and computed columns do not count.
func TestSchemaKeyOrder(t *testing.T) {
	table, err := Find("CREATE TABLE t (x AS 1, a INT, b INT, y AS 2, c INT, PRIMARY KEY (c, a) NOT ENFORCED)", "t")
	if err != nil {
		t.Fatal(err)
	}
	s := table.Schema()
	if !cmp.Equal(s.Key, []int{2, 0}) || !s.Columns[2].Type.NotNull || s.Columns[1].Type.NotNull {
		t.Errorf("schema %+v", s)
	}
	byHand := &Table{Table: "t", Columns: table.Columns, PrimaryKey: []string{"x"}}
	if err := byHand.Schema().Validate(); err == nil {
		t.Error("a key of a computed column passes")
	}
}

// TestStatements: which statements of a text are tables.
func TestStatements(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"none", "", ""},
		{"blank", " \n\t;;; -- nothing\n", ""},
		{"others", "SET a.b = 3s; USE CATALOG x; ADD JAR '/x;y.jar'; CREATE CATALOG c WITH ('x'='y'); CREATE DATABASE d; INSERT INTO t VALUES ('CREATE TABLE u (a INT);');", ""},
		{"functions and views", "CREATE TEMPORARY SYSTEM FUNCTION f AS 'x'; CREATE TEMPORARY VIEW v AS SELECT 1; CREATE MATERIALIZED TABLE m AS SELECT 1; CREATE FUNCTION g AS 'y';", ""},
		{"drop and again", "DROP TABLE t; CREATE TABLE t (a INT); DROP TABLE t; CREATE TABLE t (b INT)", "t t"},
		{"lower case", "create table t (a int primary key not enforced) with ('x' = 'y')", "t"},
		{"or replace", "CREATE OR REPLACE TABLE t (a INT);", "t"},
		{"show and explain", "SHOW CREATE TABLE t; EXPLAIN CREATE TABLE x AS SELECT 1; CREATE TABLE u (a INT)", "u"},
		{"what SHOW CREATE TABLE prints, twice", "CREATE TABLE t (a INT)\nWITH (\n  'x' = 'y'\n)\n\nCREATE TABLE u (a INT)\n", "t u"},
		{"with the statement that asked", "SHOW CREATE TABLE t\nCREATE TABLE t (a INT)\nWITH ('x' = 'y')", "t"},
		{"a url in a SET", "SET x = http://host;\nCREATE TABLE t (a INT);", "t"},
		{"statement set", "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END; CREATE TABLE t (a INT);", "t"},
		{"byte order mark", "\ufeffCREATE TABLE t (a INT);", "t"},
		{"semicolon in comment", "-- USE x;\nCREATE TABLE t (a INT -- ; )\n);/* CREATE TABLE u (a INT); */", "t"},
		{"words that are no keywords here", "CREATE TABLE t (key STRING COMMENT 'x', metadata STRING METADATA, `watermark` INT, `primary` INT, `constraint` INT, enforced INT, version ROW<type INT>, hash INT)", "t"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tables, err := Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, table := range tables {
				names = append(names, table.Name())
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("tables %q, want %q", got, c.want)
			}
		})
	}
}

// TestStrings: the forms of a string literal.
func TestStrings(t *testing.T) {
	for literal, want := range map[string]string{
		`''`:                       ``,
		`'it''s'`:                  `it's`,
		`'a\nb'`:                   `a\nb`,
		`'a' 'b'`:                  `ab`,
		"'a'\n  -- go on\n  'b'''": `ab'`,
		`N'ü'`:                     `ü`,
		`_utf8'x'`:                 `x`,
		`_ISO-8859-1'x'`:           `x`,
		`U&'\0041\\b'`:             `A\b`,
		`u&'\d83d\de00!'`:          `😀!`,
		`U&'!0041!!' UESCAPE '!'`:  `A!`,
		`'-- no comment /* */'`:    `-- no comment /* */`,
		"'line\r\ntwo'":            "line\r\ntwo",
	} {
		table, err := Find("CREATE TABLE t (a INT) WITH ('k' = "+literal+", 'l' = 'm')", "")
		if err != nil {
			t.Errorf("%s: %v", literal, err)
		} else if table.Options["k"] != want || table.Options["l"] != "m" {
			t.Errorf("%s is %q, want %q", literal, table.Options["k"], want)
		}
	}
}

// TestRoundTrip: what SQLWithSecrets prints is the same table, and prints the same.
func TestRoundTrip(t *testing.T) {
	texts := map[string]string{"whole": whole, "statements": read(t, filepath.Join("testdata", "statements.sql"))}
	for i, c := range strings.Split(read(t, filepath.Join("testdata", "flink-2.2.txt")), "====\n")[1:] {
		statement, _, _ := strings.Cut(c, "----\n")
		texts["case "+string(rune('A'+i/26))+string(rune('a'+i%26))] = statement
	}
	words := []string{"CREATE TABLE `table` (`primary` INT, `row` ROW<`value` ROW<`of` INT>, free_ STRING>, PRIMARY KEY (`primary`) NOT ENFORCED)", "CREATE TABLE `all`.`database`.`order` (`order` INT) PARTITIONED BY (`order`)"}
	texts["words that Flink keeps for itself"] = strings.Join(words, ";")
	n := 0
	for name, text := range texts {
		tables, err := Parse(text)
		if err != nil {
			continue // those that are refused
		}
		for _, table := range tables {
			n++
			roundTrip(t, name, table)
		}
	}
	if n < 50 {
		t.Errorf("only %d tables", n)
	}
}

func roundTrip(t *testing.T, name string, table *Table) {
	t.Helper()
	sql := table.SQLWithSecrets()
	again, err := Find(sql, "")
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, sql)
	}
	if d := diff(table, again); d != "" {
		t.Fatalf("%s (-first +again):\n%s\n%s", name, d, sql)
	}
	if second := again.SQLWithSecrets(); second != sql {
		t.Fatalf("%s prints\n%s\nand then\n%s", name, sql, second)
	}
}

func diff(a, b *Table) string {
	return cmp.Diff(a, b, cmpopts.IgnoreUnexported(Table{}), cmpopts.IgnoreFields(Column{}, "Declared"), cmpopts.EquateEmpty(),
		cmp.Comparer(func(x, y changelog.Type) bool { return x.SQL() == y.SQL() }))
}

// TestDeepAndLong: no text exhausts the stack, and work grows with the text and not with its square: with the square, each of these
// would run into the time limit of go test.
func TestDeepAndLong(t *testing.T) {
	const n = 200_000
	for name, text := range map[string]string{
		"brackets":           "CREATE TABLE t (a AS " + strings.Repeat("(", n) + strings.Repeat(")", n) + ")",
		"open brackets":      "CREATE TABLE t (a AS " + strings.Repeat("([", n),
		"types":              "CREATE TABLE t (a " + strings.Repeat("ARRAY<", n) + "INT" + strings.Repeat(">", n) + ")",
		"postfix types":      "CREATE TABLE t (a INT" + strings.Repeat(" ARRAY", n) + ")",
		"columns":            "CREATE TABLE t (" + manyColumns(n/10) + "z INT)",
		"literals":           "CREATE TABLE t (a INT COMMENT " + strings.Repeat("'x' ", n) + ")",
		"long literal":       "CREATE TABLE t (a INT COMMENT '" + strings.Repeat("''", n) + "')",
		"statements":         strings.Repeat("USE x;", n),
		"creates":            strings.Repeat("CREATE ", n),
		"creates on lines":   strings.Repeat("CREATE\n", n),
		"tables":             strings.Repeat("CREATE TABLE t (a INT)\n", n/10),
		"blanks":             "CREATE TABLE t " + strings.Repeat(" ", n) + "(a INT)",
		"comments":           strings.Repeat("/* */ -- x\n", n),
		"comment words":      "CREATE TABLE t (a AS x" + strings.Repeat(" COMMENT", n) + ")",
		"names with dots":    "CREATE TABLE t" + strings.Repeat(".t", n) + " (a INT)",
		"marks":              strings.Repeat("\x00\xff#", n),
		"options":            "CREATE TABLE t (a INT) WITH ('a' = 'b'" + strings.Repeat(", 'a' = 'b'", n) + ")",
		"quotes not closed":  "CREATE TABLE t (a INT COMMENT " + strings.Repeat("'", 2*n+1),
		"constraints, wrong": "CREATE TABLE t (a INT" + strings.Repeat(", CONSTRAINT x", n) + ")",
	} {
		t.Run(name, func(t *testing.T) {
			if tables, err := Parse(text); err != nil && len(err.Error()) > 1000 {
				t.Errorf("%d tables, and an error of %d bytes", len(tables), len(err.Error()))
			}
		})
	}
}

func manyColumns(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("c" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + quoteDigits(i) + " INT, ")
	}
	return b.String()
}

func quoteDigits(i int) string {
	s := ""
	for ; i > 0; i /= 10 {
		s += string(rune('0' + i%10))
	}
	return s
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("CREATE TABLE t (a INT) WITH ('x' = U&'\\0041' UESCAPE '!', 'y' = N'z' 'w')")
	f.Add("CREATE TABLE t (a AS CASE WHEN x THEN ARRAY[1,2][1] END COMMENT 'c') LIKE u (INCLUDING ALL)")
	f.Add("CREATE TABLE `a``b`.c (r ROW<x MAP<STRING, TIME(3)> 'c', y RAW('a', 'b')>, PRIMARY KEY (r) NOT ENFORCED) PARTITIONED BY (r)")
	f.Add("CREATE TABLE `c`.`d`.`t` (`a` INTERVAL SECOND(3) NOT NULL, `b` BITMAP, `c` ROW<`use` INTERVAL MONTH>)")
	f.Add("CREATE TABLE t (a DESCRIPTOR, b INTERVAL YEAR)")
	f.Add("CREATE TABLE t (a INT)\nCREATE TABLE u (a INT)\n/* */ -- \n // '")
	f.Fuzz(func(t *testing.T, text string) {
		tables, err := Parse(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without text")
			}
			return
		}
		for _, table := range tables {
			if err := table.Schema().Validate(); err != nil {
				t.Errorf("%v\n%s", err, table)
			}
			roundTrip(t, "fuzz", table)
		}
	})
}
